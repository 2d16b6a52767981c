#!/usr/bin/python3
"""What `check` says of captured machines with a PyTorch on them: tests/trees/golden-check.

    tests/trees/check.py GPUMEND [--rewrite] [--keep DIR] [NAME...]

Every machine of machines.py gets a Python environment with a torch: where AMD's graphics driver has
a device, a build for ROCm with kernels for the targets of the official builds, else one for CUDA
12.4. A few machines are there a second time with the build that is known not to fit (APPLICATIONS).
`gpumend check --root` must print golden-check/NAME.txt, and with --json golden-check/NAME.json, less
its processes and entries and the loader, which is this machine's own. --rewrite writes them; the diff
is to be read.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "causes"))
from gpucode import CU121, CU130, cuda_library, hip_library  # noqa: E402
from machines import MACHINES  # noqa: E402
from run import difference, laid_out  # noqa: E402
from tree import SYSTEM, TAG, Tree  # noqa: E402

GOLDEN = HERE / "golden-check"
ROCM = ("gfx900", "gfx906", "gfx908", "gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1101",
        "gfx1200", "gfx1201")

# name: (machine, torch's version, CUDA release, containers of its code)
APPLICATIONS = {
    "gtx1080-torch-cu130": ("gtx1080-driver-580", "2.9.0", "13.0", [CU130]),
    "rtx5090-torch-cu121": ("rtx5090", "2.5.1", "12.1", [CU121]),
    "rtx5090-torch-cu130": ("rtx5090", "2.9.0", "13.0", [CU130]),
    "driver-470-torch-cu124": ("driver-470", "2.5.1", "12.4", [CU121]),
    "h100-mig-torch-cu130": ("h100-mig-container", "2.9.0", "13.0", [CU130]),
}


def cuda_torch(tree, version, cuda, containers):
    tree.put(tree.site + "/torch/lib/libtorch_cuda.so",
             cuda_library("libtorch_cuda.so", *containers))
    tree.torch_for("cuda", cuda, version, needed=["libtorch_cuda.so"], rpath="$ORIGIN/lib")
    tree.dist("torch", version, ["torch/lib/libtorch_cuda.so", "torch/_C.%s.so" % TAG])


def rocm_torch(tree):
    tree.put(tree.site + "/torch/lib/libtorch_hip.so", hip_library("libtorch_hip.so", *ROCM))
    tree.torch_for("hip", "6.4.43482", "2.9.0", needed=["libtorch_hip.so"], rpath="$ORIGIN/lib")
    tree.dist("torch", "2.9.0", ["torch/lib/libtorch_hip.so", "torch/_C.%s.so" % TAG])


def is_amd(machine):
    return any("/drivers/amdgpu" in p or "kfd" in p or "/amdgpu/" in p for p in machine
               if p != "nodes")


def build(top, machine, application=None):
    tree = Tree(top).python().machine(machine)
    for name in ("libcudart.so.12", "libcudart.so.13"):
        tree.lib(SYSTEM + "/" + name)
    if application:
        cuda_torch(tree, *application)
    elif is_amd(machine):
        rocm_torch(tree)
    else:
        cuda_torch(tree, "2.5.1", "12.4", [CU121])


def run(exe, folder, name, *options):
    done = subprocess.run([str(exe), "check", "--root", name, *options, "/opt/venv"], cwd=folder,
                          env={"PATH": "/usr/bin:/bin"}, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


def faults_of(exe, folder, name, rewrite):
    status, text = run(exe, folder, name)
    json_status, output = run(exe, folder, name, "--json")
    if status != json_status or status not in (0, 1):
        yield f"status {status}, and {json_status} with --json: {text}"
        return
    full_status, full = run(exe, folder, name, "-v")
    if full_status != status:
        yield f"status {status}, and {full_status} with -v"
    text += "\n$ gpumend check -v\n" + full
    document = json.loads(output)
    if (document["verdict"] == "broken") != (status == 1):
        yield f"status {status} with verdict {document['verdict']}"
    del document["processes"], document["entries"], document["host"]["loader"]
    text = re.sub(r"^loader .*\n", "", text, flags=re.M)
    for file, got in ((f"{name}.txt", text), (f"{name}.json", laid_out(document) + "\n")):
        path = GOLDEN / file
        if rewrite:
            GOLDEN.mkdir(exist_ok=True)
            path.write_text(got)
        elif not path.exists():
            yield f"{file} is missing (--rewrite makes it)"
        elif path.read_text() != got:
            yield "\n" + difference(file, path.read_text(), got)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("gpumend", type=Path)
    parser.add_argument("--rewrite", action="store_true")
    parser.add_argument("--keep", type=Path, metavar="DIR")
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args()
    worlds = {name: (machine, None) for name, (_, machine) in MACHINES.items()}
    worlds.update((name, (MACHINES[a[0]][1], a[1:])) for name, a in APPLICATIONS.items())
    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix="gpumend-check.") as temporary:
        folder = args.keep or Path(temporary)
        for name, (machine, application) in sorted(worlds.items()):
            if args.names and name not in args.names:
                continue
            build(folder / name, machine, application)
            faults = list(faults_of(args.gpumend.resolve(), folder, name, args.rewrite))
            for fault in faults:
                print(f"FAIL {name}: {fault}")
            failed += bool(faults)
            passed += not faults
    for path in sorted(GOLDEN.glob("*")):
        if path.stem not in worlds:
            print(f"FAIL golden-check/{path.name}: there is no such world")
            failed += 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
