#!/usr/bin/env python3
"""The C files are as clang-format 14 writes them (.clang-format).

    tests/format.py [--write]

--write rewrites them. Other versions of clang-format write differently, so without version 14 (Debian:
clang-format-14; PyPI: clang-format==14.0.6) the suite is skipped.
"""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
MAJOR = "14"
SUFFIXES = (".c", ".h")


def formatter():
    """clang-format of the version, or None."""
    for name in (f"clang-format-{MAJOR}", "clang-format"):
        path = shutil.which(name)
        if path and re.search(rf"version {MAJOR}\.", subprocess.run([path, "--version"], capture_output=True,
                                                                    text=True, check=False).stdout):
            return path
    return None


def sources():
    for folder in ("src", "include", "tests", "examples"):
        for base, folders, names in os.walk(TOP / folder):
            folders.sort()
            yield from (Path(base, name) for name in sorted(names) if name.endswith(SUFFIXES))


def main():
    program = formatter()
    if not program:
        print(f"SKIP clang-format {MAJOR} is not here\n0 passed, 0 failed, 1 skipped")
        return 0
    files = list(sources())
    if "--write" in sys.argv[1:]:
        for _ in range(2):  # the first pass breaks some lines that the second one joins
            subprocess.run([program, "-i", "--style=file", *files], check=True)
        return 0
    done = subprocess.run([program, "--dry-run", "-Werror", "--style=file", *files], capture_output=True, text=True,
                          check=False)
    faults = {}
    for path, line in re.findall(r"^(.+?):(\d+):\d+: error:", done.stderr, re.MULTILINE):
        faults.setdefault(path, []).append(line)
    for path, lines in sorted(faults.items()):
        print(f"FAIL {os.path.relpath(path, TOP)}: line {', '.join(lines[:8])}"
              f"{' and more' if len(lines) > 8 else ''} (tests/format.py --write)")
    if done.returncode != 0 and not faults:
        print(f"FAIL {program}: {done.stderr[-400:]}")
    failed = len(faults) or int(done.returncode != 0)
    print(f"{len(files) - len(faults)} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
