"""Cases of the two kinds of Arm machines: servers (sbsa), and Tegra with NVIDIA's Jetson Linux (L4T)."""

import json
import sys
from pathlib import Path

from cases import case, jetson_app
from gpufile import cuda_library
from tree import MACHINES, elf, elfgen

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "trees"))
from build import merged, nvidia, system  # noqa: E402

ARM = {"machine": elfgen.AARCH64}
FOLDER = "/usr/lib/aarch64-linux-gnu"
TOOLKIT = "/usr/local/cuda-12.6"
CUDA = ("libcublas.so.12", "libcublasLt.so.12")


def app(t, needs, rpath):
    t.put("/usr/bin/app", elf(None, interp="/lib/ld-linux-aarch64.so.1", needed=needs, rpath=rpath, **ARM))
    return {"target": "/usr/bin/app", "args": ["--glibc", "2.35"]}


def server(t):
    """An Arm server with a GPU on PCI; the files of a machine of tests/trees."""
    t.put("/lib/ld-linux-aarch64.so.1", elf("ld-linux-aarch64.so.1", verdef=["GLIBC_PRIVATE"], **ARM))
    machine = {path.replace("x86_64-linux-gnu", "aarch64-linux-gnu"): text
               for path, text in MACHINES["a100-mig"][1].items()}
    t.machine({**machine, "/proc/cpuinfo": "processor\t: 0\nFeatures\t: fp asimd atomics\nCPU architecture: 8\n"})
    for path in t.real(FOLDER).glob("lib*.so*"):
        if not path.is_symlink():
            t.lib(f"{FOLDER}/{path.name}", soname="libcuda.so.1" if "libcuda." in path.name else path.name, **ARM)


def toolkit(t, kind):
    for name in CUDA:
        t.lib(f"{TOOLKIT}/targets/{kind}/lib/{name}", **ARM)
    t.link(TOOLKIT + "/lib64", f"targets/{kind}/lib")


def l4t(t, folder=FOLDER + "/tegra"):
    """The libcuda of Jetson Linux."""
    t.lib(folder + "/libcuda.so.1.1", soname="libcuda.so.1", needed=["libnvrm_gpu.so"], runpath=folder, **ARM)
    t.lib(folder + "/libnvrm_gpu.so", **ARM)


@case("cuda-for-other-arm", "jetson", "libcublas.so.12", severity="warning", repair="nvidia-jetpack",
      evidence="targets/sbsa-linux/lib.*libcublasLt")
def sbsa_toolkit_on_a_jetson(t, bad):
    jetson_app(t, "none")
    toolkit(t, "sbsa-linux" if bad else "aarch64-linux")
    return app(t, CUDA, TOOLKIT + "/lib64")


def copy_beside(t, bad, kind):
    """CUDA is installed where the program, which has a RUNPATH, does not look."""
    arm = jetson_app(t, CUDA[0])
    toolkit(t, kind)
    t.lib("/usr/bin/app", soname=None, interp="/lib/ld-linux-aarch64.so.1", needed=[CUDA[0]], runpath="/usr/lib", **arm)
    if not bad:
        t.lib("/usr/lib/" + CUDA[0], **arm)
    return {"target": "/usr/bin/app", "args": ["--glibc", "2.35"]}


@case("library-missing", "lib-missing", "libcublas.so.12", repair=r"(?s)\A(?!.*sbsa-linux).*install nvidia-jetpack")
def sbsa_copy_on_a_jetson(t, bad):
    return copy_beside(t, bad, "sbsa-linux")


@case("library-not-on-path", "lib-not-on-path", "libcublas.so.12", repair="targets/aarch64-linux|/lib64")
def tegra_copy_on_a_jetson(t, bad):
    return copy_beside(t, bad, "aarch64-linux")


@case("cuda-for-other-arm", "jetson", "libcublas.so.12", severity="warning", repair="arm64-sbsa",
      evidence="targets/aarch64-linux/lib")
def tegra_toolkit_on_a_server(t, bad):
    server(t)
    toolkit(t, "aarch64-linux" if bad else "sbsa-linux")
    return app(t, CUDA, f"{TOOLKIT}/lib64:{FOLDER}")


@case("cuda-for-other-arm", "jetson", "libcuda.so.550.54.14", repair="nvidia-l4t-cuda", evidence="on PCI")
def driver_for_pci_on_a_jetson(t, bad):
    jetson_app(t, "none")
    t.remove(FOLDER + "/nvidia/libcuda.so.1")
    l4t(t, FOLDER + "/nvidia")
    t.link(FOLDER + "/nvidia/libcuda.so.1", "libcuda.so.1.1")
    if bad:
        t.lib(FOLDER + "/libcuda.so.550.54.14", soname="libcuda.so.1", **ARM)
        t.link(FOLDER + "/libcuda.so.1", "libcuda.so.550.54.14")
    return app(t, ["libcuda.so.1"], f"{FOLDER}:{FOLDER}/nvidia")


def jetson_without_its_libcuda(t, bad, **more):
    jetson_app(t, "none", **more)
    t.remove(FOLDER + "/nvidia/libcuda.so.1")
    if bad:
        t.lib(FOLDER + "/libcuda.so.550.54.14", soname="libcuda.so.1", **ARM)
        t.link(FOLDER + "/libcuda.so.1", "libcuda.so.550.54.14")
    else:
        l4t(t)
        t.link(FOLDER + "/tegra/libcuda.so.1", "libcuda.so.1.1")


@case("driver-libraries-missing", "lib-missing", "libcuda.so.1", repair="nvidia-l4t-cuda",
      severity="error")
def driver_for_pci_alone_on_a_jetson(t, bad):
    """It is found, and serves nothing."""
    jetson_without_its_libcuda(t, bad)
    return app(t, ["libcuda.so.1"], f"{FOLDER}/tegra:{FOLDER}")


@case("driver-libraries-missing", "lib-missing", "libcuda.so.1", repair="nvidia-l4t-cuda",
      severity="error")
def driver_for_pci_unfound_on_a_jetson(t, bad):
    """The loader finds no libcuda at all."""
    jetson_without_its_libcuda(t, bad)
    return app(t, ["libcuda.so.1"], FOLDER + "/tegra")


def display_module(t, release):
    """The module nvidia, which drives the display beside nvgpu; the bus shows no GPU."""
    t.put("/sys/module/nvidia/version", release + "\n")
    t.put("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  %s  Release Build\n"
          % release)
    t.real("/sys/bus/pci/devices").mkdir(parents=True)


def beside_a_display(release, l4t_release):
    """The two cases above as on a board: with the module for the display."""
    def found(t, bad):
        jetson_without_its_libcuda(t, bad, release=l4t_release)
        display_module(t, release)
        return app(t, ["libcuda.so.1"], f"{FOLDER}/tegra:{FOLDER}")

    def unfound(t, bad):
        jetson_without_its_libcuda(t, bad, release=l4t_release)
        display_module(t, release)
        return app(t, ["libcuda.so.1"], FOLDER + "/tegra")

    for build in (found, unfound):
        case("driver-libraries-missing", "lib-missing", "libcuda.so.1", repair="nvidia-l4t-cuda", severity="error",
             name=f"driver-for-pci-{build.__name__}-beside-{release}")(build)


beside_a_display("35.3.1", "R35 (release), REVISION: 3.1")
beside_a_display("540.4.0", "R36 (release), REVISION: 4.3")
beside_a_display("595.78", "R39 (release), REVISION: 2.0")


def with_ptx(module, l4t_release, too_new, known):
    """What the driver of L4T compiles is what its release says, not the module for the display."""
    def build(t, bad):
        jetson_app(t, "none", release=l4t_release)
        display_module(t, module)
        data = bytearray(cuda_library("libown.so", (f"compute_72:{too_new if bad else known}",)))
        data[18:20] = elfgen.AARCH64.to_bytes(2, "little")
        t.put("/usr/lib/libown.so", bytes(data))
        made = app(t, ["libown.so", "libcuda.so.1"], f"/usr/lib:{FOLDER}/nvidia")
        return {**made, "args": [*made["args"], "--page-size", "4096"]}
    case("gpu-code-missing", "arch-unsupported", "libown.so", name=f"ptx-for-l4t-beside-{module}",
         repair=r"(?s)\A(?!.*Update the driver)", evidence="the driver of L4T R3")(build)


with_ptx("35.4.1", "R35 (release), REVISION: 4.1", "8.0", "7.4")
with_ptx("540.4.0", "R36 (release), REVISION: 4.3", "9.0", "8.5")


@case("cuda-for-other-arm", "jetson", "libcuda.so.595.71.05", repair="nvidia-l4t-cuda", evidence="on PCI was found")
def driver_for_pci_on_jetpack_7(t, bad):
    """Orin's GPU has nvgpu there as well."""
    jetson_without_its_libcuda(t, False, release="R39 (release), REVISION: 2.0")
    display_module(t, "595.78")
    if bad:
        t.lib(FOLDER + "/libcuda.so.595.71.05", soname="libcuda.so.1", **ARM)
        t.link(FOLDER + "/libcuda.so.1", "libcuda.so.595.71.05")
    return app(t, ["libcuda.so.1"], f"{FOLDER}:{FOLDER}/tegra")


@case("driver-library-not-on-path", "lib-not-on-path", "libcuda.so.1", repair=f"{FOLDER}/tegra")
def libcuda_of_l4t_unfound(t, bad):
    """With the driver for PCI devices where people would look."""
    jetson_without_its_libcuda(t, True)
    l4t(t)
    t.link(FOLDER + "/tegra/libcuda.so.1", "libcuda.so.1.1")
    return app(t, ["libcuda.so.1"], "/usr/lib" if bad else FOLDER + "/tegra")


@case("cuda-for-other-arm", "jetson", "libcuda.so.1.1", repair="libcuda.so.1 of this machine's driver",
      evidence="libnvrm_gpu.so")
def libcuda_of_l4t_on_a_server(t, bad):
    server(t)
    l4t(t)
    t.link(FOLDER + "/tegra/libcuda.so.1", "libcuda.so.1.1")
    return app(t, ["libcuda.so.1"], f"{FOLDER}/tegra:{FOLDER}" if bad else FOLDER)


def of_thor(t, gpu, driver="580.00"):
    """An Arm machine with this GPU on PCI."""
    t.put("/lib/ld-linux-aarch64.so.1", elf("ld-linux-aarch64.so.1", verdef=["GLIBC_PRIVATE"], **ARM))
    machine = merged(system(), nvidia(driver, ("0000:01:00.0", *gpu)))
    t.machine({path.replace("x86_64-linux-gnu", "aarch64-linux-gnu"): text for path, text in machine.items()})
    t.put("/proc/cpuinfo", "processor\t: 0\nFeatures\t: fp asimd atomics\nCPU architecture: 8\n")
    for path in t.real(FOLDER).glob("libcuda.so.*.*"):
        t.lib(f"{FOLDER}/{path.name}", soname="libcuda.so.1", **ARM)


THOR, H100 = (0x2b00, "NVIDIA Thor"), (0x2330, "NVIDIA H100 80GB HBM3")


def l4t_release(t, release):
    t.put("/etc/nv_tegra_release", f"# {release}, GCID: 1, BOARD: generic, EABI: aarch64\n")
    t.put("/proc/device-tree/compatible", "nvidia,p3834\0nvidia,tegra264\0")


@case("driver-too-old", "driver-too-old", "NVIDIA driver 580.00", repair="580.65.06 or newer")
def releases_of_jetson_linux_are_not_those_for_pci(t, bad):
    """Thor's 580.00 serves CUDA 13.0."""
    of_thor(t, H100 if bad else THOR)
    if not bad:
        l4t_release(t, "R38 (release), REVISION: 2.0")
    t.lib("/usr/lib/libcudart.so.13", **ARM)
    return app(t, ["libcudart.so.13", "libcuda.so.1"], f"/usr/lib:{FOLDER}")


@case("library-missing", "lib-missing", "libcudss.so.0", repair=r"(?s)\A(?!.*cudss-cu12).*nvidia-cudss-cu13")
def cudss_for_the_cuda_of_torch(t, bad):
    """Its wheels for CUDA 12 and 13 have one name for the library."""
    of_thor(t, THOR)
    l4t_release(t, "R38 (release), REVISION: 2.0")
    t.python(interp="/lib/ld-linux-aarch64.so.1", **ARM)
    ext = "torch/_C.cpython-311-aarch64-linux-gnu.so"
    t.put(t.site + "/torch/version.py", "cuda: Optional[str] = '13.0'\nhip: Optional[str] = None\n")
    t.put(t.site + "/torch/__init__.py", "")
    t.lib(t.site + "/torch/lib/libtorch_global_deps.so", **ARM)
    t.lib(f"{t.site}/{ext}", soname=None, needed=["libcudss.so.0"], rpath="/usr/lib", **ARM)
    t.dist("torch", "2.9.1", ["torch/lib/libtorch_global_deps.so", ext])
    if not bad:
        t.lib("/usr/lib/libcudss.so.0", **ARM)
    return {"args": ["--glibc", "2.39", "--page-size", "4096"]}


@case("driver-libraries-missing", "lib-missing", "libcuda.so.1", repair="libraries of version 550.90.07",
      severity="error")
def libcuda_of_l4t_alone_on_a_server(t, bad):
    """Its 1.1 is no release of a driver: it is not compared with the module's."""
    server(t)
    if bad:
        for path in t.real(FOLDER).glob("libcuda.so*"):
            path.unlink()
        l4t(t)
        t.link(FOLDER + "/libcuda.so.1", "tegra/libcuda.so.1.1")
    return app(t, ["libcuda.so.1"], FOLDER)


@case("library-missing", "lib-missing", "libnvrm_gpu.so", repair="nvidia-l4t")
def jetson_linux_in_part(t, bad):
    jetson_app(t, "none")
    t.remove(FOLDER + "/nvidia/libcuda.so.1")
    l4t(t, FOLDER + "/nvidia")
    t.link(FOLDER + "/nvidia/libcuda.so.1", "libcuda.so.1.1")
    if bad:
        t.remove(FOLDER + "/nvidia/libnvrm_gpu.so")
    return app(t, ["libcuda.so.1"], FOLDER + "/nvidia")


@case("cuda-for-other-arm", "jetson", "libcublas.so.12", severity="warning", repair="arm-variant=\\*=tegra",
      evidence="arm-variant of the conda environment is for Arm servers")
def conda_for_servers_on_a_jetson(t, bad):
    conda_environment(t, "sbsa" if bad else "tegra")
    return {"args": ["--glibc", "2.35"]}


def conda_environment(t, variant):
    jetson_app(t, "none")
    conda_files(t, variant)


def conda_files(t, variant, needed=(CUDA[0],)):
    site = t.prefix + "/lib/python3.11/site-packages"
    t.put(t.prefix + "/bin/python3.11", elf(None, interp="/lib/ld-linux-aarch64.so.1", **ARM))
    t.link(t.prefix + "/bin/python", "python3.11")
    t.put(t.prefix + "/lib/python3.11/os.py", "")
    t.put(t.prefix + "/conda-meta/history", "")
    packages = {"python-3.11.9-h1_0_cpython": ["bin/python3.11"], f"arm-variant-1.2.0-{variant}": [],
                "libcublas-12.9.1.4-h1_0": ["lib/libcublas.so.12"]}
    for name, files in packages.items():
        plain, version, build = name.rsplit("-", 2)
        t.put(f"{t.prefix}/conda-meta/{name}.json",
              json.dumps({"name": plain, "version": version, "build": build, "files": files}))
    t.lib(t.prefix + "/lib/libcublas.so.12", **ARM)
    t.lib(site + "/ctranslate2/_ext.cpython-311-aarch64-linux-gnu.so", soname=None, needed=list(needed),
          runpath="$ORIGIN/../../..", **ARM)
    t.put(site + "/ctranslate2/__init__.py", "")
    t.put(site + "/ctranslate2-4.8.5.dist-info/METADATA", "Metadata-Version: 2.1\nName: ctranslate2\nVersion: 4.8.5\n")
    t.put(site + "/ctranslate2-4.8.5.dist-info/RECORD", "ctranslate2/_ext.cpython-311-aarch64-linux-gnu.so,,\n")


@case("cuda-for-other-arm", "jetson", "libcublas.so.12", severity="warning", repair="JetPack",
      evidence="is of the wheel nvidia-cublas-cu12")
def wheel_of_cublas_on_a_jetson(t, bad):
    """The twin is JetPack 7, for which the packages for servers are made."""
    jetson_app(t, "none", **({} if bad else {"release": "R38 (release), REVISION: 2.0", "soc": "tegra264"}))
    t.python(interp="/lib/ld-linux-aarch64.so.1", **ARM)
    ext, cublas = "ctranslate2/_ext.cpython-311-aarch64-linux-gnu.so", "nvidia/cublas/lib/libcublas.so.12"
    t.lib(f"{t.site}/{ext}", soname=None, needed=[CUDA[0]], runpath="$ORIGIN/../nvidia/cublas/lib", **ARM)
    t.lib(f"{t.site}/{cublas}", **ARM)
    t.put(t.site + "/ctranslate2/__init__.py", "")
    t.dist("ctranslate2", "4.8.5", [ext])
    t.dist("nvidia-cublas-cu12", "12.4.5.8", [cublas])
    return {"args": ["--glibc", "2.35"]}


def torch_for_the_cpu(t, version):
    """What the package index had for aarch64 before torch 2.11."""
    t.python(interp="/lib/ld-linux-aarch64.so.1", **ARM)
    ext = "torch/_C.cpython-311-aarch64-linux-gnu.so"
    t.put(t.site + "/torch/version.py", "cuda: Optional[str] = None\nhip: Optional[str] = None\n")
    t.put(t.site + "/torch/__init__.py", "")
    t.lib(t.site + "/torch/lib/libtorch_global_deps.so", **ARM)
    t.lib(f"{t.site}/{ext}", soname=None, **ARM)
    t.dist("torch", version, ["torch/lib/libtorch_global_deps.so", ext])


def torch_on_a_server(driver, repair):
    """The wheels of 2.10 and before, of which those for x86-64 are for CUDA, have none here."""
    @case("build-without-gpu", "cpu-only-build", "torch", severity="warning", repair=repair,
          name=f"torch-for-the-cpu-on-an-arm-server-with-{driver}")
    def build(t, bad):
        of_thor(t, H100, driver)
        if not bad:
            t.real("/sys/bus/pci/devices/0000:01:00.0/vendor").write_text("0x8086\n")
        torch_for_the_cpu(t, "2.6.0")
        return {"args": ["--glibc", "2.35", "--page-size", "4096"]}
    return build


torch_on_a_server("570.124.06", r"(?s)\A(?!.*2\.10).*--torch-backend=cu12\d torch=='2\.9\.\*'")
torch_on_a_server("580.95.05", r"torch>=?2\.1[1-9]|torch==2\.1[1-9]")


@case("build-without-gpu", "cpu-only-build", "torch", severity="warning", repair="for JetPack")
def torch_for_the_cpu_on_a_jetson(t, bad):
    """The twin is an Arm machine without a GPU."""
    if bad:
        jetson_app(t, "none")
    else:
        t.put("/lib/ld-linux-aarch64.so.1", elf("ld-linux-aarch64.so.1", verdef=["GLIBC_PRIVATE"], **ARM))
        t.real("/sys/bus/pci/devices").mkdir(parents=True)
    torch_for_the_cpu(t, "2.8.0")
    return {"args": ["--glibc", "2.35", "--page-size", "4096"]}


@case("library-missing", "lib-missing", "libcublas.so.12", repair=r"(?s)\A(?!.*conda install).*'nvidia-cudss-cu1[23]")
def libraries_of_which_conda_is_known_to_have_one(t, bad):
    """What installs one of the two is no repair where something installs both."""
    t.put("/lib/ld-linux-aarch64.so.1", elf("ld-linux-aarch64.so.1", verdef=["GLIBC_PRIVATE"], **ARM))
    conda_files(t, "sbsa", (CUDA[0], "libcudss.so.0"))
    if bad:
        t.real(t.prefix + "/lib/libcublas.so.12").unlink()
        t.real(t.prefix + "/conda-meta/libcublas-12.9.1.4-h1_0.json").unlink()
    else:
        t.lib(t.prefix + "/lib/libcudss.so.0", **ARM)
    return {"args": ["--glibc", "2.35", "--page-size", "4096"]}
