#!/usr/bin/python3
"""`gpumend check --root TREE` of a Windows tree, from Linux.

    tests/windows/check.py GPUMEND

The trees are made here, of DLLs of a few hundred bytes; neither Wine nor a compiler is needed.
"""

import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "causes"))
import gpufile  # noqa: E402
import host  # noqa: E402
import wine  # noqa: E402

SITE = "Python312/Lib/site-packages/"
NEW, OLD = (9, 10, 2, 21), (9, 1, 0, 70)


def put(tree, path, imports=(), version=None, machine=0x8664, arm64x=False):
    file = tree / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(wine.dll(imports, machine, version=version, arm64x=arm64x))


def windows(tree):
    put(tree, "Windows/System32/kernel32.dll")
    for name in ("msvcp140.dll", "vcruntime140.dll", "vcruntime140_1.dll"):
        put(tree, f"Windows/System32/{name}")


def python(tree, folder="Python312"):
    put(tree, f"{folder}/python.exe", ["python312.dll"])
    put(tree, f"{folder}/python312.dll", ["vcruntime140.dll"])
    put(tree, f"{folder}/vcruntime140.dll")


def torch(tree, folder="Python312", version=OLD, imports=()):
    site = f"{folder}/Lib/site-packages/torch/"
    (tree / site).mkdir(parents=True)
    (tree / site / "__init__.py").write_text("")
    put(tree, site + "lib/cudnn64_9.dll", version=version)
    put(tree, site + "lib/cudnn_graph64_9.dll", version=version)
    put(tree, site + "lib/torch_cuda.dll", ["cudnn64_9.dll", "msvcp140.dll", *imports])
    put(tree, site + "_C.cp312-win_amd64.pyd", ["python312.dll", "torch_cuda.dll"])


def ctranslate2(tree, folder="Python312", version=NEW):
    site = f"{folder}/Lib/site-packages/ctranslate2/"
    (tree / site).mkdir(parents=True)
    (tree / site / "__init__.py").write_text("")
    put(tree, site + "cudnn64_9.dll", version=version)
    put(tree, site + "libiomp5md.dll")
    put(tree, site + "ctranslate2.dll", ["libiomp5md.dll"])
    put(tree, site + "_ext.cp312-win_amd64.pyd", ["python312.dll", "ctranslate2.dll"])


def healthy(tree):
    windows(tree), python(tree), torch(tree), ctranslate2(tree, version=OLD)


def mixed(tree):
    windows(tree), python(tree), torch(tree), ctranslate2(tree)


GRAPH = SITE + "torch/lib/cudnn_graph64_9.dll"


def mixed_silent_part(tree):
    """cudnn_graph64_9.dll of 9.28 has no version; the DLL beside it has."""
    mixed(tree)
    put(tree, GRAPH)


def same_silent_part(tree):
    """The same in two copies of one release."""
    windows(tree), python(tree), torch(tree, version=NEW), ctranslate2(tree)
    put(tree, GRAPH)


def silent_parts(tree):
    """Nothing there says of which release it is."""
    same_silent_part(tree)
    put(tree, SITE + "torch/lib/cudnn64_9.dll")


def alone(tree):
    windows(tree), python(tree), ctranslate2(tree)


def no_runtime(tree):
    machine(tree), torch(tree), ctranslate2(tree)
    (tree / "Windows/System32/msvcp140.dll").unlink()


def hidden(tree):
    machine(tree), torch(tree, imports=["libomp140.x86_64.dll"])


def hidden_without_registry(tree):
    """torch looks again in PATH, which may have it: WSL cannot read the registry."""
    windows(tree), python(tree), torch(tree, imports=["libomp140.x86_64.dll"])


def two_without_registry(tree):
    """Each of the two that are in none of the places before PATH may be the one that is missing."""
    windows(tree), python(tree), torch(tree, imports=["other.dll", "libomp140.x86_64.dll"])


def no_system(tree):
    python(tree), torch(tree)


def venv(tree):
    windows(tree), python(tree), torch(tree, "app/.venv"), ctranslate2(tree, "app/.venv")
    put(tree, "app/.venv/Scripts/python.exe")
    (tree / "app/.venv/pyvenv.cfg").write_text("home = C:\\Python312\nversion = 3.12.1\n")


def homeless(tree):
    venv(tree)
    for name in ("python.exe", "python312.dll", "vcruntime140.dll"):
        (tree / "Python312" / name).unlink()


def wrong_machine(tree):
    alone(tree)
    put(tree, "Python312/Lib/site-packages/ctranslate2/libiomp5md.dll", machine=0x14C)


def wrong_runtime(tree):
    """A file of a download page for the other kind of program, put where the right one should be."""
    machine(tree), torch(tree), ctranslate2(tree, version=OLD)
    put(tree, "Windows/System32/msvcp140.dll", machine=0x14C)


def wrong_in_windows(tree):
    windows(tree), python(tree), ctranslate2(tree)
    put(tree, "Windows/System32/libiomp5md.dll", machine=0x14C)
    (tree / "Python312/Lib/site-packages/ctranslate2/libiomp5md.dll").unlink()


def windows_for_arm(tree, arm64x):
    """System32 of Windows for ARM, and a Python for x64."""
    windows(tree), python(tree), ctranslate2(tree)
    for path in (tree / "Windows/System32").iterdir():
        put(tree, f"Windows/System32/{path.name}", machine=0xAA64, arm64x=arm64x)
    put(tree, "Python312/Lib/site-packages/ctranslate2/libiomp5md.dll", ["kernel32.dll", "msvcp140.dll"])


def python_for_x64_on_arm(tree):
    windows_for_arm(tree, True)


def python_for_x64_on_arm_of_windows_10(tree):
    windows_for_arm(tree, False)


def python_for_arm(tree):
    windows_for_arm(tree, True)
    for path in (tree / "Python312").rglob("*.[dep][lxy][led]"):
        imports = ["msvcp140.dll", "gone.dll"] if path.name == "libiomp5md.dll" else ()
        put(tree, path.relative_to(tree), imports, machine=0xAA64)
    put(tree, SITE + "ctranslate2/_ext.cp312-win_arm64.pyd", ["libiomp5md.dll"], machine=0xAA64)
    (tree / "Windows/System32/msvcp140.dll").unlink()


def machine(tree, card=host.RTX4090, version="32.0.15.6614", provider=host.NVIDIA, path="", user=None,
            **variables):
    """The registry and System32 of a machine with one GPU."""
    parts = host.Tree({card: host.adapter(0, 1)}, [host.driver(provider, version)])
    settings = parts.control["Control"]["Session Manager"]["Environment"]
    settings["Path"] = host.hives.Expand("%SystemRoot%\\system32" + path)
    settings.update(variables)
    parts.user["Environment"].update(user or {})
    parts.folders = []
    third, fourth = version.split(".")[2:]
    parts.files = ({"Windows/System32/nvcuda.dll": (32, 0, int(third), int(fourth))}
                   if provider == host.NVIDIA else {})
    parts.write(tree)
    windows(tree), python(tree)


def torch_of(tree, version, cuda=None, hip=None, imports=()):
    torch(tree, imports=imports)
    (tree / SITE / "torch/version.py").write_text(
        f"__all__ = ['__version__']\n__version__ = '{version}'\ndebug = False\n"
        f"cuda: Optional[str] = {cuda!r}\nhip: Optional[str] = {hip!r}\n")


def opens(tree, name="cublas64_12.dll"):
    """A ctranslate2 that opens cuBLAS at the first use of a GPU."""
    ctranslate2(tree)
    with open(tree / SITE / "ctranslate2/ctranslate2.dll", "ab") as file:
        file.write(b"\0" + name.encode() + b"\0")


def sound(tree):
    machine(tree), torch_of(tree, "2.6.0+cu126", cuda="12.6")
    (tree / SITE / "llvmlite/binding").mkdir(parents=True)
    (tree / SITE / "llvmlite/__init__.py").write_text("")
    put(tree, SITE + "llvmlite/binding/llvmlite.dll", ["msvcp140-8f14.dll"])
    put(tree, SITE + "llvmlite.libs/msvcp140-8f14.dll")
    (tree / SITE / "bitsandbytes").mkdir()
    (tree / SITE / "bitsandbytes/__init__.py").write_text("")
    put(tree, SITE + "bitsandbytes/libbitsandbytes_cuda118.dll", ["cudart64_110.dll"])
    put(tree, SITE + "bitsandbytes/libbitsandbytes_cuda124.dll", ["torch_cuda.dll"])
    put(tree, SITE + "bitsandbytes/libbitsandbytes_cuda128.dll", ["cudart64_999.dll"])


def bitsandbytes_without_cudart(tree):
    """Its import catches the error of its library."""
    sound(tree)
    put(tree, SITE + "bitsandbytes/libbitsandbytes_cuda124.dll", ["cudart64_999.dll"])


def known(tree, listed=True):
    """A file under the name of a known DLL that a search would end at."""
    sound(tree)
    if listed:
        parts = host.one()
        parts.control["Control"]["Session Manager"]["KnownDLLs"]["any"] = "msvcp140-8f14.dll"
        parts.folders, parts.files = [], {}
        parts.write(tree)
    put(tree, "Windows/System32/msvcp140-8f14.dll")
    (tree / SITE / "llvmlite.libs/msvcp140-8f14.dll").write_text("not a DLL")


def not_known(tree):
    known(tree, listed=False)


def old_torch(tree):
    machine(tree), torch_of(tree, "2.4.0+cu124", cuda="12.4", imports=["libomp140.x86_64.dll"])


def torch_by_path(tree):
    machine(tree, path=";C:\\tools"), torch_of(tree, "2.6.0+cu126", cuda="12.6", imports=["tool.dll"])
    put(tree, "tools/tool.dll")


def cpu_torch(tree):
    machine(tree), torch_of(tree, "2.6.0+cpu")


def cpu_torch_blackwell(tree):
    machine(tree, card="VEN_10DE&DEV_2B85&SUBSYS_53001462&REV_A1"), torch_of(tree, "2.6.0+cpu")


def amd_torch(tree):
    machine(tree, card=host.RX5700, provider=host.AMD, version="31.0.24027.1012")
    torch_of(tree, "2.6.0+cu126", cuda="12.6")


def old_driver(tree):
    machine(tree, version="31.0.15.1659"), torch_of(tree, "2.6.0+cu126", cuda="12.6")


def old_driver_11(tree):
    machine(tree, version="27.21.14.5148"), torch_of(tree, "2.0.1+cu118", cuda="11.8")


def old_driver_13(tree):
    machine(tree, version="31.0.15.1659"), torch_of(tree, "2.9.0+cu130", cuda="13.0")


def no_cublas(tree):
    machine(tree), opens(tree)


def recorded(tree, wheel, *names):
    """The wheel's list of files."""
    text(tree, f"{SITE}{wheel}.dist-info/RECORD",
         "".join(f"nvidia/cublas/bin/{name},sha256=x,1\n" for name in names))


def cublas_gone_from_wheel(tree):
    """pip does nothing where the wheel is installed, whatever has become of its files."""
    no_cublas(tree)
    recorded(tree, "nvidia_cublas_cu12-12.9.2.10", "cublas64_12.dll", "cublasLt64_12.dll")


def recorded_by_a_line(tree):
    """A folder whose name does something where it is pasted."""
    no_cublas(tree)
    recorded(tree, "nvidia; calc & calc $(calc)-1.0", "cublas64_12.dll")


def cublas_in_part(tree):
    cublas_gone_from_wheel(tree)
    put(tree, SITE + "nvidia/cublas/bin/cublas64_12.dll", ["cublasLt64_12.dll"])


def cublas_of_toolkit_in_part(tree):
    """The wheel brings both."""
    no_cublas(tree)
    put(tree, "Program Files/NVIDIA GPU Computing Toolkit/CUDA/v12.4/bin/cublas64_12.dll", ["cublasLt64_12.dll"])


def cublas_that_does_not_fit(tree):
    """It needs a function that this Windows does not have: no wheel helps."""
    cublas_of_wheel(tree)
    put(tree, SITE + "nvidia/cublas/bin/cublas64_12.dll", ["lacks.dll"])
    (tree / "Windows/System32/lacks.dll").write_bytes(wine.dll(exports=["g"]))


def import_of_cublas_in_wheel(tree):
    """The wheel is whole: to install it again does not help an import that does not look there."""
    cublas_in_part(tree)
    (tree / SITE / "nvidia_cublas_cu12-12.9.2.10.dist-info/RECORD").write_text("nvidia/cublas/bin/cublas64_12.dll,,1\n")
    put(tree, SITE + "ctranslate2/ctranslate2.dll", ["cublas64_12.dll"])


def cublas_of_wheel(tree):
    machine(tree), opens(tree)
    put(tree, SITE + "nvidia/cublas/bin/cublas64_12.dll", ["cublasLt64_12.dll"])
    put(tree, SITE + "nvidia/cublas/bin/cublasLt64_12.dll")


def cublas_of_cuda13(tree):
    base = "Program Files/NVIDIA GPU Computing Toolkit/CUDA/v13.0/"
    machine(tree, CUDA_PATH="C:\\" + base[:-1].replace("/", "\\")), opens(tree, "cublas64_13.dll")
    put(tree, base + "bin/x64/cublas64_13.dll")


def cublas_by_path(tree):
    base = "Program Files/NVIDIA GPU Computing Toolkit/CUDA/v12.4/bin"
    machine(tree, path=";C:\\" + base.replace("/", "\\")), opens(tree)
    put(tree, base + "/cublas64_12.dll")


def cublas_by_setting(tree):
    base = "Program Files/NVIDIA GPU Computing Toolkit/CUDA/v12.4"
    machine(tree, CUDA_PATH="C:\\" + base.replace("/", "\\")), opens(tree)
    put(tree, base + "/bin/cublas64_12.dll")


TOOLKIT = "C:\\CUDA\\v12"


def cublas_of_user(tree, user, **variables):
    machine(tree, user=user, **variables), opens(tree)
    put(tree, "CUDA/v12/bin/cublas64_12.dll")


def cublas_by_user_setting(tree):
    cublas_of_user(tree, {"CUDA_PATH": TOOLKIT}, CUDA_PATH="C:\\old")


def cublas_by_user_path(tree):
    cublas_of_user(tree, {"Path": host.hives.Expand("%TOOLS%\\bin")}, TOOLS=TOOLKIT)


def cublas_by_unexpanded_path(tree):
    cublas_of_user(tree, {"Path": "%TOOLS%\\bin"}, TOOLS=TOOLKIT)


def cublas_of_one_of_two_users(tree):
    cublas_of_user(tree, {"CUDA_PATH": TOOLKIT})
    (tree / "Users/bob").mkdir()
    (tree / "Users/bob/NTUSER.DAT").write_bytes(host.hives.write({"Environment": {"TEMP": "C:\\tmp"}}))


def cublas_of_torch(tree):
    machine(tree), opens(tree), torch_of(tree, "2.6.0+cu126", cuda="12.6")
    put(tree, SITE + "torch/lib/cublas64_12.dll")
    for name in ("cudnn64_9.dll", "cudnn_graph64_9.dll"):
        put(tree, SITE + "torch/lib/" + name, version=NEW)


def rocm_of(tree, init, *folders, **variables):
    """A ctranslate2 for ROCm by its __init__.py, and which folders have ROCm's DLLs."""
    machine(tree, card=host.RX5700, provider=host.AMD, version="31.0.24027.1012", **variables)
    ctranslate2(tree)
    (tree / SITE / "ctranslate2/__init__.py").write_text(init)
    put(tree, SITE + "ctranslate2/ctranslate2.dll", ["amdhip64_7.dll", "libiomp5md.dll"])
    for folder in folders:
        put(tree, folder + "/bin/amdhip64_7.dll")


# What the __init__.py of 4.8.1 and of 4.8.5 say of ROCm's folders; that of 4.5.0 says nothing.
FIXED = '''
        os.add_dll_directory(f"{package_dir}/../_rocm_sdk_core/bin")
        os.add_dll_directory(f"{package_dir}/../_rocm_sdk_libraries_custom/bin")
'''
PATTERN = '''
    dll_dirs = [os.path.join(site_dir, "_rocm_sdk_core", "bin")]
    dll_dirs += sorted(glob.glob(os.path.join(site_dir, "_rocm_sdk_libraries*", "bin")))
    if not dll_dirs and os.environ.get("HIP_PATH"):
'''


def rocm_of_old(tree):
    rocm_of(tree, "", SITE + "_rocm_sdk_core")


def rocm_of_core(tree):
    rocm_of(tree, FIXED, SITE + "_rocm_sdk_core")


def rocm_without_core(tree):
    rocm_of(tree, FIXED, SITE + "_rocm_sdk_libraries_custom")


def rocm_of_family(tree):
    rocm_of(tree, PATTERN, SITE + "_rocm_sdk_libraries_gfx110x_all")


def rocm_of_setting(tree):
    rocm_of(tree, PATTERN, "rocm", HIP_PATH="C:\\rocm")


def rocm_of_setting_too_late(tree):
    rocm_of(tree, PATTERN, "rocm", HIP_PATH="C:\\rocm")
    put(tree, SITE + "_rocm_sdk_core/bin/other.dll")


def hip_of_driver(tree):
    machine(tree, card=host.RX5700, provider=host.AMD, version="31.0.24027.1012")
    put(tree, "Windows/System32/amdhip64_6.dll", version=(6, 1, 1, 0))
    put(tree, "Program Files/AMD/ROCm/6.2/bin/amdhip64_6.dll", version=(6, 2, 1, 0))


def fbgemm(tree, version="2.4.0+cu124"):
    """The DLL that people see, and the one behind it."""
    machine(tree), torch_of(tree, version, cuda="12.4")
    put(tree, SITE + "torch/lib/fbgemm.dll", ["libomp140.x86_64.dll"])


def fbgemm_with_openmp(tree):
    fbgemm(tree)
    put(tree, "Windows/System32/libomp140.x86_64.dll")


PARTS_9 = ("cudnn_graph64_9.dll", "cudnn_ops64_9.dll", "cudnn_cnn64_9.dll")
INSTALLER = "Program Files/NVIDIA/CUDNN/v9.7/bin/12.8"
RX6800 = "VEN_1002&DEV_73BF&SUBSYS_23191002&REV_C1"
RX7900 = "VEN_1002&DEV_744C&SUBSYS_0E3B1002&REV_C8"


def uses_cudnn(tree, folder=None, path="", main="cudnn64_9.dll", parts=PARTS_9):
    """A ctranslate2 that imports cuDNN's main DLL, which is in the package; its parts are in `folder`."""
    machine(tree, path=path), ctranslate2(tree)
    put(tree, SITE + "ctranslate2/ctranslate2.dll", ["libiomp5md.dll", main])
    put(tree, SITE + "ctranslate2/" + main)
    for part in parts if folder else ():
        put(tree, f"{folder}/{part}")


def cudnn_of_wheel(tree):
    uses_cudnn(tree, SITE + "nvidia/cudnn/bin")


def cudnn_of_installer(tree):
    uses_cudnn(tree, INSTALLER, path=";C:\\Program Files\\NVIDIA\\CUDNN\\v9.7\\bin")


def cudnn_by_path(tree):
    uses_cudnn(tree, INSTALLER, path=";C:\\" + INSTALLER.replace("/", "\\"))


def cudnn_8(tree):
    uses_cudnn(tree, "Windows/System32", main="cudnn64_8.dll",
               parts=("cudnn_ops_infer64_8.dll", "cudnn_cnn_infer64_8.dll"))


def cudnn_8_with_zlib(tree):
    cudnn_8(tree)
    put(tree, "Windows/System32/zlibwapi.dll")


def onnxruntime(tree, *folders):
    """An onnxruntime-gpu, and in which folders cuBLAS and cuDNN are."""
    machine(tree)
    capi = SITE + "onnxruntime/capi/"
    (tree / capi).mkdir(parents=True)
    (tree / SITE / "onnxruntime/__init__.py").write_text("")
    put(tree, capi + "onnxruntime_pybind11_state.pyd", ["python312.dll"])
    put(tree, capi + "onnxruntime_providers_cuda.dll", ["cublas64_12.dll", "cudnn64_9.dll"])
    for folder, name in zip(folders, ("cublas64_12.dll", "cudnn64_9.dll")):
        put(tree, f"{folder}/{name}")


def onnxruntime_for_cuda_13(tree):
    onnxruntime(tree)
    put(tree, SITE + "onnxruntime/capi/onnxruntime_providers_cuda.dll", ["cublas64_13.dll", "cudnn64_9.dll"])


def onnxruntime_with_cublas_13(tree):
    """cuBLAS is in the folder of NVIDIA's wheels for CUDA 13, which have no suffix in their names."""
    onnxruntime_for_cuda_13(tree)
    put(tree, SITE + "onnxruntime/capi/cublas64_13.dll")


def torch_with_old_runtime(tree):
    machine(tree), torch_of(tree, "2.15.0+cu126", cuda="12.6", imports=["VCRUNTIME140_THREADS.dll"])


def onnxruntime_of_wheels(tree):
    onnxruntime(tree, SITE + "nvidia/cublas/bin", SITE + "nvidia/cudnn/bin")


def onnxruntime_beside(tree):
    onnxruntime(tree, SITE + "onnxruntime/capi", SITE + "onnxruntime/capi")


def onnxruntime_with_torch(tree):
    onnxruntime(tree)
    torch_of(tree, "2.6.0+cu126", cuda="12.6")
    put(tree, SITE + "torch/lib/cublas64_12.dll")


def with_hip(data, *targets):
    """The DLL with a section of GPU code for these targets, as hipcc makes it."""
    code, at = gpufile.bundle(*targets), len(data) + -len(data) % 0x1000
    header = 64 + 24 + struct.unpack_from("<H", data, 64 + 20)[0] + 40
    section = struct.pack("<8sIIIIIIHHI", b".hip_fat", len(code), 0x100000, len(code), at, 0, 0, 0, 0, 0x40000040)
    out = bytearray(data.ljust(at, b"\0") + code)
    out[header:header + 40] = section
    struct.pack_into("<H", out, 64 + 6, 2)
    return bytes(out)


def amd_ctranslate2(tree, card, *targets):
    """A ctranslate2 for ROCm with code for these GPUs; without any for CUDA."""
    machine(tree, card=card, provider=host.AMD, version="31.0.24027.1012")
    if not targets:
        opens(tree)
        return
    ctranslate2(tree)
    dll = tree / SITE / "ctranslate2/ctranslate2.dll"
    dll.write_bytes(with_hip(dll.read_bytes(), *targets))


def cuda_on_rdna1(tree):
    amd_ctranslate2(tree, host.RX5700)


def cuda_on_rdna2(tree):
    amd_ctranslate2(tree, RX6800)


def official_on_rdna1(tree):
    amd_ctranslate2(tree, host.RX5700, "gfx1030", "gfx1100")


def official_on_rdna2(tree):
    amd_ctranslate2(tree, RX6800, "gfx1030", "gfx1100")


def community_on_rdna1(tree):
    amd_ctranslate2(tree, host.RX5700, "gfx1010")


# What rocm_sdk/_dist_info.py of TheRock has, and with it torch/_rocm_init.py.
DIST_INFO = '''
LibraryEntry("amdhip64", "core", "libamdhip64.so*", "amdhip64*.dll")
LibraryEntry("roctx64", "core", "libroctx64.so*", "")
LibraryEntry(
    "hipblas", "libraries", "libhipblas.so*", "*hipblas*.dll", deps=["amdhip64"]
)
'''
ROCM_INIT = """
def initialize():
    import rocm_sdk
    rocm_sdk.initialize_process(preload_shortnames=['roctx64', 'hipblas'], check_version='7.2')
"""


def torch_of_rocm_wheels(tree, init=ROCM_INIT, **variables):
    machine(tree, card=RX7900, provider=host.AMD, version="31.0.24027.1012", **variables)
    torch_of(tree, "2.9.1+rocm7.2", hip="7.2", imports=["amdhip64_7.dll", "hipblas.dll"])
    (tree / SITE / "rocm_sdk").mkdir()
    (tree / SITE / "rocm_sdk/_dist_info.py").write_text(DIST_INFO)
    if init:
        (tree / SITE / "torch/_rocm_init.py").write_text(init)
    put(tree, SITE + "_rocm_sdk_core/bin/amdhip64_7.dll")
    put(tree, SITE + "_rocm_sdk_libraries_gfx110X_all/bin/hipblas.dll", ["amdhip64_7.dll"])


def torch_without_a_rocm_library(tree):
    """rocm_sdk.find_libraries() raises where a pattern fits no file."""
    torch_of_rocm_wheels(tree)
    (tree / SITE / "_rocm_sdk_libraries_gfx110X_all/bin/hipblas.dll").unlink()
    (tree / SITE / "torch/lib/torch_cuda.dll").unlink(missing_ok=True)


def torch_without_rocm_libraries(tree):
    torch_of_rocm_wheels(tree)
    shutil.rmtree(tree / SITE / "_rocm_sdk_libraries_gfx110X_all")


def torch_of_other_rocm(tree):
    torch_of_rocm_wheels(tree, init=ROCM_INIT.replace("'roctx64'", "'hipsparselt'"))


def torch_that_loads_more(tree, names="hipblas ; more", imports=()):
    """ROCM_SDK_PRELOAD_LIBRARIES names libraries that come after torch's."""
    torch_of_rocm_wheels(tree, ROCM_SDK_PRELOAD_LIBRARIES=names)
    (tree / SITE / "rocm_sdk/_dist_info.py").write_text(
        DIST_INFO + 'LibraryEntry("more", "core", "", "more*.dll")\n')
    put(tree, SITE + "_rocm_sdk_core/bin/more7.dll", imports)


def torch_that_loads_a_broken_one(tree):
    torch_that_loads_more(tree, imports=["nowhere.dll"])


def torch_that_loads_an_unknown_one(tree):
    torch_that_loads_more(tree, names="rocshmem")


def torch_that_loads_none_more(tree):
    torch_that_loads_more(tree, names=" , ;", imports=["nowhere.dll"])


def bitsandbytes_forced(tree, value="118", **parts):
    """BNB_CUDA_VERSION names a library, whatever torch is built for."""
    machine(tree, BNB_CUDA_VERSION=value, **parts), torch_of(tree, "2.6.0", cuda="12.4")
    text(tree, SITE + "bitsandbytes/__init__.py")
    put(tree, SITE + "bitsandbytes/libbitsandbytes_cuda124.dll", ["nowhere.dll"])
    put(tree, SITE + "bitsandbytes/libbitsandbytes_cuda121.dll")


def bitsandbytes_forced_to_another(tree):
    bitsandbytes_forced(tree, "121")


def bitsandbytes_forced_without_gpu(tree):
    bitsandbytes_forced(tree, card=host.RX5700, provider=host.AMD, version="31.0.24027.1012")


def torch_of_two_families(tree):
    torch_of_rocm_wheels(tree)
    put(tree, SITE + "_rocm_sdk_libraries_gfx120X_all/bin/hipblas.dll", ["amdhip64_7.dll"])


def bitsandbytes_for_rocm(tree):
    """torch's ROCm is 7.2: of its libraries 7.1 is the newest that is not newer."""
    torch_of_rocm_wheels(tree)
    (tree / SITE / "bitsandbytes").mkdir()
    (tree / SITE / "bitsandbytes/__init__.py").write_text("")
    put(tree, SITE + "bitsandbytes/libbitsandbytes_rocm63.dll", ["x.dll"])
    put(tree, SITE + "bitsandbytes/libbitsandbytes_rocm71.dll", ["rocblas_not_there.dll"])
    put(tree, SITE + "bitsandbytes/libbitsandbytes_rocm713.dll", ["y.dll"])
    put(tree, SITE + "bitsandbytes/libbitsandbytes_cuda128.dll", ["z.dll"])


def torch_of_many_rocm_libraries(tree):
    """The entry that torch needs is behind all that are looked at."""
    torch_of_rocm_wheels(tree)
    many = "".join(f'LibraryEntry("x{i}", "core", "", "x{i}.dll")\n' for i in range(64))
    (tree / SITE / "rocm_sdk/_dist_info.py").write_text(many + DIST_INFO)


def torch_of_deep_rocm_libraries(tree):
    """The entry that torch needs is needed by one that is needed by one, and so on."""
    torch_of_rocm_wheels(tree)
    names = ["hipblas", *(f"x{i}" for i in range(8)), "amdhip64"]
    for name in names[1:-1]:
        put(tree, SITE + f"_rocm_sdk_libraries_gfx110X_all/bin/{name}.dll")
    deep = "".join(f'LibraryEntry("{one}", "libraries", "", "*{one}*.dll", deps=["{other}"])\n'
                   for one, other in zip(names, names[1:]))
    (tree / SITE / "rocm_sdk/_dist_info.py").write_text(
        deep + 'LibraryEntry("amdhip64", "core", "", "amdhip64*.dll")\nLibraryEntry("roctx64", "core", "", "")\n')


def torch_without_init(tree):
    torch_of_rocm_wheels(tree, init=None)


def torch_on(tree, card):
    machine(tree, card=card, provider=host.AMD, version="31.0.24027.1012")
    torch_of(tree, "2.6.0+cpu")


def torch_on_rdna2(tree):
    torch_on(tree, RX6800)


def torch_on_rdna3(tree):
    torch_on(tree, RX7900)


def hip_of_sdk(tree):
    hip_of_driver(tree)
    put(tree, "Windows/System32/amdhip64_6.dll", version=(6, 2, 1, 0))


def short_paths(tree):
    long_paths(tree, "1")
    parts = host.one()
    parts.control["Control"]["FileSystem"]["LongPathsEnabled"] = 1
    parts.folders, parts.files = [], {}
    parts.write(tree)


def store(tree):
    machine(tree)
    for path in sorted((tree / "Python312").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    put(tree, "Program Files/WindowsApps/PythonSoftwareFoundation.Python.3.12_x64/python.exe")


STORE = "PythonSoftwareFoundation.Python.3.12_qbz5n2kfra8p0"
LOCAL = "Users/ann/AppData/Local/"
STORE_SITE = LOCAL + f"Packages/{STORE}/LocalCache/local-packages/Python312/site-packages"


def moved(tree, place):
    """The site-packages of a Python that works, at another place."""
    (tree / place).parent.mkdir(parents=True, exist_ok=True)
    (tree / SITE).rename(tree / place)


def store_of_user(tree):
    """The program lists itself to nobody, and the alias is an empty file to other systems."""
    machine(tree), ctranslate2(tree)
    moved(tree, STORE_SITE)
    for path in sorted((tree / "Python312").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    alias = tree / LOCAL / "Microsoft/WindowsApps" / STORE
    alias.mkdir(parents=True)
    for folder in (alias, alias.parent):
        (folder / "python.exe").write_bytes(b"")


def store_with_program(tree, dependency=True, missing=True):
    """The program is in the tree, with its package graph; PATH does not count there."""
    store_of_user(tree)
    apps = "Program Files/WindowsApps/"
    folder = apps + "PythonSoftwareFoundation.Python.3.12_3.12.2800.0_x64__qbz5n2kfra8p0/"
    put(tree, apps + "PythonSoftwareFoundation.Python.3.12_3.12.100.0_x64__qbz5n2kfra8p0/python.exe")
    for name in ("python.exe", "python312.dll", "vcruntime140.dll", "msvcp140.dll"):
        put(tree, folder + name)
    (tree / folder / "AppxManifest.xml").write_text(
        '<Package><Dependencies><PackageDependency Name="Any.Runtime" MinVersion="1.0.0.0" Publisher="CN=x"/>'
        "</Dependencies></Package>")
    if dependency:
        put(tree, apps + "Any.Runtime_1.2.0.0_x64__8wekyb3d8bbwe/libgraph.dll")
    wanted = ["libgraph.dll"] + (["nowhere.dll"] if missing else [])
    put(tree, STORE_SITE + "/ctranslate2/ctranslate2.dll", wanted)
    if missing:
        put(tree, "tools/nowhere.dll")


def store_with_graph(tree):
    store_with_program(tree, missing=False)


def store_without_graph(tree):
    store_with_program(tree, dependency=False)


def store_through_ntfs_3g(tree):
    """There an alias is a link to a text that says what it is."""
    store_of_user(tree)
    for path in (tree / LOCAL / "Microsoft/WindowsApps").rglob("python.exe"):
        path.unlink()
        path.symlink_to("unsupported reparse tag 0x8000001b")


def store_through_wsl(tree):
    """There an alias is a file of two bytes."""
    store_of_user(tree)
    for path in (tree / LOCAL / "Microsoft/WindowsApps").rglob("python.exe"):
        path.write_bytes(b"MZ")


def alias_of_nothing(tree):
    """Every Windows has an alias that opens the Store, and no Python behind it."""
    windows(tree)
    for folder in ("", "Microsoft.DesktopAppInstaller_8wekyb3d8bbwe/"):
        path = tree / LOCAL / f"Microsoft/WindowsApps/{folder}python.exe"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"MZ")


def unreadable_program(tree):
    """What Windows has compressed is a dangling link through ntfs-3g."""
    machine(tree), ctranslate2(tree, version=OLD)
    (tree / "Python312/python.exe").unlink()
    (tree / "Python312/python.exe").symlink_to("unsupported reparse tag 0x80000017")


def empty_program(tree):
    machine(tree), ctranslate2(tree, version=OLD)
    (tree / "Python312/python.exe").write_bytes(b"")


def store_beside_another(tree):
    store_of_user(tree), python(tree), ctranslate2(tree)


def store_first(tree, path=r";C:\Python312", user=None, own="%USERPROFILE%\\AppData\\Local\\Microsoft\\WindowsApps"):
    """Both Pythons, and PATH: the system's, then the user's."""
    store_of_user(tree)
    shutil.rmtree(tree / STORE_SITE)
    machine(tree, path=path, user=user or {"Path": host.hives.Expand(own)})
    ctranslate2(tree, version=OLD)


def alias_before_python(tree, **more):
    store_first(tree, path="", own=r"%USERPROFILE%\AppData\Local\Microsoft\WindowsApps\;C:\Python312\;C:\Python312\Scripts\\", **more)


def alias_alone(tree):
    store_first(tree, path="")


def alias_of_manager(tree):
    alias_before_python(tree)
    (tree / LOCAL / "Microsoft/WindowsApps/PythonSoftwareFoundation.PythonManager_qbz5n2kfra8p0").mkdir()


def alias_before_same(tree):
    """Both have the package."""
    alias_before_python(tree)
    shutil.copytree(tree / SITE, tree / STORE_SITE)


def alias_without_python(tree):
    alias_before_python(tree)
    shutil.rmtree(tree / LOCAL / f"Packages/{STORE}")


def script_before_alias(tree):
    alias_before_python(tree)
    machine(tree, path=r";C:\shims", user={"Path": host.hives.Expand(
        r"%USERPROFILE%\AppData\Local\Microsoft\WindowsApps")})
    put(tree, "shims/python.bat")


def store_behind(tree):
    """The packages are the Store's, and python.org's comes first."""
    store_of_user(tree)
    machine(tree, path=r";C:\Python312", user={"Path": host.hives.Expand(
        r"%USERPROFILE%\AppData\Local\Microsoft\WindowsApps")})


def venv_of_store(tree):
    venv(tree)
    (tree / "app/.venv/pyvenv.cfg").write_text(
        f"home = C:\\Users\\ann\\AppData\\Local\\Microsoft\\WindowsApps\\{STORE}\nversion = 3.12.10\n")


def conda(tree, folder="Users/ann/miniconda3", library=True):
    windows(tree), python(tree, folder), ctranslate2(tree, folder)
    (tree / folder / "conda-meta").mkdir()
    (tree / folder / "Lib/site-packages/ctranslate2/libiomp5md.dll").unlink()
    put(tree, folder + ("/Library/bin/" if library else "/Library/lib/") + "libiomp5md.dll")


def conda_torch(tree, channel="conda-forge"):
    folder = "Users/ann/mini & conda"
    machine(tree), python(tree, folder), torch(tree, folder)
    (tree / folder / "Lib/site-packages/torch/version.py").write_text(
        "__version__ = '2.6.0'\ncuda: Optional[str] = None\nhip: Optional[str] = None\n")
    meta = tree / folder / "conda-meta"
    meta.mkdir()
    (meta / "pytorch-mutex-1.0-cpu.json").write_text("{}")
    (meta / "pytorch-2.6.0-cpu_mkl_py312_h1.json").write_text(json.dumps(
        {"build": "cpu_mkl_py312_h1", "channel": f"https://conda.anaconda.org/{channel}/win-64"}))


def conda_torch_of_another_channel(tree):
    conda_torch(tree, "pytorch")


def conda_torch_of_pip(tree):
    conda_torch(tree)
    (tree / "Users/ann/mini & conda/conda-meta/pytorch-2.6.0-cpu_mkl_py312_h1.json").unlink()


def conda_without_library(tree):
    conda(tree, library=False)


def conda_with_cublas(tree):
    conda(tree), machine(tree)
    shutil.rmtree(tree / "Python312")
    with open(tree / "Users/ann/miniconda3/Lib/site-packages/ctranslate2/ctranslate2.dll", "ab") as file:
        file.write(b"\0cublas64_12.dll\0")
    put(tree, "Users/ann/miniconda3/Library/bin/cublas64_12.dll")


def venv_of_conda_with_cublas(tree):
    """The environment that is activated is the virtual one."""
    venv_of_conda(tree), machine(tree)
    with open(tree / "app/.venv/Lib/site-packages/ctranslate2/ctranslate2.dll", "ab") as file:
        file.write(b"\0cublas64_12.dll\0")
    put(tree, "Users/ann/miniconda3/Library/bin/cublas64_12.dll")


def conda_elsewhere(tree):
    conda(tree, "data/my envs/whisper")
    (tree / "Users/ann/.conda").mkdir(parents=True)
    (tree / "Users/ann/.conda/environments.txt").write_text(
        "C:\\data\\my envs\\whisper\r\nC:\\gone\\env\r\n")


def venv_of_conda(tree):
    conda(tree)
    base = "Users/ann/miniconda3/Lib/site-packages"
    (tree / "app/.venv/Lib").mkdir(parents=True)
    (tree / base).rename(tree / "app/.venv/Lib/site-packages")
    put(tree, "app/.venv/Scripts/python.exe")
    (tree / "app/.venv/pyvenv.cfg").write_text("home = C:\\Users\\ann\\miniconda3\n")


def embedded(tree, whole=True):
    windows(tree), python(tree, "portable/python_embeded"), ctranslate2(tree, "portable/python_embeded")
    (tree / "portable/python_embeded/python312._pth").write_text("python312.zip\n.\nimport site\n")
    if not whole:
        (tree / "portable/python_embeded/Lib/site-packages/ctranslate2/libiomp5md.dll").unlink()


def embedded_broken(tree):
    embedded(tree, whole=False)


def embedded_without_site(tree):
    """As it is unpacked: what pip installs is not on sys.path."""
    embedded(tree, whole=False)
    (tree / "portable/python_embeded/python312._pth").write_text("python312.zip\n.\n\n#import site\n")


def embedded_with_folder(tree):
    """Its packages are in a folder that a line names, and others count for nothing."""
    embedded(tree, whole=False)
    ctranslate2(tree, "portable/app")
    (tree / "portable/python_embeded/python312._pth").write_text(
        "python312.zip\n..\\app\\Lib\\site-packages\n# import site\n")


BROKEN = "Users/ann/AppData/Roaming/Python/Python312/site-packages"


def of_user(tree, place=BROKEN, whole_site=True, **variables):
    """A ctranslate2 that lacks a DLL, at another place than the one that works."""
    machine(tree, user=variables), ctranslate2(tree)
    moved(tree, place)
    (tree / place / "ctranslate2/libiomp5md.dll").unlink()
    if whole_site:
        ctranslate2(tree)


def user_site_first(tree):
    of_user(tree)


def user_site_alone(tree):
    of_user(tree, whole_site=False)


def user_site_switched_off(tree):
    of_user(tree, PYTHONNOUSERSITE="1")


def user_site_elsewhere(tree):
    of_user(tree, "base/Python312/site-packages", PYTHONUSERBASE="C:\\base")


def user_site_of_another_release(tree):
    of_user(tree, BROKEN.replace("Python312", "Python311"))


def user_site_of_one_of_two(tree):
    of_user(tree)
    (tree / "Users/bob").mkdir()
    (tree / "Users/bob/NTUSER.DAT").write_bytes(host.hives.write({"Environment": {}}))


def user_site_and_venv(tree, system="false"):
    of_user(tree)
    moved(tree, "app/.venv/Lib/site-packages")
    put(tree, "app/.venv/Scripts/python.exe")
    (tree / "app/.venv/pyvenv.cfg").write_text(
        f"home = C:\\Python312\ninclude-system-site-packages = {system}\n")


def user_site_and_bare_venv(tree):
    user_site_and_venv(tree, "true")
    (tree / "app/.venv/Lib/site-packages/ctranslate2/__init__.py").unlink()


def by_pythonpath(tree):
    of_user(tree, "lib", PYTHONPATH="C:\\lib")


def by_pth_file(tree):
    of_user(tree, "lib", whole_site=False)
    text(tree, SITE + "more.pth", "import sys\n# a remark\nC:\\lib\n")


def behind_by_pth_file(tree):
    of_user(tree, "lib")
    text(tree, SITE + "more.pth", "C:\\lib\n")


def by_registry(tree, tag="3.12", name="PythonCore"):
    of_user(tree, "lib")
    config = tree / "Windows/System32/config/SOFTWARE"
    config.write_bytes(host.hives.write({"Python": {name: {tag: {"PythonPath": {"any": {"": "C:\\lib"}}}}}}))


def by_registry_of_another_release(tree):
    by_registry(tree, "3.11")


def installed_elsewhere(tree, user=None):
    """Of an installer that asked for the folder."""
    machine(tree, user=user), ctranslate2(tree)
    (tree / "tools").mkdir()
    (tree / "Python312").rename(tree / "tools/py")
    config = tree / "Windows/System32/config/SOFTWARE"
    install = {"InstallPath": {"": "C:\\tools\\py\\", "ExecutablePath": "C:\\tools\\py\\python.exe"}}
    config.write_bytes(host.hives.write({"Python": {"PythonCore": {"3.12": install, "3.9": {
        "InstallPath": {"": "C:\\gone"}}}, "PyLauncher": {"x": 1}}}))


def of_install_manager(tree):
    machine(tree), ctranslate2(tree)
    (tree / LOCAL / "Python").mkdir(parents=True)
    (tree / "Python312").rename(tree / LOCAL / "Python/pythoncore-3.12-64")


def placed(tree, place, broken=True):
    """A ctranslate2 that lacks a DLL, in a Python at this place."""
    machine(tree, user={"none": "1"}), ctranslate2(tree)
    if broken:
        (tree / SITE / "ctranslate2/libiomp5md.dll").unlink()
    (tree / place).parent.mkdir(parents=True, exist_ok=True)
    (tree / "Python312").rename(tree / place)


def junction(tree, place, target):
    """As WSL shows it, whose mount of drive C is /mnt/c."""
    (tree / place).parent.mkdir(parents=True, exist_ok=True)
    (tree / place).symlink_to("/mnt/c/" + target)


def of_scoop(tree):
    placed(tree, "Users/ann/scoop/apps/python/3.12.4")
    junction(tree, "Users/ann/scoop/apps/python/current", "Users/ann/scoop/apps/python/3.12.4")
    put(tree, "Users/ann/scoop/apps/python/3.12.1/python.exe", ["python312.dll"])


def of_scoop_without_junctions(tree):
    placed(tree, "ProgramData/scoop/apps/python312/3.12.4")


def of_pyenv(tree):
    placed(tree, "Users/ann/.pyenv/pyenv-win/versions/3.12.4")


def of_comfy(tree, place="Users/ann/Downloads/ComfyUI_windows_portable_nvidia/ComfyUI_windows_portable"):
    placed(tree, place + "/python_embeded")
    text(tree, place + "/python_embeded/python312._pth", "../ComfyUI\npython312.zip\n.\n\nimport site\n")


def of_comfy_in_drive(tree):
    of_comfy(tree, "AI/ComfyUI_windows_portable")


def conda_of_chocolatey(tree):
    placed(tree, "tools/miniconda3")
    (tree / "tools/miniconda3/conda-meta").mkdir()


UV = "Users/ann/AppData/Roaming/uv/python/cpython-"


def of_uv(tree, target=UV + "3.12.4-windows-x86_64-none"):
    """uv has a junction for each minor release, through which its environments name their Python."""
    placed(tree, UV + "3.12.4-windows-x86_64-none")
    junction(tree, UV + "3.12-windows-x86_64-none", target)


def of_uv_by_ntfs_3g(tree):
    """There a junction is a relative link."""
    placed(tree, UV + "3.12.4-windows-x86_64-none")
    (tree / UV).parent.joinpath("cpython-3.12-windows-x86_64-none").symlink_to("cpython-3.12.4-windows-x86_64-none")


def venv_of_uv(tree, target=UV + "3.12.4-windows-x86_64-none"):
    of_uv(tree, target)
    (tree / UV).parent.joinpath("cpython-3.12.4-windows-x86_64-none/Lib").rename(tree / "Lib")
    put(tree, "app/.venv/Scripts/python.exe")
    (tree / "Lib").rename(tree / "app/.venv/Lib")
    text(tree, "app/.venv/pyvenv.cfg", "home = C:\\" + UV.replace("/", "\\") + "3.12-windows-x86_64-none\n")


def venv_of_uv_by_the_root(tree):
    """The same where the drive is mounted elsewhere."""
    venv_of_uv(tree, "gone")
    link = tree / (UV + "3.12-windows-x86_64-none")
    link.unlink()
    link.symlink_to(tree / (UV + "3.12.4-windows-x86_64-none"))


def venv_of_uv_outside(tree):
    venv_of_uv(tree, "../../etc")


def venv_of_uv_in_circles(tree):
    venv_of_uv(tree, UV + "3.12-windows-x86_64-none")


def cublas_behind_a_link(tree):
    """A folder of PATH is on a drive that is not below the root."""
    no_cublas(tree)
    machine(tree, path=";C:\\tk\\bin")
    (tree / "tk").symlink_to("/mnt/d/tk")


def cupy_of(tree, config, folder):
    """cupy whose module needs a DLL of the toolkit, which is in this folder of CUDA_PATH."""
    machine(tree, CUDA_PATH="C:\\conda\\Library\\cuda")
    base = SITE + "cupy/"
    (tree / base / ".data").mkdir(parents=True)
    (tree / base / "__init__.py").write_text("")
    (tree / base / ".data/_wheel.json").write_text(config)
    put(tree, base + "_core/core.cp312-win_amd64.pyd", ["python312.dll", "cublas64_12.dll"])
    put(tree, "conda/Library/cuda/" + folder + "cublas64_12.dll")


def without_registry(tree, make):
    """As Windows leaves it to WSL while it runs."""
    make(tree)
    for hive in (tree / "Windows/System32/config").glob("*"):
        hive.unlink()


def cupy_without_registry(tree):
    without_registry(tree, cupy_of_pip_with_bin)


def rocm_without_registry(tree):
    without_registry(tree, rocm_of_setting)


def cuda_build_without_registry(tree):
    """HIP_PATH does nothing for a build for CUDA."""
    without_registry(tree, embedded_broken)


def bitsandbytes_without_registry(tree):
    without_registry(tree, bitsandbytes_forced_to_another)


def paddle_without_registry(tree):
    without_registry(tree, paddle_with_broken_wheels)


def dirty(tree, name="SYSTEM"):
    """PATH may have been changed since: the change is in a log."""
    no_cublas(tree)
    path = tree / ("Users/ann/NTUSER.DAT" if name == "USER" else "Windows/System32/config/" + name)
    data = bytearray(path.read_bytes())
    numbers = struct.unpack_from("<128I", data)
    struct.pack_into("<I", data, 4, numbers[1] + 1)
    checked = [numbers[0], numbers[1] + 1, *numbers[2:127]]
    total = 0
    for number in checked:
        total ^= number
    struct.pack_into("<I", data, 508, total)
    path.write_bytes(data)


def dirty_user(tree):
    dirty(tree, "USER")


def dirty_software(tree):
    dirty(tree, "SOFTWARE")


def cupy_of_conda(tree):
    cupy_of(tree, '{"cuda": "12.x", "packaging": "conda"}', "")


def cupy_of_pip(tree):
    cupy_of(tree, '{"packaging": "pip", "cuda": "12.x"}', "")


def cupy_of_pip_with_bin(tree):
    cupy_of(tree, '{"cuda": "12.x", "packaging": "pip"}', "bin/")


def cupy_with_another_toolkit(tree):
    """CUDA_PATH is what an older toolkit has left; the one that is there has what cupy needs."""
    cupy_of_pip(tree)
    put(tree, "Program Files/NVIDIA GPU Computing Toolkit/CUDA/v12.4/bin/cublas64_12.dll")


def cupy_by_nvcc(tree):
    """CUDA_PATH names nothing, and PATH finds nvcc."""
    cupy_of_pip(tree)
    machine(tree, CUDA_PATH="C:\\gone", Path="C:\\Windows\\System32;C:\\tk\\bin")
    put(tree, "tk/bin/cublas64_12.dll")
    put(tree, "tk/bin/nvcc.exe")


def cupy_bundled(tree):
    """Without CUDA_PATH its own libraries serve."""
    cupy_of_pip(tree)
    put(tree, SITE + "cupy/.data/lib/cublas64_12.dll")


def text(tree, path, contents=""):
    (tree / path).parent.mkdir(parents=True, exist_ok=True)
    (tree / path).write_text(contents)


def pathfinder(tree, release="1.9.1"):
    """Its _version.py, as setuptools-scm writes it."""
    text(tree, SITE + "cuda/pathfinder/_version.py",
         '__all__ = ["__version__", "version"]\nversion: str\n__version__: str\n'
         f"__version__ = version = '{release}'\n")


def numba_cuda(tree, release="1.9.1", bindings=True, **variables):
    """numba-cuda 0.30.4 with CUDA 12's bindings, and no NVVM."""
    machine(tree, **variables), pathfinder(tree, release)
    text(tree, SITE + "numba_cuda/__init__.py")
    text(tree, SITE + "numba_cuda/numba/cuda/__init__.py", 'importlib.util.find_spec("cuda.bindings")\n')
    put(tree, SITE + "numba_cuda/numba/cuda/cext/_dispatcher.cp312-win_amd64.pyd",
        ["python312.dll", "msvcp140-20076bc0.dll"])
    put(tree, SITE + "numba_cuda.libs/msvcp140-20076bc0.dll")
    if bindings:
        text(tree, SITE + "cuda/bindings/__init__.py")
        text(tree, SITE + "cuda_bindings-12.9.4.dist-info/METADATA")


def numba_cuda_bare(tree):
    numba_cuda(tree, bindings=False)


def numba_cuda_with_wheel(tree):
    numba_cuda(tree)
    put(tree, SITE + "nvidia/cuda_nvcc/nvvm/bin/nvvm64_40_0.dll")


def numba_cuda_with_toolkit(tree, release="1.9.1", x64=False):
    """CUDA 12 has NVVM in nvvm\\bin; a folder x64 beside it is all that releases before 1.7 look at."""
    numba_cuda(tree, release, CUDA_PATH="C:\\tk")
    put(tree, "tk/nvvm/bin/nvvm64_40_0.dll")
    if x64:
        text(tree, "tk/nvvm/bin/x64/readme.txt")


def numba_cuda_with_folder(tree):
    numba_cuda_with_toolkit(tree, x64=True)


def numba_cuda_16_with_folder(tree):
    numba_cuda_with_toolkit(tree, "1.6.0", x64=True)


def numba_cuda_by_home(tree, release="1.4.0"):
    """Until 1.4 CUDA_HOME comes before CUDA_PATH."""
    numba_cuda(tree, release, CUDA_HOME="C:\\tk", CUDA_PATH="C:\\old")
    put(tree, "tk/nvvm/bin/nvvm64_40_0.dll"), text(tree, "old/nvvm/bin/readme.txt")


def numba_cuda_15_by_home(tree):
    numba_cuda_by_home(tree, "1.5.0")


def numba_cuda_by_canary(tree):
    """The cudart that PATH finds tells where the toolkit is."""
    numba_cuda(tree, Path="C:\\Windows\\System32;C:\\tk\\bin")
    put(tree, "tk/bin/cudart64_12.dll"), put(tree, "tk/nvvm/bin/nvvm64_40_0.dll")


def numba_cuda_12_1(tree):
    numba_cuda(tree, "1.1.0")


def numba_cuda_narrow(tree):
    """Since 1.7 an NVVM for another processor is passed over."""
    numba_cuda_with_toolkit(tree)
    put(tree, SITE + "nvidia/cuda_nvcc/nvvm/bin/nvvm64_40_0.dll", machine=0x14C)


def tensorflow(tree, runtime=True):
    machine(tree)
    text(tree, SITE + "tensorflow/__init__.py")
    text(tree, SITE + "tensorflow/python/platform/build_info.py",
         "build_info = collections.OrderedDict([('is_cuda_build', False), ('is_tensorrt_build', False), "
         "('msvcp_dll_names', 'msvcp140.dll,msvcp140_1.dll')])\n")
    put(tree, SITE + "tensorflow/python/_pywrap_tensorflow_internal.pyd",
        ["python312.dll", "_pywrap_tensorflow_common.dll"])
    put(tree, SITE + "tensorflow/python/_pywrap_tensorflow_common.dll", ["msvcp140.dll"])
    if runtime:
        put(tree, "Windows/System32/msvcp140_1.dll")


def tensorflow_without_runtime(tree):
    tensorflow(tree, runtime=False)


def tensorflow_in_part(tree):
    tensorflow(tree)
    (tree / SITE / "tensorflow/python/_pywrap_tensorflow_common.dll").unlink()


def paddle(tree, cuda="False", **variables):
    machine(tree, **variables)
    text(tree, SITE + "paddle/__init__.py")
    text(tree, SITE + "paddle/version/__init__.py",
         f"cuda_version     = '{cuda}'\nwith_pip_cuda_libraries = 'ON'\n")
    put(tree, SITE + "paddle/base/libpaddle.pyd", ["python312.dll", "common.dll"])
    put(tree, SITE + "paddle/libs/common.dll")


def paddle_without_libs(tree):
    paddle(tree)
    shutil.rmtree(tree / SITE / "paddle/libs")


def paddle_with_wheels(tree):
    """Its folder is added by the script, which loads each DLL there."""
    paddle(tree, "12.9")
    put(tree, SITE + "paddle/libs/phi.dll", ["cublas64_12.dll"])
    put(tree, SITE + "nvidia/cublas/bin/cublas64_12.dll")
    put(tree, SITE + "nvidia/cublas/bin/cublas32_12.dll", machine=0x14C)


def paddle_with_broken_wheels(tree):
    paddle_with_wheels(tree)
    put(tree, SITE + "nvidia/cublas/bin/cublas64_12.dll", ["cublasLt64_12.dll"])


def paddle_for_cpu_with_broken_wheels(tree):
    """A build for the CPU does not look at them."""
    paddle_with_broken_wheels(tree)
    text(tree, SITE + "paddle/version/__init__.py", "cuda_version     = 'False'\n")
    put(tree, SITE + "paddle/libs/phi.dll")


def cupy_14(tree, imports=()):
    """It asks cuda.pathfinder for NVRTC, here of a wheel, and CUDA_PATH without bin is nothing to it."""
    cupy_of_pip(tree)
    (tree / SITE / "cupy/_environment.py").write_text("        nvrtc = load_nvidia_dynamic_lib('nvrtc')\n")
    pathfinder(tree)
    put(tree, SITE + "cupy/_core/core.cp312-win_amd64.pyd", ["python312.dll", *imports])


def cupy_14_with_nvrtc(tree):
    """The folder of NVRTC's wheel is searched."""
    cupy_14(tree, ["nvrtc-builtins64_128.dll"])
    put(tree, SITE + "nvidia/cuda_nvrtc/bin/nvrtc64_120_0.dll")
    put(tree, SITE + "nvidia/cuda_nvrtc/bin/nvrtc-builtins64_128.dll")


def cupy_14_with_broken_nvrtc(tree):
    """NVRTC's wheel for another processor."""
    cupy_14_with_nvrtc(tree)
    put(tree, SITE + "nvidia/cuda_nvrtc/bin/nvrtc64_120_0.dll", machine=0x14C)


def torch_with_toolkit(tree, version="12.4"):
    """A torch without a cudart of its own takes that of the toolkit of its release."""
    machine(tree)
    torch_of(tree, "2.6.0", cuda="12.4", imports=["cudart64_12.dll"])
    put(tree, f"Program Files/NVIDIA GPU Computing Toolkit/CUDA/v{version}/bin/cudart64_12.dll")


def torch_with_another_toolkit(tree):
    torch_with_toolkit(tree, "12.6")


RECORD = """ctranslate2/__init__.py,sha256=x,1
ctranslate2/LibIOMP5md.dll,sha256=x,1
ctranslate2-4.6.0.dist-info/RECORD,,
"""


def without_a_file(tree, record=RECORD):
    """A file of the wheel is gone, as an antivirus program leaves it."""
    alone(tree)
    (tree / SITE / "ctranslate2/libiomp5md.dll").unlink()
    (tree / SITE / "ctranslate2-4.6.0.dist-info").mkdir()
    (tree / SITE / "ctranslate2-4.6.0.dist-info/RECORD").write_text(record)


def without_another_file(tree):
    without_a_file(tree, RECORD.replace("LibIOMP5md.dll", "xlibiomp5md.dll"))


def narrow(tree):
    """A Python for x86 with a wheel for x64."""
    machine(tree), ctranslate2(tree)
    put(tree, "Python312/python.exe", machine=0x14C)


LONG = "app/" + 4 * (50 * "x" + "/") + ".venv"


def folder_with_semicolon(tree):
    """PATH would make two folders of it."""
    no_cublas(tree)
    (tree / "Python312").rename(tree / "a;b")


def long_paths(tree, number=None):
    """A folder in which the path of an extension module has more than 260 characters."""
    machine(tree), ctranslate2(tree, LONG)
    put(tree, LONG + "/Scripts/python.exe")
    (tree / LONG / "pyvenv.cfg").write_text("home = C:\\Python312\n")
    if number is not None:
        parts = host.one()
        parts.control["Control"]["FileSystem"]["LongPathsEnabled"] = number
        parts.folders, parts.files = [], {}
        parts.write(tree)


def long_paths_unknown(tree):
    long_paths(tree, "1")


def odd_folder(tree):
    """A folder whose name both shells have to be kept from reading."""
    machine(tree)
    base = "Users/ann/o'neil & co/.venv/"
    (tree / base).mkdir(parents=True)
    (tree / base / "pyvenv.cfg").write_text("home = C:\\Python312\n")
    site = base + "Lib/site-packages/ctranslate2/"
    ctranslate2(tree, base[:-1])
    put(tree, base + "Scripts/python.exe")
    put(tree, site + "libiomp5md.dll", machine=0x14C)


# Name, tree, TARGET, status, findings as (id, severity), texts that the answer has, and how many
# environments.
MIXED = ("cudnn-mixed-versions", "warning")
def frozen(tree, internal="prog/_internal/", folder="prog", zip_name="base_library.zip"):
    """A folder of PyInstaller: no Python file but in archives."""
    machine(tree)
    put(tree, f"{folder}/talk.exe")
    put(tree, internal + "python312.dll", ["vcruntime140.dll"])
    put(tree, internal + "vcruntime140.dll")
    (tree / internal / zip_name).write_bytes(b"PK")
    put(tree, internal + "ctranslate2/ctranslate2.dll", ["beside.dll"])
    put(tree, internal + "ctranslate2/_ext.cp312-win_amd64.pyd", ["python312.dll", "ctranslate2.dll"])
    put(tree, internal + "beside.dll")


def frozen_broken(tree):
    frozen(tree)
    (tree / "prog/_internal/beside.dll").unlink()


def frozen_without_runtime(tree):
    """vcruntime140_1.dll can be installed, which the program finds in System32."""
    frozen(tree)
    put(tree, "prog/_internal/beside.dll", ["vcruntime140_1.dll"])
    (tree / "Windows/System32/vcruntime140_1.dll").unlink()


def frozen_before_6(tree):
    frozen(tree, "prog/")


def frozen_by_cx_freeze(tree):
    frozen(tree, "prog/lib/", zip_name="library.zip")
    for name in ("python312.dll", "vcruntime140.dll"):
        (tree / "prog/lib" / name).rename(tree / "prog" / name)


def frozen_by_another(tree):
    frozen(tree, "prog/")
    (tree / "prog/base_library.zip").unlink()


def frozen_archive(tree):
    """What bitsandbytes loads is said by its Python files, which are not there."""
    frozen(tree)
    put(tree, "prog/_internal/bitsandbytes/libbitsandbytes_cpu.dll")


def frozen_for_rocm(tree):
    frozen(tree)
    put(tree, "prog/_internal/ctranslate2/ctranslate2.dll", ["amdhip64_6.dll"])


MAKER = "report it to the maker of talk.exe"

CASES = [
    ("conda-forge's torch for the CPU", conda_torch, "C:\\Users\\ann\\mini & conda", 3,
     [("build-without-gpu", "warning")],
     ["PowerShell: conda install -p 'C:\\Users\\ann\\mini & conda' -c conda-forge \"pytorch=*=*cuda*\"",
      "cmd:        conda install -p \"C:\\Users\\ann\\mini & conda\" -c conda-forge \"pytorch=*=*cuda*\""], 1),
    ("another channel's torch for the CPU", conda_torch_of_another_channel,
     "C:\\Users\\ann\\mini & conda", 3, [("build-without-gpu", "warning")],
     ["install a build for CUDA by conda, which has installed this torch"], 1),
    ("pip's torch for the CPU in conda", conda_torch_of_pip, "C:\\Users\\ann\\mini & conda", 3,
     [("build-without-gpu", "warning")], ["-m pip install --force-reinstall torch"], 1),
    ("a folder of PyInstaller", frozen, None, 3, [], ["C:\\prog (PyInstaller)", "Cannot tell"], 2),
    ("named by its program", frozen, "C:\\prog\\talk.exe", 3, [], ["C:\\prog (PyInstaller)"], 1),
    ("PyInstaller before 6", frozen_before_6, None, 3, [], ["C:\\prog (PyInstaller)"], 2),
    ("a folder of cx_Freeze", frozen_by_cx_freeze, None, 3, [], ["C:\\prog (cx_Freeze)"], 2),
    ("PyInstaller, a DLL is missing", frozen_broken, None, 1, [("dll-missing", "error")],
     ["beside.dll, which C:\\prog\\_internal\\ctranslate2\\ctranslate2.dll imports, was not found",
      MAKER], 2),
    ("PyInstaller, the runtime is missing", frozen_without_runtime, None, 1, [("dll-missing", "error")],
     ["winget install --id Microsoft.VCRedist.2015+.x64"], 2),
    ("another frozen program", frozen_by_another, "C:\\prog", 3, [],
     ["C:\\prog (frozen)", "neither PyInstaller nor cx_Freeze has made"], 1),
    ("another frozen program, not named", frozen_by_another, None, 3, [], [], 1),
    ("PyInstaller, files in the archive", frozen_archive, None, 3, [],
     ["bitsandbytes: what its import loads"], 2),
    ("PyInstaller, for ROCm", frozen_for_rocm, None, 3, [],
     ["cannot tell: which folders this ctranslate2 for ROCm searches"], 2),
    ("nothing is wrong, and the verdict is not ok", healthy, None, 3, [], ["Cannot tell"], 1),
    ("CTranslate2's cuDNN serves torch", mixed, None, 3, [MIXED],
     ["torch_cuda.dll imports cudnn64_9.dll and gets C:\\Python312\\Lib\\site-packages\\ctranslate2"
      "\\cudnn64_9.dll (9.10.2.21)", "(9.1.0.70)", "repair: import torch before ctranslate2"], 1),
    ("the same where a part does not say its version", mixed_silent_part, None, 3, [MIXED], ["(9.1.0.70)"], 1),
    ("one release, of which a part says nothing", same_silent_part, None, 3, [], [], 1),
    ("releases that are not known", silent_parts, None, 3, [], ["does not say its version"], 1),
    ("CTranslate2 without torch", alone, None, 3, [], [], 1),
    ("msvcp140.dll is missing", no_runtime, None, 1, [("dll-missing", "error"), MIXED],
     ["import torch fails: [WinError 126]", "msvcp140.dll, which", "torch_cuda.dll imports",
      "winget install --id Microsoft.VCRedist.2015+.x64 --exact"], 1),
    ("the DLL that 126 hides, without the registry", hidden_without_registry, None, 3, [],
     ["libomp140.x86_64.dll", "what was not looked at: PATH"], 1),
    ("two that PATH leaves open", two_without_registry, None, 3, [],
     ["other.dll, which C:\\Python312\\Lib\\site-packages\\torch\\lib\\torch_cuda.dll imports, depends on what was "
      "not looked at: PATH; so does libomp140.x86_64.dll"], 1),
    ("cupy without the registry", cupy_without_registry, None, 3, [],
     ["whether CUDA_PATH is set, by which this import finds DLLs, is not known"], 1),
    ("ROCm without the registry", rocm_without_registry, None, 3, [], ["whether HIP_PATH is set"], 1),
    ("a build for CUDA without the registry", cuda_build_without_registry, None, 1, [("dll-missing", "error")],
     ["libiomp5md.dll, which"], 1),
    ("bitsandbytes without the registry", bitsandbytes_without_registry, None, 3, [],
     ["whether BNB_CUDA_VERSION is set"], 1),
    ("paddle without the registry", paddle_without_registry, None, 3, [], ["what was not looked at: PATH"], 1),
    ("a dirty hive", dirty, None, 3, [],
     ["a dirty hive", "shutdown /s /t 0", "what was not looked at: PATH"], 1),
    ("a user's dirty hive", dirty_user, None, 3, [], ["what was not looked at: PATH"], 1),
    ("a dirty hive that has no variables", dirty_software, None, 1, [("dll-missing", "error")],
     ["cublas64_12.dll was not found"], 1),
    ("the DLL that 126 hides", hidden, None, 1, [("dll-missing", "error")],
     ["libomp140.x86_64.dll, which C:\\Python312\\Lib\\site-packages\\torch\\lib\\torch_cuda.dll"], 1),
    ("System32 is not in the tree", no_system, "C:\\Python312", 3, [], ["cannot tell: msvcp140"], 1),
    ("a virtual environment, by its path below the root", venv, "/app/.venv", 3, [MIXED], ["(venv)"],
     1),
    ("the Python of a virtual environment is not in the tree", homeless, "C:\\app\\.venv", 3, [MIXED],
     ["cannot tell: python312.dll", "C:\\Python312\\python.exe"], 1),
    ("a DLL for another machine", wrong_machine, None, 1, [("library-wrong-architecture", "error")],
     ["[WinError 193]", "libiomp5md.dll"], 1),
    ("a runtime for x86 in System32", wrong_runtime, None, 1, [("library-wrong-architecture", "error")],
     ["System32\\msvcp140.dll, which", "winget install --id Microsoft.VCRedist.2015+.x64 --exact"], 1),
    ("another DLL for x86 in System32", wrong_in_windows, None, 1, [("library-wrong-architecture", "error")],
     ["put a DLL for x64 in the place of C:\\Windows\\System32\\libiomp5md.dll"], 1),
    ("a Python for x64 on Windows 11 for ARM", python_for_x64_on_arm, None, 3, [], [], 1),
    ("the same on Windows 10, which has no part for x64", python_for_x64_on_arm_of_windows_10, None, 1,
     [("library-wrong-architecture", "error")], ["193"], 1),
    ("a Python for ARM64 without the runtime", python_for_arm, None, 1, [("dll-missing", "error")],
     ["winget install --id Microsoft.VCRedist.2015+.arm64 --exact"], 1),
    ("a sound machine", sound, None, 3, [], ["RTX 4090", "driver 566.14"], 1),
    ("a known DLL of the registry", known, None, 3, [], [], 1),
    ("the same, not listed", not_known, None, 1, [("library-wrong-architecture", "error")],
     ["msvcp140-8f14.dll, which"], 1),
    ("libomp140.x86_64.dll of torch 2.4.0", old_torch, None, 1, [("dll-missing", "error")],
     ["libomp140.x86_64.dll, which", "PowerShell: & 'C:\\Python312\\python.exe' -m pip install --upgrade "
      '"torch>=2.4.1"', 'cmd:        "C:\\Python312\\python.exe" -m pip install --upgrade'], 1),
    ("torch finds by PATH what it imports", torch_by_path, None, 3, [], [], 1),
    ("torch for the CPU beside a GPU", cpu_torch, None, 3, [("build-without-gpu", "warning")],
     ["computes on the CPU", "https://download.pytorch.org/whl/cu126"], 1),
    ("torch for the CPU beside Blackwell", cpu_torch_blackwell, None, 3,
     [("build-without-gpu", "warning")], ["https://download.pytorch.org/whl/cu128"], 1),
    ("torch for CUDA beside AMD's GPU", amd_torch, None, 3, [("build-for-other-vendor", "warning")],
     ["built for CUDA 12.6", "RX 5700 XT", "computes on the CPU"], 1),
    ("a driver that is too old", old_driver, None, 1, [("driver-too-old", "error")],
     ["driver 516.59 is too old for torch's CUDA 12.6", "CUDA 12.x needs driver 528.33"], 1),
    ("the floor of CUDA 11", old_driver_11, None, 1, [("driver-too-old", "error")],
     ["driver 451.48 is too old for torch's CUDA 11.8", "CUDA 11.x needs driver 452.39"], 1),
    ("no floor of CUDA 13 is documented for Windows", old_driver_13, None, 3, [], [], 1),
    ("no cuBLAS", no_cublas, None, 1, [("dll-missing", "error")],
     ["first use of a GPU fails: [WinError 126]",
      "nvidia-cuda-runtime-cu12; if ($?) { $env:PATH = 'C:\\Python312\\Lib\\site-packages\\nvidia\\cublas\\bin' + ';' + ",
      'nvidia-cuda-runtime-cu12 && set "PATH=C:\\Python312\\Lib\\site-packages\\nvidia\\cublas\\bin;%PATH%"'], 1),
    ("cuBLAS is gone from its wheel", cublas_gone_from_wheel, None, 1, [("dll-missing", "error")],
     ["repair: install cuBLAS again", "--force-reinstall --no-deps nvidia_cublas_cu12==12.9.2.10; if ($?)"], 1),
    ("a part of cuBLAS is gone", cublas_in_part, None, 1, [("dll-missing", "error")],
     ["nvidia\\cublas\\bin, which this call does not search, and with that folder cublasLt64_12.dll, which ",
      "--force-reinstall --no-deps nvidia_cublas_cu12==12.9.2.10 && set"], 1),
    ("a part of the toolkit's cuBLAS is gone", cublas_of_toolkit_in_part, None, 1, [("dll-missing", "error")],
     ["CUDA\\v12.4\\bin, which this call does not search, and", "-m pip install nvidia-cublas-cu12"], 1),
    ("cuBLAS of a wheel does not fit", cublas_that_does_not_fit, None, 1, [("dll-missing", "error")],
     ["f is not exported by C:\\Windows\\System32\\lacks.dll"], 1),
    ("cuBLAS of a wheel", cublas_of_wheel, None, 1, [("library-not-on-path", "error")],
     ["$env:PATH = 'C:\\Python312\\Lib\\site-packages\\nvidia\\cublas\\bin' + ';' + $env:PATH",
      'set "PATH=C:\\Python312\\Lib\\site-packages\\nvidia\\cublas\\bin;%PATH%"'], 1),
    ("CUDA 13 has its DLLs in bin\\x64", cublas_of_cuda13, None, 1, [("library-not-on-path", "error")],
     ["CUDA\\v13.0\\bin\\x64"], 1),
    ("cuBLAS by PATH", cublas_by_path, None, 3, [], ["unless the program calls"], 1),
    ("cuBLAS by CUDA_PATH", cublas_by_setting, None, 3, [], [], 1),
    ("cuBLAS by a user's CUDA_PATH", cublas_by_user_setting, None, 3, [], [], 1),
    ("cuBLAS by a user's PATH with a variable", cublas_by_user_path, None, 3, [],
     ["cublas64_12.dll is found by PATH"], 1),
    ("the same as REG_SZ", cublas_by_unexpanded_path, None, 3, [], ["was not looked at: PATH"], 1),
    ("one of two users has CUDA_PATH", cublas_of_one_of_two_users, None, 3, [], ["was not looked at: PATH"], 1),
    ("cuBLAS of torch", cublas_of_torch, None, 3, [], ["if the program has imported torch"], 1),
    ("ROCm's wheels beside a ctranslate2 that adds none", rocm_of_old, None, 1,
     [("library-not-on-path", "error")], ["_rocm_sdk_core\\bin, which this call does not search"], 1),
    ("ROCm's wheels, fixed names", rocm_of_core, None, 3, [], [], 1),
    ("the same without the first", rocm_without_core, None, 1, [("library-not-on-path", "error")],
     ["_rocm_sdk_libraries_custom\\bin, which"], 1),
    ("ROCm's wheels by a pattern", rocm_of_family, None, 3, [], [], 1),
    ("ROCm by HIP_PATH", rocm_of_setting, None, 3, [], [], 1),
    ("HIP_PATH is not used beside a wheel", rocm_of_setting_too_late, None, 1,
     [("dll-missing", "error")], ["amdhip64_7.dll, which"], 1),
    ("the driver's HIP before the SDK's", hip_of_driver, None, 3, [("library-wrong-copy", "warning")],
     ["(6.1.1.0)", "(6.2.1.0)", "ctypes.CDLL(r\"C:\\Program Files\\AMD\\ROCm\\6.2\\bin\\amdhip64_6.dll\")"], 1),
    ("the same version", hip_of_sdk, None, 3, [], [], 1),
    ("libomp140.x86_64.dll behind fbgemm.dll", fbgemm, None, 1, [("dll-missing", "error")],
     ["libomp140.x86_64.dll, which", "torch\\lib\\fbgemm.dll imports", "torch>=2.4.1"], 1),
    ("the same with it", fbgemm_with_openmp, None, 3, [], [], 1),
    ("cuDNN's parts of a wheel", cudnn_of_wheel, None, 1, [("library-not-on-path", "error")],
     ["first use of cuDNN (cudnn_graph64_9.dll) fails: [WinError 126]",
      "$env:PATH = 'C:\\Python312\\Lib\\site-packages\\nvidia\\cudnn\\bin' + ';' + $env:PATH"], 1),
    ("cuDNN's parts in the installer's folder for CUDA 12.8", cudnn_of_installer, None, 1,
     [("library-not-on-path", "error")], ["CUDNN\\v9.7\\bin\\12.8, which this call does not search"], 1),
    ("cuDNN's parts on PATH", cudnn_by_path, None, 3, [], ["unless the program calls"], 1),
    ("cuDNN's parts are nowhere", uses_cudnn, None, 1, [("dll-missing", "error")],
     ["pip install \"nvidia-cudnn-cu12>=9\""], 1),
    ("zlibwapi.dll", cudnn_8, None, 1, [("dll-missing", "error")],
     ["first use of cuDNN (zlibwapi.dll) fails", "put zlibwapi.dll (64 bits) into a folder of PATH"], 1),
    ("the same with it", cudnn_8_with_zlib, None, 3, [], [], 1),
    ("onnxruntime's provider without CUDA", onnxruntime, None, 3, [("dll-missing", "warning")],
     ["it computes on the CPU", "cublas64_12.dll, which"], 1),
    ("onnxruntime's provider for CUDA 13", onnxruntime_for_cuda_13, None, 3, [("dll-missing", "warning")],
     ['pip install "nvidia-cublas<14" "nvidia-cuda-runtime<14"'], 1),
    ("the same with cuBLAS", onnxruntime_with_cublas_13, None, 3, [("dll-missing", "warning")],
     ['pip install "nvidia-cudnn-cu13>=9"'], 1),
    ("torch on an older Visual C++ runtime", torch_with_old_runtime, None, 1, [("dll-missing", "error")],
     ["VCRUNTIME140_THREADS.dll, which", "winget install --id Microsoft.VCRedist.2015+.x64"], 1),
    ("onnxruntime's provider and NVIDIA's wheels", onnxruntime_of_wheels, None, 3,
     [("library-not-on-path", "warning")],
     ['set "PATH=C:\\Python312\\Lib\\site-packages\\nvidia\\cublas\\bin;C:\\Python312\\Lib\\site-packages\\'
      'nvidia\\cudnn\\bin;%PATH%"'], 1),
    ("onnxruntime's provider beside what it imports", onnxruntime_beside, None, 3, [], [], 1),
    ("onnxruntime's provider with torch", onnxruntime_with_torch, None, 3, [],
     ["if the program has imported torch before, which brings what it imports"], 1),
    ("ctranslate2 for CUDA on RDNA 1", cuda_on_rdna1, None, 3, [("build-for-other-vendor", "warning")],
     ["computes on the CPU", "for ROCm 6.2 that has code for gfx1010: "
      "https://github.com/PinW/ctranslate2-rocm-rdna1/releases", "HIP SDK 6.2"], 1),
    ("ctranslate2 for CUDA on RDNA 2", cuda_on_rdna2, None, 3, [("build-for-other-vendor", "warning")],
     ["that has code for gfx1030: https://github.com/OpenNMT/CTranslate2/releases"], 1),
    ("ctranslate2's wheel for ROCm on RDNA 1", official_on_rdna1, None, 1, [("gfx-not-covered", "error")],
     ["no code for the AMD Radeon RX 5700", "has code for gfx1030, gfx1100", "PinW/ctranslate2-rocm-rdna1"], 1),
    ("ctranslate2's wheel for ROCm on RDNA 2", official_on_rdna2, None, 3, [], [], 1),
    ("the community's wheel on RDNA 1", community_on_rdna1, None, 3, [], [], 1),
    ("torch for the CPU on RDNA 2", torch_on_rdna2, None, 3, [("build-without-gpu", "warning")],
     ["use the CPU: AMD's wheels of torch for Windows are for gfx11 and gfx12"], 1),
    ("torch for the CPU on RDNA 3", torch_on_rdna3, None, 3, [("build-without-gpu", "warning")],
     ["install AMD's wheels of torch for Windows and Python 3.12", "(gfx1100)"], 1),
    ("torch that preloads ROCm's wheels", torch_of_rocm_wheels, None, 3, [], [], 1),
    ("one of ROCm's libraries is gone", torch_without_a_rocm_library, None, 1, [("dll-missing", "error")],
     ["import torch fails: a library that it loads first is not there", "rocm_sdk looks for *hipblas*.dll in"], 1),
    ("the wheel of ROCm's libraries is not there", torch_without_rocm_libraries, None, 1, [("dll-missing", "error")],
     ['python -m pip install "rocm[libraries]"'], 1),
    ("torch for another release of ROCm's wheels", torch_of_other_rocm, None, 1, [("dll-missing", "error")],
     ["knows no library hipsparselt"], 1),
    ("ROCm's libraries for two families", torch_of_two_families, None, 3, [], ["offload-arch decides"], 1),
    ("libraries that a variable adds", torch_that_loads_more, None, 3, [], [], 1),
    ("one of them is broken", torch_that_loads_a_broken_one, None, 1, [("dll-missing", "error")], ["nowhere.dll", "more7.dll"], 1),
    ("one of them is not known", torch_that_loads_an_unknown_one, None, 1, [("dll-missing", "error")],
     ["no library rocshmem, which ROCM_SDK_PRELOAD_LIBRARIES names", "Remove-Item Env:ROCM_SDK_PRELOAD_LIBRARIES"], 1),
    ("the variable names none", torch_that_loads_none_more, None, 3, [], [], 1),
    ("bitsandbytes' variable names what is not there", bitsandbytes_forced, None, 1, [("dll-missing", "error")],
     ["BNB_CUDA_VERSION names a library that bitsandbytes does not have", "libbitsandbytes_cuda118.dll is not there",
      "Remove-Item Env:BNB_CUDA_VERSION"], 1),
    ("bitsandbytes' variable without a GPU for it", bitsandbytes_forced_without_gpu, None, 3,
     [("build-for-other-vendor", "warning")], [], 1),
    ("bitsandbytes' variable names another", bitsandbytes_forced_to_another, None, 3, [], [], 1),
    ("bitsandbytes for ROCm", bitsandbytes_for_rocm, None, 1, [("dll-missing", "error")],
     ["libbitsandbytes_rocm71.dll", "rocblas_not_there.dll"], 1),
    ("the same with 65 libraries and more", torch_of_many_rocm_libraries, None, 3, [],
     ["names more than 64 libraries"], 1),
    ("the same with libraries that need one another", torch_of_deep_rocm_libraries, None, 3, [],
     ["more than 8 deep"], 1),
    ("the same without its start", torch_without_init, None, 1, [("library-not-on-path", "error")],
     ["amdhip64_7.dll, which", "os.add_dll_directory(r\"C:\\Python312\\Lib\\site-packages\\_rocm_sdk_core\\bin\"); "
      "os.add_dll_directory(r\"C:\\Python312\\Lib\\site-packages\\_rocm_sdk_libraries_gfx110X_all\\bin\")"], 1),
    ("a long path, allowed", short_paths, "/" + LONG, 3, [], [], 1),
    ("the Store's Python", store, None, 3, [], ["(Store)", "packaged process"], 1),
    ("the Store's Python of a user", store_of_user, None, 3, [],
     [f"C:\\Users\\ann\\AppData\\Local\\Packages\\{STORE} (Store)", "packaged process"], 1),
    ("the same by its alias", store_of_user, "C:\\Users\\ann\\AppData\\Local\\Microsoft\\WindowsApps", 3, [],
     ["(Store)"], 1),
    ("the same through ntfs-3g", store_through_ntfs_3g,
     "C:\\Users\\ann\\AppData\\Local\\Microsoft\\WindowsApps\\python.exe", 3, [], ["(Store)", "packaged process"], 1),
    ("the same through WSL", store_through_wsl,
     "C:\\Users\\ann\\AppData\\Local\\Microsoft\\WindowsApps\\python.exe", 3, [], ["(Store)", "packaged process"], 1),
    ("an alias of no Python", alias_of_nothing,
     "C:\\Users\\ann\\AppData\\Local\\Microsoft\\WindowsApps\\python.exe", 3, [],
     ["WindowsApps (Store)", "its python.exe is an alias"], 1),
    ("the same among all", alias_of_nothing, None, 3, [], ["no Python was found"], 0),
    ("a program that this mount does not read", unreadable_program, None, 3, [],
     ["C:\\Python312 (python.org)", "python.exe cannot be read as a program here"], 1),
    ("a program without contents", empty_program, None, 3, [], ["python.exe cannot be read as a program here"], 1),
    ("an environment by its program", venv, "C:\\app\\.venv\\Scripts\\python.exe", 3, [("cudnn-mixed-versions", "warning")],
     ["C:\\app\\.venv (venv)"], 1),
    ("a Python by its program", mixed, "/Python312/python.exe", 3, [("cudnn-mixed-versions", "warning")],
     ["C:\\Python312 (python.org)"], 1),
    ("the Store's Python with its program", store_with_program, None, 1, [("dll-missing", "error")],
     ["nowhere.dll, which", "known from Microsoft's documentation alone"], 3),
    ("the same with all that it needs", store_with_graph, None, 3, [], ["documentation alone"], 3),
    ("the same without a package of its graph", store_without_graph, None, 3, [], ["the package graph"], 3),
    ("the Store's Python beside python.org's", store_beside_another, None, 3, [],
     ["(Store)", "(python.org)"], 2),
    ("python.org's first on PATH", store_first, "C:\\Python312", 3, [], [], 1),
    ("the Store's alias before it", alias_before_python, "C:\\Python312", 3, [("python-not-first", "note")],
     ["starts the Store's Python, which has no ctranslate2", "C:\\Python312 is behind it",
      "& 'C:\\Python312\\python.exe' -m pip list", "App execution aliases"], 1),
    ("the alias alone", alias_alone, "C:\\Python312", 3, [("python-not-first", "note")],
     ["C:\\Python312 is not on PATH"], 1),
    ("the alias of the install manager", alias_of_manager, "C:\\Python312", 3, [], [], 1),
    ("both have the package", alias_before_same, "C:\\Python312", 3, [], [], 1),
    ("the alias that opens the Store", alias_without_python, "C:\\Python312", 3, [("python-not-first", "note")],
     ["an alias of the Store, behind which no Python was found"], 1),
    ("a script before the alias", script_before_alias, "C:\\Python312", 3, [], [], 1),
    ("packages of the Store's Python, which is not the first", store_behind,
     f"C:\\Users\\ann\\AppData\\Local\\Packages\\{STORE}", 3, [("python-not-first", "note")],
     ["starts C:\\Python312\\python.exe, which has no ctranslate2", f"WindowsApps\\{STORE}\\python.exe"], 1),
    ("a virtual environment of the Store's Python", venv_of_store, "C:\\app\\.venv", 3, [],
     ["its Python is the Store's"], 1),
    ("conda's Library\\bin is searched", conda, None, 3, [], ["miniconda3 (conda)"], 1),
    ("conda's Library\\bin is on PATH once it is activated", conda_with_cublas, None, 3, [],
     ["first use of a GPU finds cublas64_12.dll by PATH if the environment is activated (conda activate)"], 1),
    ("the same for the base of another conda", venv_of_conda_with_cublas, "C:\\app\\.venv", 1,
     [("dll-missing", "error")], ["cublas64_12.dll was not found"], 1),
    ("another folder of conda's is not", conda_without_library, None, 1, [("dll-missing", "error")],
     ["libiomp5md.dll, which"], 1),
    ("an environment that conda's list names", conda_elsewhere, None, 3, [],
     ["C:\\data\\my envs\\whisper (conda)"], 1),
    ("a virtual environment of conda's Python", venv_of_conda, "C:\\app\\.venv", 3, [], ["(venv)"], 1),
    ("an embedded Python", embedded, None, 3, [], ["python_embeded (embedded)"], 1),
    ("an embedded Python without a DLL", embedded_broken, None, 1, [("dll-missing", "error")],
     ["libiomp5md.dll, which"], 1),
    ("an embedded Python as it is unpacked", embedded_without_site, None, 3, [],
     ["ctranslate2: installed in C:\\portable\\python_embeded\\Lib\\site-packages, which this Python does not search",
      "\"import site\" in C:\\portable\\python_embeded\\python312._pth"], 1),
    ("an embedded Python with a folder for packages", embedded_with_folder, None, 3, [], [], 1),
    ("the user's packages come first", user_site_first, None, 1, [("dll-missing", "error")],
     [BROKEN.replace("/", "\\") + "\\ctranslate2\\ctranslate2.dll"], 1),
    ("and are found without others", user_site_alone, None, 1, [("dll-missing", "error")], [], 1),
    ("PYTHONNOUSERSITE", user_site_switched_off, None, 3, [], [], 1),
    ("PYTHONUSERBASE", user_site_elsewhere, None, 1, [("dll-missing", "error")],
     ["C:\\base\\Python312\\site-packages\\ctranslate2"], 1),
    ("the user's packages for another release", user_site_of_another_release, None, 3, [], [], 1),
    ("one of two users has packages", user_site_of_one_of_two, None, 3, [],
     ["who starts this Python is not known", BROKEN.replace("/", "\\")], 1),
    ("a virtual environment does without the user's", user_site_and_venv, "C:\\app\\.venv", 3, [], [], 1),
    ("unless it says otherwise", user_site_and_bare_venv, "C:\\app\\.venv", 1, [("dll-missing", "error")],
     ["C:\\app\\.venv (venv)", BROKEN.replace("/", "\\")], 1),
    ("PYTHONPATH comes first", by_pythonpath, None, 1, [("dll-missing", "error")], ["C:\\lib\\ctranslate2"], 1),
    ("a folder of a .pth file", by_pth_file, None, 1, [("dll-missing", "error")], ["C:\\lib\\ctranslate2"], 1),
    ("it comes behind site-packages", behind_by_pth_file, None, 3, [], [], 1),
    ("the registry's PythonPath", by_registry, None, 1, [("dll-missing", "error")], ["C:\\lib\\ctranslate2"], 1),
    ("that of another release", by_registry_of_another_release, None, 3, [], [], 1),
    ("a Python where the registry says", installed_elsewhere, None, 3, [], ["C:\\tools\\py (python.org)"], 1),
    ("a Python of the install manager", of_install_manager, None, 3, [], ["pythoncore-3.12-64"], 1),
    ("a file of a package is gone", without_a_file, None, 1, [("dll-missing", "error")],
     ["it is one of the files that ctranslate2==4.6.0 was installed with",
      "\"C:\\Python312\\python.exe\" -m pip install --force-reinstall --no-deps ctranslate2==4.6.0"], 1),
    ("a file that no package had", without_another_file, None, 1, [("dll-missing", "error")],
     ["libiomp5md.dll, which"], 1),
    ("conda's cupy searches CUDA_PATH", cupy_of_conda, None, 3, [], [], 1),
    ("pip's cupy adds a folder that is not there", cupy_of_pip, None, 1, [("toolkit-missing", "error")],
     ["FileNotFoundError", "C:\\conda\\Library\\cuda\\bin, a folder that is not there"], 1),
    ("the same beside another toolkit", cupy_with_another_toolkit, None, 1, [("toolkit-missing", "error")],
     ["$env:CUDA_PATH = 'C:\\Program Files\\NVIDIA GPU Computing Toolkit\\CUDA\\v12.4'"], 1),
    ("the same with libraries of its own", cupy_bundled, None, 1, [("toolkit-missing", "error")],
     ["Remove-Item Env:CUDA_PATH", 'set "CUDA_PATH="'], 1),
    ("cupy takes nvcc's toolkit where CUDA_PATH names nothing", cupy_by_nvcc, None, 3, [], [], 1),
    ("bitsandbytes goes on without its library", bitsandbytes_without_cudart, None, 1, [("dll-missing", "error")],
     ["libbitsandbytes_cuda124.dll, without which import bitsandbytes goes on"], 1),
    ("cupy 14 and CUDA_PATH without bin", cupy_14, None, 3, [], [], 1),
    ("cupy 14 and NVRTC's wheel", cupy_14_with_nvrtc, None, 3, [], [], 1),
    ("cupy 14 and NVRTC for x86", cupy_14_with_broken_nvrtc, None, 1, [("library-wrong-architecture", "error")],
     ["nvrtc64_120_0.dll"], 1),
    ("numba-cuda without cuda-bindings", numba_cuda_bare, None, 1, [("dll-missing", "error")],
     ["import numba_cuda fails: ImportError, the package cuda-bindings is not installed"], 1),
    ("numba-cuda without NVVM", numba_cuda, None, 1, [("dll-missing", "error")],
     ["cuda.pathfinder finds no NVVM", "site-packages\\nvidia\\cuda_nvcc\\nvvm\\bin", '"numba-cuda[cu12]"'], 1),
    ("NVVM of the wheel", numba_cuda_with_wheel, None, 3, [], [], 1),
    ("NVVM of the toolkit", numba_cuda_with_toolkit, None, 3, [], [], 1),
    ("NVVM of the toolkit beside a folder", numba_cuda_with_folder, None, 3, [], [], 1),
    ("the same before 1.7", numba_cuda_16_with_folder, None, 1, [("dll-missing", "error")],
     ["cuda.pathfinder finds no NVVM"], 1),
    ("CUDA_HOME before CUDA_PATH", numba_cuda_by_home, None, 3, [], [], 1),
    ("CUDA_PATH before CUDA_HOME", numba_cuda_15_by_home, None, 1, [("dll-missing", "error")], ["C:\\old\\nvvm\\bin"], 1),
    ("NVVM beside the cudart of PATH", numba_cuda_by_canary, None, 3, [], [], 1),
    ("NVVM for another processor", numba_cuda_narrow, None, 3, [], [], 1),
    ("a cuda.pathfinder that is not modelled", numba_cuda_12_1, None, 3, [], ["before 1.2"], 1),
    ("tensorflow", tensorflow, None, 3, [], [], 1),
    ("tensorflow without the runtime it looks for", tensorflow_without_runtime, None, 1, [("dll-missing", "error")],
     ["self_check.py loads msvcp140_1.dll by its name", "winget install --id Microsoft.VCRedist"], 1),
    ("a part of tensorflow is gone", tensorflow_in_part, None, 1, [("dll-missing", "error")],
     ["_pywrap_tensorflow_common.dll"], 1),
    ("paddle", paddle, None, 3, [], [], 1),
    ("paddle without its folder", paddle_without_libs, None, 1, [("dll-missing", "error")],
     ["import paddle fails: FileNotFoundError"], 1),
    ("paddle with CUDA's wheels", paddle_with_wheels, None, 3, [], [], 1),
    ("paddle with a part of CUDA's wheels", paddle_with_broken_wheels, None, 1, [("dll-missing", "error")],
     ["cublasLt64_12.dll"], 1),
    ("paddle for the CPU", paddle_for_cpu_with_broken_wheels, None, 3, [], [], 1),
    ("torch takes cudart of its toolkit", torch_with_toolkit, None, 3, [], [], 1),
    ("and of no other", torch_with_another_toolkit, None, 1, [("library-not-on-path", "error")],
     ["cudart64_12.dll"], 1),
    ("pip's cupy searches CUDA_PATH\\bin", cupy_of_pip_with_bin, None, 3, [], [], 1),
    ("a Python for x86", narrow, None, 1, [("library-wrong-architecture", "error")], ["[WinError 193]"], 1),
    ("a folder that PATH cannot have", folder_with_semicolon, "C:\\a;b", 1, [("dll-missing", "error")],
     ["repair: install cuBLAS and put its folder on PATH\nBroken"], 1),
    ("quotes", odd_folder, "C:\\Users\\ann\\o'neil & co\\.venv", 1,
     [("library-wrong-architecture", "error")],
     ["& 'C:\\Users\\ann\\o''neil & co\\.venv\\Scripts\\python.exe' -m pip",
      "\"C:\\Users\\ann\\o'neil & co\\.venv\\Scripts\\python.exe\" -m pip"], 1),
    ("a path that is too long", long_paths, "/" + LONG, 1, [("library-unreadable", "error")],
     ["with LongPathsEnabled, which is off", "reg add HKLM", "New-ItemProperty -Path 'HKLM:"], 1),
    ("a long path, allowed or not", long_paths_unknown, "/" + LONG, 3, [],
     ["with LongPathsEnabled, which is not known"], 1),
    ("Scoop's Python, by its junction", of_scoop, None, 1, [("dll-missing", "error")],
     ["scoop\\apps\\python\\current (Scoop)", "libiomp5md.dll, which"], 1),
    ("Scoop's Python without junctions", of_scoop_without_junctions, None, 1, [("dll-missing", "error")],
     ["C:\\ProgramData\\scoop\\apps\\python312\\3.12.4 (Scoop)"], 1),
    ("pyenv-win", of_pyenv, None, 1, [("dll-missing", "error")], ["versions\\3.12.4 (pyenv-win)"], 1),
    ("ComfyUI in a user's folder", of_comfy, None, 1, [("dll-missing", "error")],
     ["ComfyUI_windows_portable\\python_embeded (embedded)"], 1),
    ("ComfyUI in a folder of the drive", of_comfy_in_drive, None, 1, [("dll-missing", "error")],
     ["C:\\AI\\ComfyUI_windows_portable\\python_embeded (embedded)"], 1),
    ("conda of Chocolatey", conda_of_chocolatey, None, 1, [("dll-missing", "error")],
     ["C:\\tools\\miniconda3 (conda)"], 1),
    ("uv's Python and its junction are one", of_uv, None, 1, [("dll-missing", "error")], ["none (uv)"], 1),
    ("the same as a relative link", of_uv_by_ntfs_3g, None, 1, [("dll-missing", "error")], ["none (uv)"], 1),
    ("an environment of uv, by the junction", venv_of_uv, "C:\\app\\.venv", 1, [("dll-missing", "error")],
     ["libiomp5md.dll, which"], 1),
    ("the same on another mount", venv_of_uv_by_the_root, "C:\\app\\.venv", 1, [("dll-missing", "error")],
     ["libiomp5md.dll, which"], 1),
    ("a junction that leads out of the root", venv_of_uv_outside, "C:\\app\\.venv", 3, [],
     ["cannot tell: python312.dll"], 1),
    ("a junction that leads to itself", venv_of_uv_in_circles, "C:\\app\\.venv", 3, [],
     ["cannot tell: python312.dll"], 1),
    ("a folder of PATH that leads out of the root", cublas_behind_a_link, None, 3, [],
     ["what was not looked at: C:\\tk\\bin\\cublas64_12.dll"], 1),
    ("no Python", windows, None, 3, [], ["no Python was found"], 0),
]


# Name, tree, command, status, texts of its output or of what it refuses.
COMMANDS = [
    ("fix prints the repairs", cublas_of_wheel, ["fix"], 1,
     ["1 findings, 1 repairs", "PowerShell: $env:PATH = "]),
    ("no wheel for a function that Windows lacks", cublas_that_does_not_fit, ["fix"], 1, ["1 findings, 0 repairs"]),
    ("a wheel that is whole is not installed again", import_of_cublas_in_wheel, ["fix"], 1, ["2 findings, 1 repairs"]),
    ("a name that a shell would read", recorded_by_a_line, ["fix"], 1, ["pip install nvidia-cublas-cu12 "]),
    ("fix where a finding has none", hidden, ["fix"], 1, ["1 findings, 0 repairs"]),
    ("fix names the copy that is to be loaded first", hip_of_driver, ["fix"], 1, ["1 findings, 1 repairs"]),
    ("fix of a sound machine", sound, ["fix"], 3, ["Nothing to repair was found"]),
    ("fix as JSON", cublas_of_wheel, ["fix", "--json"], 1, ['"powershell": "$env:PATH = ']),
    ("fix --select", cublas_of_wheel, ["fix", "--select", "1"], 3,
     ["fix: --select is not available for a Windows tree"]),
    ("what is not carried out is not called sound", cublas_of_wheel, ["fix", "--apply"], 3,
     ["this is a Windows tree"]),
    ("snapshot without names", cublas_of_wheel, ["snapshot", "--redact"], 3,
     ["--redact is not available for a Windows tree"]),
    ("a page without names", cublas_of_wheel, ["check", "--html", "-", "--redact"], 3,
     ["--redact is not available for a Windows tree"]),
    ("a variable that is given", cublas_of_wheel,
     ["check", "--env", "PATH=C:\\Python312\\Lib\\site-packages\\nvidia\\cublas\\bin"], 3,
     ["unless the program calls"]),
]


def failed_commands(gpumend):
    failed = 0
    for name, make, command, status, texts in COMMANDS:
        with tempfile.TemporaryDirectory() as folder:
            make(Path(folder))
            before = sorted(Path(folder).rglob("*"))
            done = subprocess.run([gpumend, *command, "--root", folder], capture_output=True,
                                  text=True, check=False)
            changed = sorted(Path(folder).rglob("*")) != before
        missing = [text for text in texts if text not in done.stdout + done.stderr]
        if done.returncode != status or missing or changed:
            failed += 1
            print(f"FAIL {name}: status {done.returncode}, not found: {missing}, changed: {changed}\n"
                  f"{done.stdout}{done.stderr}")
    return failed


def main():
    gpumend = os.path.abspath(sys.argv[1])
    failed = 0
    for name, make, target, status, findings, texts, environments in CASES:
        with tempfile.TemporaryDirectory() as folder:
            make(Path(folder))
            command = [gpumend, "check", *([target] if target else []), "--root", folder]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            shown = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False)
        document = json.loads(shown.stdout or "{}")
        all_ = document.get("environments", [])
        seen = sorted({(f["id"], f["severity"]) for e in all_ for f in e["findings"]})
        missing = [text for text in texts if text not in done.stdout]
        if (done.returncode != status or shown.returncode != status or missing
                or seen != sorted(findings) or len(all_) != environments):
            failed += 1
            print(f"FAIL {name}: status {done.returncode}, findings {seen}, not found: {missing}\n"
                  f"{done.stdout}{done.stderr}")
    failed += failed_commands(gpumend)
    print(f"{len(CASES) + len(COMMANDS) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
