#!/usr/bin/env python3
"""Two builds in two folders at two times are byte-identical.

    tests/reproducible.py [--keep FOLDER] [--no-wheel]

The tracked files are copied to two folders whose paths differ in length and depth and of which one has a
blank, with other times of files, and built there from nothing, without ccache, in another time zone, locale and umask and with
another seed for Python's hashes. Compared are the executable, the C library (shared and static) and
what is put into programs, the bill of materials, and the wheel, which is left out where its tools cannot
be had. SOURCE_DATE_EPOCH is the same, as a release has it (docs/RELEASE.md).
"""
import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
EPOCH = "1767225600"
HELPERS = ("gpumend-trace.so", "gpumend-guard.so", "gpumend-gpucall.so", "probe/gpumend-probe-helper")
PLACES = (("first", {"TZ": "UTC", "LC_ALL": "C", "PYTHONHASHSEED": "1"}, 0o022),
          ("second/below/another folder",
           {"TZ": "Asia/Kathmandu", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "2"}, 0o077))


class Skip(Exception):
    pass


def sources():
    done = subprocess.run(["git", "ls-files", "-z"], cwd=TOP, capture_output=True, check=False)
    if done.returncode == 0 and done.stdout:
        return [name for name in done.stdout.decode().split("\0") if name and (TOP / name).is_file()]
    return [str(p.relative_to(TOP)) for p in TOP.rglob("*") if p.is_file()
            and not p.relative_to(TOP).parts[0].startswith(("build", ".git", "dist"))]


def lay(folder, when):
    for name in sources():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(TOP / name, target)
        os.utime(target, (when, when))


def run(command, folder, variables, mask):
    done = subprocess.run(command, cwd=folder, umask=mask, capture_output=True, text=True, check=False,
                          env={**os.environ, **variables, "SOURCE_DATE_EPOCH": EPOCH, "CCACHE_DISABLE": "1"})
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]}: status {done.returncode}: {(done.stdout + done.stderr)[-1500:]}")
    return done.stdout


def built(folder, variables, mask):
    """{name: path} of what a release holds, built in a folder."""
    run(["meson", "setup", "build"], folder, variables, mask)
    run(["ninja", "-C", "build", "gpumend", "installed"], folder, variables, mask)
    again = run(["ninja", "-C", "build", "-n", "gpumend", "installed"], folder, variables, mask)
    if "no work to do" not in again:
        raise RuntimeError(f"in {folder}, a second ninja has work to do: {again[-1500:]}")
    run([str(folder / "scripts/sbom"), "build", "build/gpumend.spdx.json"], folder, variables, mask)
    build = folder / "build"
    files = [build / "gpumend", build / "gpumend.spdx.json", build / "src/api/libgpumend.a",
             *(p for p in (build / "src/api").glob("libgpumend.so.*.*.*") if p.is_file()),
             *(build / "src/inject" / name for name in HELPERS)]
    return {path.name: path for path in files}


def wheel(folder, variables, mask):
    try:
        run([str(folder / "scripts/wheel"), "dist"], folder, variables, mask)
    except RuntimeError as e:
        raise Skip(str(e)) from None
    return {path.name: path for path in (folder / "dist").glob("*.whl")}


def compare(first, second):
    """(passed, failed); says which."""
    passed = failed = 0
    for name in sorted(set(first) | set(second)):
        sums = [hashlib.sha256(files[name].read_bytes()).hexdigest() if name in files else "absent"
                for files in (first, second)]
        if sums[0] == sums[1]:
            passed += 1
            print(f"{sums[0]}  {name}")
        else:
            failed += 1
            print(f"FAIL {name}: {sums[0]} and {sums[1]}")
    return passed, failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--keep", type=Path, help="build below this folder, and leave it")
    parser.add_argument("--no-wheel", action="store_true", help="two builds less")
    args = parser.parse_args()
    base = args.keep or Path(tempfile.mkdtemp())
    skipped = 0
    try:
        folders = [(base / name, variables, mask) for name, variables, mask in PLACES]
        for number, (folder, *_) in enumerate(folders):
            lay(folder, time.time() - 86400 * (400 - 399 * number))
        passed, failed = compare(*(built(*place) for place in folders))
        try:
            if not args.no_wheel:
                more = compare(*(wheel(*place) for place in folders))
                passed, failed = passed + more[0], failed + more[1]
        except Skip as reason:
            print(f"SKIP the wheel: {' '.join(str(reason).split())[-300:]}")
            skipped = 1
    finally:
        if not args.keep:
            shutil.rmtree(base)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
