"""The machines of tests/trees with an environment in them, and what must be chosen there.

Each case: name, machine, what is installed (a function of tests/causes' Tree, or None), arguments,
exit status, and the keys of the document that must have these values.
"""

import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS / "trees"), str(TESTS / "causes")]
from build import (ROCM7, amd_nodes, intel_gpu, merged, nvidia, rocm, system)  # noqa: E402
from machines import MACHINES, RX6700XT, rx  # noqa: E402
from gpufile import hip_library  # noqa: E402
from tree import compiled  # noqa: E402

MIXED = merged(system(), nvidia(
    "580.95.05", ("0000:01:00.0", 0x1b80, "NVIDIA GeForce GTX 1080"),
    ("0000:65:00.0", 0x2503, "NVIDIA GeForce RTX 3060"),
    ("0000:b3:00.0", 0x2684, "NVIDIA GeForce RTX 4090"), is_open=False))
RTX3060 = merged(system(), nvidia("550.90.07", ("0000:01:00.0", 0x2503, "NVIDIA GeForce RTX 3060")))
H100 = merged(system(), nvidia("570.124.06", ("0000:18:00.0", 0x2330, "NVIDIA H100 80GB HBM3"),
                               pci_class=0x030200))
# An id that no table has: the driver's name decides.
A100_NEW = merged(system(), nvidia("570.124.06", ("0000:18:00.0", 0xfff0, "NVIDIA A100-PCIE-40GB"),
                                   pci_class=0x030200))
VGPU = merged(system(), nvidia("550.90.07", ("0000:02:00.0", 0x1eb8, "GRID T4-2C")))
MX450 = merged(system(), nvidia("550.90.07", ("0000:01:00.0", 0x1f97, "NVIDIA GeForce MX450")))
RTX3050M = merged(system(), nvidia("550.90.07", ("0000:01:00.0", 0x25a2, "NVIDIA GeForce RTX 3050 Laptop GPU")))
RTX5060TI = merged(system(), nvidia("575.57.08", ("0000:01:00.0", 0x2d04, "NVIDIA GeForce RTX 5060 Ti")))
GTX1650 = merged(system(), nvidia("550.90.07", ("0000:01:00.0", 0x1f82, "NVIDIA GeForce GTX 1650")))
GTX1060_3GB = merged(system(), nvidia("550.90.07", ("0000:01:00.0", 0x1c02, "NVIDIA GeForce GTX 1060 3GB"), is_open=False))
GH200 = merged(system(), nvidia("570.124.06", ("0000:01:00.0", 0x2342, "NVIDIA GH200 480GB"), pci_class=0x030200))
# Drivers and GPUs that no known build, or none but old ones, can serve.
K40_390 = merged(system(), nvidia("390.157", ("0000:03:00.0", 0x1023, "Tesla K40m"), is_open=False, pci_class=0x030200))
K40_470 = merged(system(), nvidia("470.256.02", ("0000:03:00.0", 0x1023, "Tesla K40m"), is_open=False,
                                  pci_class=0x030200))
GTX580 = merged(system(), nvidia("390.157", ("0000:03:00.0", 0x1080, "GeForce GTX 580"), is_open=False))
A100_535 = merged(system(), nvidia("535.183.01", ("0000:3b:00.0", 0x20f1, "NVIDIA A100-PCIE-40GB"), is_open=False,
                                   pci_class=0x030200))
MI50 = rx(0x66a1, 0xc0, 90006, 240, 16, amd_nodes(), rocm("6.3.0", *ROCM7))
ARC = merged(system(), intel_gpu("0000:03:00.0", 0x56a0))
QUOTA = merged(MACHINES["cpu-only"][1], {"/sys/fs/cgroup/cpu.max": "200000 100000\n"})
SMALL = merged(MACHINES["cpu-only"][1], {"/sys/fs/cgroup/memory.max": f"{2 << 30}\n"})
TINY = merged(MACHINES["cpu-only"][1], {"/sys/fs/cgroup/memory.max": f"{1 << 30}\n"})
RX7800 = rx(0x747e, 0xc8, 110001, 120, 16, amd_nodes(), rocm("7.0.2", *ROCM7))


def machine(name):
    return MACHINES[name][1]


def ct2(t):
    t.python().ctranslate2()
    t.system_cublas()


def ct2_4_6(t):
    t.python().ctranslate2("4.6.3")
    t.system_cublas()


def whisperx(t):
    ct2(t)
    t.dist("whisperx", "3.8.6", [])


def ct2_lost(t):
    """cuBLAS is not where it is looked for: the import works, the first use of the GPU does not."""
    t.python().ctranslate2()
    t.pip_cublas()


def ct2_broken(t):
    """A library of its own is missing: the import fails."""
    t.python().ctranslate2(needed=["libgone.so.1"])


def torch(version):
    def put(t):
        t.python().dist("torch", version, [])
    return put


HIP = ("libhiprand.so.1", "libhipblas.so.3", "libamdhip64.so.7")


def ct2_rocm(t):
    """It has the name and the version of the wheel for CUDA."""
    t.python().ctranslate2("4.8.1", needed=list(HIP))
    for name in HIP:
        t.lib("/usr/lib/x86_64-linux-gnu/" + name)


def ct2_own(*targets):
    """A ROCm build of one's own, with code for these targets."""
    def put(t):
        t.python().ctranslate2("4.7.1")
        name = "libctranslate2-01234567.so.4"
        t.put(t.site + "/ctranslate2.libs/" + name, hip_library(name, *targets))
    return put


def ct2_cpu(t):
    """A build of one's own, without code for any GPU."""
    t.python().ctranslate2()
    name = "libctranslate2-01234567.so.4"
    t.put(t.site + "/ctranslate2.libs/" + name, compiled("int here(void) { return 1; }", "-Wl,-soname," + name))


def torch_file(cuda, hip):
    """Of another index than the public one: the version has no label."""
    def put(t):
        t.python().dist("torch", "2.9.0", [])
        t.put(t.site + "/torch/__init__.py", "")
        t.put(t.site + "/torch/version.py",
              "__version__ = '2.9.0'\ndebug = False\ncuda = %r\nhip = %r\n" % (cuda, hip))
    return put


def onnxruntime_cpu(t):
    t.python().dist("onnxruntime", "1.23.2", [])


LARGE = ["--model", "whisper:large-v3"]
CASES = [
    # Fits, and does not
    ("rtx3060-large", RTX3060, None, LARGE, 0,
     {"device": "cuda", "index": 0, "compute_type": "float16", "fits": "yes", "fallback": False,
      "argument": "cuda", "threads": 4}),
    ("rtx3060-too-small", RTX3060, None, ["--memory-gib", "9.5"], 0,
     {"device": "cpu", "index": None, "fallback": True, "cause": "too-small", "fits": "yes"}),
    ("rtx3060-torch-large", RTX3060, None, [*LARGE, "--app", "torch"], 0,
     {"device": "cpu", "compute_type": "float32", "cause": "too-small", "argument": "cpu"}),
    ("gtx1080-large", machine("gtx1080-driver-580"), None, LARGE, 0,
     {"device": "cuda", "compute_type": "int8_float32", "fits": "yes"}),
    ("whisperx-gtx1080", machine("gtx1080-driver-580"), None, [*LARGE, "--app", "whisperx"], 0,
     {"device": "cuda", "compute_type": "int8", "fits": "yes", "argument": "cuda"}),
    ("whisperx-rtx3060", RTX3060, None, [*LARGE, "--app", "whisperx"], 0,
     {"device": "cuda", "compute_type": "float16"}),
    ("whisperx-in-the-environment", machine("gtx1080-driver-580"), whisperx, LARGE, 0,
     {"device": "cuda", "compute_type": "int8_float32"}),
    ("gtx1080-small", machine("gtx1080-driver-580"), None, ["--model", "small.en"], 0,
     {"device": "cuda", "compute_type": "float32", "fits": "yes"}),
    ("k40-driver-390", K40_390, None, LARGE, 0,
     {"device": "cpu", "fallback": True, "cause": "no-build-serves"}),
    ("k40-driver-390-torch", K40_390, None, ["--app", "torch"], 0, {"device": "cpu", "cause": "no-build-serves"}),
    ("k40-driver-390-onnxruntime", K40_390, None, ["--app", "onnxruntime"], 0,
     {"device": "cpu", "cause": "no-build-serves"}),
    ("k40-driver-390-required", K40_390, None, ["--require-gpu"], 1, {"cause": "no-build-serves"}),
    ("k40-driver-470", K40_470, None, [], 0, {"device": "cuda", "compute_type": "float32"}),
    ("gtx580-driver-390", GTX580, None, [], 0, {"device": "cpu", "cause": "no-build-serves"}),
    ("a100-driver-535-torch", A100_535, None, ["--app", "torch"], 0, {"device": "cuda"}),
    # The official ROCm wheels of CTranslate2 have no code for gfx1031 and gfx906; nobody's serves Intel.
    ("rx6700-not-installed", RX6700XT, None, ["--app", "ctranslate2"], 0,
     {"device": "cpu", "cause": "other-build",
      "step": "install a build of ctranslate2 for ROCm and set HSA_OVERRIDE_GFX_VERSION=10.3.0: the official ones "
              "have no kernels for gfx1031, but for gfx1030, whose instructions are the same"}),
    ("mi50-not-installed", MI50, None, ["--app", "ctranslate2"], 0,
     {"device": "cpu", "cause": "other-build",
      "step": "build ctranslate2 for ROCm with code for gfx906: the official builds have none"}),
    ("arc-without-level-zero", ARC, None, [], 0, {"device": "cpu", "cause": "vendor-not-served"}),
    ("h100-large", H100, None, LARGE, 0,
     {"device": "cuda", "compute_type": "float16", "fits": "yes"}),
    ("h100-torch", H100, None, [*LARGE, "--app", "torch"], 0,
     {"device": "cuda", "compute_type": "float16", "fits": "yes", "argument": "cuda:0"}),
    ("h100-mig", machine("h100-mig-container"), None, LARGE, 0,
     {"device": "cuda", "compute_type": "int8_float16", "fits": "unknown", "verdict": "unknown"}),
    ("memory-not-in-the-table", RTX3050M, None, LARGE, 0,
     {"device": "cuda", "compute_type": "int8_float16", "fits": "unknown", "verdict": "unknown"}),
    ("onnxruntime-unknown-need", H100, None, [*LARGE, "--app", "onnxruntime"], 0,
     {"device": "cuda", "argument": "CUDAExecutionProvider", "compute_type": "float16",
      "fits": "unknown", "required_bytes": None, "verdict": "unknown"}),
    # Nothing tells the memory: the smallest, and how to learn it. CTranslate2 takes int8_float32 from 6.1 on.
    ("wsl", machine("wsl-good"), None, LARGE, 0,
     {"device": "cuda", "compute_type": "int8_float32", "fits": "unknown", "verdict": "unknown",
      "step": "gpumend choose --model whisper:large-v3 --probe (on that machine)"}),
    ("wsl-torch", machine("wsl-good"), None, [*LARGE, "--app", "torch"], 0,
     {"device": "cuda", "compute_type": "float16", "fits": "unknown"}),
    ("wsl-no-model", machine("wsl-good"), None, [], 0,
     {"device": "cuda", "compute_type": "int8_float32", "verdict": "ok",
      "step": "gpumend choose --probe (on that machine)"}),
    ("wsl-given-memory", machine("wsl-good"), None, ["--memory-gib", "3"], 0,
     {"device": "cuda", "compute_type": "int8_float32", "fits": "unknown"}),
    ("a100-by-its-name", A100_NEW, None, LARGE, 0,
     {"device": "cuda", "compute_type": "float16", "fits": "yes", "name": "NVIDIA A100-PCIE-40GB",
      "available_bytes": (40 << 30) // 16 * 15}),
    ("vgpu-of-two-gib", VGPU, None, LARGE, 0, {"device": "cpu", "cause": "too-small"}),
    # What large-v3 takes beyond its weights says nothing of tiny: small was measured.
    ("gtx1060-3gb-tiny", GTX1060_3GB, None, ["--model", "tiny", "--app", "ctranslate2", "--compute-type", "int8"], 0,
     {"device": "cuda", "compute_type": "int8"}),
    # The number in its name is the memory of its processor.
    ("gh200", GH200, None, LARGE + ["--app", "ctranslate2"], 0, {"device": "cuda", "compute_type": "float16"}),
    ("mx450", MX450, None, LARGE, 0, {"device": "cpu", "cause": "too-small"}),
    ("mx450-small", MX450, None, ["--model", "base"], 0,
     {"device": "cuda", "fits": "yes"}),
    ("gtx1650", GTX1650, None, LARGE, 0,
     {"device": "cuda", "compute_type": "int8_float16", "fits": "yes"}),
    # The type that was asked for, and no other.
    ("asked-for-int8", RTX3060, None, [*LARGE, "--compute-type", "int8_float16"], 0,
     {"device": "cuda", "compute_type": "int8_float16", "fits": "yes"}),
    # int8 of a model that is stored in float16 runs as int8_float16 there, which was measured.
    ("asked-for-plain-int8", RTX3060, None, [*LARGE, "--compute-type", "int8"], 0,
     {"device": "cuda", "compute_type": "int8", "required_bytes": 3091 << 20}),
    ("asked-for-bfloat16", RTX3060, None, [*LARGE, "--compute-type", "bfloat16"], 0,
     {"device": "cuda", "compute_type": "bfloat16", "fits": "yes"}),
    ("asked-for-int8-bfloat16-on-pascal", machine("gtx1080-driver-580"), None,
     [*LARGE, "--compute-type", "int8_bfloat16"], 1, {"device": None, "cause": "no-compute-type"}),
    ("asked-for-float32", RTX3060, None, ["--model", "small", "--compute-type", "float32"], 0,
     {"device": "cuda", "compute_type": "float32", "fits": "yes"}),
    ("asked-for-float16-on-pascal", machine("gtx1080-driver-580"), None,
     [*LARGE, "--compute-type", "float16"], 1,
     {"device": None, "verdict": "broken", "cause": "no-compute-type"}),
    ("asked-for-int8-of-torch", RTX3060, None,
     [*LARGE, "--app", "torch", "--compute-type", "int8"], 1, {"device": None}),
    ("asked-for-int8-on-the-cpu", machine("cpu-only"), None,
     [*LARGE, "--compute-type", "int8"], 0, {"device": "cpu", "compute_type": "int8"}),
    ("asked-for-float16-on-wsl", machine("wsl-good"), None,
     [*LARGE, "--compute-type", "float16"], 0,
     {"device": "cuda", "compute_type": "float16", "verdict": "unknown"}),
    ("no-model", H100, None, [], 0, {"device": "cuda", "compute_type": "float16", "verdict": "ok"}),

    # Several GPUs, and variables
    ("mixed", MIXED, None, LARGE, 0,
     {"device": "cuda", "index": 2, "name": "NVIDIA GeForce RTX 4090",
      "exports.CUDA_DEVICE_ORDER": "PCI_BUS_ID"}),
    ("mixed-in-address-order", MIXED, None, [*LARGE, "--env", "CUDA_DEVICE_ORDER=PCI_BUS_ID"], 0,
     {"index": 2, "exports.CUDA_DEVICE_ORDER": None}),
    ("mixed-filtered", MIXED, None, [*LARGE, "--env", "CUDA_DEVICE_ORDER=PCI_BUS_ID", "--env",
                                     "CUDA_VISIBLE_DEVICES=1,0"], 0,
     {"index": 0, "name": "NVIDIA GeForce RTX 3060", "compute_type": "float16"}),
    ("mixed-filtered-by-uuid", MIXED, None,
     [*LARGE, "--env", "CUDA_VISIBLE_DEVICES=GPU-00000000-0000-0000-0000-000000000001"], 0,
     {"index": 0, "name": "NVIDIA GeForce RTX 3060", "exports.CUDA_DEVICE_ORDER": None}),
    # Which card 2 is, is not told: what the least of them can do is asked for.
    ("mixed-filtered-in-unknown-order", MIXED, None,
     [*LARGE, "--env", "CUDA_VISIBLE_DEVICES=2"], 0,
     {"device": "cuda", "index": 0, "compute_type": "int8_float32",
      "name": "NVIDIA GeForce GTX 1080"}),
    ("mixed-two-in-unknown-order", MIXED, None,
     [*LARGE, "--env", "CUDA_VISIBLE_DEVICES=2,0"], 0, {"device": "cuda", "index": 0}),
    ("invalid-index-ends-the-list", MIXED, None,
     [*LARGE, "--env", "CUDA_DEVICE_ORDER=PCI_BUS_ID", "--env", "CUDA_VISIBLE_DEVICES=0,7,2"], 0,
     {"index": 0, "name": "NVIDIA GeForce GTX 1080"}),
    ("hidden", machine("hidden-by-environment"), None, LARGE, 0,
     {"device": "cpu", "cause": "hidden", "step": "unset CUDA_VISIBLE_DEVICES"}),
    ("hidden-undone", machine("hidden-by-environment"), None,
     [*LARGE, "--env", "CUDA_VISIBLE_DEVICES=0"], 0, {"device": "cuda", "index": 0}),
    ("eight-alike", machine("nvswitch-with-fabric-manager"), None, LARGE, 0,
     {"device": "cuda", "index": 0, "exports.CUDA_DEVICE_ORDER": None}),

    # No GPU that works
    ("no-driver", machine("no-driver"), None, LARGE, 0,
     {"device": "cpu", "compute_type": "int8", "threads": 8, "cause": "no-driver",
      "fallback": True, "argument": "cpu"}),
    ("no-driver-required", machine("no-driver"), None, [*LARGE, "--require-gpu"], 1,
     {"device": None, "verdict": "broken", "cause": "no-driver", "exports": {}}),
    ("mismatched-driver", machine("mismatched-driver"), None, LARGE, 0,
     {"device": "cpu", "cause": "version-mismatch"}),
    ("lost-cgroup", machine("lost-device-cgroup"), None, LARGE, 0,
     {"device": "cpu", "cause": "device-cgroup"}),
    ("no-gpu", machine("cpu-only"), None, LARGE, 0,
     {"device": "cpu", "cause": "no-gpu", "threads": 16, "fits": "yes"}),
    ("cannot-look", machine("proc-without-sys"), None, LARGE, 0,
     {"device": "cpu", "cause": "gpus-unknown"}),
    ("intel", machine("arc-a770"), None, LARGE, 0, {"device": "cpu", "cause": "vendor-not-served"}),
    ("intel-torch", machine("arc-a770"), torch("2.9.0+xpu"), ["--app", "torch"], 0,
     {"device": "cpu", "cause": "vendor-not-served"}),
    ("jetson", machine("jetson-orin"), None, LARGE, 0, {"device": "cpu", "cause": "cpu-only-build"}),

    # Limits
    ("quota-of-two", QUOTA, None, LARGE, 0, {"threads": 2, "device": "cpu"}),
    ("two-gib-large", SMALL, None, LARGE, 1,
     {"device": None, "verdict": "broken", "fits": "no"}),
    ("two-gib-tiny", SMALL, None, ["--model", "tiny"], 0, {"device": "cpu", "fits": "yes"}),
    ("one-gib", TINY, None, LARGE, 1, {"device": None, "smaller": None}),

    # ROCm
    ("rocm-torch", machine("rx7900xtx"), None, [*LARGE, "--app", "torch"], 0,
     {"device": "rocm", "index": 0, "argument": "cuda:0", "compute_type": "float16",
      "exports.HSA_OVERRIDE_GFX_VERSION": None}),
    ("rocm-ctranslate2", machine("rx7900xtx"), None, LARGE, 0,
     {"device": "cpu", "cause": "other-build"}),
    ("rocm-build-of-ctranslate2", RX7800, ct2_rocm, LARGE, 0,
     {"device": "rocm", "app": "ctranslate2", "argument": "cuda", "cause": None}),
    # What the library has code for counts, not what official builds have.
    ("own-build-for-gfx1010", machine("rx5700xt"), ct2_own("gfx1010"), LARGE, 0,
     {"device": "rocm", "app": "ctranslate2", "cause": None}),
    ("own-build-for-another", machine("rx5700xt"), ct2_own("gfx1100"), LARGE, 0,
     {"device": "cpu", "cause": "gfx-not-covered"}),
    ("own-build-with-override", RX6700XT, ct2_own("gfx1030"), LARGE, 0,
     {"device": "rocm", "exports.HSA_OVERRIDE_GFX_VERSION": "10.3.0"}),
    ("torch-build-without-the-target", machine("strix-halo"), torch("2.5.1+rocm6.2"), LARGE, 0,
     {"device": "rocm"}),
    ("rocm-build-of-ctranslate2-with-nvidia", machine("geforce-desktop"), ct2_rocm, LARGE, 0,
     {"device": "cpu", "cause": "other-build"}),
    ("cpu-build-of-ctranslate2", machine("geforce-desktop"), ct2_cpu, LARGE, 0,
     {"device": "cpu", "cause": "cpu-only-build"}),
    ("rocm-build-of-torch-without-label", RX7800, torch_file(None, "7.1.25424"), LARGE, 0,
     {"device": "rocm", "app": "torch"}),
    ("cpu-build-of-torch-without-label", machine("geforce-desktop"), torch_file(None, None),
     LARGE, 0, {"device": "cpu", "cause": "cpu-only-build"}),
    ("rocm-override", RX6700XT, None, [*LARGE, "--app", "torch"], 0,
     {"device": "rocm", "exports.HSA_OVERRIDE_GFX_VERSION": "10.3.0"}),
    ("rocm-override-is-set", machine("rx6700xt-override"), None, [*LARGE, "--app", "torch"], 0,
     {"device": "rocm", "exports.HSA_OVERRIDE_GFX_VERSION": None}),
    ("rocm-gfx-not-covered", machine("rx5700xt"), None, [*LARGE, "--app", "torch"], 0,
     {"device": "cpu", "cause": "gfx-not-covered"}),
    ("rocm-wrong-override", machine("rx5700xt-wrong-override"), None, [*LARGE, "--app", "torch"],
     0, {"device": "cpu", "cause": "wrong-override"}),
    ("rocm-partition", machine("mi300x-partitioned"), None, [*LARGE, "--app", "torch"], 0,
     {"device": "rocm", "index": 0, "available_bytes": 24 << 30}),
    # Of the machine's 125 GiB the driver maps 124; what the firmware reserves is 0.5.
    ("rocm-integrated", machine("strix-halo"), None, [*LARGE, "--app", "torch"], 0,
     {"device": "rocm", "compute_type": "float16", "fits": "yes", "available_bytes": 124 << 30}),
    ("rocm-integrated-old-kernel", machine("strix-halo-old-kernel"), None,
     [*LARGE, "--app", "torch"], 0, {"device": "cpu", "cause": "too-small"}),
    # The card is taken, though the integrated graphics have more memory.
    ("rocm-card-and-integrated", machine("igpu-and-dgpu"), None, [*LARGE, "--app", "torch"], 0,
     {"device": "rocm", "index": 0, "name": "AMD Radeon RX 7900 XTX", "fits": "yes"}),
    ("rocm-filtered", machine("igpu-and-dgpu"), None,
     [*LARGE, "--app", "torch", "--env", "HIP_VISIBLE_DEVICES=-1"], 0,
     {"device": "cpu", "cause": "hidden"}),
    ("rocm-build-of-torch", RX7800, torch("2.10.0+rocm7.1"), LARGE, 0,
     {"device": "rocm", "app": "torch", "app_version": "2.10.0+rocm7.1"}),
    ("cuda-build-of-torch-on-rocm", RX7800, torch("2.10.0+cu128"), LARGE, 0,
     {"device": "cpu", "cause": "other-build"}),

    # What is installed
    ("ctranslate2-installed", machine("geforce-desktop"), ct2, LARGE, 0,
     {"device": "cuda", "app": "ctranslate2", "app_version": "4.8.5"}),
    # As README.md shows it.
    # CTranslate2 multiplies no 8 bits on compute capability 12.0 before 4.7.
    ("rtx5060ti-ctranslate2-4.6", RTX5060TI, ct2_4_6, LARGE, 0,
     {"device": "cuda", "app_version": "4.6.3", "compute_type": "float16"}),
    ("rtx5060ti-ctranslate2-4.8", RTX5060TI, ct2, LARGE, 0,
     {"device": "cuda", "app_version": "4.8.5", "compute_type": "int8_float16"}),
    ("rtx5060ti-ctranslate2-4.6-int8", RTX5060TI, ct2_4_6, LARGE + ["--compute-type", "int8"], 0,
     {"device": "cpu"}),
    ("ctranslate2-mixed", MIXED, ct2, LARGE, 0, {"device": "cuda", "index": 2}),
    ("ctranslate2-cublas-not-on-path", machine("geforce-desktop"), ct2_lost, LARGE, 0,
     {"device": "cpu", "cause": "library-not-on-path"}),
    ("ctranslate2-cublas-made-findable", machine("geforce-desktop"), ct2_lost,
     [*LARGE, "--env", "LD_LIBRARY_PATH=/opt/venv/lib/python3.11/site-packages/nvidia/cublas/lib"],
     0, {"device": "cuda", "compute_type": "float16"}),
    ("ctranslate2-import-fails", machine("geforce-desktop"), ct2_broken, LARGE, 1,
     {"device": None, "verdict": "broken", "cause": "library-missing"}),
    ("torch-for-the-cpu", machine("geforce-desktop"), torch("2.5.1+cpu"), LARGE, 0,
     {"device": "cpu", "app": "torch", "cause": "cpu-only-build"}),
    ("onnxruntime-for-the-cpu", machine("geforce-desktop"), onnxruntime_cpu, LARGE, 0,
     {"device": "cpu", "app": "onnxruntime", "cause": "cpu-only-build",
      "argument": "CPUExecutionProvider"}),
    ("another-app-installed", machine("geforce-desktop"), torch("2.5.1+cpu"),
     [*LARGE, "--app", "ctranslate2"], 0, {"device": "cuda", "app_version": None}),
]
