#!/usr/bin/env python3
"""A link of the target quotes nothing of a file that its owner does not show to everybody.

    tests/safety/private_links.py GPUMEND

An environment's text files lead, one after the other, to files of our own: closed by their mode, or
(links of another user, which only root can make here) only by a folder on the way. The same words in
an open file, behind a link of our own, are shown: the test would see them.
"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import tree

OTHER = 65534
SITE = "lib/python3.11/site-packages"
INFO = f"{SITE}/ctranslate2-4.5.0.dist-info"
FILES = {
    f"{SITE}/links.pth": "/sesame\n",
    f"{INFO}/METADATA": "Metadata-Version: 2.1\nName: ctranslate2\nVersion: 4.5.0\n"
                        "Requires-Dist: sesame\n",
    f"{INFO}/INSTALLER": "sesame\n",
}
COMMANDS = (["check"], ["check", "--json"], ["check", "--report"], ["check", "--html", "-"],
            ["fix"], ["snapshot"])
SHOWN_BY = ["check", "--report"]


def run(exe, command, target):
    done = subprocess.run([exe, *command, str(target)], stdin=subprocess.DEVNULL, timeout=60,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={"PATH": "/usr/bin"})
    return done.stdout.decode(errors="replace")


def linked(folder, name, other, shown):
    """An environment whose file `name` leads to a file outside; closed if not shown."""
    env = folder / "env"
    tree.environment(env)
    place = folder / "place"
    place.mkdir()
    file = place / ("its" if not other else Path(name).name)
    file.write_text(FILES[name])
    file.chmod(0o644 if shown or other else 0o600)
    place.chmod(0o755 if shown else 0o700)
    (env / name).unlink(missing_ok=True)
    (env / name).symlink_to(file)
    if other:
        os.lchown(env / name, OTHER, OTHER)
    return env


def faults(exe, name, other):
    for shown in (True, False):
        with tempfile.TemporaryDirectory() as top:
            folder = Path(top)
            folder.chmod(0o755)
            env = linked(folder, name, other, shown)
            if shown and "sesame" not in run(exe, SHOWN_BY, env):
                yield f"{name}, other {other}: an open file is not shown"
            for command in [] if shown else COMMANDS:
                if "sesame" in run(exe, command, env):
                    yield f"{name}, other {other}: {' '.join(command)} shows a closed file"


def folder_faults(exe, other):
    """A closed folder of packages is read through a link of our own, and not through another's."""
    with tempfile.TemporaryDirectory() as top:
        folder = Path(top)
        folder.chmod(0o755)
        env, place = folder / "env", folder / "place"
        tree.environment(env)
        (env / INFO / "METADATA").write_text(FILES[f"{INFO}/METADATA"])
        place.mkdir(mode=0o700)
        (env / SITE).rename(place / "site-packages")
        (env / SITE).symlink_to(place / "site-packages")
        if other:
            os.lchown(env / SITE, OTHER, OTHER)
        for command in COMMANDS[:3]:
            if ("sesame" in run(exe, command, env)) == other:
                yield f"a folder, other {other}: {' '.join(command)}"


def main():
    exe = Path(sys.argv[1]).absolute()
    root = os.geteuid() == 0
    if not root:
        print("SKIP links of another user: only root can make them")
    passed = failed = 0
    for name in FILES:
        for other in (False, True)[: 1 + root]:
            found = list(faults(exe, name, other))
            for fault in found:
                print(f"FAIL {fault}")
            passed, failed = passed + (not found), failed + bool(found)
    for other in (False, True)[: 1 + root]:
        found = list(folder_faults(exe, other))
        for fault in found:
            print(f"FAIL {fault}")
        passed, failed = passed + (not found), failed + bool(found)
    print(f"{passed} passed, {failed} failed, {0 if root else 1} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
