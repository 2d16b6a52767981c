#!/usr/bin/env python3
"""A room includes headers of rooms to its left only (docs/ARCHITECTURE.md).

Reads every #include "..." line under src/. A quoted include names a file below src/ or include/;
its first folder is the room. Also: every folder under src/ is a room of the list, headers have
include guards after their path, no file of the rooms below cli calls exit() or prints to
stdout, inject/README.md names the system calls of the code that lives inside other processes.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOMS = ["base", "elf", "pe", "hive", "ldso", "winldr", "gpu", "py", "host", "kb", "variant", "model", "snapshot", "log", "diag",
         "plan", "apply", "launch", "choose", "setup", "image", "cdi", "container", "inject", "probe", "watch", "report", "node", "needs", "fleet", "api", "mcp", "cli"]
SRC = Path(__file__).resolve().parent.parent / "src"
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
LEAVES = re.compile(r"(?<![\w.>])(?:exit|printf|puts|putchar|perror)\s*\(")
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"", re.DOTALL)


def guard_of(path):
    return "GPUMEND_" + re.sub(r"[^A-Za-z0-9]", "_", str(path)).upper()


def faults_of(path, text):
    """What is wrong in one file; `path` is relative to src/."""
    room = path.parts[0]
    here = ROOMS.index(room)
    for name in INCLUDE.findall(text):
        other = Path(name).parts[0]
        if other not in ROOMS:
            places = (SRC / name, SRC / f"{name}.in", SRC.parent / "include" / name)
            if not any(place.exists() for place in places):
                yield f"{path}: includes {name}: quoted includes start with a room's name"
        elif room == "inject" and other != room:
            yield f"{path}: {room} must not include {name}: it uses no other room"
        elif ROOMS.index(other) > here:
            yield f"{path}: {room} must not include {name}: {other} comes later"
    if path.suffix == ".h" and f"#ifndef {guard_of(path)}\n" not in text:
        yield f"{path}: the include guard should be {guard_of(path)}"
    if room != "cli" and path.suffix == ".c":
        for found in LEAVES.finditer(COMMENT.sub(" ", text)):
            # arena.c may end the process when memory is gone: its header says so.
            if not (str(path) == "base/arena.c" and found.group().startswith("exit")):
                yield f"{path}: {found.group()}): only cli prints and exits"


def injected_faults():
    """The table of system calls in inject/README.md against the code."""
    rows = dict(re.findall(r"^ *\| (this folder|\w+) \| ([\w, ]+) \|$",
                           (SRC / "inject/README.md").read_text(encoding="utf-8"), re.MULTILINE))
    for folder in ("this folder", "trace", "gpucalls", "guard"):
        place = SRC / "inject" / ("" if folder == "this folder" else folder)
        texts = [COMMENT.sub(" ", p.read_text(encoding="utf-8")) for p in place.glob("*.[chS]")]
        used = {name for text in texts for name in re.findall(r"\bSYS_(\w+)", text)}
        listed = set(rows.get(folder, "").split(", "))
        for name in sorted(used ^ listed):
            yield (f"inject/README.md: {folder}: {name} is " +
                   ("not in the table" if name in used else "in the table and is not called"))


def symbol_cycles(build):
    """Files that use one another's symbols, by nm over the objects of a build: sorted groups."""
    defined, used = {}, {}
    objects = [*build.glob("src/*.a.p/*.o"), *build.glob("gpumend.p/*.o")]
    rows = subprocess.run(["nm", "--print-file-name", *objects], capture_output=True, text=True,
                          check=True).stdout.splitlines() if objects else []
    for row in rows:  # PATH:VALUE TYPE NAME, without a value where it is not defined here
        path, _, rest = row.rpartition(":")
        name, words = Path(path).name.removesuffix(".o"), rest.split()
        symbols = used.setdefault(name, set())
        if words[0] == "U":
            symbols.add(words[1])
        elif len(words) == 3 and words[1] in "TDRB":
            defined[words[2]] = name
    graph = {name: {defined[s] for s in symbols if defined.get(s, name) != name}
             for name, symbols in used.items()}

    def reached(start):
        seen, left = set(), [start]
        while left:
            for other in graph.get(left.pop(), set()) - seen:
                seen.add(other)
                left.append(other)
        return seen

    reach = {name: reached(name) for name in graph}
    return len(objects), {tuple(sorted(o for o in reach[n] if n in reach[o]))
                          for n in graph if n in reach[n]}


def main():
    failed = passed = 0
    files = sorted(p for p in SRC.rglob("*") if p.suffix in (".c", ".h"))
    for room in sorted({p.relative_to(SRC).parts[0] for p in files}):
        if room not in ROOMS:
            print(f"FAIL src/{room}: not a room of docs/ARCHITECTURE.md")
            failed += 1
    for file in files:
        path = file.relative_to(SRC)
        if path.parts[0] not in ROOMS:
            continue
        faults = list(faults_of(path, file.read_text(encoding="utf-8")))
        for fault in faults:
            print("FAIL " + fault)
        failed += bool(faults)
        passed += not faults
    for fault in (faults := list(injected_faults())):
        print("FAIL " + fault)
    failed += bool(faults)
    passed += not faults
    skipped = False
    if len(sys.argv) > 1:
        n_objects, cycles = symbol_cycles(Path(sys.argv[1]).resolve().parent)
        for cycle in sorted(cycles):
            print("FAIL files use one another's symbols: " + ", ".join(cycle))
        # An executable alone, as in a copy of the sources, has no objects to look at; a build has.
        built = (Path(sys.argv[1]).parent / "build.ninja").exists()
        skipped = not n_objects and not built
        if not n_objects:
            print("FAIL no objects of the build were found" if built else
                  "SKIP symbol cycles: no build is beside the executable")
        failed += len(cycles) + (built and not n_objects)
        passed += not cycles and n_objects > 0
    print(f"{passed} passed, {failed} failed, {int(skipped)} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
