#!/usr/bin/env python3
"""How the built files are hardened: the executable, the C library, and what goes into programs.

    tests/safety/hardening.py BUILD

Each file is position-independent, has no page that is both writable and executable and no executable
stack, and everything that is relocated is read-only before its code runs. What reads untrusted files
has stack protectors, checked string functions, and on x86-64 landing pads; the helpers, which use no
library, can have neither of the former two. gpumend.exe, where `make windows` has built it, is placed
anywhere in 64 bits and has no section that is both writable and executable. Prints the table it
checks. What the wheel is built with is named by version and hash.
"""
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
HELPERS = ("src/inject/gpumend-trace.so", "src/inject/gpumend-guard.so",
           "src/inject/gpumend-gpucall.so", "src/inject/probe/gpumend-probe-helper")

# What clang before 16 wants before it takes the first.
INIT_ZERO = ["-ftrivial-auto-var-init=zero"]
INIT_ZERO_CLANG = "-enable-trivial-auto-var-init-zero-knowing-it-will-be-removed-from-clang"


def read(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def properties(path):
    """Name: holds, of one file."""
    head, segments = read("readelf", "-hW", path), read("readelf", "-lW", path)
    dynamic, symbols = read("readelf", "-dW", path), read("readelf", "-sW", path)
    flags = re.findall(r"^  (?:LOAD|GNU_STACK) .* ([R ][W ][E ]) 0x", segments, re.M)
    yield "position-independent", "Type:                              DYN" in head
    yield "no writable code", bool(flags) and not any("W" in f and "E" in f for f in flags)
    yield "no executable stack", bool(re.search(r"GNU_STACK .* RW  0x", segments))
    yield "read-only after relocation", "GNU_RELRO" in segments
    yield "bound at start", "BIND_NOW" in dynamic
    yield "no text relocations", "TEXTREL" not in dynamic
    if path.name == "gpumend":
        yield "static", "INTERP" not in segments and "(NEEDED)" not in dynamic
    if "inject" not in path.parts:
        yield "stack protector", "__stack_chk_fail" in symbols
        yield "checked string functions", bool(re.search(r"__(mem|str|sn|vsn|f|vf)\w+_chk", symbols))
        if "X86-64" in head:
            yield "landing pads", read("objdump", "-d", "--no-show-raw-insn", path).count("endbr64") > 500


def windows_properties(path):
    """Name: holds, of one PE32+ image: its header's DllCharacteristics, and its sections' flags."""
    data = path.read_bytes()
    def number(at, size):
        return int.from_bytes(data[at:at + size], "little")
    head = number(0x3c, 4)
    yield "PE32+", data[head:head + 4] == b"PE\0\0" and number(head + 24, 2) == 0x20b
    flags = number(head + 24 + 70, 2)
    for bit, name in ((0x20, "HIGH_ENTROPY_VA"), (0x40, "DYNAMIC_BASE"), (0x100, "NX_COMPAT")):
        yield name, bool(flags & bit)
    yield "relocations", not number(head + 22, 2) & 1
    sections = head + 24 + number(head + 20, 2)
    rights = [number(sections + 40 * i + 36, 4) for i in range(number(head + 6, 2))]
    write, execute = 1 << 31, 1 << 29
    yield "no writable code", bool(rights) and not any(r & write and r & execute for r in rights)


def flags_of(build):
    """Name: holds, of how each source of the executable, the library and the helpers is compiled. What
    a compiler does not have is not asked of it."""
    rows = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    commands = [shlex.split(r["command"]) for r in rows if re.search(r"\bsrc/.*\.c$", r["file"])]
    compiler = next(c for c in commands[0] if re.search(r"(^|/)(cc|gcc|clang)(-\d+)?$", c))
    yield "sources are compiled", len(commands) > 100
    def takes(*flags):
        return subprocess.run([compiler, "-Werror", *flags, "-x", "c", "-c", "-", "-o", "/dev/null"],
                              input="", capture_output=True, text=True, check=False).returncode == 0
    for flags in (["-fstack-protector-strong"], ["-fstack-clash-protection"], ["-fcf-protection"],
                  INIT_ZERO if takes(*INIT_ZERO) else [*INIT_ZERO, INIT_ZERO_CLANG]):
        yield flags[0], not takes(*flags) or all(set(flags) <= set(c) for c in commands)
    yield "-D_FORTIFY_SOURCE=2", all("-D_FORTIFY_SOURCE=2" in c for c in commands)


def tools():
    """Name: holds, of what the wheel is built with: each tool has one version, and its hashes."""
    text = (TOP / "scripts/wheel-tools.txt").read_text(encoding="utf-8").replace("\\\n", " ")
    rows = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    pinned = re.compile(r"[\w.-]+==[\w.]+( ; [^#]*?)?( +--hash=sha256:[0-9a-f]{64})+ *")
    yield "the tools are named", bool(rows)
    for row in rows:
        yield f"{row.split(' ')[0]}, by version and hash", bool(pinned.fullmatch(row))
    script = re.sub(r"\\\n", " ", (TOP / "scripts/wheel").read_text(encoding="utf-8"))
    installs = re.findall(r"pip install .*", script)
    yield "scripts/wheel takes no other", bool(installs) and all(
        "--require-hashes" in line and line.endswith("--requirement scripts/wheel-tools.txt")
        for line in installs)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    build = Path(sys.argv[1])
    subprocess.run(["ninja", "-C", build, "installed"], check=True, stdout=subprocess.DEVNULL)
    library = next((p for p in (build / "src/api").glob("libgpumend.so.*.*.*") if p.is_file()), None)
    files = [build / "gpumend", library, *(build / name for name in HELPERS)]
    passed = failed = 0
    windows = TOP / "build-windows" / "gpumend.exe"
    files += [windows] if windows.is_file() else []
    for path in files:
        if path is None or not path.is_file():
            print(f"FAIL {path}: is not built")
            failed += 1
            continue
        held = dict(windows_properties(path) if path == windows else properties(path))
        passed, failed = passed + sum(held.values()), failed + len(held) - sum(held.values())
        print(f"{path.name:28} {', '.join(name for name in held if held[name])}")
        for name in held:
            if not held[name]:
                print(f"FAIL {path.name}: {name}")
    for kind, rows in (("flags", flags_of(build)), ("wheel", tools())):
        for name, good in rows:
            passed, failed = passed + good, failed + (not good)
            if not good:
                print(f"FAIL {kind}: {name}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
