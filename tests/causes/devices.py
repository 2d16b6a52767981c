"""Cases of machines: a machine of tests/trees under a Python environment, with the fault and without.

The environment is the same in both; the machine, or the start environment, is what differs.
"""

import json
import struct
import sys
from pathlib import Path

from cases import case
from tree import LOADER, ORT_NEEDS, SYSTEM, compiled

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "trees"))
from build import (amd_gpu, amdgpu, information, kfd, kfd_node, merged, mig, nvidia, nvidia_gpus,  # noqa: E402
                   nvidia_libraries, nvidia_module, system, without)
from machines import (A100S, DOCKER, INJECTED, MACHINES, RTX4090, in_docker, rx)  # noqa: E402


def torch_on(cause, cls, culprit, bad, good, key="cuda", name=None, env=None, good_env=None,
             **more):
    """torch for CUDA (or ROCm, key "hip") on the machine `bad`, and on `good`."""
    def build(t, is_bad):
        machine = bad if is_bad else good
        t.python().torch_for(key, "12.4" if key == "cuda" else "6.2.41133")
        t.machine(MACHINES[machine][1] if isinstance(machine, str) else machine)
        return {"env": (env or {}) if is_bad else (good_env or {})}
    case(cause, cls, culprit, name=name or (bad if isinstance(bad, str) else cause), **more)(build)


GEFORCE = merged(system(), nvidia("550.90.07", RTX4090))
GOOD = "geforce-desktop"

# ---- the driver ------------------------------------------------------------------------------

torch_on("gpu-reserved-for-vm", "driver-not-loaded", "NVIDIA GeForce RTX 4090", "vfio", GOOD,
         repair="vfio-pci", evidence="driver: vfio-pci.*torch would use it")
torch_on("nouveau-bound", "driver-not-loaded", "nouveau", "nouveau", GOOD,
         repair="apt-get install nvidia-driver")
torch_on("driver-missing", "driver-not-loaded", "NVIDIA GeForce RTX 4090", "no-driver", GOOD,
         repair="apt-get install nvidia-driver")
torch_on("driver-missing", "driver-not-loaded", "AMD Radeon RX 7900 XTX", "rx7900xtx-no-amdgpu",
         "rx7900xtx", key="hip", repair="modprobe amdgpu")
torch_on("driver-module-not-built", "driver-not-loaded", "nvidia", "no-module-for-this-kernel",
         GOOD, repair="dkms autoinstall", evidence="6.8.0-45-generic")
torch_on("driver-not-loaded", "driver-not-loaded", "nvidia", "module-not-loaded", GOOD,
         repair="modprobe nvidia$")
# Another GPU of the vendor serves the program.
torch_on("driver-does-not-serve-gpu", "driver-not-loaded", "NVIDIA Tesla K80*",
         "too-old-for-this-driver", GOOD, severity="warning", repair="another machine: no driver supports both")
torch_on("kfd-missing", "driver-not-loaded", "amdgpu",
         without(MACHINES["rx7900xtx"][1], "/sys/class/kfd"), "rx7900xtx", key="hip",
         name="kernel-without-kfd", repair="CONFIG_HSA_AMD")
torch_on("kfd-missing", "driver-not-loaded", "amdgpu",
         merged(without(MACHINES["rx7900xtx"][1], "/sys/class/kfd"), kfd()),
         "rx7900xtx", key="hip", name="not-in-kfd", repair="dmesg . grep kfd")
torch_on("gpu-excluded", "no-device", "NVIDIA GeForce RTX 4090",
         merged(GEFORCE, {f"/proc/driver/nvidia/gpus/{RTX4090[0]}/information":
                          information(RTX4090[2], RTX4090[0], 0, excluded="Yes")}),
         GOOD, name="gpu-excluded", repair="NVreg_ExcludedGpus")
torch_on("driver-version-mismatch", "driver-lib-mismatch", "libcuda.so.1", "mismatched-driver",
         GOOD, repair="^sudo reboot", evidence="libcuda is 550.90.07, the kernel module 535.183.01")
torch_on("driver-libraries-missing", "lib-missing", "libcuda.so.1", "no-libraries", GOOD,
         repair="550.90.07")
torch_on("fabric-manager-not-running", "fabric-manager", "nvidia-fabricmanager",
         "nvswitch-without-fabric-manager", "nvswitch-with-fabric-manager",
         repair="systemctl enable --now nvidia-fabricmanager", evidence="and 7 more")

# ---- nodes and rights ------------------------------------------------------------------------

torch_on("device-nodes-missing", "driver-not-loaded", "NVIDIA GeForce RTX 4090",
         without(MACHINES["nodes-on-demand"][1], "/usr/bin/nvidia-modprobe"), "nodes-on-demand",
         name="nodes-missing", repair="nvidia-smi")
torch_on("uvm-missing", "uvm-not-loaded", "nvidia_uvm", "uvm-missing", GOOD,
         repair="^sudo modprobe nvidia_uvm")
torch_on("uvm-missing", "uvm-not-loaded", "/dev/nvidia-uvm",
         {**DOCKER, "nodes": [n for n in DOCKER["nodes"] if "uvm" not in n]}, "docker-good",
         name="docker-without-uvm", repair="--device /dev/nvidia-uvm")
torch_on("device-node-stale", "uvm-not-loaded", "/dev/nvidia-uvm", "docker-stale-uvm-node",
         "docker-good", repair="[Rr]estart the container")
torch_on("device-permission", "permission", "/dev/nvidia0", "node-without-rights", GOOD,
         repair='^sudo usermod -aG video "\\$USER"')
torch_on("device-permission", "permission", "/dev/kfd", "rx7900xtx-without-rights", "rx7900xtx",
         key="hip", repair='^sudo usermod -aG render "\\$USER"')
torch_on("device-permission", "permission", "/dev/kfd", "rootless-podman",
         "rootless-podman-keep-groups", key="hip", repair="keep-groups")
torch_on("device-permission", "permission", "/dev/nvidia0", "podman-with-selinux", "docker-good",
         repair="label=disable", evidence="container_t")
torch_on("device-cgroup-lost", "cgroup-lost", "/dev/nvidia0", "lost-device-cgroup", "docker-good",
         repair="create-dev-char-symlinks")
torch_on("device-cgroup-lost", "cgroup-lost", "/dev/nvidia0", "lost-device-cgroup-v1",
         "docker-good", repair="[Rr]estart the container")

# ---- containers, WSL -------------------------------------------------------------------------

torch_on("container-without-gpu", "container-no-gpu", "NVIDIA GeForce RTX 4090",
         "docker-without-gpu", "docker-good", repair="--gpus all")
torch_on("container-without-gpu", "container-no-gpu", "NVIDIA GeForce RTX 4090",
         "docker-libraries-without-devices", "docker-good", evidence="libraries were mounted")
torch_on("container-without-gpu", "container-no-gpu", "NVIDIA GeForce RTX 4090",
         merged(MACHINES["docker-without-gpu"][1],
                {"/proc/self/environ": "PATH=/usr/bin\0NVIDIA_VISIBLE_DEVICES=void\0"}),
         "docker-good", name="nvidia-visible-devices-void", evidence="NVIDIA_VISIBLE_DEVICES=void")
torch_on("container-without-gpu", "container-no-gpu", "AMD Radeon RX 7900 XTX",
         "docker-amd-without-kfd", "rootless-podman-keep-groups", key="hip",
         repair="--device /dev/kfd")
torch_on("container-without-driver-libraries", "container-lib-missing", "libcuda.so.1",
         "docker-devices-without-libraries", "docker-good", repair="compute,utility")
torch_on("wsl-driver-missing", "wsl-specific", "/dev/dxg",
         {**MACHINES["wsl-good"][1], "nodes": ["/dev/null c 1 3 666 0 0 ok"]}, "wsl-good",
         name="wsl-without-dxg", repair="wsl --update")
torch_on("container-without-driver-libraries", "container-lib-missing", "libdxcore.so",
         "wsl-container-without-libdxcore", "wsl-container", repair="-v /usr/lib/wsl:/usr/lib/wsl")
# CTranslate2 for CUDA does not use an Intel GPU; a program that asks for Level Zero does.
@case("level-zero-missing", "lib-missing", "Intel*", severity="note", repair="libze-intel-gpu1")
def level_zero_missing_for_others(t, bad):
    t.python().ctranslate2()
    t.system_cublas()
    t.machine(MACHINES["arc-half-chain" if bad else "arc-a770"][1])


def level_zero_program(t):
    t.loader()
    t.lib("/opt/app/app", soname=None, interp=LOADER, needed=["libze_loader.so.1"])


@case("level-zero-missing", "lib-missing", "Intel*", repair="libze-intel-gpu1",
      evidence="app would use it")
def level_zero_missing(t, bad):
    level_zero_program(t)
    t.machine(MACHINES["arc-half-chain" if bad else "arc-a770"][1])
    return {"target": "/opt/app/app"}


@case("gpu-hidden", "no-device", "ZE_AFFINITY_MASK", repair="^unset ZE_AFFINITY_MASK")
def hidden_by_affinity_mask(t, bad):
    level_zero_program(t)
    t.machine(MACHINES["arc-a770"][1])
    return {"target": "/opt/app/app", "env": {"ZE_AFFINITY_MASK": "1" if bad else "0.1"}}


@case("wsl-libcuda-shadowed", "wsl-specific", "/usr/lib/x86_64-linux-gnu/libcuda.so.1",
      repair="^export LD_LIBRARY_PATH=/usr/lib/wsl/lib")
def wsl_shadowed(t, bad):
    t.python().torch_for("cuda", "12.4", needed=["libcudart.so.12"])
    t.cudart()
    t.machine(MACHINES["wsl-shadowed" if bad else "wsl-good"][1])
    return {"env": {} if bad else {"LD_LIBRARY_PATH": "/usr/lib/wsl/lib"}}


@case("driver-library-not-on-path", "wsl-specific", "libcuda.so.1",
      repair="^export LD_LIBRARY_PATH=/usr/lib/wsl/lib", evidence="/usr/lib/wsl/lib/libcuda.so.1")
def wsl_library_not_on_path(t, bad):
    t.python().torch_for("cuda", "12.4", needed=["libcudart.so.12"])
    t.cudart()
    t.machine(MACHINES["wsl-good"][1])
    return {"env": {} if bad else {"LD_LIBRARY_PATH": "/usr/lib/wsl/lib"}}


# ---- versions --------------------------------------------------------------------------------

def too_old(name, driver, gpu, good, repair, runtime="libcudart.so.12", version="2.5.1",
            cuda="12.4", good_gpu=None, **more):
    def build(t, bad):
        t.python().torch_for("cuda", cuda, version, needed=[runtime])
        t.cudart(runtime)
        t.machine(merged(system(), nvidia(driver if bad else good, gpu if bad else good_gpu or gpu, is_open=False)))
    case("driver-too-old", "driver-too-old", "NVIDIA driver " + driver, name=name, repair=repair,
         **more)(build)


RTX3060 = ("0000:01:00.0", 0x2503, "NVIDIA GeForce RTX 3060")
K80 = ("0000:05:00.0", 0x102d, "Tesla K80")
too_old("driver-too-old-for-cuda-12", "470.256.02", RTX3060, "525.60.13",
        "--torch-backend=cu118 torch==2.5.1",
        evidence="525.60.13 or newer.*torch was built for CUDA 12.4.*row minor-12")
too_old("driver-one-below-the-floor", "525.60.11", RTX3060, "525.60.13", "nvidia-driver")
too_old("driver-too-old-for-cuda-13", "575.57.08", RTX3060, "580.65.06",
        r"torch 2\.14 built for CUDA 12\.6[\s\S]*580.65.06 or newer",
        runtime="libcudart.so.13", version="2.15.0", cuda="13.0")
too_old("driver-ends-for-the-gpu", "470.256.02", K80, "525.60.13",
        "R470 is the last driver branch that supports this GPU", evidence="row last-kepler", good_gpu=RTX3060)
# The build of this release for CUDA 11.8 has no code for the GPU.
too_old("driver-too-old-and-no-build-with-code", "470.256.02", ("0000:05:00.0", 0x1024, "Tesla K40m"), "525.60.13",
        r"\AUse programs built for an older CUDA", good_gpu=RTX3060)


@case("driver-too-old", "driver-too-old", "NVIDIA driver 470.256.02",
      evidence="libcublas.so.12 is loaded", repair="525.60.13 or newer")
def driver_too_old_without_torch(t, bad):
    t.python().ctranslate2()
    t.system_cublas()
    t.machine(merged(system(), nvidia("470.256.02" if bad else "550.90.07", RTX3060)))


@case("library-defect", "lib-bug", "onnxruntime-gpu", evidence="libcuda.so.1 is not found",
      beside=("driver-missing",))
def onnxruntime_ends_with_a_gpu_and_no_driver(t, bad):
    """A GPU does not help the process that finds no driver, nor does a file that nothing finds."""
    t.machine(merged(system(), nvidia_gpus(RTX4090, driver=None)) if bad else GEFORCE)
    t.python().onnxruntime("1.22.0")
    t.lib("/usr/local/cuda-12.9/compat/libcuda.so.1")
    for name in ORT_NEEDS:
        t.lib(SYSTEM + "/" + name)


# ---- forward compatibility -------------------------------------------------------------------

COMPAT = "/usr/local/cuda-12.9/compat"


def compat_library(branches):
    """A libcuda with the note of the compatibility packages."""
    text = json.dumps({"format": 1, "CUDA version": "12.9", "driver": branches, "device": [1, 2]},
                      separators=(",", ":"))
    owner = b"NVIDIA Corporation\0"
    note = struct.pack("<III", len(owner), len(text), 1) + owner + b"\0" * (-len(owner) % 4)
    note += text.encode() + b"\0" * (-len(text) % 4)
    data = ",".join(map(str, note))
    return compiled('__asm__(".section .note.cuda.fwd_compatibility,\\"\\",@note\\n.balign 4\\n'
                    '.byte %s\\n.previous\\n");\nint here(void);\nint here(void) { return 1; }\n'
                    % data, "-Wl,-soname,libcuda.so.1")


def compat(name, gpu, driver, branches, good_driver=None, good_branches=None, good_gpu=None,
           **more):
    def build(t, bad):
        t.python().torch_for("cuda", "12.4", needed=["libcudart.so.12"])
        t.cudart()
        driver_now = driver if bad or not good_driver else good_driver
        gpu_now = gpu if bad or not good_gpu else good_gpu
        t.machine(merged(system(), nvidia(driver_now, gpu_now, pci_class=0x030200)))
        t.put(COMPAT + "/libcuda.so.575.57.08",
              compat_library(branches if bad or not good_branches else good_branches))
        t.link(COMPAT + "/libcuda.so.1", "libcuda.so.575.57.08")
        return {"env": {"LD_LIBRARY_PATH": COMPAT}}
    case("forward-compat-wrong", "forward-compat", COMPAT + "/libcuda.so.575.57.08", name=name,
         repair="^unset LD_LIBRARY_PATH", **more)(build)


compat("compat-on-geforce", RTX4090, "550.90.07", [535, 550], good_gpu=A100S[0],
       evidence="error 804.*CUDA 12.9")
compat("compat-branch-not-listed", A100S[0], "545.23.08", [535, 550], good_driver="550.90.07",
       evidence="made for the drivers 535, 550")
compat("compat-older-than-driver", A100S[0], "580.95.05", [535, 550], good_driver="535.183.01",
       evidence="older than the driver 580.95.05.*error 803")


@case("forward-compat-wrong", "forward-compat", COMPAT + "/libcuda.so.575.57.08",
      repair=r"\AStart the program without \S+ in LD_LIBRARY_PATH \(tried in the model\)\.\nunset LD_LIBRARY_PATH\Z")
def compat_beside_a_driver_with_the_note(t, bad):
    """The libcuda of an ordinary driver has the note as well, on every GPU that it serves."""
    t.python().torch_for("cuda", "12.4", needed=["libcudart.so.12"])
    t.cudart()
    t.machine(merged(system(), nvidia("550.90.07", RTX4090)))
    t.put("/usr/lib/x86_64-linux-gnu/libcuda.so.550.90.07", compat_library([535]))
    t.put(COMPAT + "/libcuda.so.575.57.08", compat_library([535, 550]))
    t.link(COMPAT + "/libcuda.so.1", "libcuda.so.575.57.08")
    return {"env": {"LD_LIBRARY_PATH": COMPAT} if bad else {}}


@case("driver-too-old", "driver-too-old", "NVIDIA driver 470.256.02", repair="nvidia-driver")
def compat_makes_up_for_the_driver(t, bad):
    """With the compatibility library of its branch in front an old driver serves CUDA 12."""
    t.python().torch_for("cuda", "12.4", needed=["libcudart.so.12"])
    t.cudart()
    t.machine(merged(system(), nvidia("470.256.02", A100S[0], pci_class=0x030200)))
    t.put(COMPAT + "/libcuda.so.575.57.08", compat_library([470, 535, 550]))
    t.link(COMPAT + "/libcuda.so.1", "libcuda.so.575.57.08")
    return {"env": {} if bad else {"LD_LIBRARY_PATH": COMPAT}}


# ---- variables -------------------------------------------------------------------------------

def hidden(name, variable, value, good, machine=GOOD, key="cuda", **more):
    torch_on("gpu-hidden", "no-device", variable, machine, machine, key=key, name=name,
             env={variable: value}, good_env={} if good is None else {variable: good},
             repair="^unset " + variable, **more)


hidden("hidden-by-nothing", "CUDA_VISIBLE_DEVICES", "", None)
hidden("hidden-by-minus-one", "CUDA_VISIBLE_DEVICES", "-1", "0")
hidden("hidden-by-number", "CUDA_VISIBLE_DEVICES", "1", "0", evidence="there is 1, counted from 0")
hidden("hidden-by-first-of-list", "CUDA_VISIBLE_DEVICES", "8,0", "0,8",
       machine="nvswitch-with-fabric-manager", evidence="there are 8")
hidden("hidden-by-identifier", "CUDA_VISIBLE_DEVICES", "GPU-11111111", "GPU-00000000")
hidden("hidden-by-quotation-marks", "CUDA_VISIBLE_DEVICES", '"0"', "0",
       evidence="has quotation marks in it")
hidden("hidden-by-a-word", "CUDA_VISIBLE_DEVICES", "all", " 0", evidence="neither the number")
hidden("hidden-by-hip", "HIP_VISIBLE_DEVICES", "1", "0", machine="rx7900xtx", key="hip")
hidden("hidden-by-rocr", "ROCR_VISIBLE_DEVICES", "3", "0", machine="rx7900xtx", key="hip")
hidden("hidden-by-cuda-on-amd", "CUDA_VISIBLE_DEVICES", "1", "0", machine="rx7900xtx", key="hip")
hidden("hidden-partition", "ROCR_VISIBLE_DEVICES", "8", "7", machine="mi300x-partitioned",
       key="hip")
# What a captured tree's own environment says counts where the caller says nothing.
torch_on("gpu-hidden", "no-device", "CUDA_VISIBLE_DEVICES", "hidden-by-environment",
         "hidden-by-environment", good_env={"CUDA_VISIBLE_DEVICES": "0"})
torch_on("mig-instance-missing", "mig-config", "CUDA_VISIBLE_DEVICES",
         merged(system(), nvidia("550.90.07", A100S[0], pci_class=0x030200)),
         merged(system(), nvidia("550.90.07", A100S[0], pci_class=0x030200), mig(0, (1, 0))),
         name="mig-instance-missing", env={"CUDA_VISIBLE_DEVICES": "MIG-5c6d7e8f"},
         good_env={"CUDA_VISIBLE_DEVICES": "MIG-5c6d7e8f"}, repair="mig -cgi")

# ---- AMD -------------------------------------------------------------------------------------

torch_on("hsa-override-wrong", "gfx-unsupported", "HSA_OVERRIDE_GFX_VERSION", "rx5700xt",
         "rx6700xt", key="hip", name="override-rdna1", env={"HSA_OVERRIDE_GFX_VERSION": "10.3.0"},
         good_env={"HSA_OVERRIDE_GFX_VERSION": "10.3.0"}, repair="^unset HSA_OVERRIDE_GFX_VERSION",
         evidence="row override-gfx1010-10.3.0")
torch_on("hsa-override-wrong", "gfx-unsupported", "HSA_OVERRIDE_GFX_VERSION", "rx7900xtx",
         "rx7900xtx", key="hip", name="override-left-over", severity="warning",
         env={"HSA_OVERRIDE_GFX_VERSION": "10.3.0"},
         good_env={"HSA_OVERRIDE_GFX_VERSION": "11.0.0"},
         repair="^unset HSA_OVERRIDE_GFX_VERSION")
torch_on("hsa-override-wrong", "gfx-unsupported", "HSA_OVERRIDE_GFX_VERSION", "rx6700xt",
         "rx6700xt", key="hip", name="override-unreadable", severity="warning",
         env={"HSA_OVERRIDE_GFX_VERSION": "gfx1030"},
         good_env={"HSA_OVERRIDE_GFX_VERSION": "10.3.0"})
torch_on("amd-kernel-old", "driver-too-old", "amdgpu", "vega-old-kernel", "mi210", key="hip",
         severity="warning", repair="newer kernel")
