#!/usr/bin/env python3
"""No leak and no wrong access: the unit tests and the commands under valgrind.

    tests/valgrind.py FOLDER

Builds into FOLDER with debugging information. valgrind sees allocations of dynamic programs only,
so that gpumend is linked once more, dynamically, from the same objects.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "tests/safety"))
import tree  # noqa: E402

FAULT = 9
CRASH = """RuntimeError: Library libcublas.so.12 is not found or cannot be loaded
Unable to load any of {libcudnn_ops.so.9.1.0, libcudnn_ops.so.9.1, libcudnn_ops.so.9}
"""
VALGRIND = ["valgrind", "-q", "--leak-check=full", "--errors-for-leak-kinds=definite,indirect",
            f"--error-exitcode={FAULT}"]


def build(folder):
    """Builds all; returns a gpumend that is linked dynamically."""
    if not (folder / "build.ninja").exists():
        subprocess.run(["meson", "setup", str(folder), "-Dbuildtype=debugoptimized"], cwd=TOP,
                       check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["ninja", "-C", str(folder)], check=True, stdout=subprocess.DEVNULL)
    link = subprocess.run(["ninja", "-C", str(folder), "-t", "commands", "gpumend"], check=True,
                          capture_output=True, text=True).stdout.strip().splitlines()[-1]
    words = [w for w in shlex.split(link) if w not in ("-static", "-static-pie")]
    exe = folder / "gpumend-dynamic"
    words[words.index("-o") + 1] = exe.name
    subprocess.run(words, cwd=folder, check=True)
    return exe


def unit_tests(folder):
    """Every unit test; yields what failed, then the number that passed."""
    done = subprocess.run(["meson", "test", "-C", str(folder), "--no-rebuild", "--print-errorlogs",
                           "--timeout-multiplier=20", "--wrap=" + " ".join(VALGRIND)],
                          env={**os.environ, "GPUMEND_UNDER_VALGRIND": "1"}, capture_output=True,
                          text=True, errors="backslashreplace", check=False)
    counts = {m[1]: int(m[2]) for m in re.finditer(r"^(\w+):\s+(\d+)\s*$", done.stdout, re.M)}
    failed = counts.get("Fail", 0) + counts.get("Timeout", 0)
    if failed or done.returncode != 0:
        print(f"FAIL unit tests under valgrind\n{done.stdout[-6000:]}")
    return counts.get("Ok", 0), failed or int(done.returncode != 0)


def commands(top):
    env = tree.environment(top / "env")
    site = env / "lib/python3.11/site-packages"
    extension = site / "ctranslate2" / tree.EXTENSION
    cudnn = site / "nvidia/cudnn/lib/libcudnn.so.9"
    (top / "list").write_text(f"{cudnn}\n{extension}\n/nowhere\n/bin/true\n")
    (top / "short.so").write_bytes(cudnn.read_bytes()[:300])
    (top / "crash.log").write_text(CRASH)
    python = "/usr/bin/python3"
    return [["check", env], ["check", env, "--json"], ["check", env, "--import", "ctranslate2"],
            ["check", env, "--report"],
            ["check", extension], ["check", top / "short.so"], ["check", top / "nowhere"],
            ["check", "--root", env], ["check", "--pid", os.getpid()], ["check", "--no-such"],
            ["fix", env], ["fix", env, "--json"], ["fix", env, "--in-process", "--json"],
            ["fix", top / "short.so"],
            ["why", "--exe", python], ["why", "libcudnn_ops.so.9", "--exe", python, "--load", cudnn],
            ["why", "libcudnn.so.9", "--caller", extension, "--json"],
            ["why", "libz.so.1", "--exe", python, "--glibc", "2.31", "--cpu", "x86-64-v2"],
            ["why", "--batch", top / "list"], ["why", "--batch", top / "list", "--json"],
            ["why", "--exe", top / "short.so"], ["explain", "cudnn-sublibrary-missing"],
            ["run", "--trace", "--", "/bin/sh", "-c", "LD_PRELOAD=/no.so /bin/true"],
            ["explain", "--list", "--json"], ["explain", "no-such-cause"],
            ["explain", top / "crash.log"], ["explain", top / "crash.log", "--json"],
            ["devices"], ["devices", "--root", env, "--json"], ["--help"]]


def main():
    folder = Path(sys.argv[1]).resolve()
    exe = build(folder)
    passed, failed = unit_tests(folder)
    with tempfile.TemporaryDirectory(prefix="gpumend-valgrind.") as top:
        for command in commands(Path(top)):
            done = subprocess.run([*VALGRIND, str(exe), *map(str, command)], capture_output=True,
                                  stdin=subprocess.DEVNULL, text=True, errors="backslashreplace",
                                  timeout=300, check=False)
            if done.returncode not in (0, 1, 2, 3):
                print(f"FAIL {' '.join(map(str, command))}: status {done.returncode}\n"
                      f"{done.stderr[-3000:]}")
                failed += 1
            else:
                passed += 1
        # The test itself: a program that leaks must be noticed.
        leak = Path(top) / "leak"
        subprocess.run(["cc", "-x", "c", "-", "-o", str(leak)], check=True, text=True,
                       input="#include <stdlib.h>\nint main(void)\n"
                             "{void *volatile p = malloc(9); p = 0; return p != 0;}\n")
        noticed = subprocess.run([*VALGRIND, str(leak)], capture_output=True,
                                 check=False).returncode == FAULT
        if not noticed:
            print("FAIL the test itself does not notice a leak")
        passed += noticed
        failed += not noticed
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
