#!/usr/bin/python3
"""What src/pe reads of DLLs is what binutils reads.

    tests/windows/pe.py BUILD [--count N]

Compares tests/windows/peprint with objdump of MinGW: machine, imported DLLs and functions, exported
names and forwarders, of DLLs of this machine (those of MinGW and of Wine, N of them, chosen by a
fresh seed, which is printed) and of one built here with a version and a manifest, which objdump does
not show.
"""

import argparse
import glob
import random
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.append(str(Path(__file__).resolve().parents[1]))
import seeding  # noqa: E402
import wine  # noqa: E402

PLACES = ["/usr/lib/gcc/*-w64-mingw32/*-win32/*.dll", "/usr/*-w64-mingw32/lib/*.dll",
          "/usr/lib/*-linux-gnu/wine/*-windows/*.dll"]
CC, OBJDUMP, WINDRES = (f"x86_64-w64-mingw32-{tool}" for tool in ("gcc", "objdump", "windres"))
MACHINES = {"x86-64": "x64", "i386": "x86"}


def printed(build, files):
    """Facts of each file, by peprint."""
    done = subprocess.run([wine.built(build, "peprint"), *files], capture_output=True, text=True,
                          errors="replace", check=True)
    facts = {}
    for line in done.stdout.splitlines():
        if line.startswith("file "):
            lines = facts.setdefault(line[5:], [])
        else:
            lines.append(line)
    return facts


def dumped(file):
    """The same facts by objdump: (machine, imports, exports)."""
    text = subprocess.run([OBJDUMP, "-p", file], capture_output=True, text=True, errors="replace",
                          check=True).stdout
    machine = re.search(r"file format pei-(\S+)", text).group(1)
    imports, dll = [], None
    for line in text.splitlines():
        if found := re.match(r"\s+DLL Name: (.*)", line):
            dll = found.group(1)
            imports.append(f"import {dll}")
        elif dll and (found := re.match(r"\t([0-9a-f]+)\s+\S+\s+<none>", line)):
            imports.append(f"import {dll} #{int(found.group(1), 16) & 0xffff}")
        elif dll and (found := re.match(r"\t[0-9a-f]+\s+\d+  (\S+)$", line)):
            imports.append(f"import {dll} {found.group(1)}")
        elif line.startswith("There is an export table"):
            dll = None
    names = re.findall(r"^\t\[ *(\d+)\] (?:\+base\[ *\d+\] +(?:[0-9a-f]+ )?)?(\S+)$",
                       text.partition("[Ordinal/Name Pointer] Table")[2], re.MULTILINE)
    return MACHINES.get(machine, machine), imports, [name for _, name in names], text


def compare(file, lines):
    """What differs in one file, or None."""
    machine, imports, exports, text = dumped(file)
    forwarders = set(re.findall(r"Forwarder RVA -- (\S+)", text))
    mine = [line for line in lines if line.startswith("import ")]
    if f"machine {machine}" not in lines[0]:
        return f"{lines[0]} against {machine}"
    if mine != imports:
        odd = next(((a, b) for a, b in zip(mine, imports) if a != b), (len(mine), len(imports)))
        return f"imports: {odd[0]!r} against {odd[1]!r}"
    rows = [line[7:] for line in lines if line.startswith("export ")]
    if [row.split(" ")[0] for row in rows] != exports:
        return f"exported names: {len(rows)} against {len(exports)}"
    if {row.split(" -> ")[1] for row in rows if " -> " in row} - forwarders:
        return "forwarders differ"
    bad = [line for line in lines if line.startswith("defect") or line.endswith("NOT FOUND")]
    return bad[0] if bad else None


def built_dll(folder):
    """A DLL with a forwarder, a version and a manifest."""
    (folder / "all.def").write_text("LIBRARY all.dll\nEXPORTS\nown\ngiven=KERNEL32.Sleep\n")
    (folder / "all.rc").write_text(
        '1 24 "all.manifest"\n1 VERSIONINFO\nFILEVERSION 9,10,2,21\nPRODUCTVERSION 9,10,2,0\n'
        'BEGIN BLOCK "StringFileInfo" BEGIN BLOCK "040904b0" BEGIN\n'
        'VALUE "ProductVersion", "9.10.2 x"\nEND END END\n')
    (folder / "all.manifest").write_text("<assembly/>")
    (folder / "all.c").write_text("int own(void) { return 1; }\n")
    for command in ([WINDRES, "all.rc", "all.o"],
                    [CC, "-shared", "-o", "all.dll", "all.c", "all.o", "all.def"]):
        subprocess.run(command, cwd=folder, check=True)
    return folder / "all.dll"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=Path)
    parser.add_argument("--count", type=int, default=25)
    args = parser.parse_args()
    if not shutil.which(OBJDUMP) or not shutil.which(CC):
        print("SKIP MinGW is not here (scripts/setup test installs it)")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    seed = seeding.fresh()
    print(f"seed {seed}")
    found = sorted({path for place in PLACES for path in glob.glob(place)})
    files = random.Random(seed).sample(found, min(args.count, len(found)))
    failed = 0
    for file, lines in printed(args.build.resolve(), files).items():
        wrong = compare(file, lines)
        if wrong:
            print(f"FAIL {file}: {wrong}")
            failed += 1
    with tempfile.TemporaryDirectory() as folder:
        dll = str(built_dll(Path(folder)))
        lines = printed(args.build.resolve(), [dll])[dll]
    for wanted in ("export own", "export given -> KERNEL32.Sleep", "version 9.10.2.21",
                   "product 9.10.2 x", "manifest 11"):
        if wanted not in lines:
            print(f"FAIL a DLL built here: no line {wanted!r} in {lines}")
            failed += 1
    print(f"{len(files) + 5 - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
