#!/usr/bin/python3
"""cuda.pathfinder in the model against its own code.

    tests/windows/pathfinder.py GPUMEND [--count N] [--seed S]

Real wheels of cuda-pathfinder, run by a real CPython for Windows under Wine, in worlds of small DLLs: NVVM in
NVIDIA's wheels, conda's folder, toolkits of CUDA_PATH and CUDA_HOME, on PATH, and behind the cudart that PATH
has; for x86, text files, and folders without it. Compared is whether `gpumend check` says that numba-cuda's
first kernel finds NVVM. The seed is fresh, and printed.
"""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import check  # noqa: E402
import wine  # noqa: E402
import winpython  # noqa: E402

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "gpumend/windows-wheels"
RELEASES = ["1.2.3", "1.3.5", "1.4.0", "1.5.0", "1.6.0", "1.8.0", "1.9.1"]
NAMES = ["nvvm70.dll", "nvvm64_40_0.dll", "nvvm64.dll"]
PLACES = [check.SITE + "nvidia/cu13/bin/x86_64", check.SITE + "nvidia/cuda_nvcc/nvvm/bin", "tk/nvvm/bin/x64",
          "tk/nvvm/bin", "home/nvvm/bin/x64", "home/nvvm/bin", "conda/Library/nvvm/bin", "tools"]
SCRIPT = """
import os, warnings
if __name__ == "__main__":
    for name in ("CUDA_PATH", "CUDA_HOME", "CONDA_PREFIX"):
        os.environ.pop(name, None)
    os.environ.update({!r})
    warnings.simplefilter("ignore")
    from cuda.pathfinder import load_nvidia_dynamic_lib
    try:
        load_nvidia_dynamic_lib("nvvm")
        print("found")
    except Exception as e:
        print("failed", type(e).__name__)
"""


def wheel(release):
    CACHE.mkdir(parents=True, exist_ok=True)
    pattern = f"cuda_pathfinder-{release}-*.whl"
    if not list(CACHE.glob(pattern)):
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(CACHE),
                        f"cuda-pathfinder=={release}"], check=True)
    return next(CACHE.glob(pattern))


def put(folders, path, kind):
    for folder in folders:
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if kind == "text":
            file.write_text("not a DLL")
        elif kind != "none":
            file.write_bytes(wine.dll(machine=0x14C if kind == "x86" else 0x8664))


def make_world(rng, tree, drive):
    """The same files in both; returns the release, the variables, and what there is, as a text."""
    release, there = rng.choice(RELEASES), []
    shutil.rmtree(tree, ignore_errors=True)
    for folder in ("tk", "home", "conda", "tools", check.SITE):
        shutil.rmtree(drive / folder, ignore_errors=True)
    with zipfile.ZipFile(wheel(release)) as archive:
        archive.extractall(drive / check.SITE)
    tree.mkdir()
    check.machine(tree)
    check.text(tree, check.SITE + "numba_cuda/__init__.py")
    check.text(tree, check.SITE + "numba_cuda/numba/cuda/__init__.py")
    version = "cuda/pathfinder/_version.py"
    check.text(tree, check.SITE + version, (drive / check.SITE / version).read_text())
    for place in PLACES:
        if rng.random() < 0.35:
            kinds = [rng.choice(["good", "good", "x86", "text", "none"]), *rng.choice([[], [], ["good"]])]
            for name, kind in zip(rng.sample(NAMES, len(kinds)), kinds):
                put((tree, drive), f"{place}/{name}", kind)
                there.append(f"{place}/{name}: {kind}")
    if rng.random() < 0.3:
        put((tree, drive), "home/bin/cudart64_12.dll", "good")
        there.append("cudart")
    variables = {"PATH": "C:\\tools" + (";C:\\home\\bin" if rng.random() < 0.6 else "")}
    for name, value, often in (("CUDA_PATH", "C:\\tk", 0.5), ("CUDA_HOME", "C:\\home", 0.5),
                               ("CONDA_PREFIX", "C:\\conda", 0.3)):
        if rng.random() < often:
            variables[name] = value
    return release, variables, there


def modelled(gpumend, tree, variables):
    words = [word for name, value in variables.items() for word in ("--env", f"{name}={value}")]
    done = subprocess.run([gpumend, "check", "--root", tree, "--json", *words], capture_output=True, text=True,
                          check=False)
    environment = json.loads(done.stdout)["environments"][0]
    if any("NVVM" in text or "pathfinder" in text for text in environment["unknown"]):
        return "unknown"
    return "failed" if any("NVVM" in f["title"] for f in environment["findings"]) else "found"


def world_faults(args, rng, prefix, scratch):
    release, variables, there = make_world(rng, scratch / "tree", prefix.drive_c)
    (prefix.drive_c / "script.py").write_text(SCRIPT.format(variables))
    said = prefix.run("C:\\Python312\\python.exe", "C:\\script.py", timeout=120).split()
    model = modelled(args.gpumend.resolve(), scratch / "tree", variables)
    if said[:1] != [model]:
        yield f"{release}, {variables}, {there}: really {said}, the model {model}"


if __name__ == "__main__":
    sys.exit(winpython.compare_worlds(("Python312",), world_faults))
