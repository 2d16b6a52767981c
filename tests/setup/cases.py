"""The machines of tests/trees, what must be planned there, and the machines that are only named.

Each case: name, arguments, verdict, words that the text must have.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "trees"))
from build import (ROCM7, amd_gpu, amd_nodes, amdgpu, kfd, kfd_node, merged, nvidia,  # noqa: E402
                   nvidia_gpus, nvidia_libraries, nvidia_module, nvidia_nodes, rocm, system, without)
from machines import MACHINES  # noqa: E402

UBUNTU = {"/usr/lib/os-release": "ID=ubuntu\nVERSION_ID=\"24.04\"\n"}
RTX3060 = ("0000:01:00.0", 0x2503, "NVIDIA GeForce RTX 3060")

TREES = {name: MACHINES[name][1] for name in (
    "cpu-only", "no-driver", "driver-470", "gtx1080-driver-580", "wsl-good", "jetson-orin", "rtx5090",
    "rtx5090-driver-550", "intel-laptop", "rx7900xtx", "rx5700xt", "module-not-loaded", "arc-a770",
    "arc-half-chain")}
TREES["rtx3060"] = merged(system(), nvidia("550.90.07", RTX3060))
TREES["rtx3060-old"] = merged(system(), UBUNTU, nvidia("470.256.02", RTX3060))
TREES["rtx3060-new"] = merged(system(), nvidia("580.95.05", RTX3060))
TREES["h100"] = merged(system(), nvidia("570.124.06", ("0000:18:00.0", 0x2330, "NVIDIA H100 80GB HBM3"),
                                        pci_class=0x030200))
# A GPU that came after the knowledge base; integrated graphics alone; a ROCm that is there.
TREES["gpu-unknown"] = merged(system(), nvidia("610.10", ("0000:01:00.0", 0x3fff, "NVIDIA GeForce RTX 6090")))
TREES["amd-integrated"] = merged(system(), amdgpu(), amd_gpu("0000:0c:00.0", 0x164e, 0xc6, 128),
                                 kfd(kfd_node(0xc00, 0x164e, 100306, 4, 128, 0, per_cu=2)), amd_nodes())
TREES["rx9070xt-rocm"] = merged(system(), amdgpu(), amd_gpu("0000:03:00.0", 0x7550, 0xc0, 128, 16),
                                kfd(kfd_node(0x300, 0x7550, 120001, 112, 128, 16, per_cu=2)),
                                amd_nodes(), rocm("7.2.0", *ROCM7))
TREES["ffmpeg-there"] = merged(MACHINES["cpu-only"][1], {"/usr/bin/ffmpeg": ""})
TREES["gtx970-open-module"] = merged(system(), UBUNTU, nvidia("535.183.01", (
    "0000:01:00.0", 0x13c2, "NVIDIA GeForce GTX 970")))
# Alpine's loader, and none of glibc.
TREES["musl"] = merged(system(), {"/usr/lib/os-release": "ID=alpine\n", "/lib/ld-musl-x86_64.so.1": ""},
                       nvidia("580.95.05", RTX3060))
# A server of AWS, on Arm: Turing, which PyTorch's wheels for aarch64 have no code for.
TREES["t4g"] = merged(without(system(), "/proc/cpuinfo"), nvidia_module("535.183.01"), {
    "/proc/cpuinfo": "processor\t: 0\nFeatures\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics\n"
                     "CPU implementer\t: 0x41\nCPU architecture: 8\n"}, nvidia_gpus(
    ("0000:00:1f.0", 0x1eb8, "NVIDIA T4G"), pci_class=0x030200), nvidia_nodes([0]),
    nvidia_libraries("535.183.01", "/usr/lib/aarch64-linux-gnu"))
TREES["v100"] = merged(system(), nvidia("580.95.05", ("0000:18:00.0", 0x1db6, "Tesla V100-PCIE-32GB"),
                                        pci_class=0x030200, is_open=False))
TREES["no-bus"] = without(MACHINES["cpu-only"][1], "/sys")
# A device whose class this user may not read: it may be a GPU.
TREES["bus-unread"] = merged(system(), {"/sys/bus/pci/devices/0000:01:00.0/vendor": "0x10de\n"})
TREES["wsl-no-gpu"] = without(MACHINES["wsl-good"][1], "nodes", "/usr/lib/wsl")

APPS = ("faster-whisper", "whisperx", "speaches", "ctranslate2", "torch", "onnxruntime",
        "openai-whisper", "vllm", "jax", "tensorflow", "cupy", "bitsandbytes", "llama-cpp-python")
NAMED = ("rtx-3060-linux", "gtx-1080-ubuntu", "gtx-980-fedora", "tesla-k80-linux", "rtx-5090-debian",
         "dgx-spark", "jetson-agx-orin", "rtx-4070-windows", "rtx-4070-wsl", "rx-7900-xtx-linux",
         "rx-5700-xt-windows", "rx-6700-xt-linux", "mi300x-linux", "arc-a770-linux", "jetson-agx-thor",
         "rtx-4070-container", "cpu-linux", "cpu-windows")

CASES = [
    ("faster-whisper-rtx3060", ["faster-whisper", "--root", "rtx3060"], "gpu",
     ["Keep the driver", "gpumend enable --import faster_whisper"]),
    ("faster-whisper-laptop", ["faster-whisper", "--for", "rtx-5090-laptop-linux"], "gpu",
     ["GeForce RTX 5090 Max-Q / Mobile, compute capability 12.0, with driver 570."]),
    # Of the cards with a processor none is meant.
    ("faster-whisper-gfx", ["faster-whisper", "--for", "gfx1030-linux"], "gpu",
     ["AMD GPU, gfx1030", "How much memory the device has is not known"]),
    ("faster-whisper-no-driver", ["faster-whisper", "--root", "no-driver"], "gpu",
     ["sudo apt-get install nvidia-driver", "contrib and non-free", "docs.astral.sh/uv/getting-started"]),
    ("faster-whisper-old-driver", ["faster-whisper", "--root", "rtx3060-old"], "gpu",
     ["Driver 470.256.02 is there", "sudo ubuntu-drivers install"]),
    ("faster-whisper-pascal", ["faster-whisper", "--root", "gtx1080-driver-580"], "gpu",
     ["int8_float32", "whose last branch is 580"]),
    # ctranslate2 3.24 has code for it; the faster-whisper of its time needs a PyAV without wheels.
    ("faster-whisper-kepler", ["faster-whisper", "--root", "driver-470"], "cpu", ["device=\"cpu\""]),
    ("ctranslate2-kepler", ["ctranslate2", "--for", "tesla-k80-linux"], "gpu", ["ctranslate2==3.24.0"]),
    ("faster-whisper-blackwell", ["faster-whisper", "--root", "rtx5090"], "gpu", ["570.26"]),
    ("faster-whisper-blackwell-old", ["faster-whisper", "--root", "rtx5090-driver-550"], "gpu",
     ["570.26 or later"]),
    ("faster-whisper-wsl", ["faster-whisper", "--root", "wsl-good"], "unknown", ["--for rtx-3060-wsl"]),
    ("faster-whisper-wsl-named", ["faster-whisper", "--for", "rtx-3060-wsl"], "gpu",
     ["WSL uses the driver of Windows", "528.33 or later"]),
    ("faster-whisper-jetson", ["faster-whisper", "--root", "jetson-orin"], "cpu", ["JetPack"]),
    ("faster-whisper-cpu", ["faster-whisper", "--root", "cpu-only"], "cpu", ["no GPU was found"]),
    ("faster-whisper-windows", ["faster-whisper", "--for", "rtx-4070-windows", "--into", "my env"], "gpu",
     ["& 'my env\\Scripts\\python.exe' -m pip install"]),
    ("ctranslate2-not-loaded", ["ctranslate2", "--root", "module-not-loaded", "--into", "a b/$c"], "gpu",
     ["'a b/$c'", "Make the GPU usable"]),
    ("torch-rtx3060", ["torch", "--root", "rtx3060"], "gpu", ["torch==2.10.0"]),
    ("torch-rtx3060-new", ["torch", "--for", "rtx3060-new/"], "gpu", ["torch==2."]),
    ("torch-pascal", ["torch", "--root", "gtx1080-driver-580"], "gpu", ["torch==2.9.1+cu126"]),
    ("torch-kepler", ["torch", "--root", "driver-470"], "gpu", ["+cu118"]),
    ("torch-cpu", ["torch", "--root", "cpu-only"], "cpu",
     ["torch==2.15.0+cpu --index-url https://download.pytorch.org/whl/cpu"]),
    ("torch-cpu-windows", ["torch", "--for", "cpu-windows"], "cpu", ["pip install torch==2"]),
    ("whisperx-cpu", ["whisperx", "--root", "cpu-only"], "cpu",
     ["torchaudio==2.8.0 torchvision==0.23.0 --index-url https://download.pytorch.org/whl/cpu",
      "threads=16", "sudo apt-get install ffmpeg"]),
    ("openai-whisper-rtx3060", ["openai-whisper", "--root", "rtx3060-new"], "gpu",
     ["openai-whisper==20250625", "gpumend check --import whisper"]),
    ("torch-gpu-unknown", ["torch", "--root", "gpu-unknown"], "unknown",
     ["is not in the knowledge base (NVIDIA GeForce RTX 6090, PCI device 10de:3fff)"]),
    ("torch-amd-integrated", ["torch", "--root", "amd-integrated"], "cpu",
     ["its graphics are integrated", "gfx1036"]),
    ("torch-open-module", ["torch", "--root", "gtx970-open-module"], "gpu",
     ["sudo apt-get install nvidia-driver-535 && sudo reboot", "cost  A restart of the machine."]),
    ("faster-whisper-rdna4-rocm", ["faster-whisper", "--root", "rx9070xt-rocm"], "gpu",
     ["Keep ROCm 7.2.0-16", "is in /opt/rocm-7.2.0"]),
    # The release of cupy is for another ROCm than the one that is there.
    ("cupy-rdna4-rocm", ["cupy", "--root", "rx9070xt-rocm"], "gpu",
     ["Install ROCm 7.0", "ROCm 7.2.0-16 is in /opt/rocm-7.2.0."]),
    ("openai-whisper-rdna3", ["openai-whisper", "--for", "rx-7900-xtx-linux"], "unknown",
     ["no release is known to fit that build"]),
    ("whisperx-ffmpeg-there", ["whisperx", "--root", "ffmpeg-there"], "cpu", ["1. Make an environment"]),
    ("whisperx-fedora", ["whisperx", "--for", "rtx-3060-fedora"], "gpu", ["sudo dnf install ffmpeg-free", "RPM Fusion"]),
    ("vllm-cpu", ["vllm", "--root", "cpu-only"], "unknown", ["builds for ROCm, for Intel's GPUs and for CPUs"]),
    ("torch-musl", ["torch", "--root", "musl"], "unknown", ["its C library is musl"]),
    ("torch-no-bus", ["torch", "--root", "no-bus"], "unknown", ["its GPUs cannot be seen"]),
    ("torch-bus-unread", ["torch", "--root", "bus-unread"], "unknown", ["its GPUs cannot be seen"]),
    ("torch-wsl-no-gpu", ["torch", "--root", "wsl-no-gpu"], "unknown",
     ["its GPUs cannot be seen", "--for rtx-3060-wsl"]),
    # Its CUDA is that of Arm servers: not what is said of Jetson boards before it.
    ("torch-thor", ["torch", "--for", "jetson-agx-thor"], "cpu", ["JetPack 7", "sm_110"]),
    # What is missing is a release for that Python, not for that GPU.
    ("vllm-python-3.8", ["vllm", "--for", "rtx-3060-debian", "--python", "3.8"], "unknown",
     ["no release for Python 3.8 is known to fit its GPU, and for Python 3.12 one is"]),
    ("tensorflow-python-3.8", ["tensorflow", "--for", "rtx-3060-debian", "--python", "3.8"], "cpu",
     ["no release for Python 3.8 is known to fit its GPU"]),
    ("vllm-jetson", ["vllm", "--for", "jetson-agx-orin"], "unknown", ["builds for JetPack"]),
    ("torch-maxwell-wsl", ["torch", "--for", "gtx-980-wsl"], "cpu", ["from Pascal on"]),
    ("cupy-maxwell-wsl", ["cupy", "--for", "gtx-980-wsl"], "not", ["from Pascal on"]),
    ("tensorflow-windows", ["tensorflow", "--for", "rtx-5090-windows"], "cpu", ["--for rtx-5090-wsl"]),
    # torch 2.0 declares no numpy, and does not work with numpy 2.
    ("openai-whisper-kepler", ["openai-whisper", "--for", "tesla-k80-linux"], "gpu",
     ["torch==2.0.1", "numpy==1.26.4"]),
    # An older torch would need fewer packages.
    ("openai-whisper-volta", ["openai-whisper", "--root", "v100"], "gpu", ["torch==2.10.0"]),
    ("torch-t4g", ["torch", "--root", "t4g"], "cpu", ["no release is known to have code for its GPU"]),
    # The code of another target, with a variable that torch's own plan sets.
    ("whisperx-rdna2-relative", ["whisperx", "--for", "rx-6700-xt-linux"], "unknown",
     ["with code for this GPU under HSA_OVERRIDE_GFX_VERSION=10.3.0"]),
    ("torch-spark", ["torch", "--for", "dgx-spark"], "gpu", ["580.65.06"]),
    ("cupy-cpu", ["cupy", "--root", "cpu-only"], "not", ["cannot work"]),
    ("cupy-h100", ["cupy", "--root", "h100"], "gpu", ["'cupy-cuda12x[ctk]==14.2.0'"]),
    ("faster-whisper-rdna3", ["faster-whisper", "--root", "rx7900xtx"], "gpu",
     ["Install ROCm 7.2", "rocm-python-wheels-Linux.zip", "--no-index --find-links ct2-rocm"]),
    ("faster-whisper-rdna3-windows", ["faster-whisper", "--for", "rx-7900-xtx-windows"], "gpu",
     ["rocm-python-wheels-Windows.zip", "rocm_sdk_core-7.2"]),
    ("faster-whisper-rdna1-windows", ["faster-whisper", "--for", "rx-5700-xt-windows"], "gpu",
     ["HIP SDK 6.2", "cp313-cp313-win_amd64.whl", "py -3.13"]),
    # That wheel is for Windows.
    ("faster-whisper-rdna1", ["faster-whisper", "--root", "rx5700xt"], "cpu",
     ["no build of ctranslate2 for ROCm is known to have code for its GPU"]),
    ("faster-whisper-intel", ["faster-whisper", "--for", "arc-a770-linux"], "cpu", ["GPUs of Intel"]),
    ("torch-rdna3", ["torch", "--root", "rx7900xtx"], "gpu", ["+rocm7.2", "/dev/kfd"]),
    ("torch-rdna2-relative", ["torch", "--for", "rx-6700-xt-linux"], "gpu",
     ["export HSA_OVERRIDE_GFX_VERSION=10.3.0"]),
    ("torch-rdna1", ["torch", "--root", "rx5700xt"], "cpu", ["no build of torch for ROCm"]),
    # Graphics without Arc are not what PyTorch's builds for Intel are validated on.
    ("torch-intel", ["torch", "--root", "intel-laptop"], "cpu", ["GPUs of Intel"]),
    ("torch-arc", ["torch", "--for", "arc-b580-linux"], "gpu",
     ["torch==2.15.0 --index-url https://download.pytorch.org/whl/xpu", "torch.xpu.device_count()"]),
    ("torch-h100", ["torch", "--for", "h100-linux"], "gpu", ["cuda-toolkit==13.2.2", "nvidia-cublas==13.4.1.3"]),
    # There is no /dev/kfd in WSL.
    ("torch-rdna4-wsl", ["torch", "--for", "rx-9070-xt-wsl"], "unknown", ["librocdxg"]),
    ("llama-rdna3-wsl", ["llama-cpp-python", "--for", "rx-7900-xtx-wsl"], "unknown", ["Vulkan driver"]),
    ("torch-arc-there", ["torch", "--root", "arc-a770"], "gpu", ["1. Keep Intel's GPU driver"]),
    ("torch-arc-half", ["torch", "--root", "arc-half-chain"], "gpu",
     ["once step 1 is done", "1. Install Intel's GPU driver", "libze_intel_gpu.so"]),
    ("torch-arc-wsl", ["torch", "--for", "arc-b580-wsl"], "gpu", ["whl/xpu"]),
    ("speaches-rdna4-windows", ["speaches", "--for", "rx-9070-xt-windows"], "unknown",
     ["is not known here"]),
    ("jax-h100", ["jax", "--for", "h100-linux"], "gpu", ["'jax[cuda13]==0.12.0.1'"]),
    # CUDA 13 has no Pascal; the last jax whose plugin's cuDNN serves it.
    ("jax-pascal", ["jax", "--for", "gtx-1060-linux"], "gpu", ["'jax[cuda12]==", "nvidia-cudnn-cu12==9."]),
    ("jax-rdna3", ["jax", "--for", "rx-7900-xtx-linux"], "gpu", ["'jax[rocm7-local]==0.12.0'", "Install ROCm 7"]),
    ("jax-rdna1", ["jax", "--for", "rx-5700-xt-linux"], "cpu", ["is not known to support its GPU"]),
    ("vllm-hopper", ["vllm", "--for", "h100-linux"], "gpu", ["vllm==0.33.0", "torch==2.14.0"]),
    ("vllm-pascal", ["vllm", "--for", "gtx-1080-linux"], "not", ["cannot work"]),
    ("vllm-cdna", ["vllm", "--for", "mi300x-linux"], "unknown", ["computes on GPUs of NVIDIA alone"]),
    ("vllm-thor", ["vllm", "--for", "jetson-agx-thor"], "unknown", ["JetPack 7"]),
    ("bitsandbytes-rdna3", ["bitsandbytes", "--for", "rx-7900-xtx-linux"], "gpu",
     ["torch==2.11.0+rocm7.2", "bitsandbytes==0.50.2"]),
    # libtensorflow_framework.so.2 does not look for cuSOLVER where its wheel puts it.
    ("tensorflow-ampere", ["tensorflow", "--root", "rtx3060"], "gpu",
     ["'tensorflow[and-cuda]==2.21.0'", "gpumend enable --import tensorflow tensorflow-env"]),
    ("onnxruntime-cpu", ["onnxruntime", "--root", "cpu-only"], "cpu", ["onnxruntime==1"]),
    # What it opens by itself since 1.28 the hook does not load; on Windows the call loads all.
    ("onnxruntime-rtx3060-new", ["onnxruntime", "--root", "rtx3060-new"], "gpu",
     ["gpumend enable --import onnxruntime", "onnxruntime.preload_dlls()", "opens cuDNN and cuFFT"]),
    ("onnxruntime-windows", ["onnxruntime", "--for", "rtx-4070-windows"], "gpu",
     ["onnxruntime.preload_dlls()", "InferenceSession"]),
    ("onnxruntime-spark", ["onnxruntime", "--for", "dgx-spark"], "gpu", ["onnxruntime-gpu[cuda,cudnn]==1.31.1"]),
    ("speaches-ampere", ["speaches", "--for", "rtx-3060-linux", "--into", "my speech"], "gpu",
     ["git clone --depth 1 --branch v0.8.3", "uv sync --frozen", "'my speech/.venv'"]),
    ("speaches-windows", ["speaches", "--for", "rtx-4070-windows"], "unknown", ["--for rtx-4070-wsl"]),
    ("llama-blackwell", ["llama-cpp-python", "--for", "rtx-5090-debian"], "gpu",
     ["env CMAKE_ARGS=-DGGML_CUDA=on", "--no-cache", "nvcc"]),
    ("llama-jetson", ["llama-cpp-python", "--root", "jetson-orin"], "gpu", ["JetPack's CUDA toolkit"]),
    ("llama-arc", ["llama-cpp-python", "--for", "arc-a770-windows"], "gpu", ["$env:CMAKE_ARGS = '-DGGML_VULKAN=on'"]),
    ("llama-cdna", ["llama-cpp-python", "--for", "mi300x-linux"], "gpu", ["CMAKE_ARGS=-DGGML_HIP=on"]),
    ("llama-cpu", ["llama-cpp-python", "--root", "cpu-only"], "cpu", ["Install a C and C++ compiler", "sudo apt-get install g++"]),
]

# Arguments, how the script begins, what it has.
SCRIPTS = [
    (["faster-whisper", "--for", "rtx-3060-linux", "--script", "sh", "--into", "a b"], "#!/bin/sh",
     "gpumend enable --import faster_whisper 'a b'"),
    (["torch", "--for", "rtx-4070-windows", "--script", "powershell"], "# torch works",
     "& 'torch-env\\Scripts\\python.exe' -m pip install torch==2.9.1+cu126"),
    # A program that fails ends the script: PowerShell itself would go on.
    (["torch", "--for", "rtx-4070-windows", "--script", "powershell"], "# torch works",
     "py -3.12 -m venv torch-env\nif ($LASTEXITCODE) { exit $LASTEXITCODE }\n"),
    (["whisperx", "--for", "rtx-3060-linux", "--script", "dockerfile"], "# whisperx works",
     "RUN apt-get update && apt-get install -y --no-install-recommends ffmpeg"),
    # The image has no ffmpeg though the machine has, and glibc though the machine has not.
    (["whisperx", "--root", "ffmpeg-there", "--script", "dockerfile"], "# whisperx works",
     "RUN apt-get update && apt-get install -y --no-install-recommends ffmpeg"),
    (["torch", "--root", "musl", "--script", "dockerfile"], "# torch works", "FROM python:3."),
    (["faster-whisper", "--for", "rtx-3060-linux", "--script", "dockerfile"], "# faster-whisper works",
     "RUN python3.12 -m venv /opt/faster-whisper-env"),
    (["torch", "--for", "rtx-3060-linux", "--script", "dockerfile"], "# torch works", "gpumend container docker"),
]
