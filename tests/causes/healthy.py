"""Trees that work, or of which nothing is known, and that look like a cause: no rule may fire.

HEALTHY holds {name: (function of a tree, verdict)}; the function returns what a case of cases.py
returns.
"""

from cases import case  # noqa: F401  (its tree is on the path)
from gpucode import llama, torchaudio, torchvision
from gpufile import cuda_library
from tree import LOADER, MACHINES, MUSL_LOADER, SYSTEM, TAG, cudnn_library

GEFORCE = MACHINES["geforce-desktop"][1]
STATE = "onnxruntime/capi/onnxruntime_pybind11_state.%s.so" % TAG
PROVIDER = "onnxruntime/capi/libonnxruntime_providers_cuda.so"


def left_by_the_other_onnxruntime(t):
    """A remnant of onnxruntime beside onnxruntime-gpu, whose module it is: nothing is missing."""
    t.python().machine(GEFORCE)
    t.onnxruntime(needed=())
    t.dist("onnxruntime-gpu", "1.23.2", ["onnxruntime/__init__.py", STATE, PROVIDER])
    t.put(t.site + "/~nnxruntime-1.17.0.dist-info/METADATA",
          "Metadata-Version: 2.1\nName: onnxruntime\nVersion: 1.17.0\n")


def built_for_musl(t):
    """A distribution with musl has packages of its own."""
    t.python(interp=MUSL_LOADER)
    t.lib(MUSL_LOADER, soname="libc.musl-x86_64.so.1")
    t.ctranslate2(needed=["libc.musl-x86_64.so.1"])
    module = t.real("%s/ctranslate2/_ext.%s.so" % (t.site, TAG))
    paths = ["ctranslate2.libs/libctranslate2-01234567.so.4",
             "ctranslate2/" + module.name.replace("gnu", "musl")]
    module.rename(t.real(t.site + "/" + paths[1]))
    t.dist("ctranslate2", "4.8.5", paths)
    for name in ("libcublas.so.12", "libcublasLt.so.12"):
        t.lib("/usr/lib/" + name)


def libcuda_by_library_path(t):
    """The driver's libraries are where only LD_LIBRARY_PATH leads."""
    t.python().torch_for("cuda", "12.4")
    t.machine({path: text for path, text in GEFORCE.items() if not path.startswith(SYSTEM)
               and not path.startswith("/usr" + SYSTEM)})
    t.lib("/usr/local/nvidia/lib64/libcuda.so.550.90.07", soname="libcuda.so.1")
    t.link("/usr/local/nvidia/lib64/libcuda.so.1", "libcuda.so.550.90.07")
    return {"env": {"LD_LIBRARY_PATH": "/usr/local/nvidia/lib64"}}


def onnxruntime_with_cuda(t):
    """conda-forge's build for CUDA has the name of the other."""
    t.python().machine(GEFORCE)
    t.put(t.site + "/onnxruntime/__init__.py", "")
    t.lib(t.site + "/" + STATE, soname=None)
    t.lib(t.site + "/" + PROVIDER)
    t.dist("onnxruntime", "1.20.0", [STATE, PROVIDER])


def cudnn_8_beside_cudnn_9(t):
    """Each main library opens its own: cuDNN 8's have other names than cuDNN 9's."""
    t.python().machine(GEFORCE)
    t.torch(needed=["libcudnn.so.9"], rpath="$ORIGIN/../nvidia/cudnn/lib")
    t.pip_cudnn()
    t.ctranslate2(needed=["libcudnn-463fd6d5.so.8.9.7"], runpath="$ORIGIN")
    t.put(t.site + "/ctranslate2.libs/libcudnn-463fd6d5.so.8.9.7",
          cudnn_library("libcudnn-463fd6d5.so.8.9.7", "8.9.7"))
    for part in ("ops", "cnn", "adv"):
        for name in ("libcudnn_%s_infer.so.8" % part, "libcudnn_%s_train.so.8" % part):
            t.put(SYSTEM + "/" + name, cudnn_library(name, "8.9.7"))
    t.system_cublas()


def numba_cuda_of_an_old_release(t):
    """It opens its libraries in Python: that cuda.bindings works says nothing of it."""
    t.python().machine(GEFORCE)
    for name, version, module in (("cuda-bindings", "12.9.10", "cuda/bindings"),
                                  ("numba-cuda", "0.15.0", "numba_cuda")):
        t.put("%s/%s/__init__.py" % (t.site, module), "")
        t.dist(name, version, [module + "/__init__.py"])


def companions_for_the_cpu(t):
    """Builds without CUDA compare nothing."""
    t.python().torch_for("cuda", "12.4")
    torchaudio(t, "2.5.1+cpu")
    torchvision(t, "0.20.1+cpu", "major ")


def jaxlib_with_cuda(t):
    """jaxlib's own builds for CUDA, before there were plugins."""
    t.python().machine(GEFORCE)
    paths = ["jaxlib/xla_extension.so", "jaxlib/cuda/_solver.so"]
    for name in ("jax", "jaxlib"):
        t.put("%s/%s/__init__.py" % (t.site, name), "")
    for path in paths:
        t.lib(t.site + "/" + path)
    t.dist("jaxlib", "0.4.20+cuda12.cudnn89", paths)
    t.dist("jax", "0.4.20", ["jax/__init__.py"])


def python_that_does_not_start(t):
    """CPython 3.15 ends where the variable has another value than all or normal."""
    t.python().ctranslate2()
    t.system_cublas()
    t.to_python_3_15()
    return {"env": {"PYTHON_LAZY_IMPORTS": "1"}}


def python_of_normal_imports(t):
    return {**python_that_does_not_start(t), "env": {"PYTHON_LAZY_IMPORTS": "normal"}}


def engines(t, *archs):
    """A program with several libraries that have kernels; which one it uses, only it knows."""
    t.machine(GEFORCE).loader()
    names = ["libengine%d.so" % i for i in range(len(archs))]
    t.lib("/opt/app/app", soname=None, interp=LOADER, needed=names, rpath="$ORIGIN")
    for name, arch in zip(names, archs):
        t.put("/opt/app/" + name, cuda_library(name, arch))
    return {"target": "/opt/app/app"}


def one_of_two_engines_for_the_gpu(t):
    return engines(t, ("sm_86", "sm_89"), ("sm_120",))


def two_engines_for_the_gpu(t):
    return engines(t, ("sm_86", "sm_89"), ("sm_89",))


def llama_for_the_cpu(t):
    t.python().machine(MACHINES["cpu-only"][1])
    llama(t, "cpu")


def llama_with_another_library(t):
    """Its variable names the folder of another build."""
    llama_for_the_cpu(t)
    return {"env": {"LLAMA_CPP_LIB_PATH": "/opt/llama"}}


def wrapper(t, source, requires=()):
    """A package of Python code alone that the knowledge base does not know."""
    t.python().ctranslate2()
    t.system_cublas()
    for name, text, needs in (("wrapper", source, requires), ("middle", "", ("ctranslate2",))):
        t.put("%s/%s/__init__.py" % (t.site, name), text)
        t.dist(name, "1.0", [name + "/__init__.py"], requires=needs)
    return {"args": ["--import", "wrapper"]}


def wrapper_that_imports(t):
    """As Keras does, whose packages do not say which other it computes with."""
    return wrapper(t, "def use():\n    import os, ctranslate2.converters as c\n    return c\n")


def wrapper_that_imports_from(t):
    return wrapper(t, "try:\n    from ctranslate2 import models\nexcept ImportError:\n    pass\n")


def wrapper_of_one_that_requires(t):
    return wrapper(t, "", ("middle>=1",))


def wrapper_of_nothing(t):
    return wrapper(t, '"""It is no\nimporter of ctranslate2."""\nimport os\nimport ctranslate2_names\n',
                   ("absent",))


HEALTHY = {
    "healthy-" + build.__name__.replace("_", "-"): (build, verdict) for build, verdict in (
        (left_by_the_other_onnxruntime, "ok"), (built_for_musl, "ok"),
        (python_that_does_not_start, "unknown"), (python_of_normal_imports, "ok"),
        (libcuda_by_library_path, "ok"), (onnxruntime_with_cuda, "unknown"),
        (jaxlib_with_cuda, "unknown"), (wrapper_that_imports, "unknown"),
        (cudnn_8_beside_cudnn_9, "ok"), (companions_for_the_cpu, "ok"), (numba_cuda_of_an_old_release, "unknown"), (wrapper_that_imports_from, "unknown"), (wrapper_of_one_that_requires, "unknown"),
        (wrapper_of_nothing, "ok"),
        (one_of_two_engines_for_the_gpu, "unknown"), (two_engines_for_the_gpu, "ok"),
        (llama_for_the_cpu, "ok"), (llama_with_another_library, "unknown"))}
