"""Cases of GPU code and packages: what the files of a package hold, against the machine's GPU.

The libraries are small ELF files with fat binaries and offload bundles in the format of the real
ones (docs/gpu-code.md); the machines are those of tests/trees.
"""

import os
import sys
from pathlib import Path

from cases import case
from devices import COMPAT, compat_library
from gpufile import cuda_library, cuda_program, hip_library, with_sections  # noqa: F401
from tree import LOADER, ORT_NEEDS, SYSTEM, TAG, compiled, elf, elfgen

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "trees"))
from build import amd_nodes, merged, nvidia, system  # noqa: E402
from machines import MACHINES, RX6700XT, RX7900XTX, rx  # noqa: E402


# ---- machines -------------------------------------------------------------------------------

def with_gpu(driver, device, name, **more):
    return merged(system(), nvidia(driver, ("0000:01:00.0", device, name), **more))


RTX3060 = with_gpu("550.90.07", 0x2503, "NVIDIA GeForce RTX 3060")
RTX3060_580 = with_gpu("580.95.05", 0x2503, "NVIDIA GeForce RTX 3060")
RTX5090 = with_gpu("570.124.06", 0x2b85, "NVIDIA GeForce RTX 5090")
GTX1080 = with_gpu("580.95.05", 0x1b80, "NVIDIA GeForce GTX 1080", is_open=False)
H100 = with_gpu("550.90.07", 0x2330, "NVIDIA H100 80GB HBM3", pci_class=0x030200)
H100_570 = with_gpu("570.124.06", 0x2330, "NVIDIA H100 80GB HBM3", pci_class=0x030200)
TWO = merged(system(), nvidia("570.124.06", ("0000:01:00.0", 0x2684, "NVIDIA GeForce RTX 4090"),
                              ("0000:02:00.0", 0x1b80, "NVIDIA GeForce GTX 1080"), is_open=False))
UNKNOWN = with_gpu("550.90.07", 0x2fff, "NVIDIA Graphics Device")

CU121 = ("sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90")
CU130 = ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120")
CT2 = ("sm_53", "sm_60", "sm_61", "sm_70", "sm_75", "sm_80", "sm_86")


def torch_with(t, machine, *containers, cuda="12.1", version="2.5.1"):
    """torch with these containers in its CUDA library, on the machine."""
    t.python().machine(machine)
    t.put(t.site + "/torch/lib/libtorch_cuda.so", cuda_library("libtorch_cuda.so", *containers))
    t.torch_for("cuda", cuda, version, needed=["libtorch_cuda.so"], rpath="$ORIGIN/lib")
    t.dist("torch", version, ["torch/lib/libtorch_cuda.so", "torch/_C.%s.so" % TAG])


def on(machine, containers, good, name, good_containers=None, **more):
    """torch with `containers` on `machine`; the twin differs in the machine or the containers."""
    def build(t, bad):
        torch_with(t, machine if bad or not good else good,
                   *(containers if bad or not good_containers else good_containers))
    case("gpu-code-missing", "arch-unsupported", "libtorch_cuda.so", name=name, **more)(build)


on(RTX5090, [CU121] * 3, RTX3060, name="rtx5090-torch-cu121",
   repair=r"pip install 'torch>=2\.\d+,<2\.\d+'$",
   evidence=r"compute capability 12\.0.*sm_90, PTX for none.*no kernel image")
on(RTX5090, [CU121] * 3, None, good_containers=[CU130] * 3, name="rtx5090-torch-cu130",
   repair="pip install 'torch>=")
on(GTX1080, [CU130], None, good_containers=[CU121], name="gtx1080-torch-cu130",
   repair=r"pip install 'torch>=2\.7,<2\.8'", evidence=r"NVIDIA GeForce GTX 1080")
on(RTX5090, [CU121], H100, name="h100-torch-cu124")
on(RTX5090, [CU121], UNKNOWN, name="gpu-of-unknown-capability")
on(RTX5090, [CU121], MACHINES["mixed-quadro-geforce"][1], name="mixed-machine-in-order")
on(RTX5090, [CU121], MACHINES["cpu-only"][1], name="no-gpu-no-kernels")
# Containers for some architectures only are a library's own choice.
on(RTX5090, [("sm_90a",), CU121], None, good_containers=[("sm_90a",), CU121, ("sm_120",)],
   name="containers-of-some-architectures")
# PTX without a suffix serves every newer GPU, if the driver knows its ISA.
on(RTX5090, [(*CU121, "compute_90a:8.4")], None, good_containers=[(*CU121, "compute_90:8.4")],
   name="ptx-of-one-architecture-only")
# One of two GPUs: the other one serves.
on(TWO, [CU130], RTX5090, name="one-of-two-without-kernels", severity="warning",
   repair="export CUDA_VISIBLE_DEVICES=GPU-", evidence=r"GTX 1080 \(compute capability 6\.1\)")


def choice(name, bad_value, good_value, severity, **env):
    """One of two GPUs is served; which ones the program is shown decides."""
    @case("gpu-code-missing", "arch-unsupported", "libtorch_cuda.so", name=name, severity=severity)
    def build(t, bad):
        torch_with(t, TWO, CU130)
        return {"env": {"CUDA_VISIBLE_DEVICES": bad_value if bad else good_value, **env}}


choice("choice-by-identifier", "GPU-00000000-0000-0000-0000-000000000001",
       "GPU-00000000-0000-0000-0000-000000000000", "error")
choice("choice-by-number", "1", "0", "error", CUDA_DEVICE_ORDER="PCI_BUS_ID")
choice("choice-by-number-of-unknown-order", "0", "GPU-00000000-0000-0000-0000-000000000000", "note")


def own_program(t, *containers):
    """What nvcc makes by default: the runtime is linked into the program, which asks for nothing."""
    t.loader()
    t.put("/opt/app/app", cuda_program(*containers))
    return {"target": "/opt/app/app"}


@case("gpu-code-missing", "arch-unsupported", "app", evidence=r"machine code for sm_100, PTX for none",
      repair="^Build it with code for this GPU .nvcc -gencode arch=compute_90,code=sm_90")
def program_without_code_for_the_gpu(t, bad):
    t.machine(H100)
    return own_program(t, ("sm_100",) if bad else ("sm_90", "compute_90:8.4"))


@case("gpu-code-missing", "arch-unsupported", "libengine.so",
      evidence="machine code for sm_86 sm_89, PTX for none")
def library_of_a_program_without_code_for_the_gpu(t, bad):
    """As llama.cpp has it: the one library with kernels stands beside the program."""
    t.machine(RTX5090).loader()
    t.lib("/opt/app/app", soname=None, interp=LOADER, needed=["libengine.so"], rpath="$ORIGIN")
    t.put("/opt/app/libengine.so", cuda_library("libengine.so", ("sm_86", "sm_89") if bad else
                                                ("sm_86", "sm_120")))
    return {"target": "/opt/app/app"}


@case("gpu-code-missing", "arch-unsupported", "libengine.so",
      evidence="machine code for sm_86 sm_89, PTX for none")
def all_libraries_of_a_program_without_code_for_the_gpu(t, bad):
    """Whichever of the two it uses fails."""
    t.machine(RTX5090).loader()
    names = ["libengine.so", "libother.so"]
    t.lib("/opt/app/app", soname=None, interp=LOADER, needed=names, rpath="$ORIGIN")
    for name, arch in zip(names, (("sm_86", "sm_89"), ("sm_90",))):
        t.put("/opt/app/" + name, cuda_library(name, arch if bad else ("sm_120",)))
    return {"target": "/opt/app/app"}


@case("nouveau-bound", "driver-not-loaded", "nouveau")
def program_with_code_and_without_driver(t, bad):
    """Its code is what shows that it wants the GPU."""
    t.machine(MACHINES["nouveau"][1] if bad else H100)
    return own_program(t, ("sm_90", "compute_50:6.0"))


@case("gpu-code-missing", "arch-unsupported", "libctranslate2-01234567.so.4",
      repair=r"driver to 570\.26 or later[\s\S]*pip install 'ctranslate2>=4\.6\.1,<4\.6\.3' "
             r"'nvidia-cudnn-cu12==9\.1\.0\.\*' && export \S*/nvidia/cudnn/lib",
      evidence=r"ISA 8\.7, driver 550\.90\.07 knows.*8\.4.*"
               "unsupported toolchain")
def ptx_too_new_for_the_driver(t, bad):
    """CTranslate2 from 4.6.3 on serves an H100 by PTX of CUDA 12.8 alone."""
    t.python().machine(H100 if bad else H100_570).ctranslate2()
    t.system_cublas()
    t.put(t.site + "/ctranslate2.libs/libctranslate2-01234567.so.4",
          cuda_library("libctranslate2-01234567.so.4", (*CT2, "compute_86:8.7")))


def cudnn_of_ctranslate2(name, machine):
    """Releases from 4.6.3 on need no cuDNN: whether one serves is the planner's to find out."""
    @case("cudnn-sublibrary-missing", "partial-cudnn", "libcudnn_graph.so.9", name=name,
          repair=r"\A(?![\s\S]*ctranslate2[>=])[\s\S]*pip install 'nvidia-cudnn-cu12")
    def build(t, bad):
        t.python().machine(machine).ctranslate2("4.6.2")
        t.system_cublas()
        if not bad:
            t.pip_cudnn(folder=SYSTEM)


cudnn_of_ctranslate2("release-that-serves-the-gpu", H100_570)
cudnn_of_ctranslate2("release-that-does-not-serve-the-gpu", H100)


@case("gpu-code-missing", "arch-unsupported", "libtorch_cuda.so", evidence=r"ISA 8\.7, driver 550")
def compat_library_makes_up_for_the_isa(t, bad):
    """What compiles PTX is libcuda: that of the compatibility package, where it may be used."""
    torch_with(t, H100, (*CU121[:-1], "compute_86:8.7"), cuda="12.4")
    t.put(COMPAT + "/libcuda.so.575.57.08", compat_library([535, 550]))
    t.link(COMPAT + "/libcuda.so.1", "libcuda.so.575.57.08")
    t.lib(t.site + "/torch/_C.%s.so" % TAG, soname=None, rpath="$ORIGIN/lib",
          needed=["libtorch_cuda.so", "libcudart.so.12"])
    t.cudart()
    return {"env": {} if bad else {"LD_LIBRARY_PATH": COMPAT}}


@case("gpu-code-missing", "arch-unsupported", "libcudnn_ops.so.9", severity="warning",
      repair="with code for sm_61", evidence="libcudnn_ops.so.9 has machine code for sm_75")
def cudnn_without_pascal(t, bad):
    """The framework has code; the cuDNN that is found gave the GPU up."""
    torch_with(t, GTX1080, CU121)
    t.put(t.site + "/torch/lib/libcudnn_ops.so.9",
          cuda_library("libcudnn_ops.so.9", ("sm_75", "sm_80") if bad else ("sm_60", "sm_80")))
    t.lib(t.site + "/torch/_C.%s.so" % TAG, soname=None, rpath="$ORIGIN/lib",
          needed=["libtorch_cuda.so", "libcudnn_ops.so.9"])


# ---- AMD ------------------------------------------------------------------------------------

def torch_hip(t, machine, targets, tensile=None):
    t.python().machine(machine)
    lib = t.site + "/torch/lib/"
    t.put(lib + "libtorch_hip.so", hip_library("libtorch_hip.so", *targets))
    t.lib(lib + "librocblas.so", soname="librocblas.so.4")
    t.link(lib + "librocblas.so.4", "librocblas.so")
    for target in targets if tensile is None else tensile:
        t.put(lib + "rocblas/library/TensileLibrary_lazy_%s.dat" % target, "index")
        t.put(lib + "rocblas/library/TensileLibrary_%s.co" % target, "kernels")
    t.torch_for("hip", "6.2.41133", needed=["libtorch_hip.so", "librocblas.so.4"],
                rpath="$ORIGIN/lib")
    t.dist("torch", "2.5.1", ["torch/lib/libtorch_hip.so", "torch/lib/librocblas.so"])


RX5700XT = rx(0x731f, 0xc1, 100100, 80, 8, amd_nodes())
OFFICIAL = ("gfx900", "gfx906", "gfx908", "gfx90a", "gfx942", "gfx1030", "gfx1100")


@case("gfx-not-covered", "gfx-unsupported", "libtorch_hip.so",
      repair="^export HSA_OVERRIDE_GFX_VERSION=10.3.0$", evidence="gfx1031.*gfx1030")
def gfx1031_without_override(t, bad):
    torch_hip(t, RX6700XT, OFFICIAL)
    return {"env": {} if bad else {"HSA_OVERRIDE_GFX_VERSION": "10.3.0"}}


@case("gfx-not-covered", "gfx-unsupported", "libtorch_hip.so", repair="build with code for gfx1010",
      evidence="gfx1010")
def gfx1010_with_official_build(t, bad):
    torch_hip(t, RX5700XT if bad else RX7900XTX, OFFICIAL)


@case("gfx-not-covered", "gfx-unsupported", "librocblas.so.4",
      evidence="rocblas/library for gfx1030 gfx900 gfx906 gfx908 gfx90a gfx942\n"
               ".*TensileLibrary.dat.*gfx1100")
def rocblas_without_index(t, bad):
    torch_hip(t, RX7900XTX, OFFICIAL, OFFICIAL[:-1] if bad else OFFICIAL)


@case("gfx-not-covered", "gfx-unsupported", "libtorch_hip.so",
      repair="^unset HSA_OVERRIDE_GFX_VERSION$")
def override_to_code_that_is_not_there(t, bad):
    """The override is safe, and the build has code for the GPU itself and none for the other."""
    torch_hip(t, RX6700XT, ("gfx1031", "gfx1100"))
    return {"env": {"HSA_OVERRIDE_GFX_VERSION": "10.3.0"} if bad else {}}


# ---- builds ---------------------------------------------------------------------------------

def cpu_torch(t, machine, cuda):
    t.python().torch("2.5.1")
    t.put(t.site + "/torch/version.py", "__version__ = '2.5.1'\ncuda: Optional[str] = %s\n"
          "hip: Optional[str] = None\n" % cuda)
    t.machine(machine)


@case("build-without-gpu", "cpu-only-build", "torch", severity="warning",
      repair=r"pip install (--force-reinstall )?'torch>=", evidence="cuda = None, hip = None")
def torch_for_the_cpu(t, bad):
    cpu_torch(t, RTX3060, "None" if bad else "'12.4'")


def conda_torch(t, bad, channel):
    cpu_torch(t, RTX3060, "None" if bad else "'12.4'")
    t.remove(t.prefix + "/pyvenv.cfg")
    t.remove(t.prefix + "/bin/python")
    t.put(t.prefix + "/bin/python3.11", elf(None, interp=LOADER))
    t.link(t.prefix + "/bin/python", "python3.11")
    t.put(t.prefix + "/conda-meta/history", "")
    t.put(t.prefix + "/lib/python3.11/os.py", "")
    t.put(t.prefix + "/conda-meta/pytorch-2.5.1-cpu_generic_py311_h1.json",
          '{"build": "cpu_generic_py311_h1", "channel": "https://conda.anaconda.org/%s/linux-64", '
          '"name": "pytorch", "version": "2.5.1", "files": []}' % channel)
    t.put(t.prefix + "/conda-meta/pytorch-lightning-2.4.0-h1.json", "{}")


@case("build-without-gpu", "cpu-only-build", "torch", severity="warning", prefix="/opt/conda",
      repair=r"^conda install -p /opt/conda -c conda-forge 'pytorch=\*=\*cuda\*'$")
def torch_of_conda_forge_for_the_cpu(t, bad):
    conda_torch(t, bad, "conda-forge")


@case("build-without-gpu", "cpu-only-build", "torch", severity="warning", prefix="/opt/conda",
      repair=r"(?s)\A(?!.*(pip|conda) install).*a build for CUDA by conda")
def torch_of_another_channel_for_the_cpu(t, bad):
    conda_torch(t, bad, "pytorch")


@case("build-without-gpu", "cpu-only-build", "torch", severity="warning", repair="pip install")
def torch_for_the_cpu_without_gpu(t, bad):
    cpu_torch(t, RTX3060 if bad else MACHINES["cpu-only"][1], "None")


def ctranslate2_build(t, image):
    library = "libctranslate2-01234567.so.4"
    t.ctranslate2("4.8.1")
    t.put("%s/ctranslate2.libs/%s" % (t.site, library), image(library))


@case("build-without-gpu", "cpu-only-build", "ctranslate2", severity="warning", repair="pip install",
      evidence="has no code for GPUs")
def ctranslate2_for_the_cpu(t, bad):
    """A build of one's own; the twin has code for the GPU."""
    t.python().machine(RTX3060)
    for name in ("libcublas.so.12", "libcudnn.so.9"):
        t.lib(SYSTEM + "/" + name)
    ctranslate2_build(t, lambda name: with_sections(name, {}) if bad else cuda_library(name, CT2))


def llama(t, *backends):
    """llama-cpp-python as its build puts it down: each backend is a library that libggml.so needs."""
    names = ["libggml-%s.so.0" % b for b in ("base", *backends)]
    for name, needed in ((n, names[:1] if n != names[0] else ()) for n in names):
        t.lib("%s/llama_cpp/lib/%s" % (t.site, name), needed=list(needed), runpath="$ORIGIN")
    t.lib(t.site + "/llama_cpp/lib/libggml.so.0", needed=names, runpath="$ORIGIN")
    t.lib(t.site + "/llama_cpp/lib/libllama.so", soname="libllama.so.0", needed=["libggml.so.0"], runpath="$ORIGIN")
    t.put(t.site + "/llama_cpp/__init__.py", "")
    t.put(t.site + "/numpy/__init__.py", "")
    t.dist("numpy", "2.4.6", ["numpy/__init__.py"])
    t.dist("llama-cpp-python", "0.3.36", ["llama_cpp/__init__.py", "llama_cpp/lib/libllama.so"], ["numpy>=1.20.0"])
    return t


@case("build-without-gpu", "cpu-only-build", "llama-cpp-python", severity="warning",
      repair="gpumend setup llama-cpp-python", evidence="no other backend")
def llama_for_the_cpu(t, bad):
    """What pip compiles if it is not told for what; the twin has the backend for Vulkan."""
    t.python().machine(RTX3060)
    llama(t, "cpu", *() if bad else ("vulkan",))


@case("library-missing", "lib-missing", "libggml-cpu.so.0")
def llama_without_its_backend(t, bad):
    t.python().machine(MACHINES["cpu-only"][1])
    llama(t, "cpu")
    if bad:
        t.real(t.site + "/llama_cpp/lib/libggml-cpu.so.0").unlink()


@case("build-without-gpu", "cpu-only-build", "ctranslate2", severity="warning", repair="from its source",
      evidence="has no code for GPUs")
def ctranslate2_of_the_index_on_a_jetson(t, bad):
    """For aarch64 the package index has no other build; the twin is an Arm machine without a GPU."""
    arm = {"machine": elfgen.AARCH64}
    t.put("/lib/ld-linux-aarch64.so.1", elf("ld-linux-aarch64.so.1", verdef=["GLIBC_PRIVATE"], **arm))
    t.python(interp="/lib/ld-linux-aarch64.so.1", **arm)
    library, ext = "ctranslate2.libs/libctranslate2-01234567.so.4", "ctranslate2/_ext.cpython-311-aarch64-linux-gnu.so"
    data = bytearray(with_sections(os.path.basename(library), {}))
    data[18:20] = elfgen.AARCH64.to_bytes(2, "little")
    t.put("%s/%s" % (t.site, library), bytes(data))
    t.lib("%s/%s" % (t.site, ext), soname=None, needed=[os.path.basename(library)],
          rpath="$ORIGIN/../ctranslate2.libs", **arm)
    t.put(t.site + "/ctranslate2/__init__.py", "")
    t.dist("ctranslate2", "4.8.1", [library, ext])
    t.put("/proc/cpuinfo", "processor\t: 0\nFeatures\t: fp asimd atomics\nCPU architecture: 8\n")
    if bad:
        t.put("/proc/device-tree/compatible", "nvidia,p3767\0nvidia,tegra234\0")
        t.put("/sys/module/nvgpu/initstate", "live\n")
        t.put("/.gpumend-nodes", "/dev/nvgpu/igpu0/ctrl c 501 1 666 0 0 ok\n/dev/nvmap c 10 121 666 0 0 ok\n")
        t.lib("/usr/lib/aarch64-linux-gnu/nvidia/libcuda.so.1", **arm)
    return {"args": ["--glibc", "2.36"]}


@case("build-for-other-vendor", "cpu-only-build", "torch", severity="warning", repair="rocm",
      evidence="RX 7900 XTX.*cuda = 12.4")
def cuda_torch_on_amd(t, bad):
    t.python().torch_for("cuda" if bad else "hip", "12.4" if bad else "6.2.41133")
    t.machine(RX7900XTX)


def family_of_torch(t, bad, **requires):
    """torch with what is built for one release of it."""
    cuda_torch_on_amd(t, bad)
    for name in ("torchvision", "torchaudio", *requires):
        t.put("%s/%s/__init__.py" % (t.site, name), "")
        t.dist(name, "0.20.1", [name + "/__init__.py"], requires=requires.get(name, ()))


@case("build-for-other-vendor", "cpu-only-build", "torch", severity="warning",
      repair=r"\AInstall the rocm7\.2 build of torch 2\.11 .by uv, which knows PyTorch's builds.\.\n"
             r".* --reinstall-package torch --reinstall-package torchvision --reinstall-package "
             r"torchaudio --torch-backend=rocm7\.2 torch=='2\.11\.\*' torchvision 'torchaudio>=2\.11'$")
def family_of_cuda_torch_on_amd(t, bad):
    family_of_torch(t, bad)


@case("build-for-other-vendor", "cpu-only-build", "torch", severity="warning",
      repair=r"\AInstall the rocm6\.2 build of torch 2\.5\.1 .*does not know whether it has code for "
             r"gfx1100\.\n.*torch==2\.5\.1 [\s\S]*pinner declares torch~=2\.5\.0, which")
def pinned_cuda_torch_on_amd(t, bad):
    """Another package asks for the release that is there."""
    family_of_torch(t, bad, pinner=["torch~=2.5.0"])


@case("gpu-code-missing", "arch-unsupported", "libtorch_cuda.so",
      repair=r"\AInstall the cu126 build of torch 2\.8\.0 .*\n.*torch==2\.8\.0 torchvision 'torchaudio==2\.8\.\*'\n"
             r"Install torch 2\.7, .*; pinner declares torch~=2\.8\.0, which that release does not meet\.\n"
             r".*pip install 'torch>=2\.7,<2\.8' torchvision 'torchaudio==2\.7\.\*'$")
def another_build_of_the_same_torch(t, bad):
    """torchaudio does not name its torch: the newest would be taken, which is for 2.11 and later.
    What asks for a torch that both releases are is not named."""
    torch_with(t, GTX1080, CU130 if bad else CU121, cuda="12.8", version="2.8.0")
    for name, requires in (("torchvision", ()), ("torchaudio", ()), ("content", ("torch>=2",)), ("pinner", ("torch~=2.8.0",))):
        t.put("%s/%s/__init__.py" % (t.site, name), "")
        t.dist(name, "0.23.0", [name + "/__init__.py"], requires=requires)


@case("build-for-other-vendor", "cpu-only-build", "torch", severity="warning", repair="torch>=",
      evidence="RTX 3060.*hip = 6.2")
def rocm_torch_on_nvidia(t, bad):
    t.python().torch_for("hip" if bad else "cuda", "6.2.41133" if bad else "12.4")
    t.machine(RTX3060)


@case("onnxruntime-twice", "python-dep-conflict", "onnxruntime",
      repair="uninstall -y onnxruntime onnxruntime-gpu && .*install onnxruntime-gpu==1.23.2")
def onnxruntime_over_the_one_for_the_gpu(t, bad):
    t.python().machine(RTX3060)
    t.onnxruntime(needed=())
    module = "onnxruntime/capi/onnxruntime_pybind11_state.%s.so" % TAG
    ours = t.real(t.site + "/" + module).read_bytes()
    if bad:
        t.put(t.site + "/" + module, ours + bytes(64))
        t.dist("onnxruntime", "1.23.2", [module])


@case("onnxruntime-twice", "python-dep-conflict", "onnxruntime",
      repair=r"a release for this driver and GPU[\s\S]*install 'onnxruntime-gpu>=1\.24,<1\.27' nvidia-cublas-cu12 "
             r"nvidia-cuda-runtime-cu12 .*&& export LD_LIBRARY_PATH=")
def onnxruntime_over_one_for_another_cuda(t, bad):
    """The release that is installed is for CUDA 13, which the driver does not serve."""
    t.python().machine(with_gpu("550.90.07", 0x2503, "NVIDIA GeForce RTX 3060", is_open=False))
    t.onnxruntime(needed=(), version="1.31.1")
    for name in ("libcudnn.so.9", "libcufft.so.12"):
        t.lib(SYSTEM + "/" + name)
    module = "onnxruntime/capi/onnxruntime_pybind11_state.%s.so" % TAG
    ours = t.real(t.site + "/" + module).read_bytes()
    if bad:
        t.put(t.site + "/" + module, ours + bytes(64))
        t.dist("onnxruntime", "1.32.0", [module])


@case("onnxruntime-twice", "python-dep-conflict", "onnxruntime", severity="note",
      repair="uninstall -y onnxruntime onnxruntime-gpu && .*install onnxruntime==1.23.2")
def onnxruntime_over_the_one_for_another_vendors_gpu(t, bad):
    """What is gone would not serve the GPU of AMD's."""
    t.python().machine(RX7900XTX)
    module = "onnxruntime/capi/onnxruntime_pybind11_state.%s.so" % TAG
    t.onnxruntime(needed=())
    if bad:
        t.put(t.site + "/" + module, t.real(t.site + "/" + module).read_bytes() + bytes(64))
        t.dist("onnxruntime", "1.23.2", [module])


@case("onnxruntime-twice", "python-dep-conflict", "onnxruntime", severity="warning",
      hides=("library-missing",),
      repair="uninstall -y onnxruntime onnxruntime-gpu && .*install onnxruntime-gpu==1.23.2")
def onnxruntime_over_the_one_for_a_gpu_that_is_not_here(t, bad):
    """The provider's libraries are left over: nothing opens them, so none of theirs is missing."""
    t.python().machine(MACHINES["cpu-only"][1])
    t.onnxruntime()
    module = "onnxruntime/capi/onnxruntime_pybind11_state.%s.so" % TAG
    if bad:
        t.put(t.site + "/" + module, t.real(t.site + "/" + module).read_bytes() + bytes(64))
        t.dist("onnxruntime", "1.23.2", [module])
    for name in () if bad else ORT_NEEDS:
        t.lib(SYSTEM + "/" + name)


def over(t, module, order):
    """Two packages with one library, installed in this order."""
    for i, (name, version) in enumerate(order):
        t.put(t.site + "/" + module, elf(module.split("/")[-1]) + bytes(64 * i))
        t.dist(name, version, [module])


XGBOOST = [("xgboost", "3.2.0"), ("xgboost-cpu", "3.2.0")]


@case("packages-conflict", "python-dep-conflict", "xgboost",
      evidence="both list in RECORD have the sizes of xgboost-cpu",
      repair="uninstall -y xgboost xgboost-cpu && .*install xgboost==3.2.0")
def build_for_the_cpu_over_the_one_for_the_gpu(t, bad):
    t.python().machine(RTX3060)
    t.put(t.site + "/xgboost/__init__.py", "")
    over(t, "xgboost/lib/libxgboost.so", XGBOOST if bad else XGBOOST[::-1])


@case("packages-conflict", "python-dep-conflict", "xgboost", severity="warning")
def build_for_the_cpu_over_the_other_without_gpu(t, bad):
    t.python().machine(MACHINES["cpu-only"][1])
    t.put(t.site + "/xgboost/__init__.py", "")
    over(t, "xgboost/lib/libxgboost.so", XGBOOST if bad else XGBOOST[::-1])


@case("packages-conflict", "python-dep-conflict", "cupy-cuda12x", severity="warning",
      repair="uninstall -y cupy-cuda12x cupy-cuda13x && ")
def build_of_cupy_over_another(t, bad):
    t.python().lib(SYSTEM + "/libnvrtc.so.13")
    t.put(t.site + "/cupy/__init__.py", "")
    over(t, "cupy/_core/core.%s.so" % TAG,
         [("cupy-cuda12x", "14.2.0"), ("cupy-cuda13x", "14.2.0")][0 if bad else 1:])


# ---- a package named by its CUDA ------------------------------------------------------------

CUDA_13 = ("libcublasLt.so.13", "libcudart.so.13", "libnvrtc.so.13", "libnvrtc-builtins.so.13.2",
           "libcufft.so.12", "libcurand.so.10", "libcusolver.so.12", "libcusparse.so.12",
           "libnvJitLink.so.13")


def cupy_13(t, *containers):
    """cupy-cuda13x and its libraries, of which cuBLAS has these containers."""
    for folder in ("cupy", "cupy/_core", "cupy_backends", "cupy_backends/cuda", "cupy_backends/cuda/libs"):
        t.put("%s/%s/__init__.py" % (t.site, folder), "")
    paths = ["%s.%s.so" % (stem, TAG) for stem in ("cupy/_core/core", "cupy_backends/cuda/libs/cublas")]
    for path, needed in zip(paths, ([], ["libcublas.so.13"])):
        t.lib("%s/%s" % (t.site, path), soname=None, needed=needed)
    t.dist("cupy-cuda13x", "14.2.0", paths)
    folder = t.site + "/nvidia/cu13/lib/"
    t.put(folder + "libcublas.so.13", cuda_library("libcublas.so.13", *containers))
    for name in CUDA_13:
        t.lib(folder + name, runpath="$ORIGIN")
    t.dist("nvidia-cublas", "13.4.1.3", ["nvidia/cu13/lib/libcublas.so.13"])


SWAPPED = r"\AInstall cupy-cuda12x\[ctk\] in place .*\n.*uninstall -y cupy-cuda13x nvidia-cublas && .*pip install 'cupy-cuda12x\[ctk\]'\n"


@case("gpu-code-missing", "arch-unsupported", "libcublas.so.13", repair=SWAPPED.rstrip("\\n") + "$")
def cuda_13_on_pascal(t, bad):
    t.python().machine(GTX1080 if bad else RTX3060_580)
    cupy_13(t, CU130)


@case("driver-too-old", "driver-too-old", "NVIDIA driver 550.90.07", repair=SWAPPED)
def cuda_13_on_an_old_driver(t, bad):
    t.python().machine(RTX3060 if bad else RTX3060_580)
    cupy_13(t, CU130)


@case("driver-too-old", "driver-too-old", "NVIDIA driver 550.90.07",
      repair=r"\AUpdate the NVIDIA driver")
def cuda_13_of_torch_and_cupy(t, bad):
    """An older build of torch leaves CuPy as it is, and another CuPy leaves torch."""
    torch_with(t, RTX3060 if bad else RTX3060_580, CU130, cuda="13.0", version="2.9.1")
    cupy_13(t, CU130)


@case("driver-too-old", "driver-too-old", "NVIDIA driver 550.90.07", repair=r"\AInstall torch 2\.9\.1 built for")
def cuda_13_of_the_torch_that_is_imported(t, bad):
    cuda_13_of_torch_and_cupy(t, bad)
    return {"args": ["--import", "torch"]}


# ---- requirements ---------------------------------------------------------------------------

@case("requirement-missing", "python-dep-conflict", "av", repair="pip install 'av>=11'",
      evidence="No module named 'av'")
def import_of_what_is_not_there(t, bad):
    t.python().ctranslate2()
    t.system_cublas()
    for name in ("faster_whisper", "tokenizers", "onnxruntime", *(() if bad else ("av",))):
        t.put(t.site + "/%s/__init__.py" % name, "")
    t.dist("faster-whisper", "1.2.0", [], requires=["av>=11", "ctranslate2<5,>=4.0"])


@case("requirement-missing", "python-dep-conflict", "av", evidence="No module named 'onnxruntime'",
      repair=r"pip install 'av>=11' 'tokenizers<1,>=0\.13' onnxruntime$")
def imports_of_what_is_not_there(t, bad):
    """All that a package lacks is one finding and one command."""
    t.python().ctranslate2()
    t.system_cublas()
    for name in ("faster_whisper", *(() if bad else ("av", "tokenizers", "onnxruntime"))):
        t.put(t.site + "/%s/__init__.py" % name, "")
    t.dist("faster-whisper", "1.2.0", [], requires=["av>=11", "ctranslate2<5,>=4.0",
                                                    "tokenizers<1,>=0.13"])


@case("requirement-unmet", "python-dep-conflict", "torch", severity="note",
      repair=r"pip install 'cuda-toolkit\[cublas,cudart\]==13\.0\.2'", evidence=r"cuda-toolkit\[cublas,cudart\]==13\.0\.2: not")
def torch_without_a_package_that_is_only_extras(t, bad):
    t.python().torch()
    t.dist("torch", "2.5.1", [], requires=["cuda-toolkit[cublas,cudart]==13.0.2"])
    if not bad:
        t.dist("cuda-toolkit", "13.0.2", [])


@case("requirement-unmet", "python-dep-conflict", "torch", severity="note", repair="pip install sympy==1.13.1",
      evidence="sympy==1.13.1: 1.14.0 is installed")
def pin_that_is_stricter_than_needed(t, bad):
    t.python().torch()
    t.dist("sympy", "1.14.0" if bad else "1.13.1", [])
    t.dist("torch", "2.5.1", [], requires=[
        "sympy==1.13.1; python_version >= '3.9'", "colorama; sys_platform == 'win32'",
        "nvidia-nothing; extra == 'all'"])


# ---- torch's companions ----------------------------------------------------------------------

def companion(t, name, version, text, check):
    t.put("%s/%s/__init__.py" % (t.site, name), "")
    t.put("%s/%s/version.py" % (t.site, name), "__version__ = '%s'\n" % version)
    t.put("%s/%s" % (t.site, check), '    raise RuntimeError(\n        "%s "\n' % text)
    t.dist(name, version.partition("+")[0], [name + "/__init__.py", name + "/version.py", check])


def torchaudio(t, version):
    companion(t, "torchaudio", version, "Detected that PyTorch and TorchAudio were compiled with "
              "different CUDA versions.", "torchaudio/_extension/utils.py")


def torchvision(t, version, differ):
    companion(t, "torchvision", version, "Detected that PyTorch and torchvision were compiled with "
              "different CUDA %sversions." % differ, "torchvision/extension.py")
    t.lib(t.site + "/torchvision/_C.so")


@case("packages-conflict", "python-dep-conflict", "torchaudio", repair=r"pip install torch==2\.14\.1$",
      evidence="compiled with different CUDA versions")
def torchaudio_for_another_cuda(t, bad):
    """What pip installed of both when torch 2.15.0 was new."""
    t.python().torch_for("cuda", "13.2" if bad else "13.0", "2.15.0")
    torchaudio(t, "2.11.0+cu130")


@case("packages-conflict", "python-dep-conflict", "torchaudio",
      repair=r"--reinstall-package torchaudio --torch-backend=cu124 torch==2\.5\.1 'torchaudio==2\.5\.\*'",
      evidence="compiled with different CUDA versions")
def torchaudio_of_another_index(t, bad):
    t.python().torch_for("cuda", "12.4", "2.5.1")
    torchaudio(t, "2.5.1+cu121" if bad else "2.5.1+cu124")


@case("packages-conflict", "python-dep-conflict", "torchvision",
      repair="--torch-backend=cu124 torch==2.5.1 torchvision", evidence="different CUDA major versions")
def torchvision_for_another_major_cuda(t, bad):
    """12.1 and 12.4 go together: it compares the major release alone."""
    t.python().torch_for("cuda", "12.4", "2.5.1")
    torchvision(t, "0.20.1+cu118" if bad else "0.20.1+cu121", "major ")


@case("packages-conflict", "python-dep-conflict", "torchvision", evidence="different CUDA versions",
      repair="--torch-backend=cu117 torch==2.0.1 torchvision")
def old_torchvision_for_another_cuda(t, bad):
    t.python().torch_for("cuda", "11.7", "2.0.1")
    torchvision(t, "0.15.2+cu118" if bad else "0.15.2+cu117", "")


@case("packages-conflict", "python-dep-conflict", "torchaudio", repair=r"pip install 'torchaudio<2\.9'$",
      evidence="has no attribute 'AudioMetaData'")
def torchaudio_without_what_pyannote_names(t, bad):
    """The import fails, not the first use."""
    t.python().torch_for("cuda", "12.8", "2.9.0")
    t.put(t.site + "/torchaudio/__init__.py", "")
    t.dist("torchaudio", "2.9.0" if bad else "2.8.0", ["torchaudio/__init__.py"])
    t.put(t.site + "/pyannote/audio/__init__.py", "")
    t.dist("pyannote.audio", "3.3.2", ["pyannote/audio/__init__.py"], requires=["torchaudio>=2.2.0"])


# ---- built with -----------------------------------------------------------------------------

NUMPY1 = b"\0numpy.core._multiarray_umath\0_ARRAY_API\0"
NUMPY2 = (b"\0numpy._core._multiarray_umath\0numpy.core._multiarray_umath\0_ARRAY_API\0module was "
          b"compiled against NumPy C-API version 0x%x (NumPy 1.20) but the running NumPy has\0")


def onnxruntime_built_with(t, texts, numpy):
    t.python().onnxruntime(needed=())
    t.put(t.site + "/onnxruntime/capi/onnxruntime_pybind11_state.%s.so" % TAG,
          with_sections(None, {".rodata": texts}))
    t.put(t.site + "/numpy/__init__.py", "")
    t.dist("numpy", numpy, [])


@case("numpy-abi", "numpy-abi", "numpy", repair="pip install 'numpy<2'",
      evidence="built against numpy 1.x, and numpy 2.4.6.*cannot be imported")
def module_for_numpy_1(t, bad):
    onnxruntime_built_with(t, NUMPY1 if bad else NUMPY2, "2.4.6")


@case("numpy-abi", "numpy-abi", "numpy", repair="pip install 'numpy<2'")
def module_for_numpy_1_with_either(t, bad):
    onnxruntime_built_with(t, NUMPY1, "2.0.0" if bad else "1.26.4")


@case("numpy-abi", "numpy-abi", "numpy", repair="pip install 'numpy>=1.20'",
      evidence="numpy 1.20 or later, and numpy 1.19.5")
def module_for_a_newer_numpy(t, bad):
    onnxruntime_built_with(t, NUMPY2, "1.19.5" if bad else "1.26.4")


@case("numpy-abi", "numpy-abi", "numpy", severity="warning", evidence="between it and numpy fails")
def torch_for_numpy_1(t, bad):
    t.python().torch(needed=["libtorch_python.so"], rpath="$ORIGIN/lib")
    t.put(t.site + "/torch/lib/libtorch_python.so",
          with_sections("libtorch_python.so", {".rodata": NUMPY1 if bad else NUMPY2}))
    t.put(t.site + "/numpy/__init__.py", "")
    t.dist("numpy", "2.4.6", [])


@case("cudnn-older-than-build", "header-runtime-mismatch", "libcudnn.so.9",
      repair="pip install nvidia-cudnn-cu12==9.10.2.21",
      evidence=r"built with cuDNN 9\.10\.2\.21 and gets 9\.1\.0.*\(9, 10, \.\.\.\)")
def cudnn_older_than_torch(t, bad):
    t.python().torch(version="2.9.1", needed=["libcudnn.so.9"], rpath="$ORIGIN/../nvidia/cudnn/lib")
    t.dist("torch", "2.9.1", [], requires=["nvidia-cudnn-cu12==9.10.2.21; "
                                           "platform_system == 'Linux'"])
    t.pip_cudnn("9.1.0.70" if bad else "9.10.2.21")
    t.system_cublas()


@case("cudnn-older-than-build", "header-runtime-mismatch", "libcudnn.so.9",
      repair="uninstall -y nvidia-cudnn-cu13 && .*pip install --force-reinstall --no-deps "
             "nvidia-cudnn-cu12==9.10.2.21",
      evidence="nvidia-cudnn-cu13 9.1.0.70 was installed over nvidia-cudnn-cu12 9.10.2.21")
def cudnn_of_another_cuda_over_torchs(t, bad):
    """Both are installed by their metadata: to install the lost one without force does nothing."""
    cudnn_older_than_torch(t, False)
    for name in ("libcublas.so.13", "libcublasLt.so.13"):
        t.lib(SYSTEM + "/" + name)
    if bad:
        t.pip_cudnn("9.1.0.70", package="nvidia-cudnn-cu13")
        names = sorted(path.name for path in t.real(t.cudnn).iterdir())
        for name in names:  # of another size than what it overwrote
            path = t.real(t.cudnn + "/" + name)
            path.write_bytes(path.read_bytes() + bytes(64))
        t.dist("nvidia-cudnn-cu13", "9.1.0.70", ["nvidia/cudnn/lib/" + name for name in names])


@case("glibc-too-old", "glibc-too-old", "libc.so.6", name="glibc-floor-of-a-package",
      repair=r"pip install ctranslate2==4\.6\.2", evidence=r"ctranslate2 4\.8\.5.*glibc 2\.99")
def glibc_floor(t, bad):
    t.python().ctranslate2(needed=["libc.so.6"], verneed=[
        {"file": "libc.so.6", "versions": [{"name": "GLIBC_2.99" if bad else "GLIBC_2.2.5"}]}])
    t.system_cublas()
    t.lib(SYSTEM + "/libc.so.6", verdef=["GLIBC_2.2.5"])
    return {"args": ["--glibc", "2.26"]}


# ---- formats and instruction sets -----------------------------------------------------------

@case("compute-type-unsupported", "compute-type-unsupported", "whisperx", severity="warning",
      repair="--compute_type int8_float32", evidence="GTX 1080.*rows whisperx-default")
def whisperx_on_pascal(t, bad):
    t.python().machine(GTX1080 if bad else RTX3060).ctranslate2()
    t.system_cublas()
    for name in ("whisperx", "faster_whisper", "transformers", "torch", "av", "tokenizers",
                 "onnxruntime"):
        t.put(t.site + "/%s/__init__.py" % name, "")
    t.dist("whisperx", "3.8.6", [])


@case("cpu-isa-forced", "not-gpu-runtime", "CT2_FORCE_CPU_ISA", repair="^unset CT2_FORCE_CPU_ISA$",
      evidence="The CPU does not support AVX512")
def isa_that_the_processor_lacks(t, bad):
    t.python().ctranslate2()
    t.system_cublas()
    return {"args": ["--cpu", "x86-64-v3"],
            "env": {"CT2_FORCE_CPU_ISA": "AVX512" if bad else "AVX2"}}


@case("cpu-isa-forced", "not-gpu-runtime", "CT2_FORCE_CPU_ISA", evidence="Invalid CPU ISA: avx2")
def isa_that_is_no_name(t, bad):
    t.python().ctranslate2()
    t.system_cublas()
    return {"args": ["--cpu", "x86-64-v3"],
            "env": {"CT2_FORCE_CPU_ISA": "avx2" if bad else "GENERIC"}}


# ---- packages of one environment and an old driver --------------------------------------------

def torch_and_ctranslate2(t, bad):
    t.python().torch_for("cuda", "12.4", needed=["libcudart.so.12"])
    t.cudart("libcudart.so.12")
    t.lib(SYSTEM + "/libcudnn.so.9")
    ctranslate2_build(t, lambda name: cuda_library(name, CT2))
    t.machine(with_gpu("470.256.02" if bad else "550.90.07", 0x2503, "NVIDIA GeForce RTX 3060", is_open=False))


@case("driver-too-old", "driver-too-old", "NVIDIA driver 470.256.02", repair=r"\AUpdate the NVIDIA driver to 525.60.13")
def driver_too_old_for_two_packages(t, bad):
    """An older build of torch would leave ctranslate2 as it is."""
    torch_and_ctranslate2(t, bad)
    t.system_cublas()


@case("driver-too-old", "driver-too-old", "NVIDIA driver 550.90.07", severity="warning",
      repair=r"\AUpdate the NVIDIA driver to 580.65.06", evidence=r"13\.4\.4 has the CUDA runtime of its own release")
def driver_too_old_for_the_runtime_of_bindings(t, bad):
    """Their calls of the driver work all the same."""
    t.python().machine(with_gpu("550.90.07", 0x2503, "NVIDIA GeForce RTX 3060", is_open=False))
    for module in ("cuda/bindings", "cuda/pathfinder"):
        t.put("%s/%s/__init__.py" % (t.site, module), "")
    t.dist("cuda-bindings", "13.4.4" if bad else "12.9.10", ["cuda/bindings/__init__.py"])
    t.dist("cuda-pathfinder", "1.9.1", ["cuda/pathfinder/__init__.py"])


@case("driver-too-old", "driver-too-old", "NVIDIA driver 550.90.07",
      repair=r"\AInstall onnxruntime-gpu 1\.24, built for CUDA 12, which this driver supports\.\n"
             r".*install 'onnxruntime-gpu>=1\.24,<1\.27'[\s\S]*\nUpdate the NVIDIA driver to 580")
def driver_too_old_for_onnxruntime(t, bad):
    t.python().onnxruntime("1.31.1" if bad else "1.26.0", needed=["libcudart.so.13" if bad else "libcudart.so.12"])
    t.cudart("libcudart.so.13" if bad else "libcudart.so.12")
    for name in ("libcudnn.so.9", "libcufft.so.12" if bad else "libcufft.so.11"):
        t.lib(SYSTEM + "/" + name)
    t.machine(with_gpu("550.90.07", 0x2503, "NVIDIA GeForce RTX 3060", is_open=False))


def xgboost(t, machine, *arches):
    """The runtime is linked in: no library tells its release."""
    t.python().machine(machine)
    t.put(t.site + "/xgboost/__init__.py", "")
    t.put(t.site + "/xgboost/lib/libxgboost.so", cuda_library("libxgboost.so", arches))
    t.dist("xgboost", "3.2.0", ["xgboost/lib/libxgboost.so"])


@case("driver-too-old", "driver-too-old", "NVIDIA driver 470.256.02", repair=r"\AUpdate the NVIDIA driver to 525.60.13",
      evidence=r"PTX of ISA 8\.8, that of CUDA 12\.9")
def driver_too_old_for_a_runtime_within(t, bad):
    xgboost(t, with_gpu("470.256.02" if bad else "550.90.07", 0x2503, "NVIDIA GeForce RTX 3060", is_open=False),
            "sm_80", "compute_86:8.8")


@case("gpu-code-missing", "arch-unsupported", "libxgboost.so", severity="warning", repair="release of xgboost",
      evidence="every computation on the GPU")
def xgboost_without_code_for_the_gpu(t, bad):
    xgboost(t, GTX1080, "sm_80" if bad else "sm_60", "compute_120:8.8")


@case("driver-too-old", "driver-too-old", "NVIDIA driver 470.256.02", beside=("library-missing",),
      repair=r"\AUpdate the NVIDIA driver", evidence="libcublas.so.12 is asked for")
def driver_too_old_before_the_library_is_there(t, bad):
    """The cure of the library alone would end at the driver."""
    t.python()
    t.lib(SYSTEM + "/libcudnn.so.9")
    ctranslate2_build(t, lambda name: cuda_library(name, CT2))
    if not bad:
        t.system_cublas()
    t.machine(with_gpu("470.256.02" if bad else "550.90.07", 0x2503, "NVIDIA GeForce RTX 3060", is_open=False))
