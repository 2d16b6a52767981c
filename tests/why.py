#!/usr/bin/env python3
"""`why` is told who asks: by any path of a file that is loaded, as the loader tells files apart.

    tests/why.py GPUMEND
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parent
sys.path.insert(0, str(TOP / "causes"))
import tree  # noqa: E402

PROGRAM = "/opt/app/bin/app"
ASKER = "/opt/app/lib/libask.so.1"


def world(folder):
    """A program; a library that asks, under five paths; and what only its RUNPATH leads to."""
    t = tree.Tree(folder)
    t.loader()
    t.put(PROGRAM, tree.elf(None, interp=tree.LOADER))
    t.lib(ASKER, runpath="$ORIGIN/private")
    t.lib("/opt/app/lib/private/libdeep.so.1")
    t.lib("/opt/app/lib/libother.so.1")
    t.link("/opt/app/lib/libask.so", "libask.so.1")
    t.link("/opt/current", "/opt/app")
    t.put("/opt/py@3/lib/x", "")
    os.link(t.real(ASKER), t.real("/opt/py@3/lib/libask.so.1"))
    t.lib("/opt/py@3/lib/libsecond.so.1")
    return t


def why(exe, t, loads, *more):
    command = [exe, "why", "--root", str(t.top), "--exe", PROGRAM, "--cwd", "/", "--json",
               *more]
    for load in loads:
        command += ["--load", load]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return done, json.loads(done.stdout)["loads"] if done.stdout else []


# The caller as it is written -> whether it names the object that is loaded as ASKER.
CALLERS = {
    ASKER: True,
    "libask.so.1": True,
    "/opt/app/lib/libask.so": True,
    "/opt/current/lib/libask.so": True,
    "/opt/app/bin/../lib/./libask.so.1": True,
    "/opt/py@3/lib/libask.so.1": True,
    "opt/app/lib/libask.so": True,
    "/opt/app/lib/libother.so.1": False,
    "/opt/app/lib/none.so": False,
    "/opt/app/lib": False,
}


def main():
    exe = os.path.abspath(sys.argv[1])
    failed = 0
    with tempfile.TemporaryDirectory(prefix="gpumend-why-") as folder:
        t = world(Path(folder) / "root with spaces")
        for caller, known in CALLERS.items():
            done, loads = why(exe, t, [ASKER, "libdeep.so.1@" + caller])
            found = len(loads) == 2 and loads[1]["outcome"] == "loaded"
            refused = done.returncode == 3 and "is not among the loaded objects" in done.stderr
            if not (found if known else refused):
                failed += 1
                print("FAIL %s: status %d: %s" % (caller, done.returncode, done.stderr.strip()))
        extra = {
            "a caller for NAME": why(exe, t, [ASKER], "libdeep.so.1", "--caller",
                                     "/opt/current/lib/libask.so")[0].returncode == 0,
            "an @ in the path of a library": why(exe, t, ["/opt/py@3/lib/libsecond.so.1"])[0]
            .returncode == 0,
        }
        for name, holds in extra.items():
            failed += not holds
            print("" if holds else "FAIL %s\n" % name, end="")
    n = len(CALLERS) + len(extra)
    print("%d passed, %d failed" % (n - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
