#!/usr/bin/env python3
"""A room includes headers of rooms to its left only (docs/ARCHITECTURE.md).

Reads every #include "..." line under src/. A quoted include names a file below src/ or include/;
its first folder is the room. Also: every folder under src/ is a room of the list, headers have
include guards after their path, and no file of the rooms below cli calls exit() or prints to
stdout.
"""

import re
import sys
from pathlib import Path

ROOMS = ["base", "elf", "ldso", "gpu", "py", "host", "kb", "model", "snapshot", "log", "diag", "mend", "container",
         "probe", "watch", "report", "api", "cli"]
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
        elif ROOMS.index(other) > here:
            yield f"{path}: {room} must not include {name}: {other} comes later"
    if path.suffix == ".h" and f"#ifndef {guard_of(path)}\n" not in text:
        yield f"{path}: the include guard should be {guard_of(path)}"
    if room != "cli" and path.suffix == ".c":
        for found in LEAVES.finditer(COMMENT.sub(" ", text)):
            # arena.c may end the process when memory is gone: its header says so.
            if not (str(path) == "base/arena.c" and found.group().startswith("exit")):
                yield f"{path}: {found.group()}): only cli prints and exits"


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
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
