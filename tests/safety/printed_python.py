#!/usr/bin/env python3
"""A Python that a printed command starts takes no module from the folder that the user is in.

    tests/safety/printed_python.py

Every `python -c` of kb/failures (commands, what decides, what is said) and of docs/ is run in a folder
that holds a module of the name of each that the code may import. None of them may run. Console
sessions in docs/ show what a user had typed; they are not advice.
"""
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

TOP = Path(__file__).resolve().parent.parent.parent
SAID = ("command", "decides", "says")
CODE = re.compile(r"python[\d.]*\s+((?:-I\s+)?-c\s+(?:'[^']*'|\"(?:\\.|[^\"\\])*\"))")
OF_EVERY_CODE = {"json", "glob", "site", "sysconfig", "platform", "struct", "re", "linecache",
                 "traceback", "importlib", "os", "types", "warnings"}


def texts_of(value):
    """What an entry of kb/failures prints."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in SAID and isinstance(inner, str):
                yield inner
            elif key not in ("examples", "near_misses"):
                yield from texts_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts_of(inner)


def texts():
    for path in sorted((TOP / "kb/failures").glob("*.yaml")):
        for text in texts_of(yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)):
            yield path, text
    for path in sorted([*TOP.glob("docs/*.md"), *TOP.glob("docs/causes/*.md"), TOP / "README.md"]):
        for line in path.read_text(encoding="utf-8").splitlines():
            if not re.match(r"\s*(?:\S+@\S+[#$] |[$>] )", line):
                yield path, line


def codes():
    """The words behind python of each command, with the files that have them."""
    found = {}
    for path, text in texts():
        # A code in "..." within "$(...)" is a string of its own for the shell, and PowerShell's '' is one.
        for words in CODE.findall(text.replace("''", "'")):
            found.setdefault(tuple(shlex.split(words)), path)
    return found


def runs_a_stranger(words, folder):
    """What ran of the folder's modules, sorted."""
    for old in folder.iterdir():
        old.unlink()
    names = OF_EVERY_CODE | set(re.findall(r"[A-Za-z_]\w*", words[-1])) - {"sys"}
    for name in names:
        (folder / f"{name}.py").write_text(f"open('{name}.ran', 'w').close()\n", encoding="ascii")
    subprocess.run([sys.executable, *(re.sub(r"\{\w+\}", "module_of_the_log", w) for w in words)],
                   cwd=folder, env={"PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"},
                   capture_output=True, check=False, timeout=60)
    return sorted(p.stem for p in folder.glob("*.ran"))


def main():
    found = codes()
    bad = 0
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        if not runs_a_stranger(("-c", "import json"), folder):
            sys.exit("FAIL: this Python does not look in the working folder, so nothing is shown")
        for words, path in found.items():
            ran = runs_a_stranger(words, folder)
            if ran:
                bad += 1
                print(f"FAIL {path.name}: {words[-1][:160]}\n     runs {', '.join(ran)} of the folder")
    print(f"{len(found) - bad} passed, {bad} failed")
    return bad > 0 or len(found) < 40


if __name__ == "__main__":
    sys.exit(main())
