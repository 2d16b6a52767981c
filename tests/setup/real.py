#!/usr/bin/python3
"""Carries plans of `setup` out: from an empty folder, with wheels from the package index.

    tests/setup/real.py GPUMEND [NAME...]

For each case, the commands of the environment, the packages and the libraries run as they are printed.
Then: the installer finds no conflict; of a plan for a GPU, `check` with the
machine's tree as --host finds no error; the real
import works; and each library that the plan is about opens in a process that has made the import, from
the environment itself. There is no GPU here: what comes behind the driver is not tried.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "trees")]
from cases import TREES  # noqa: E402
from build import write  # noqa: E402

PYTHON = f"3.{sys.version_info[1]}"
# name: application, machine, libraries that must open behind the import.
CASES = {
    "faster-whisper-ampere": ("faster-whisper", "rtx3060", ["libcublas.so.12"]),
    "faster-whisper-pascal": ("faster-whisper", "gtx1080-driver-580", ["libcublas.so.12"]),
    "faster-whisper-blackwell": ("faster-whisper", "rtx5090", ["libcublas.so.12"]),
    "faster-whisper-kepler": ("faster-whisper", "driver-470", []),
    "faster-whisper-cpu": ("faster-whisper", "cpu-only", []),
    "ctranslate2-hopper": ("ctranslate2", "h100", ["libcublas.so.12", "libcublasLt.so.12"]),
    "onnxruntime-cuda12": ("onnxruntime", "gtx1080-driver-580", ["libcudnn.so.9", "libcublas.so.12"]),
    "onnxruntime-cuda13": ("onnxruntime", "rtx3060-new", ["libcudnn.so.9", "libcublas.so.13"]),
    "cupy-cuda12": ("cupy", "rtx3060", []),
    "cupy-cuda13": ("cupy", "rtx3060-new", []),
    "onnxruntime-cpu": ("onnxruntime", "cpu-only", []),
    "llama-cpp-python-cpu": ("llama-cpp-python", "cpu-only", []),
    "jax-cpu": ("jax", "cpu-only", []),
    "tensorflow-cpu": ("tensorflow", "cpu-only", []),
    "torch-ampere": ("torch", "rtx3060", ["libcublas.so.12", "libcudnn.so.9"]),
    "torch-cuda13": ("torch", "rtx3060-new", ["libcublas.so.13", "libcudnn.so.9"]),
    "openai-whisper-ampere": ("openai-whisper", "rtx3060-new", ["libcublas.so.13", "libcudnn.so.9"]),
    "whisperx-ampere": ("whisperx", "rtx3060", ["libcublas.so.12", "libcudnn.so.9"]),
}
MODULES = {"openai-whisper": "whisper", "llama-cpp-python": "llama_cpp"}
OPEN = """import ctypes, importlib, sys
importlib.import_module(sys.argv[1])
for name in sys.argv[2:]:
    ctypes.CDLL(name)
    paths = [line.split()[-1] for line in open("/proc/self/maps") if name in line]
    print(name, paths[0] if paths else "?")
    if not paths or not paths[0].startswith(sys.prefix):
        sys.exit(f"{name} is not the environment's: {paths[:1]}")
"""


def shell(command, folder, exe):
    path = f"{exe.parent}:{os.environ['PATH']}"
    done = subprocess.run(["/bin/sh", "-c", command], cwd=folder, capture_output=True, text=True,
                          env={**os.environ, "PATH": path, "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
                          stdin=subprocess.DEVNULL, timeout=1800, check=False)
    return done.returncode, done.stdout + done.stderr


def faults(exe, top, folder, app, machine, libraries):
    done = subprocess.run([exe, "setup", app, "--root", Path(top) / machine, "--python", PYTHON, "--json"],
                          capture_output=True, text=True, check=False)
    plan = json.loads(done.stdout)
    for step in plan["steps"]:
        if step["kind"] in ("environment", "packages", "libraries"):
            for command in step["commands"]:
                status, output = shell(command, folder, exe)
                # enable ends with 3 where it cannot try the hook: there is no driver here.
                tried = step["kind"] == "libraries" and "libcuda.so.1 of the driver is not here" in output
                if status and not (status == 3 and tried):
                    yield f"{command}: status {status}: {output[-1500:]}"
                    return
    print("  " + " ".join(f"{p['package']}=={p['version']}" for p in plan["packages"]))
    env = Path(folder) / plan["folder"]
    module = MODULES.get(app, app.replace("-", "_"))
    commands = [f"{env}/bin/python -m pip check"]
    if plan["device"] != "cpu":
        commands.append(f"gpumend check --import {module} --host {Path(top) / machine} {env}")
    for command in commands:
        status, output = shell(command, folder, exe)
        if status:
            yield f"{command}: status {status}: {output[-1500:]}"
    done = subprocess.run([env / "bin/python", "-c", OPEN, module, *libraries], cwd=folder,
                          capture_output=True, text=True, check=False)
    print("  " + done.stdout.replace("\n", "\n  ").replace(str(folder), "<folder>").rstrip())
    if done.returncode:
        yield f"import {module} and {libraries}: {done.stderr[-1500:]}"


def main():
    exe, names, bad = Path(sys.argv[1]).resolve(), sys.argv[2:] or list(CASES), 0
    with tempfile.TemporaryDirectory() as top:
        for name, machine in TREES.items():
            write(machine, Path(top) / name)
        for name in names:
            start = time.monotonic()
            print(f"{name}:", flush=True)
            with tempfile.TemporaryDirectory() as folder:
                found = list(faults(exe, top, folder, *CASES[name]))
            bad += bool(found)
            for fault in found:
                print(f"FAIL {name}: {fault}")
            print(f"  {'failed' if found else 'passed'}, {time.monotonic() - start:.0f} s", flush=True)
    print(f"{len(names) - bad} passed, {bad} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
