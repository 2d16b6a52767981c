#!/usr/bin/python3
"""Carries plans of `setup` out: from an empty folder, with wheels from the package index.

    tests/setup/real.py GPUMEND [--record PAGE] [NAME...]

For each case, the commands of the environment, the packages and the libraries run as they are printed.
Then: the installer finds no conflict; `check` with the machine's tree as --host finds no error; the real
import works; each library that the plan is about opens in a process that has made the import, from the
environment itself; and each file that this process has mapped is the one that `check` names for it.
There is no GPU here: what comes behind the driver is not tried, and a library that needs the driver's
libcuda.so.1 to be opened finds one whose functions say that there is no device. --record writes what was seen into the rows of
PAGE (docs/setup-real.md).
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "trees")]
from cases import TREES  # noqa: E402
from build import write  # noqa: E402
from mapped import differences  # noqa: E402

PYTHON = f"3.{sys.version_info[1]}"
# name: application, machine, libraries that must open behind the import. Those with a slash are the
# wheel's own, below site-packages: where there are any they are opened, and bring the others.
CASES = {
    "faster-whisper-ampere": ("faster-whisper", "rtx3060", ["libcublas.so.12"]),
    "faster-whisper-pascal": ("faster-whisper", "gtx1080-driver-580", ["libcublas.so.12"]),
    "faster-whisper-blackwell": ("faster-whisper", "rtx5090", ["libcublas.so.12"]),
    "faster-whisper-kepler": ("faster-whisper", "driver-470", []),
    "faster-whisper-cpu": ("faster-whisper", "cpu-only", []),
    "ctranslate2-hopper": ("ctranslate2", "h100", ["libcublas.so.12", "libcublasLt.so.12"]),
    "onnxruntime-cuda12": ("onnxruntime", "gtx1080-driver-580", ["libcudnn.so.9", "libcublas.so.12"]),
    "onnxruntime-cuda13": ("onnxruntime", "rtx3060-new", ["onnxruntime/capi/libonnxruntime_providers_shared.so",
                                                            "onnxruntime/capi/libonnxruntime_providers_cuda.so",
                                                            "libcublas.so.13"]),
    "onnxruntime-cpu": ("onnxruntime", "cpu-only", []),
    "cupy-cuda12": ("cupy", "rtx3060", []),
    "cupy-cuda13": ("cupy", "rtx3060-new", []),
    "llama-cpp-python-cpu": ("llama-cpp-python", "cpu-only", []),
    "jax-cpu": ("jax", "cpu-only", []),
    "jax-cuda13": ("jax", "rtx3060-new", ["jax_plugins/xla_cuda13/xla_cuda_plugin.so"]),
    "tensorflow-cpu": ("tensorflow", "cpu-only", []),
    "tensorflow-cuda12": ("tensorflow", "rtx3060", []),
    "torch-ampere": ("torch", "rtx3060", ["libcublas.so.12", "libcudnn.so.9"]),
    "torch-cuda13": ("torch", "rtx3060-new", ["libcublas.so.13", "libcudnn.so.9"]),
    "bitsandbytes-cuda13": ("bitsandbytes", "rtx3060-new", ["libcublas.so.13"]),
    "openai-whisper-cuda13": ("openai-whisper", "rtx3060-new", ["libcublas.so.13", "libcudnn.so.9"]),
    "whisperx-ampere": ("whisperx", "rtx3060", ["libcublas.so.12", "libcudnn.so.9"]),
    "vllm-cuda13": ("vllm", "rtx3060-new", ["libcublas.so.13", "libcudnn.so.9"]),
}
MODULES = {"openai-whisper": "whisper", "llama-cpp-python": "llama_cpp"}
# `import whisperx` loads nothing: its load_model() imports this.
IMPORTS = {"whisperx": "whisperx.asr"}
# What opens only in a program that does what the plan's settings say.
AFTER_SETTINGS = {"onnxruntime-cuda13": ["libcudnn.so.9", "libcufft.so.12"]}
# What is opened there has libcuda.so.1 in its dynamic section.
NEED_DRIVER = ("onnxruntime-cuda13",)
# Imports, opens, and prints every file that is then mapped.
OPEN = """import ctypes, importlib, os, sys, sysconfig
importlib.import_module(sys.argv[1])
exec(sys.argv[2])
for name in sys.argv[3:]:
    ctypes.CDLL(os.path.join(sysconfig.get_path("purelib"), name) if "/" in name else name, ctypes.RTLD_GLOBAL)
print(*sorted({line.split(None, 5)[5].rstrip() for line in open("/proc/self/maps") if ".so" in line}), sep="\\n")
"""


def shell(command, folder, exe):
    environ = {**os.environ, "PATH": f"{exe.parent}:{os.environ['PATH']}", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    environ.pop("PIP_FIND_LINKS", None)  # The index alone.
    done = subprocess.run(["/bin/sh", "-c", command], cwd=folder, capture_output=True, text=True,
                          env=environ, stdin=subprocess.DEVNULL, timeout=3600, check=False)
    return done.returncode, done.stdout + done.stderr


def carried_out(exe, plan, folder):
    for step in plan["steps"]:
        if step["kind"] not in ("environment", "packages", "libraries"):
            continue
        for command in step["commands"]:
            status, output = shell(command, folder, exe)
            # enable ends with 3 where it cannot try the hook: there is no driver here.
            tried = step["kind"] == "libraries" and "libcuda.so.1 of the driver is not here" in output
            if status and not (status == 3 and tried):
                yield f"{command}: status {status}: {output[-1500:]}"
                return


def fake_driver(folder, libraries):
    """A libcuda.so.1 in the folder with the functions that the libraries need; each returns
    CUDA_ERROR_NO_DEVICE (cuda.h). Those of CUDA's libraries have a small letter behind the `cu`."""
    names = set()
    for library in libraries:
        done = subprocess.run(["nm", "-D", "--undefined-only", library], capture_output=True, text=True, check=True)
        names |= set(re.findall(r"\bU (cu[A-Z]\w*)", done.stdout))
    folder.mkdir()
    subprocess.run(["cc", "-x", "c", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", folder / "libcuda.so.1",
                    "-"], input="".join(f"int {name}(void) {{ return 100; }}\n" for name in sorted(names)),
                   text=True, check=True)
    return folder


def opened(env, folder, module, libraries, needs_driver, model, seen):
    """The import and the libraries, against what `check` says of them."""
    opens = [name for name in libraries if "/" in name] or libraries
    site = env / f"lib/python{PYTHON}/site-packages"
    driver = fake_driver(Path(folder) / "fake-driver", [site / name for name in opens]) if needs_driver else None
    environ = {**os.environ, "LD_LIBRARY_PATH": str(driver)} if driver else os.environ
    done = subprocess.run([env / "bin/python", "-c", OPEN, module, "", *opens], cwd=folder,
                          env=environ, capture_output=True, text=True, check=False)
    libraries = [Path(name).name for name in libraries]
    if done.returncode:
        yield f"import {module} and {opens}: {done.stderr[-1500:]}"
        return
    mapped = [line for line in done.stdout.splitlines() if line[:1] == "/" and
              not (driver and Path(line).parent == driver)]
    seen["libraries"] = []
    for name in libraries:
        for path in sorted({Path(line).resolve() for line in mapped if Path(line).name == name}) or [None]:
            if path is None or not path.is_relative_to(env.resolve()):
                yield f"{name} is not the environment's: {path}"
            else:
                seen["libraries"].append(f"{name} of {path.parent.relative_to(env.resolve()).as_posix()}")
    different, seen["mapped"] = differences(mapped, model["processes"])
    yield from different


def opened_after(env, folder, module, plan, libraries, seen):
    """Libraries that do not open behind the import alone, and do in a program with the plan's settings."""
    code = "\n".join(step["code"] for step in plan["steps"] if step["kind"] == "settings")
    for before, wanted in (("", False), (code, True)):
        done = subprocess.run([env / "bin/python", "-c", OPEN, module, before, *libraries], cwd=folder,
                              capture_output=True, text=True, check=False)
        if (done.returncode == 0) != wanted:
            yield f"{libraries} after {before!r}: {done.stderr[-1500:]}"
            return
    for name in libraries:
        for path in {Path(line).resolve() for line in done.stdout.splitlines() if Path(line).name == name} or [None]:
            if path is None or not path.is_relative_to(env.resolve()):
                yield f"{name} is not the environment's: {path}"
            else:
                seen["libraries"].append(f"{name} of {path.parent.relative_to(env.resolve()).as_posix()}, "
                                         "with the plan's settings")


def faults(exe, top, folder, name, seen):
    app, machine, libraries = CASES[name]
    done = subprocess.run([exe, "setup", app, "--root", Path(top) / machine, "--python", PYTHON, "--json"],
                          capture_output=True, text=True, check=False)
    plan = json.loads(done.stdout)
    seen["plan"] = [f"{p['package']} {p['version']}" for p in plan["packages"]]
    print("  " + ", ".join(seen["plan"]))
    found = list(carried_out(exe, plan, folder))
    if found:
        yield from found
        return
    env = Path(folder) / plan["folder"]
    module = MODULES.get(app, app.replace("-", "_"))
    status, output = shell(f"{env}/bin/python -m pip check", folder, exe)
    if status:
        yield f"pip check: status {status}: {output[-1500:]}"
    seen["packages"] = len(json.loads(shell(f"{env}/bin/python -m pip list --format json", folder, exe)[1]))
    seen["bytes"] = sum(p.lstat().st_size for p in env.rglob("*") if not p.is_dir())
    device = ["--device", "cpu"] if plan["device"] == "cpu" else []
    done = subprocess.run([exe, "check", "--json", *device, "--import", module, "--host", Path(top) / machine, env],
                          cwd=folder, capture_output=True, text=True, check=False)
    model = json.loads(done.stdout)
    severities = [item["severity"] for item in model["findings"]]
    seen["check"] = ", ".join([model["verdict"]] + [f"{severities.count(s)} {s}{'s' * (severities.count(s) > 1)}"
                                                     for s in sorted(set(severities))])
    if done.returncode or "error" in severities:
        yield f"check: status {done.returncode}: {[f['summary'] for f in model['findings']]}"
    yield from opened(env, folder, IMPORTS.get(app, module), libraries, name in NEED_DRIVER, model, seen)
    if name in AFTER_SETTINGS:
        yield from opened_after(env, folder, module, plan, AFTER_SETTINGS[name], seen)
    print(f"  {seen.get('packages')} packages, {seen['bytes'] >> 20} MiB; check: {seen['check']}; "
          f"{seen.get('mapped')} files as foreseen; {'; '.join(seen.get('libraries', []))}")


def row(name, seen):
    """A line of the table."""
    opened_there = "<br>".join(f"`{text}`" for text in seen["libraries"]) or "the import alone"
    return (f"| {name} | {time.strftime('%Y-%m-%d')} | {PYTHON} | {'<br>'.join(seen['plan'])} | "
            f"{seen['packages']}, {seen['bytes'] / 1e9:.1f} GB | {seen['check']} | "
            f"{opened_there}; {seen['mapped']} files mapped where `check` says |")


def record(page, name, line):
    text = page.read_text()
    old = re.compile(rf"^\| {re.escape(name)} \|.*$", re.MULTILINE)
    text = old.sub(lambda _: line, text) if old.search(text) else text.rstrip() + "\n" + line + "\n"
    page.write_text(text)


def main():
    exe, names, bad, page = Path(sys.argv[1]).resolve(), sys.argv[2:], 0, None
    if names[:1] == ["--record"]:
        page, names = Path(names[1]), names[2:]
    names = names or list(CASES)
    with tempfile.TemporaryDirectory() as top:
        for name, machine in TREES.items():
            write(machine, Path(top) / name)
        for name in names:
            start, seen = time.monotonic(), {}
            print(f"{name}:", flush=True)
            with tempfile.TemporaryDirectory() as folder:
                found = list(faults(exe, top, folder, name, seen))
            bad += bool(found)
            for fault in found:
                print(f"FAIL {name}: {fault}")
            if page and not found:
                record(page, name, row(name, seen))
            print(f"  {'failed' if found else 'passed'}, {time.monotonic() - start:.0f} s", flush=True)
    print(f"{len(names) - bad} passed, {bad} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
