"""Cases of packages that open their libraries themselves: what kb/imports.json says of them.

The worlds have the layout and the dynamic sections of the real wheels; see cases.py.
"""

import shutil

from cases import case
from tree import SYSTEM, TAG

CUPY_LIBRARIES = {"cublas": ("libcublas.so.12", "cupy_backends/cuda/libs/cublas"),
                  "cufft": ("libcufft.so.11", "cupy/cuda/cufft"),
                  "curand": ("libcurand.so.10", "cupy_backends/cuda/libs/curand"),
                  "cusolver": ("libcusolver.so.11", "cupy_backends/cuda/libs/cusolver"),
                  "cusparse": ("libcusparse.so.12", "cupy_backends/cuda/libs/cusparse")}
CTK = {"cuda_nvrtc": "libnvrtc.so.12", "nvjitlink": "libnvJitLink.so.12",
       **{name: library for name, (library, _) in CUPY_LIBRARIES.items()}}

BESIDE = {"cublas": ["libcublasLt.so.12"], "cuda_nvrtc": ["libnvrtc-builtins.so.12.9"]}


def cupy(t, version):
    """cupy-cuda12x: extension modules that have one library each in DT_NEEDED."""
    t.python()
    for folder in ("cupy", "cupy/_core", "cupy/cuda", "cupy_backends", "cupy_backends/cuda",
                   "cupy_backends/cuda/libs"):
        t.put("%s/%s/__init__.py" % (t.site, folder), "")
    paths = []
    for stem, needed in [("cupy/_core/core", []),
                         *((path, [library]) for library, path in CUPY_LIBRARIES.values())]:
        paths.append("%s.%s.so" % (stem, TAG))
        t.lib("%s/%s" % (t.site, paths[-1]), soname=None, needed=needed)
    t.dist("cupy-cuda12x", version, paths)


def toolkit(t, without=()):
    """The wheels of cupy-cuda12x[ctk], and their folders."""
    folders = {}
    for part, library in CTK.items():
        if part in without:
            continue
        folders[part] = "%s/nvidia/%s/lib" % (t.site, part)
        names = [library, *BESIDE.get(part, ())]
        for name in names:
            t.lib(folders[part] + "/" + name, runpath="$ORIGIN")
        t.dist("nvidia-%s-cu12" % part.replace("_", "-"), "12.9.1",
               ["nvidia/%s/lib/%s" % (part, name) for name in names])
    return folders


@case("library-missing", "lib-missing", "libcublas.so",
      repair=r"nvidia-cublas-cu11 && ln -sf libcublas\.so\.11 (/\S+/nvidia/cublas/lib)/libcublas\.so && "
             r"export LD_LIBRARY_PATH=\1\"",
      evidence="third-party dynamic library .libcublas.so. that Paddle depends on")
def paddle_without_a_toolkit(t, bad):
    """libphi.so opens names without a version, which no wheel of CUDA's has."""
    t.python()
    libs = t.site + "/paddle/libs"
    for folder in ("paddle", "paddle/base"):
        t.put("%s/%s/__init__.py" % (t.site, folder), "")
    t.lib(t.site + "/paddle/base/libpaddle.so", needed=["libphi.so"], runpath="$ORIGIN/../libs/")
    t.lib(libs + "/libphi.so", runpath="$ORIGIN")
    t.dist("paddlepaddle-gpu", "2.6.2", ["paddle/base/libpaddle.so", "paddle/libs/libphi.so"])
    t.dist("setuptools", "80.9.0", [])
    t.pip_cublas()
    if not bad:
        t.lib(SYSTEM + "/libcublas.so", soname="libcublas.so.11")
        t.lib(SYSTEM + "/libcudnn.so", soname="libcudnn.so.8")


@case("requirement-missing", "python-dep-conflict", "setuptools", repair="pip install setuptools$",
      evidence="No module named 'setuptools'")
def paddle_without_setuptools(t, bad):
    """Its metadata do not declare it, and a venv of Python 3.12 has none."""
    paddle_without_a_toolkit(t, False)
    if bad:
        shutil.rmtree(t.real(t.site + "/setuptools-80.9.0.dist-info"))


def paddle_without_cublas(t):
    paddle_without_a_toolkit(t, True)


def cupy_alone(t):
    """pip install cupy-cuda12x, without its extra."""
    cupy(t, "14.2.0")


def cupy_without(part, culprit, severity, evidence, repair):
    """cupy-cuda12x 14 without one of the wheels of its extra."""
    def build(t, bad):
        cupy(t, "14.2.0")
        toolkit(t, without=[part] if bad else [])
    case("library-missing", "lib-missing", culprit, name="cupy-without-" + part,
         severity=severity, evidence=evidence, repair=repair)(build)


cupy_without("cuda_nvrtc", "libnvrtc.so.12", "error", "libnvrtc.so.13.*for every kernel",
             r"pip install nvidia-cuda-nvrtc-cu12$")
cupy_without("cublas", "libcublas.so.12", "error", r"Failure finding .*cupy\.matmul",
             r"pip install nvidia-cublas-cu12$")
cupy_without("curand", "libcurand.so.10", "warning", r"for cupy\.random",
             r"pip install nvidia-curand-cu12$")


@case("library-missing", "lib-missing", "libcufft.so.11", severity="warning",
      evidence=r"cupy\.fft.*cupy\.random.*libcurand\.so\.10",
      repair=r"pip install nvidia-cufft-cu12 nvidia-curand-cu12$")
def cupy_wishes_are_one_finding(t, bad):
    cupy(t, "14.2.0")
    toolkit(t, without=["cufft", "curand"] if bad else [])


@case("library-not-on-path", "lib-not-on-path", "libcublas.so.12",
      evidence=r"cublas/lib/libcublas\.so\.12", repair="export LD_LIBRARY_PATH")
def cupy_beside_the_next_cuda(t, bad):
    """cuda.pathfinder takes the library of CUDA 13 for a CuPy that was built for CUDA 12."""
    cupy(t, "14.2.0")
    toolkit(t)
    if bad:
        t.lib(t.site + "/nvidia/cu13/lib/libcublas.so.13")
        t.lib(t.site + "/nvidia/cu13/lib/libcublasLt.so.13")


@case("library-not-on-path", "lib-not-on-path", "libnvrtc.so.12", repair="export LD_LIBRARY_PATH",
      evidence="CuPy failed to load libnvrtc.so.12")
def cupy_13_looks_in_no_wheel(t, bad):
    cupy(t, "13.6.0")
    for library, _ in CUPY_LIBRARIES.values():
        t.lib(SYSTEM + "/" + library)
    t.lib(SYSTEM + "/libnvJitLink.so.12")
    folder = toolkit(t)["cuda_nvrtc"]
    return {"env": {} if bad else {"LD_LIBRARY_PATH": folder}}


@case("library-missing", "lib-missing", "libcudart.so.12", evidence="libcublas.so.12",
      repair="nvidia-cuda-runtime-cu12")
def cupy_12_without_a_driver(t, bad):
    """The driver's library comes first in DT_NEEDED; what else is missing is said all the same."""
    cupy_12(t, [] if bad else ["libcudart.so.12", "libcublas.so.12"])


def cupy_12(t, libraries):
    t.python()
    for folder in ("cupy", "cupy/_core"):
        t.put("%s/%s/__init__.py" % (t.site, folder), "")
    path = "cupy/_core/core.%s.so" % TAG
    t.lib("%s/%s" % (t.site, path), soname=None,
          needed=["libcuda.so.1", "libcudart.so.12", "libcublas.so.12"])
    t.dist("cupy-cuda12x", "12.3.0", [path])
    for name in libraries:
        t.lib(SYSTEM + "/" + name)


def cupy_by_variable(variable):
    """A library that only a variable leads to: an environment of conda, a toolkit."""
    def build(t, bad):
        cupy(t, "14.2.0")
        toolkit(t, without=["cufft"])
        t.lib("/opt/other/lib64/libcufft.so.11")
        return {"env": {} if bad else {variable: "/opt/other"}}
    case("library-missing", "lib-missing", "libcufft.so.11", severity="warning",
         name="cupy-by-" + variable.lower().replace("_", "-"), repair="pip install")(build)


cupy_by_variable("CUDA_PATH")
cupy_by_variable("CUDA_HOME")
cupy_by_variable("CONDA_PREFIX")


# ---- JAX ------------------------------------------------------------------------------------

JAX_PARTS = {"cuda_runtime": "libcudart.so.12", "cuda_nvrtc": "libnvrtc.so.12",
             "cublas": "libcublas.so.12", "cuda_cupti": "libcupti.so.12",
             "cusparse": "libcusparse.so.12", "cusolver": "libcusolver.so.11",
             "cufft": "libcufft.so.11", "nccl": "libnccl.so.2"}


def jax(t, without=()):
    """jax[cuda12]: the modules of the plugin open their libraries by stubs, with a RUNPATH."""
    t.python()
    runpath = ":".join("$ORIGIN/../nvidia/%s/lib" % part for part in [*JAX_PARTS, "cudnn"])
    for name, paths in (("jax", []), ("jaxlib", ["jaxlib/_jax.so"]),
                        ("jax-cuda12-pjrt", ["jax_plugins/xla_cuda12/xla_cuda_plugin.so"]),
                        ("jax-cuda12-plugin", ["jax_cuda12_plugin/_solver.so",
                                               "jax_cuda12_plugin/_versions.so"])):
        folder = name.replace("-", "_") if name != "jax-cuda12-pjrt" else "jax_plugins/xla_cuda12"
        t.put("%s/%s/__init__.py" % (t.site, folder), "")
        for path in paths:
            t.lib("%s/%s" % (t.site, path), soname=None, runpath=runpath)
        t.dist(name, "0.6.2", paths)
    if "cudnn" not in without:
        t.pip_cudnn()
    for part, library in JAX_PARTS.items():
        names = [] if part in without else [library, *BESIDE.get(part, ())]
        for name in names:
            t.lib("%s/nvidia/%s/lib/%s" % (t.site, part, name), runpath="$ORIGIN")
        if names:
            t.dist("nvidia-%s-cu12" % part.replace("_", "-"), "12.9.1",
                   ["nvidia/%s/lib/%s" % (part, name) for name in names])
    return {"args": ["--import", "jax"]}


def jax_without(part, culprit, severity, evidence, repair):
    def build(t, bad):
        return jax(t, without=[part] if bad else [])
    case("library-missing", "lib-missing", culprit, name="jax-without-" + part,
         severity=severity, evidence=evidence, repair=repair)(build)


jax_without("cudnn", "libcudnn.so.9", "error", "Unable to load cuDNN.*then uses the CPU",
            r"pip install 'nvidia-cudnn-cu12>=9")
jax_without("cuda_cupti", "libcupti.so.12", "error", "Unable to load", "nvidia-cuda-cupti-cu12$")
jax_without("cusolver", "libcusolver.so.11", "warning", r"cuSolver internal error.*linalg",
            "nvidia-cusolver-cu12$")


@case("library-missing", "lib-missing", "libcufft.so.11", evidence="Unable to load",
      repair="nvidia-cufft-cu12")
def jax_runs_without_nccl(t, bad):
    """NCCL is for several GPUs: without it nothing is said."""
    return jax(t, without=["nccl", "cufft"] if bad else ["nccl"])


@case("library-missing", "lib-missing", "libjax_common.so", evidence="jaxlib/xla_extension",
      repair=r"pip install --force-reinstall --no-deps jaxlib==0\.6\.0$")
def jaxlib_before_0_6_1(t, bad):
    """Its module is jaxlib.xla_extension; that of later releases is not there."""
    t.python()
    for name, paths in (("jax", []), ("jaxlib", ["jaxlib/xla_extension.so",
                                                 "jaxlib/libjax_common.so"])):
        t.put("%s/%s/__init__.py" % (t.site, name), "")
        for path in paths:
            t.lib("%s/%s" % (t.site, path), soname=None, runpath="$ORIGIN/",
                  needed=["libjax_common.so"] if "xla" in path else [])
        t.dist(name, "0.6.0", paths)
    if bad:
        t.remove(t.site + "/jaxlib/libjax_common.so")


# ---- numba-cuda -----------------------------------------------------------------------------

def numba_cuda(t, bad, part, **wants):
    """numba-cuda, which is Python alone, and the wheels of its extra for CUDA 12."""
    t.python()
    t.put(t.site + "/numba_cuda/__init__.py", "")
    t.dist("numba-cuda", "0.30.4", [])
    for path in ("cuda_runtime/lib/libcudart.so.12", "cuda_nvrtc/lib/libnvrtc.so.12",
                 "cuda_nvrtc/lib/libnvrtc-builtins.so.12.9", "cuda_nvcc/nvvm/lib64/libnvvm.so"):
        if not bad or not path.startswith(part):
            t.lib("%s/nvidia/%s" % (t.site, path), runpath="$ORIGIN",
                  soname="libnvvm.so.4" if path.endswith("libnvvm.so") else path.split("/")[-1])
    t.dist("nvidia-cuda-nvrtc-cu12", "12.9.86", [] if bad and part == "cuda_nvrtc" else [
        "nvidia/cuda_nvrtc/lib/libnvrtc.so.12", "nvidia/cuda_nvrtc/lib/libnvrtc-builtins.so.12.9"])
    return {"args": ["--import", "numba.cuda"], **wants}


@case("packages-conflict", "python-dep-conflict", "numpy", repair="pip install 'numpy<2.5'",
      evidence=r"it works with numpy<2\.5: knowledge base, row numba-cuda-0\.30\.4.*"
               "has no attribute 'row_stack'")
def numba_cuda_numpy(t, bad):
    """What its metadata do not say."""
    numba_cuda(t, False, "")
    t.dist("numpy", "2.5.5" if bad else "2.4.6", [])


@case("stub-libcuda", "ld-library-path-shadow", "libcuda.so.1", repair="LD_LIBRARY_PATH")
def stub_for_numba_cuda_alone(t, bad):
    """A toolkit's folder of stubs has libcuda.so only: numba-cuda asks for that name first."""
    t.lib("/usr/local/cuda/lib64/stubs/libcuda.so", soname="libcuda.so.1")
    numba_cuda(t, False, "")
    t.ctranslate2("4.8.5")
    t.system_cublas()
    t.lib("/usr/lib/x86_64-linux-gnu/libcuda.so.1")
    return {"env": {"LD_LIBRARY_PATH": "/usr/local/cuda/lib64/stubs"},
            "args": ["--import", "numba.cuda" if bad else "ctranslate2"]}


@case("packages-conflict", "python-dep-conflict", "numpy", evidence="row numba-cuda-0")
def numba_cuda_numpy_of_another(t, bad):
    """Not met by a program that imports another package."""
    numba_cuda(t, False, "")
    t.dist("numpy", "2.5.5", [])
    t.put(t.site + "/cuda/bindings/__init__.py", "")
    t.dist("cuda-bindings", "13.3.1", [])
    return {"args": ["--import", "numba.cuda" if bad else "cuda.bindings"]}


@case("packages-conflict", "python-dep-conflict", "numpy", evidence="row numba-cuda-0")
def numba_cuda_numpy_of_what_needs_it(t, bad):
    """A package that no row describes may meet it only where it leads to numba-cuda."""
    numba_cuda(t, False, "")
    t.dist("numpy", "2.5.5", [])
    t.put(t.site + "/sounds/__init__.py", "import numba.cuda\n" if bad else "import torch\n")
    t.dist("sounds", "1.0", ["sounds/__init__.py"],
           requires=["numba-cuda"] if bad else ["torch", "numpy"])
    t.torch("2.5.1")
    return {"args": ["--import", "sounds"]}


@case("library-missing", "lib-missing", "libcudart.so.13", repair="pip install nvidia-cuda-runtime",
      evidence=r'Failure finding "libcudart\.so\.13 or libcudart\.so\.12"')
def numba_cuda_import(t, bad):
    return numba_cuda(t, bad, "cuda_runtime")


@case("library-missing", "lib-missing", "libnvvm.so.4", evidence="for compiling a kernel",
      repair="pip install nvidia-cuda-nvcc-cu12$")
def numba_cuda_compile(t, bad):
    return numba_cuda(t, bad, "cuda_nvcc")


@case("library-missing", "lib-missing", "libnvvm.so.4", repair="pip install nvidia-nvvm$")
def numba_cuda_compile_13(t, bad):
    """One SONAME for CUDA 12 and 13: the runtime that is loaded tells which package brings it."""
    t.python()
    t.put(t.site + "/numba_cuda/__init__.py", "")
    t.dist("numba-cuda", "0.30.4", [])
    for name in ("libcudart.so.13", "libnvrtc.so.13", "libnvrtc-builtins.so.13.2", "libnvvm.so.4"):
        if not bad or name != "libnvvm.so.4":
            t.lib("%s/nvidia/cu13/lib/%s" % (t.site, name), runpath="$ORIGIN")
    return {"args": ["--import", "numba.cuda"]}


@case("library-missing", "lib-missing", "libnvvm.so.4", evidence="for compiling a kernel")
def numba_cuda_toolkit(t, bad):
    """The folder of NVVM in a toolkit, which the loader does not search."""
    t.lib("/opt/toolkit/nvvm/lib64/libnvvm.so.4")
    return numba_cuda(t, True, "cuda_nvcc", env={} if bad else {"CUDA_HOME": "/opt/toolkit"})


# ---- bitsandbytes ---------------------------------------------------------------------------

def bitsandbytes(t, cuda, files, needed="libcudart.so.11.0"):
    """bitsandbytes 0.50.2 beside a torch for this CUDA; every file but the last lacks something."""
    t.python().torch_for("cuda", cuda)
    t.put(t.site + "/bitsandbytes/__init__.py", "")
    for name in files[:-1]:
        t.lib("%s/bitsandbytes/libbitsandbytes_cuda%s.so" % (t.site, name), needed=[needed])
    t.lib("%s/bitsandbytes/libbitsandbytes_cuda%s.so" % (t.site, files[-1]))
    t.dist("bitsandbytes", "0.50.2", [])


@case("library-missing", "lib-missing", "libcudart.so.12", severity="warning",
      evidence="all that bitsandbytes does on an NVIDIA GPU", repair="nvidia-cuda-runtime-cu12")
def bitsandbytes_nearest(t, bad):
    """For CUDA 12.5 the file for 12.4 is opened, that for 12.6 only if there is no older one."""
    bitsandbytes(t, "12.5", ["118", "121", "124", "126"] if bad else ["118", "121", "126", "124"],
                 needed="libcudart.so.12")


@case("library-missing", "lib-missing", "libcudart.so.13", severity="warning",
      evidence="libbitsandbytes_cuda130", repair="nvidia-cuda-runtime")
def bitsandbytes_next(t, bad):
    """For CUDA 13.0 without its own file the first one after it."""
    bitsandbytes(t, "13.0", ["128", "136", "132"], needed="libcudart.so.13")
    if bad:
        t.lib("%s/bitsandbytes/libbitsandbytes_cuda130.so" % t.site, needed=["libcudart.so.13"])


@case("library-missing", "lib-missing", "/opt/venv/*/libbitsandbytes_cuda127.so",
      severity="warning", evidence="Configured CUDA binary not found",
      repair="Install a release of bitsandbytes that brings this file")
def bitsandbytes_exact(t, bad):
    """Before 0.50 only the file for torch's own CUDA is taken."""
    t.python().torch_for("cuda", "12.7" if bad else "12.6")
    t.put(t.site + "/bitsandbytes/__init__.py", "")
    t.lib(t.site + "/bitsandbytes/libbitsandbytes_cuda126.so")
    t.dist("bitsandbytes", "0.48.2", [])


@case("library-missing", "lib-missing", "libcudart.so.11.0", severity="warning",
      evidence="libbitsandbytes_cuda118", repair="unset BNB_CUDA_VERSION")
def bitsandbytes_chosen(t, bad):
    """A variable selects the file, whatever torch is built for; that of ROCm does not."""
    bitsandbytes(t, "12.4", ["118", "124"])
    return {"env": {"BNB_CUDA_VERSION" if bad else "BNB_ROCM_VERSION": "118"}}


@case("library-missing", "lib-missing", "/opt/venv/*/libbitsandbytes_cuda999.so", severity="warning",
      repair="unset BNB_CUDA_VERSION")
def bitsandbytes_chosen_wrongly(t, bad):
    """No other file is tried then; an empty value counts as none."""
    bitsandbytes(t, "12.4", ["118", "124"])
    return {"env": {"BNB_CUDA_VERSION": "999" if bad else ""}}


def bitsandbytes_042(t, bad, cuda):
    """Where torch finds a GPU, a library that does not load ends the import before 0.43.1."""
    t.python().torch_for("cuda", cuda)
    t.put(t.site + "/bitsandbytes/__init__.py", "")
    t.lib(t.site + "/bitsandbytes/libbitsandbytes_cuda121.so", needed=["libcudart.so.12"])
    t.dist("bitsandbytes", "0.42.0", ["bitsandbytes/libbitsandbytes_cuda121.so"])
    t.cudart("libcudart.so.11.0" if bad else "libcudart.so.12")


@case("library-wrong-major", "wrong-major", "libcudart.so.12", severity="error",
      evidence="CUDA Setup failed despite GPU being available", repair="nvidia-cuda-runtime-cu12")
def bitsandbytes_ends_its_import(t, bad):
    bitsandbytes_042(t, bad, "12.1")


@case("library-missing", "lib-missing", "/opt/venv/*/libbitsandbytes_cuda124.so", severity="error",
      evidence="CUDA Setup failed despite GPU being available", repair="bitsandbytes")
def bitsandbytes_without_its_file(t, bad):
    """No other file is tried beside a torch for CUDA 12.4."""
    bitsandbytes_042(t, False, "12.4" if bad else "12.1")


# ---- torchvision ----------------------------------------------------------------------------

@case("library-missing", "lib-missing", "libnvjpeg.so.12", severity="warning",
      evidence="the operators of torchvision.ops", repair="provides libnvjpeg")
def torchvision_before_0_17(t, bad):
    """extension.py passes over an OSError, so that the import goes on without the operators."""
    t.python().torch("2.1.2")
    t.put(t.site + "/torchvision/__init__.py", "")
    t.lib(t.site + "/torchvision/_C.so", soname=None, needed=["libnvjpeg.so.12"])
    t.dist("torchvision", "0.16.2", ["torchvision/_C.so"])
    if not bad:
        t.lib(SYSTEM + "/libnvjpeg.so.12")


# ---- torch ----------------------------------------------------------------------------------

@case("library-missing", "lib-missing", "libcusolver.so.11",
      evidence=r"the program then says: Error in dlopen: libcusolver\.so\.11: cannot open")
def torch_linear_algebra(t, bad):
    """What torch prints is what the loader says: of the library that is missing, not of the one that
    is there. A build for CUDA 11 opens no NVRTC of CUDA 12."""
    t.python().torch(needed=["libtorch_cpu.so", "libtorch_cuda.so"], rpath="$ORIGIN/lib")
    lib = t.site + "/torch/lib/"
    t.lib(lib + "libtorch_cpu.so", rpath="$ORIGIN")
    t.lib(lib + "libtorch_cuda.so", needed=["libcudart.so.11.0"], rpath="$ORIGIN")
    t.lib(lib + "libcudart.so.11.0")
    t.lib(lib + "libcaffe2_nvrtc.so", needed=["libnvrtc.so.11.2"], rpath="$ORIGIN")
    t.lib(lib + "libtorch_cuda_linalg.so", needed=["libcusolver.so.11"], rpath="$ORIGIN")
    if not bad:
        t.lib(lib + "libcusolver.so.11")
    return {"args": ["--import", "torch"]}


# ---- Faiss ----------------------------------------------------------------------------------

def faiss_without(part, library):
    """faiss-gpu-cu12: its loader finds the files by the RECORD of NVIDIA's wheels, and only so."""
    def build(t, bad):
        t.python()
        t.put(t.site + "/faiss/__init__.py", "")
        t.lib(t.site + "/faiss/_swigfaiss.so", soname=None,
              needed=["libcudart.so.12", "libcublas.so.12"])
        t.dist("faiss-gpu-cu12", "1.13.2", ["faiss/_swigfaiss.so"])
        t.put(t.site + "/numpy/__init__.py", "")
        t.dist("numpy", "2.2.6", ["numpy/__init__.py"])
        for name, names in {"cuda_runtime": ["libcudart.so.12"],
                            "cublas": ["libcublas.so.12", "libcublasLt.so.12"]}.items():
            if bad and name == part:
                for file in names:
                    t.lib(SYSTEM + "/" + file)
                continue
            for file in names:
                t.lib("%s/nvidia/%s/lib/%s" % (t.site, name, file), runpath="$ORIGIN")
            t.dist("nvidia-%s-cu12" % name.replace("_", "-"), "12.4.5",
                   ["nvidia/%s/lib/%s" % (name, file) for file in names])
    case("library-missing", "lib-missing", library, name="faiss-without-" + part,
         repair="pip install nvidia-%s-cu12" % part.replace("_", "-"))(build)


faiss_without("cublas", "libcublas.so.12")
faiss_without("cuda_runtime", "libcudart.so.12")
