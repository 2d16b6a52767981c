#!/usr/bin/env python3
"""Commands that run a program of the target run nothing of the folder they are started in.

    tests/safety/acting.py GPUMEND

The folder holds a module for each name that the interpreter, our scripts, pip or the package import,
a library that a relative RPATH would find, and a start-up module: each leaves a mark when it is run.
"""
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "mend"), str(HERE.parent / "causes")]
import tree                                                                           # noqa: E402
from apply import PYTHON, World                                                       # noqa: E402

MODULES = ("json", "os", "re", "fnmatch", "ctypes", "mmap", "ctranslate2", "numpy", "pip",
           "sitecustomize", "usercustomize", "encodings", "site")
MARKS = 'open(%r, "a").write(__name__ + "\\n")\n'
LIBRARY = ('#include <fcntl.h>\n#include <unistd.h>\n__attribute__((constructor)) static void run(void)'
           '{int fd = open("%s", O_CREAT | O_WRONLY | O_APPEND, 0644);'
           ' if (write(fd, "library\\n", 8) < 0) _exit(3);}')


def hostile_folder(folder, mark):
    folder.mkdir()
    for name in MODULES:
        (folder / f"{name}.py").write_text(MARKS % str(mark))
    libraries = folder / "ctranslate2.libs"
    libraries.mkdir()
    (libraries / "libcublas.so.12").write_bytes(
        tree.compiled(LIBRARY % mark, "-Wl,-soname,libcublas.so.12"))
    return folder


def commands(w):
    yield "enable", [w.prefix], 0
    yield "disable", [w.prefix], 0
    yield "fix", ["--apply", w.prefix], 0
    yield "fix", ["--undo", w.prefix], 0
    yield "probe", [w.prefix, "--python", "all"], None
    yield "check", [w.prefix, "--probe"], None
    yield "choose", [w.prefix], None


def run(exe, w, words, status, folder, mark):
    done = subprocess.run([exe, *map(str, words)], cwd=folder, env={"PATH": "/usr/bin:/bin"},
                          capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL,
                          check=False)
    if status is not None and done.returncode != status:
        yield f"status {done.returncode}: {done.stdout}{done.stderr}"
    if mark.exists():
        yield f"run of the folder: {sorted(set(mark.read_text().split()))}"
        mark.unlink()


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if not Path(PYTHON).exists():
        print(f"SKIP {PYTHON} is not there\n0 passed, 0 failed, 1 skipped")
        return 0
    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix="gpumend-acting.") as top:
        mark = Path(top) / "mark"
        folder = hostile_folder(Path(top) / "folder", mark)
        w = World(str(Path(sys.argv[1]).resolve()), Path(top))
        for command, words, status in commands(w):
            faults = list(run(w.exe, w, [command, *words], status, folder, mark))
            for fault in faults:
                print(f"FAIL {command}: {fault}")
            passed, failed = passed + (not faults), failed + bool(faults)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
