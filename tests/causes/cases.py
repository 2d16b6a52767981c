"""The cases: for each cause a tree that has the fault and its twin that does not.

A case is a function `build(t, bad)` that fills the Tree `t`, with the fault if `bad`, and returns
what it wants changed in the call of gpumend: {"args": [...], "env": {...}, "target": PATH or None,
"as_nobody": bool}; "target" None: the machine alone. Nothing else may differ between the two.
"""

import dataclasses
import os
import shutil

import tree
from tree import LOADER, MUSL_LOADER, ORT_NEEDS, SHIM, SYSTEM, TAG, Tree, cudnn_library, elf


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    build: callable
    cause: str
    cls: str
    culprit: str
    severity: str = "error"
    repair: str = ""    # pattern: must be in a repair's text or command
    evidence: str = ""  # pattern: must be in the summary, the evidence or the likewise names
    prefix: str = "/opt/venv"
    hides: tuple = ()   # causes of the tree that are met only once this fault is repaired
    beside: tuple = ()  # causes that are found as well


DF_STATIC_TLS = 0x10
# What onnxruntime-gpu opens since 1.28 when an operator needs it.
ORT_OPENS = ["libcudnn.so.9", "libcufft.so.12"]
CASES = []


def case(cause, cls, culprit, name=None, **more):
    def add(build):
        CASES.append(Case(name or build.__name__.replace("_", "-"), build, cause, cls, culprit,
                          **more))
        return build
    return add


# ---- not there, or not where the loader looks -----------------------------------------------

@case("library-missing", "lib-missing", "libcublas.so.12",
      evidence="libcublasLt.so.12.* opens libnvrtc.so.12",
      repair=r"pip install nvidia-cublas-cu12 nvidia-cuda-nvrtc-cu12 && "
             r"export LD_LIBRARY_PATH=\S*/nvidia/cublas/lib:\S*/nvidia/cuda_nvrtc/lib")
def missing_dlopen(t, bad):
    t.python().ctranslate2()
    if not bad:
        t.system_cublas()


def kept_by_a_lock(tool, prefix, files, command):
    """What is in a project's environment is what its lock says: pip's packages are gone at the next sync."""
    @case("library-missing", "lib-missing", "libcublas.so.12", name="missing-in-a-project-of-" + tool, prefix=prefix,
          repair=r"(?m)^" + command + r" && export LD_LIBRARY_PATH=")
    def build(t, bad):
        t.python().ctranslate2()
        for path, text in files.items():
            t.put(path, text)
        if not bad:
            t.system_cublas()


MISSING = "nvidia-cublas-cu12 nvidia-cuda-nvrtc-cu12"
kept_by_a_lock("uv", "/srv/app/.venv", {"/srv/app/uv.lock": "", "/srv/app/.venv/pyvenv.cfg": "home = /usr/bin\nuv = 0.13.9\nversion_info = 3.11.2\n"},
               f"uv add --project /srv/app {MISSING}")
kept_by_a_lock("poetry", "/srv/app/.venv", {"/srv/app/poetry.lock": ""}, f"poetry -C /srv/app add {MISSING}")
kept_by_a_lock("pdm", "/srv/app/.venv", {"/srv/app/pdm.lock": ""}, f"pdm add -p /srv/app {MISSING}")
kept_by_a_lock("pipenv", "/h/.local/share/virtualenvs/app-x", {
    "/srv/app/Pipfile.lock": "", "/h/.local/share/virtualenvs/app-x/.project": "/srv/app"},
               f"PIPENV_PIPFILE=/srv/app/Pipfile pipenv install {MISSING}")
# Without the lock there is no project that the tool keeps.
kept_by_a_lock("uv-without-a-lock", "/srv/app/.venv", {"/srv/app/.venv/pyvenv.cfg": "home = /usr/bin\nuv = 0.13.9\nversion_info = 3.11.2\n"},
               rf"/srv/app/.venv/bin/python -m pip install {MISSING}")


@case("library-defect", "lib-bug", "onnxruntime-gpu", evidence="libcuda.so.1 is not found",
      repair="ask for CPUExecutionProvider alone")
def onnxruntime_ends_without_a_driver(t, bad):
    """With all of CUDA and no driver: 1.22.0 crashes, 1.23.2 takes the CPU."""
    t.real("/sys/bus/pci/devices").mkdir(parents=True)  # no GPU, for sure
    t.python().onnxruntime("1.22.0" if bad else "1.23.2")
    for name in ORT_NEEDS:
        t.lib(SYSTEM + "/" + name)


@case("library-missing", "lib-missing", "libcublasLt.so.12", evidence="ends the process",
      repair="Change nothing while this machine has no NVIDIA driver: onnxruntime-gpu 1.22.0 falls back")
def onnxruntime_that_better_finds_nothing(t, bad):
    t.real("/sys/bus/pci/devices").mkdir(parents=True)
    t.python().onnxruntime("1.22.0" if bad else "1.23.2", needed=ORT_NEEDS if bad else ())


@case("library-not-on-path", "lib-not-on-path", "libcublas.so.12", evidence="ends the process",
      repair="Change nothing while this machine has no NVIDIA driver")
def library_that_is_the_end_of_another(t, bad):
    """What ctranslate2 lacks lies where onnxruntime-gpu would find all that it better lacks."""
    t.real("/sys/bus/pci/devices").mkdir(parents=True)
    t.python().ctranslate2().onnxruntime("1.22.0", needed=ORT_NEEDS[:1])
    if bad:
        t.pip_cublas()
    else:
        t.system_cublas()
        t.lib(SYSTEM + "/libcuda.so.1")


@case("library-defect", "lib-bug", "onnxruntime-gpu", beside=("library-not-on-path",))
def end_that_would_spread(t, bad):
    """Beside torch it crashes, alone it does not: no repair may take that from it."""
    t.real("/sys/bus/pci/devices").mkdir(parents=True)
    t.python().onnxruntime("1.22.0", needed=["libcublasLt.so.12"])
    t.torch(needed=["libcublasLt.so.12"], rpath="$ORIGIN/../nvidia/cublas/lib")
    t.pip_cublas()
    if not bad:
        t.lib(SYSTEM + "/libcuda.so.1")
        t.lib(SYSTEM + "/libcublasLt.so.12")
    return {"args": ["--import", "onnxruntime,torch"]}


@case("library-defect", "lib-bug", "onnxruntime-gpu", repair="Set GPUMEND_HOOK=0 where there is no driver")
def hook_that_is_the_end(t, bad):
    t.real("/sys/bus/pci/devices").mkdir(parents=True)
    t.python().onnxruntime("1.22.0", needed=["libcublasLt.so.12"])
    t.pip_cublas()
    t.put(t.site + "/gpumend-hook.pth", "import _gpumend_hook\n")
    t.put(t.site + "/_gpumend_hook.py", '\nMODULES = ("onnxruntime", )\nLIBRARIES = (\n'
          '    b"nvidia/cublas/lib/libcublasLt.so.12",\n)\n')
    if not bad:
        t.lib(SYSTEM + "/libcuda.so.1")


@case("library-missing", "lib-missing", "libcublas.so.12",
      evidence="torch 2.5.1 declares nvidia-cublas-cu12==12.4.5.8: not installed")
def missing_and_declared(t, bad):
    """The package that would bring the library is told with it, not as a requirement of its own."""
    t.python().torch(needed=["libcublas.so.12"], rpath="$ORIGIN/../nvidia/cublas/lib")
    t.dist("torch", "2.5.1", [], requires=["nvidia-cublas-cu12==12.4.5.8; "
                                           "platform_system == 'Linux'"])
    if not bad:
        t.pip_cublas()


@case("library-missing", "lib-missing", "libcublas.so.12",
      repair=r"pip install filelock 'typing-extensions>=4\.8' nvidia-cublas-cu12==12\.4\.5\.8 "
             r"nvidia-cudnn-cu12==9\.1\.0\.70$",
      evidence="torch 2.5.1 declares filelock: not installed")
def missing_with_all_that_is_declared(t, bad):
    """`pip install --no-deps torch`: one command, since the loader names the first library alone. A
    requirement of which another version is there stays as it is."""
    t.python().torch(needed=["libcublas.so.12"], rpath="$ORIGIN/../nvidia/cublas/lib")
    t.dist("torch", "2.5.1", [], requires=[
        "filelock", "typing-extensions>=4.8", "nvidia-cublas-cu12==12.4.5.8", "sympy==1.13.1",
        "nvidia-cudnn-cu12==9.1.0.70", "opt-einsum>=3.3; extra == 'opt-einsum'"])
    t.dist("sympy", "1.13.1" if not bad else "1.14.0", [])
    if not bad:
        t.pip_cublas(version="12.4.5.8")
        t.dist("filelock", "3.20.0", [])
        t.dist("typing-extensions", "4.15.0", [])
        t.dist("nvidia-cudnn-cu12", "9.1.0.70", [])


@case("library-missing", "lib-missing", "libcublas.so.13",
      repair=r"pip install 'cuda-toolkit\[cublas,cudart\]==13\.0\.2'$",
      evidence=r"nvidia-cublas==13\.1\.\*, which its extra needs, is not installed")
def missing_of_an_extra_that_is_declared(t, bad):
    """cuda-toolkit is there, and brings nothing: what its extras need was removed, or not asked."""
    t.python().torch(needed=["libcublas.so.13"], rpath="$ORIGIN/../nvidia/cu13/lib")
    t.dist("torch", "2.5.1", [], requires=["cuda-toolkit[cublas,cudart]==13.0.2"])
    t.dist("cuda-toolkit", "13.0.2", [], requires=[
        "nvidia-cublas==13.1.*; extra == 'cublas'", "nvidia-cuda-runtime==13.0.*; extra == 'cudart'",
        "nvidia-cusparse==12.6.*; extra == 'cusparse'"])
    if not bad:
        t.lib(t.site + "/nvidia/cu13/lib/libcublas.so.13")
        t.dist("nvidia-cublas", "13.1.0.3", ["nvidia/cu13/lib/libcublas.so.13"])
        t.dist("nvidia-cuda-runtime", "13.0.96", [])


@case("library-missing", "lib-missing", "libcublasLt.so.12",
      repair=r"nvidia-cublas-cu12.*nvidia-curand-cu12", evidence="libcurand.so.10")
def missing_family_of_one_asker(t, bad):
    t.python().onnxruntime()
    for name in () if bad else ORT_NEEDS:
        t.lib(SYSTEM + "/" + name)


@case("library-missing", "lib-missing", "libcublasLt.so.13",
      repair=r"nvidia-cublas nvidia-curand nvidia-cuda-runtime && export.*/nvidia/cu13/lib\"\$")
def missing_for_cuda_13(t, bad):
    """The packages of CUDA 13 have no suffix; the driver's library is none of this finding."""
    needs = ["libcublasLt.so.13", "libcurand.so.10", "libcudart.so.13"]
    t.python().onnxruntime("1.31.1", needed=[*needs, "libcuda.so.1"] if bad else needs)
    for name in ORT_OPENS if bad else [*ORT_OPENS, *needs]:
        t.lib(SYSTEM + "/" + name)


@case("library-not-on-path", "lib-not-on-path", "libcufft.so.12", severity="warning",
      evidence="nvidia/cu13/lib/libcufft.so.12")
def cufft_that_onnxruntime_opens_later(t, bad):
    """Since 1.28 it is not in DT_NEEDED, and the wheel's folder is not searched."""
    t.python().onnxruntime("1.31.1", needed=())
    t.lib(SYSTEM + "/" + ORT_OPENS[0])
    folder = "nvidia/cu13/lib"
    t.lib("%s/%s/%s" % (t.site, folder, ORT_OPENS[1]))
    t.dist("nvidia-cufft", "12.5.0.14", ["%s/%s" % (folder, ORT_OPENS[1])])
    return {"env": {} if bad else {"LD_LIBRARY_PATH": "%s/%s" % (t.site, folder)}}


@case("library-missing", "lib-missing", "libcublas.so.12", repair="apt-get install libcublas-12")
def missing_for_a_file(t, bad):
    t.loader()
    t.lib("/opt/app/app", soname=None, interp=LOADER,
          needed=["libcublas.so.12", "libcublasLt.so.12"])
    if not bad:
        t.system_cublas()
    return {"target": "/opt/app/app"}


@case("library-missing", "lib-missing", "libcublas.so.12",
      repair=r"^Install the package that provides libcublas\.so\.12 \(cuBLAS of CUDA 12\)\. gpumend does not know its name")
def missing_on_a_system_of_another_manager(t, bad):
    """Neither apt-get nor dnf is there."""
    missing_for_a_file(t, bad)
    t.put("/etc/os-release", "ID=void\n")
    return {"target": "/opt/app/app"}


@case("library-not-on-path", "lib-not-on-path", "libcublas.so.12",
      repair=r"export LD_LIBRARY_PATH=\S*/nvidia/cublas/lib",
      evidence="nvidia/cublas/lib/libcublas.so.12.*nvidia-cublas-cu12 12.4.5.8")
def not_on_path(t, bad):
    t.python().ctranslate2()
    t.pip_cublas()
    return {"env": {} if bad else {"LD_LIBRARY_PATH": t.cublas}}


@case("library-not-on-path", "lib-not-on-path", "libcublas.so.12", prefix="/opt/my $venv's",
      repair=r"export LD_LIBRARY_PATH='")
def not_on_path_with_blanks(t, bad):
    return not_on_path(t, bad)


@case("library-not-on-path", "lib-not-on-path", "libcudnn_*.so.9", repair="export LD_LIBRARY_PATH",
      evidence=r"ctranslate2\.libs.*relative")
def not_on_path_cudnn(t, bad):
    t.python().ctranslate2("4.5.0")
    t.lib("%s/ctranslate2.libs/%s" % (t.site, SHIM), rpath="ctranslate2.libs")
    t.pip_cudnn()
    t.system_cublas()
    return {"env": {} if bad else {"LD_LIBRARY_PATH": t.cudnn}}


@case("library-not-on-path", "lib-not-on-path", "libcublasLt.so.12",
      repair="export LD_LIBRARY_PATH=", evidence="libcurand.so.10")
def not_on_path_toolkit(t, bad):
    t.python().onnxruntime()
    for name in ORT_NEEDS:
        t.lib("/usr/local/cuda-12.4/lib64/" + name)
    return {"env": {} if bad else {"LD_LIBRARY_PATH": "/usr/local/cuda-12.4/lib64"}}


@case("library-not-on-path", "lib-not-on-path", "libcublas.so.12",
      repair=r"export LD_LIBRARY_PATH=\S*/nvidia/cublas/lib:\S*/nvidia/cuda_nvrtc/lib\"")
def not_on_path_and_what_it_asks_for(t, bad):
    """NVRTC is asked for once cuBLAS is found, and worth a warning only: one repair for both."""
    t.python().ctranslate2()
    t.pip_cublas("12.8.4.1")
    t.lib(t.cublas + "/libcublas.so.12", needed=["libcublasLt.so.12"], runpath="$ORIGIN")
    nvrtc = t.site + "/nvidia/cuda_nvrtc/lib"
    t.lib(nvrtc + "/libnvrtc.so.12")
    return {"env": {} if bad else {"LD_LIBRARY_PATH": t.cublas + ":" + nvrtc}}


def not_on_path_and_what_it_asks_for_is_missing(t, bad):
    """NVRTC, which cuBLAS asks for once it is found, is not installed: told before the repair."""
    t.python().ctranslate2()
    t.pip_cublas("12.8.4.1")
    t.lib(t.cublas + "/libcublas.so.12", needed=["libcublasLt.so.12"], runpath="$ORIGIN")
    folder = "nvidia/cuda_nvrtc/lib"
    if not bad:
        names = ["%s/lib%s" % (folder, n) for n in ("nvrtc.so.12", "nvrtc-builtins.so.12.8")]
        for name in names:
            t.lib(t.site + "/" + name, runpath="$ORIGIN")
        t.dist("nvidia-cuda-nvrtc-cu12", "12.8.93", names)
    return {"env": {} if bad else {"LD_LIBRARY_PATH": "%s:%s/%s" % (t.cublas, t.site, folder)}}


case("library-not-on-path", "lib-not-on-path", "libcublas.so.12", beside=("library-missing",),
     repair=r"export LD_LIBRARY_PATH=\S*/nvidia/cublas/lib\"",
     name="not-on-path-before-what-is-missing")(not_on_path_and_what_it_asks_for_is_missing)
case("library-missing", "lib-missing", "libnvrtc.so.12", beside=("library-not-on-path",),
     severity="warning", evidence="once libcublas.so.12 is found",
     repair=r"pip install nvidia-cuda-nvrtc-cu12$",
     name="missing-behind-not-on-path")(not_on_path_and_what_it_asks_for_is_missing)


@case("library-not-on-path", "lib-not-on-path", "libcublasLt.so.12", beside=("library-missing",),
      evidence="libcublas.so.12", repair=r"export LD_LIBRARY_PATH=\S*/nvidia/cublas/lib")
def not_on_path_and_others_missing(t, bad):
    """The loader stops at cuBLAS; what the same library needs besides is not installed."""
    t.python().onnxruntime()
    t.pip_cublas()
    for name in () if bad else ORT_NEEDS:
        t.lib(SYSTEM + "/" + name)


@case("ldconfig-not-run", "lib-not-on-path", "libcublas.so.12", repair="ldconfig",
      evidence="/etc/ld.so.conf.d/cuda.conf")
def ldconfig_not_run(t, bad):
    t.python().ctranslate2()
    lib = "/opt/vendor/lib/libcublas.so.12"
    t.lib(lib)
    t.put("/etc/ld.so.conf", "include /etc/ld.so.conf.d/*.conf\n")
    t.put("/etc/ld.so.conf.d/cuda.conf", "# toolkit\n/opt/vendor/lib\n")
    rows = [] if bad else [{"key": "libcublas.so.12", "path": lib}]
    t.put("/etc/ld.so.cache", tree.elfgen.cache({"entries": rows}))


@case("library-wrong-major", "wrong-major", "libcublasLt.so.13", evidence="libcudart.so.13",
      repair=r"pip install nvidia-cublas nvidia-cuda-runtime && "
             r"export LD_LIBRARY_PATH=\S*/nvidia/cu13/lib:\S*/nvidia/curand/lib")
def wrong_major_of_several(t, bad):
    """The loader stops at the first: the others, and what lies where nobody looks, come with it."""
    t.python().onnxruntime("1.31.1", needed=("libcublasLt.so.13", "libcublas.so.13",
                                             "libcurand.so.10", "libcudart.so.13"))
    t.pip_cublas()
    for name in ORT_OPENS:
        t.lib(SYSTEM + "/" + name)
    curand = t.site + "/nvidia/curand/lib/libcurand.so.10"
    t.lib(curand)
    t.dist("nvidia-curand-cu12", "10.3.5.147", ["nvidia/curand/lib/libcurand.so.10"])
    for name in () if bad else ("libcublasLt.so.13", "libcublas.so.13", "libcudart.so.13"):
        t.lib(SYSTEM + "/" + name)
    if not bad:
        t.lib(SYSTEM + "/libcurand.so.10")


@case("library-wrong-major", "wrong-major", "libcublas.so.12", repair="nvidia-cublas-cu12",
      evidence="libcublas.so.13")
def wrong_major(t, bad):
    t.python().ctranslate2()
    t.lib(t.site + "/nvidia/cu13/lib/libcublas.so.13")
    t.dist("nvidia-cublas", "13.0.2.14", ["nvidia/cu13/lib/libcublas.so.13"])
    if not bad:
        t.system_cublas()


@case("relative-search-path", "lib-not-on-path", "libcublas.so.12", severity="warning")
def found_by_working_directory(t, bad):
    t.python().ctranslate2(rpath="opt/vendor" if bad else "/opt/vendor")
    t.lib("/opt/vendor/libcublas.so.12")


# ---- cuDNN ----------------------------------------------------------------------------------

@case("cudnn-sublibrary-missing", "partial-cudnn", "libcudnn_graph.so.9",
      repair=r"\A(?![\s\S]*ctranslate2[>=])[\s\S]*nvidia-cudnn-cu12==9\.1\.0\.\*",
      evidence="libcudnn_ops.so.9")
def cudnn_main_library_alone(t, bad):
    t.python().ctranslate2("4.5.0")
    t.system_cublas()
    if not bad:
        t.pip_cudnn(folder=SYSTEM)


@case("cudnn-sublibrary-missing", "partial-cudnn", "libcudnn_cnn.so.9",
      repair=r"force-reinstall.* nvidia-cudnn-cu12==9\.1\.0\.70")
def cudnn_one_sublibrary_deleted(t, bad):
    t.python().ctranslate2("4.5.0")
    t.system_cublas()
    t.pip_cudnn()
    if bad:
        t.remove(t.cudnn + "/libcudnn_cnn.so.9")
    return {"env": {"LD_LIBRARY_PATH": t.cudnn}}


@case("cudnn-mixed-versions", "sublib-version-mismatch", "libcudnn_ops.so.9",
      repair=r"force-reinstall.* nvidia-cudnn-cu12==9\.1\.0\.70", evidence=r"9\.10\.2")
def cudnn_two_releases_in_one_folder(t, bad):
    t.python().ctranslate2("4.5.0")
    t.system_cublas()
    t.pip_cudnn(**({"ops": "9.10.2"} if bad else {}))
    return {"env": {"LD_LIBRARY_PATH": t.cudnn}}


@case("cudnn-mixed-versions", "sublib-version-mismatch", "libcudnn_ops.so.9",
      repair=r"export LD_LIBRARY_PATH=\S*/nvidia/cudnn/lib$", evidence="/opt/newer")
def cudnn_part_of_another_release_first(t, bad):
    t.python().ctranslate2("4.5.0")
    t.system_cublas()
    t.pip_cudnn()
    t.put("/opt/newer/libcudnn_ops.so.9",
          cudnn_library("libcudnn_ops.so.9", "9.10.2" if bad else "9.1.0"))
    return {"env": {"LD_LIBRARY_PATH": "/opt/newer:" + t.cudnn}}


@case("cudnn-mixed-versions", "sublib-version-mismatch", "libcudnn_ops.so.9",
      repair=r"force-reinstall.* nvidia-cudnn-cu12==9\.1\.0\.70", evidence="undefined symbol")
def cudnn_symbol_of_another_release(t, bad):
    t.python().ctranslate2("4.5.0")
    t.system_cublas()
    t.pip_cudnn()
    symbol = {"name": "_ZN5cudnn5graph13LibraryLoader11getInstanceEv"}
    t.put(t.cudnn + "/libcudnn_ops.so.9", cudnn_library(
        "libcudnn_ops.so.9", "9.10.2" if bad else "9.1.0", runpath="$ORIGIN",
        needed=["libcudnn_graph.so.9"], undef=[{**symbol, "lazy": False}] if bad else []))
    return {"env": {"LD_LIBRARY_PATH": t.cudnn}}


@case("cudnn-older-main-library", "sublib-version-mismatch", SHIM, severity="warning",
      evidence=r"9\.10\.2")
def cudnn_newer_set(t, bad):
    t.python().ctranslate2("4.5.0")
    t.system_cublas()
    t.pip_cudnn("9.10.2.21" if bad else "9.1.0.70")
    return {"env": {"LD_LIBRARY_PATH": t.cudnn}}


@case("full-version-shadow", "sublib-version-mismatch", "libcudnn_ops.so.9.1.0",
      evidence="/nvidia/cudnn/lib/libcudnn_ops.so.9")
def full_version_name_beats_preload(t, bad):
    t.python().ctranslate2("4.5.0")
    t.system_cublas()
    t.pip_cudnn()
    own = t.site + "/nvidia/cudnn/lib/libcudnn%s.so.9"
    other = "9.1.1" if bad else "9.1.0"
    t.put("/opt/dist/libcudnn_ops.so.9.1.0", cudnn_library("libcudnn_ops.so.9", other))
    if not bad:  # the link collapses by inode onto the preloaded file
        t.remove("/opt/dist/libcudnn_ops.so.9.1.0")
        t.link("/opt/dist/libcudnn_ops.so.9.1.0", own % "_ops")
    preload = " ".join(own % ("_" + s) for s in tree.SUBS)
    return {"env": {"LD_LIBRARY_PATH": "/opt/dist", "LD_PRELOAD": preload}}


# ---- the wrong copy -------------------------------------------------------------------------

def versioned(t, path, *versions):
    """libcublas.so.12 with these symbol versions."""
    t.lib(path, verdef=list(versions), defs=[{"name": "cublasCreate", "version": versions[0]}])


WANTS_NEW = {"needed": ["libcublas.so.12"],
             "verneed": [{"file": "libcublas.so.12", "versions": [{"name": "CUBLAS_12.4"}]}]}


@case("library-wrong-copy", "ld-library-path-shadow", "libcublas.so.12",
      repair=r"LD_LIBRARY_PATH", evidence="/opt/old/libcublas.so.12")
def wrong_copy_by_library_path(t, bad):
    t.python().ctranslate2(**WANTS_NEW)
    versioned(t, "/opt/old/libcublas.so.12", "CUBLAS_12.0")
    versioned(t, SYSTEM + "/libcublas.so.12", "CUBLAS_12.0", "CUBLAS_12.4")
    return {"env": {"LD_LIBRARY_PATH": "/opt/old"} if bad else {}}


@case("library-wrong-copy", "rpath-shadow", "libcublas.so.12", evidence="RPATH of libctranslate2")
def wrong_copy_by_rpath(t, bad):
    t.python().ctranslate2(rpath="/opt/old" if bad else "/opt/none", **WANTS_NEW)
    versioned(t, "/opt/old/libcublas.so.12", "CUBLAS_12.0")
    versioned(t, SYSTEM + "/libcublas.so.12", "CUBLAS_12.0", "CUBLAS_12.4")


@case("library-wrong-copy", "ld-library-path-shadow", "libstdc++.so.6", evidence="GLIBCXX_3.4.30")
def wrong_copy_of_libstdcxx(t, bad):
    t.python().ctranslate2(
        needed=["libstdc++.so.6"],
        verneed=[{"file": "libstdc++.so.6", "versions": [{"name": "GLIBCXX_3.4.30"}]}])
    t.system_cublas()
    t.lib("/opt/conda/lib/libstdc++.so.6", verdef=["GLIBCXX_3.4"])
    t.lib(SYSTEM + "/libstdc++.so.6", verdef=["GLIBCXX_3.4", "GLIBCXX_3.4.30"])
    return {"env": {"LD_LIBRARY_PATH": "/opt/conda/lib"} if bad else {}}


@case("import-order", "sublib-version-mismatch", "libcublas.so.12",
      repair="import torch, import ctranslate2")
def import_order(t, bad):
    t.python().ctranslate2(needed=["libcublas.so.12"], runpath="/opt/old")
    versioned(t, "/opt/old/libcublas.so.12", "CUBLAS_12.0", *([] if bad else ["CUBLAS_12.4"]))
    t.torch(runpath="/opt/new", **WANTS_NEW)
    versioned(t, "/opt/new/libcublas.so.12", "CUBLAS_12.0", "CUBLAS_12.4")


@case("import-order", "sublib-version-mismatch", "libcublas.so.12",
      repair="Use the modules for the first time in this order, or set PYTHON_LAZY_IMPORTS=normal",
      evidence="PYTHON_LAZY_IMPORTS=all: a module is loaded when it is first used")
def import_order_of_lazy_imports(t, bad):
    import_order(t, bad)
    t.to_python_3_15()
    return {"env": {"PYTHON_LAZY_IMPORTS": "all"}}


@case("library-missing", "lib-missing", "libnope.so.1",
      evidence=r"PYTHON_LAZY_IMPORTS=all \(or -X lazy_imports=all\): the program meets it where it first uses the package")
def missing_where_imports_wait(t, bad):
    t.python().ctranslate2(needed=["libnope.so.1"] if bad else [])
    t.system_cublas()
    t.to_python_3_15()
    return {"env": {"PYTHON_LAZY_IMPORTS": "all"}}


@case("library-missing", "lib-missing", "libnope.so.1",
      evidence=r"that wait \(ctranslate2/__init__\.py, line 2: lazy import ctranslate2\._ext\): the program may meet it only")
def missing_where_a_package_waits(t, bad):
    t.python().ctranslate2(needed=["libnope.so.1"] if bad else [])
    t.put(t.site + "/ctranslate2/__init__.py", '"""lazy import sys"""\nlazy import ctranslate2._ext\n')
    t.system_cublas()
    t.to_python_3_15()


@case("stub-libcuda", "ld-library-path-shadow", "libcuda.so.1", repair="LD_LIBRARY_PATH")
def stub_libcuda(t, bad):
    t.python().ctranslate2()
    t.system_cublas()
    t.lib("/usr/local/cuda/lib64/stubs/libcuda.so", soname="libcuda.so.1")
    t.link("/usr/local/cuda/lib64/stubs/libcuda.so.1", "libcuda.so")
    t.lib(SYSTEM + "/libcuda.so.1")
    return {"env": {"LD_LIBRARY_PATH": "/usr/local/cuda/lib64" + ("/stubs" if bad else "")}}


@case("stub-libcuda", "ld-library-path-shadow", "libcuda.so.1", repair="/usr/lib/libcuda.so.1")
def stub_libcuda_behind_a_link(t, bad):
    t.python().ctranslate2()
    t.system_cublas()
    stub = "/usr/local/cuda/lib64/stubs/libcuda.so"
    t.lib(stub, soname="libcuda.so.1")
    t.lib("/usr/lib/nvidia/libcuda.so.1")
    t.link("/usr/lib/libcuda.so.1", stub if bad else "/usr/lib/nvidia/libcuda.so.1")


@case("stub-libcuda", "rpath-shadow", "libcuda.so.1",
      repair=r"^cp -p /opt/app/app (\S+) && patchelf --set-rpath '\$ORIGIN/lib' \1 && "
             r"mv -f \1 /opt/app/app$")
def stub_libcuda_by_rpath(t, bad):
    t.loader()
    t.lib("/opt/app/app", soname=None, interp=LOADER, needed=["libcuda.so.1"],
          runpath="$ORIGIN/lib" + (":$ORIGIN/../../usr/local/cuda/lib64/stubs" if bad else ""))
    t.lib("/usr/local/cuda/lib64/stubs/libcuda.so.1")
    t.lib(SYSTEM + "/libcuda.so.1")
    return {"target": "/opt/app/app"}


# ---- files that cannot be used --------------------------------------------------------------

def damage_cublas(t, bad, kind):
    """ctranslate2 with pip's cuBLAS, damaged by a function or in a way that the tree knows."""
    t.python().ctranslate2()
    t.pip_cublas()
    path = t.cublas + "/libcublas.so.12"
    if bad and callable(kind):
        kind(t, path)
    elif bad:
        t.damage(path, kind)


def damaged(name, cause, cls, kind, evidence="", **more):
    def build(t, bad):
        damage_cublas(t, bad, kind)
        return {"env": {"LD_LIBRARY_PATH": t.cublas}}
    case(cause, cls, "libcublas.so.12", name=name, evidence=evidence,
         repair=more.pop("repair", r"force-reinstall --no-deps nvidia-cublas-cu12==12\.4\.5\.8"),
         **more)(build)


damaged("empty-file", "library-unusable-file", "lib-missing", "truncate:0", "too short|empty")
damaged("truncated-header", "library-unusable-file", "lib-missing", "truncate:40", "too short")
damaged("truncated-body", "library-unusable-file", "lib-missing", "truncate:4200", "cut off")
damaged("text-file", "library-unusable-file", "lib-missing",
        lambda t, p: t.put(p, "version https://git-lfs.github.com/spec/v1\n" * 3),
        "invalid ELF header")
damaged("zeroed-header", "library-unusable-file", "lib-missing", lambda t, p: t.put(p, b"\0" * 5000),
        "first bytes are zeros")
damaged("wrong-class", "library-wrong-architecture", "lib-missing", "class32-386", "32-bit")
damaged("wrong-machine", "library-wrong-architecture", "lib-missing", "machine", "aarch64")
damaged("wrong-osabi", "library-wrong-architecture", "lib-missing", "osabi", "OS ABI")


def dangle(t, path):
    t.remove(path)
    t.link(path, "libcublas.so.12.4.5.8")


damaged("dangling-link", "library-dangling-link", "lib-missing", dangle, "libcublas.so.12.4.5.8")


def not_searched(name, cause, cls, kind, evidence, **more):
    """Damaged where the loader does not look: it is not absent for that."""
    def build(t, bad):
        damage_cublas(t, bad, kind)
        return {"env": {} if bad else {"LD_LIBRARY_PATH": t.cublas},
                "as_nobody": cls == "permission"}
    case(cause, cls, "libcublas.so.12", name="not-searched-" + name, evidence=evidence,
         repair=more.get("repair", r"force-reinstall --no-deps nvidia-cublas-cu12==12\.4\.5\.8"))(
             build)


UNUSABLE = ("library-unusable-file", "lib-missing")
not_searched("empty", *UNUSABLE, "truncate:0", "empty")
not_searched("header", *UNUSABLE, "truncate:40", "too short")
not_searched("body", *UNUSABLE, "truncate:4200", "cut off")
not_searched("text", *UNUSABLE, lambda t, p: t.put(p, "<html>" * 40), "text file")
not_searched("folder", *UNUSABLE,
             lambda t, p: (t.remove(p), t.real(p).mkdir()), "cannot be opened|not a usable")
not_searched("machine", "library-wrong-architecture", "lib-missing", "machine", "aarch64")
not_searched("dangling", "library-dangling-link", "lib-missing", dangle, "leads nowhere")
not_searched("file-mode", "library-unreadable", "permission",
             lambda t, p: t.real(p).chmod(tree.closed(0o600)), "cannot be read", repair=r"chmod a\+rX \S*\.so\.12 && export \S*/nvidia/cublas/lib")
not_searched("folder-mode", "library-unreadable", "permission",
             lambda t, p: t.real(t.site + "/nvidia").chmod(tree.closed(0o700)),
             "cannot be read by this user .nvidia-cublas-cu12 12.4.5.8 records it.*search permission",
             repair=r"chmod -R a\+rX \S*/nvidia && export \S*/nvidia/cublas/lib")


def linked(name, cause, cls, kind, evidence, **more):
    """Damaged behind a link that no package records, as `fix` makes them: the file it leads to counts."""
    def build(t, bad):
        damage_cublas(t, bad, kind)
        for library in ("libcublas.so.12", "libcublasLt.so.12"):
            t.link("/opt/links/" + library, t.cublas + "/" + library)
        return {"env": {"LD_LIBRARY_PATH": "/opt/links"}, "as_nobody": cls == "permission"}
    case(cause, cls, "libcublas.so.12", name="linked-" + name, evidence=evidence,
         repair=more.get("repair", r"force-reinstall --no-deps nvidia-cublas-cu12==12\.4\.5\.8"))(
             build)


linked("empty", *UNUSABLE, "truncate:0", "empty")
linked("body", *UNUSABLE, "truncate:4200", "cut off")
linked("dangling", "library-dangling-link", "lib-missing", dangle, "leads nowhere")
linked("file-mode", "library-unreadable", "permission",
       lambda t, p: t.real(p).chmod(tree.closed(0o600)), "is a link to", repair=r"chmod a\+rX \S*/cublas/lib/libcublas\.so\.12$")
linked("folder-mode", "library-unreadable", "permission",
       lambda t, p: t.real(t.site + "/nvidia").chmod(tree.closed(0o700)),
       "does not have search permission on \\S*/nvidia", repair=r"chmod -R a\+rX \S*/nvidia$")


@case("library-unreadable", "permission", "_ext.*.so", repair=r"chmod -R a\+rX \S*/ctranslate2$")
def unreadable_package(t, bad):
    """Python does not find the module: no other build of the package is installed for that."""
    t.python().ctranslate2()
    t.system_cublas()
    t.real(t.site + "/ctranslate2").chmod(tree.closed(0o700) if bad else 0o755)
    return {"as_nobody": True}


@case("library-unreadable", "permission", "libcublas.so.12", repair="chmod a\\+rX .*libcublas.so.12")
def unreadable_file(t, bad):
    t.python().ctranslate2()
    t.pip_cublas()
    t.real(t.cublas + "/libcublas.so.12").chmod(tree.closed(0o600) if bad else 0o644)
    return {"env": {"LD_LIBRARY_PATH": t.cublas}, "as_nobody": True}


# ---- begun and not ended --------------------------------------------------------------------

BEGUN = ("0123456789abcdef begin version=1 id=1 what=fix title=x base=y at=1\n"
         "0123456789abcdef packages n=1 entries=2 hash=3\n")


@case("repair-interrupted", "python-dep-conflict", "/opt/venv",
      repair=r"gpumend fix /opt/venv --root \S+ --undo$", evidence=".gpumend/journal/12")
def repair_interrupted(t, bad):
    t.python().ctranslate2()
    t.system_cublas()
    t.put(t.prefix + "/.gpumend/journal/12/log",
          BEGUN + ("" if bad else "0123456789abcdef applied\n"))


@case("repair-interrupted", "python-dep-conflict", "/opt/venv",
      repair=r"gpumend fix /opt/venv --root \S+ --undo$")
def repair_half_taken_back(t, bad):
    """Packages are gone, so that nothing else is found."""
    t.python()
    t.put(t.prefix + "/.gpumend/journal/1/log", BEGUN + "0123456789abcdef applied\n" +
          ("0123456789abcdef undo\n" if bad else ""))


def incomplete(name, file, evidence, change, severity="error"):
    def build(t, bad):
        t.python().ctranslate2("4.8.5")
        t.system_cublas()
        init = "ctranslate2/__init__.py"
        t.put(t.site + "/" + init, "import os\n")
        t.put(t.site + "/ctranslate2/tests/test_it.py", "")
        t.dist("ctranslate2", "4.8.5", [init, "ctranslate2/_ext.%s.so" % TAG,
                                        "ctranslate2/tests/test_it.py",
                                        "ctranslate2.libs/libctranslate2-01234567.so.4"])
        t.remove(t.site + "/ctranslate2/tests/test_it.py")  # that may be missing
        if bad:
            change(t, t.site + "/" + file.replace("TAG", TAG))
    case("package-incomplete", "python-dep-conflict", "ctranslate2", name="incomplete-" + name,
         severity=severity, evidence=evidence, repair="pip install .*ctranslate2")(build)


incomplete("extension", "ctranslate2/_ext.TAG.so",
           "^(?!.*also lists).*_ext.*which is missing", Tree.remove)  # it is named once
incomplete("init", "ctranslate2/__init__.py", "__init__.py, which is missing", Tree.remove)
incomplete("init-empty", "ctranslate2/__init__.py", "__init__.py, which is empty",
           lambda t, p: t.put(p, ""))
incomplete("left-by-pip", "ctranslate2-4.8.5.dist-info", "interrupted.*some of its files still exist",
           lambda t, p: os.rename(t.real(p), t.real(p.replace("/ct", "/~t"))))


def without_metadata(state, change):
    """The folder's name is then all that says what is installed: whether it is whole is not known."""
    def build(t, bad):
        t.python().ctranslate2("4.8.5")
        t.system_cublas()
        if bad:
            change(t, t.site + "/ctranslate2-4.8.5.dist-info/METADATA")
    case("package-incomplete", "python-dep-conflict", "ctranslate2", name="metadata-" + state, severity="warning",
         evidence="METADATA is %s, as an interrupted installer leaves it" % state,
         repair=r"Remove \S+/ctranslate2-4\.8\.5\.dist-info, then reinstall")(build)


without_metadata("missing", Tree.remove)
without_metadata("empty", lambda t, p: t.put(p, ""))


def deleted(name, culprit, file, repair, change=lambda t: None):
    """What a package records and what is gone comes back when that package is installed again."""
    def build(t, bad):
        t.python().torch("2.5.1", needed=["libtorch_python.so"], rpath="$ORIGIN/lib")
        t.lib(t.site + "/torch/lib/libtorch_python.so", needed=["libc10.so"], rpath="$ORIGIN")
        t.lib(t.site + "/torch/lib/libc10.so")
        names = ["torch/lib/lib%s.so" % n for n in ("torch_global_deps", "torch_python", "c10")]
        t.dist("torch", "2.5.1", [*names, "torch/_C.%s.so" % TAG])
        t.ctranslate2("4.8.5", rpath="$ORIGIN/../nvidia/cublas/lib")
        t.pip_cublas()
        change(t)
        if bad:
            t.remove(t.site + "/" + file)
    cause = "package-incomplete" if culprit == "torch" else "library-missing"
    case(cause, "python-dep-conflict" if culprit == "torch" else "lib-missing", culprit,
         name="deleted-" + name, repair=repair, evidence="record(s|ed)")(build)


AGAIN = r"^\S+/python -m pip install --force-reinstall --no-deps "


def by_uv(t):
    shutil.rmtree(t.real(t.site + "/pip-23.0.1.dist-info"))


def of_pytorch(t):
    """A build that pip's own index does not have."""
    os.rename(t.real(t.site + "/torch-2.5.1.dist-info"),
              t.real(t.site + "/torch-2.5.1+cu124.dist-info"))
    meta = t.real(t.site + "/torch-2.5.1+cu124.dist-info/METADATA")
    meta.write_text(meta.read_text().replace("2.5.1", "2.5.1+cu124"))


deleted("of-torch", "libc10.so", "torch/lib/libc10.so", AGAIN + r"torch==2\.5\.1$")
deleted("by-uv", "libc10.so", "torch/lib/libc10.so", r"^uv pip install --python \S+/python "
        r"--force-reinstall --no-deps torch==2\.5\.1$", by_uv)
deleted("of-pytorch", "libc10.so", "torch/lib/libc10.so",
        r"^uv pip install --python \S+/python --reinstall-package torch --no-deps "
        r"--torch-backend=cu124 torch==2\.5\.1\+cu124$", of_pytorch)
deleted("opened-first", "torch", "torch/lib/libtorch_global_deps.so",
        AGAIN + r"torch==2\.5\.1$")
deleted("bundled", "libctranslate2-01234567.so.4",
        "ctranslate2.libs/libctranslate2-01234567.so.4", AGAIN + r"ctranslate2==4\.8\.5$")
deleted("of-nvidia", "libcublas.so.12", "nvidia/cublas/lib/libcublas.so.12",
        AGAIN + r"nvidia-cublas-cu12==12\.4\.5\.8$")


@case("library-missing", "lib-missing", "libcublas.so.12", evidence="recorded by libcublas 12",
      prefix="/opt/conda", repair=r"^conda install -p /opt/conda --force-reinstall --no-deps "
      r"libcublas=12\.4\.5\.8$")
def deleted_of_conda(t, bad):
    """pip has no package of that name."""
    t.loader()
    t.put(t.prefix + "/bin/python3.11", elf(None, interp=LOADER))
    t.link(t.prefix + "/bin/python", "python3.11")
    t.put(t.prefix + "/lib/python3.11/os.py", "")
    t.put(t.prefix + "/conda-meta/history", "")
    t.put(t.prefix + "/conda-meta/libcublas-12.4.5.8-0.json", '{"name": "libcublas", "version": '
          '"12.4.5.8", "files": ["lib/libcublas.so.12", "lib/libcublasLt.so.12"]}')
    t.ctranslate2("4.8.5", rpath="$ORIGIN/../../..:$ORIGIN/../../../..")
    for name in ("libcublas.so.12", "libcublasLt.so.12"):
        t.lib(t.prefix + "/lib/" + name)
    if bad:
        t.remove(t.prefix + "/lib/libcublas.so.12")


def missing_of_conda(name, prefix, files, repair, soname="libcublas.so.12"):
    """conda-forge has one package for every CUDA, and pixi keeps its environments by a lock."""
    @case("library-missing", "lib-missing", soname, name="missing-of-" + name, prefix=prefix, repair=r"(?m)^" + repair)
    def build(t, bad):
        deleted_of_conda(t, False)
        for path in files:
            t.put(path, "{}")
        if bad:
            for path in ("lib/libcublas.so.12", "lib/libcublasLt.so.12", "conda-meta/libcublas-12.4.5.8-0.json"):
                t.remove(f"{t.prefix}/{path}")


CONDA_WORDS = "libcublas cuda-nvrtc cuda-version=12$"
missing_of_conda("conda", "/opt/conda", [], rf"conda install -p /opt/conda -c conda-forge {CONDA_WORDS}")
missing_of_conda("pixi", "/srv/app/.pixi/envs/default", ["/srv/app/pixi.lock", "/srv/app/pixi.toml"],
                 rf"pixi add --manifest-path /srv/app/pixi\.toml {CONDA_WORDS}")
missing_of_conda("pixi-by-pyproject", "/srv/app/.pixi/envs/default", ["/srv/app/pixi.lock"],
                 rf"pixi add --manifest-path /srv/app/pyproject\.toml {CONDA_WORDS}")


@case("library-missing", "lib-missing", "libcublas.so.12", evidence="recorded by nvidia-cublas",
      repair=AGAIN + r"nvidia-cublas-cu12==12\.4\.5\.8 && export LD_LIBRARY_PATH=/opt/venv/\S+/nvidia/"
      r"cublas/lib")
def deleted_where_nobody_looks(t, bad):
    """Installing it again is half of what is needed."""
    t.python().ctranslate2("4.8.5")
    t.pip_cublas()
    if bad:
        t.remove(t.cublas + "/libcublas.so.12")
    else:
        t.system_cublas()


@case("library-unusable-file", "lib-missing", "libcudnn_engines_precompiled.so.9",
      severity="warning", repair="force-reinstall", evidence="cut off")
def damaged_and_not_asked_for(t, bad):
    t.python().ctranslate2()
    t.system_cublas()
    t.pip_cudnn()
    if bad:
        t.damage(t.cudnn + "/libcudnn_engines_precompiled.so.9", "truncate:4200")


# ---- versions and symbols -------------------------------------------------------------------

@case("glibc-too-old", "glibc-too-old", "libc.so.6", evidence="GLIBC_2.99")
def glibc_version_missing(t, bad):
    t.python().ctranslate2(needed=["libc.so.6"], verneed=[
        {"file": "libc.so.6", "versions": [{"name": "GLIBC_2.99" if bad else "GLIBC_2.2.5"}]}])
    t.system_cublas()
    t.lib(SYSTEM + "/libc.so.6", verdef=["GLIBC_2.2.5"])


@case("glibc-too-old", "glibc-too-old", "libstdc++.so.6", evidence="GLIBCXX_3.4.30")
def glibcxx_version_missing(t, bad):
    t.python().ctranslate2(needed=["libstdc++.so.6"], verneed=[
        {"file": "libstdc++.so.6",
         "versions": [{"name": "GLIBCXX_3.4.30" if bad else "GLIBCXX_3.4"}]}])
    t.system_cublas()
    t.lib(SYSTEM + "/libstdc++.so.6", verdef=["GLIBCXX_3.4"])


@case("symbol-version-missing", "symbol-missing", "libcublas.so.12", evidence="CUBLAS_12.4")
def cuda_version_missing(t, bad):
    t.python().ctranslate2(**WANTS_NEW)
    versioned(t, SYSTEM + "/libcublas.so.12", "CUBLAS_12.0", *([] if bad else ["CUBLAS_12.4"]))


@case("undefined-symbol", "symbol-missing", "libctranslate2-01234567.so.4",
      evidence="__nvJitLinkAddData_12_1")
def undefined_symbol(t, bad):
    name = {"name": "__nvJitLinkAddData_12_1"}
    t.python().ctranslate2(needed=["libnvJitLink.so.12"], undef=[{**name, "lazy": False}])
    t.system_cublas()
    t.lib(SYSTEM + "/libnvJitLink.so.12", defs=[] if bad else [name])


@case("exec-stack", "exec-stack", "libctranslate2-01234567.so.4", repair="--clear-execstack")
def exec_stack(t, bad):
    t.python().ctranslate2(stack="rwx" if bad else "rw")
    t.system_cublas()
    return {"args": ["--glibc", "2.41"]}


@case("exec-stack", "exec-stack", "libctranslate2-01234567.so.4")
def exec_stack_newer_glibc(t, bad):
    t.python().ctranslate2(stack="rwx")
    t.system_cublas()
    return {"args": ["--glibc", "2.41" if bad else "2.40"]}


@case("undefined-symbol", "symbol-missing", "libcublas.so.12", evidence="gone")
def undefined_symbol_of_one_without_exports(t, bad):
    """Its hash table is empty, and says nothing of how many symbols there are."""
    t.python().ctranslate2()
    t.put(SYSTEM + "/libcublas.so.12", tree.compiled(
        "extern int gone%s; __attribute__((used)) static int *keep = &gone;" % (
            "" if bad else " __attribute__((weak))"),
        "-nostartfiles", "-Wl,-soname,libcublas.so.12"))


@case("static-tls-exhausted", "not-gpu-runtime", "libctranslate2-01234567.so.4",
      repair=r"optional_static_tls=4608$", evidence="needs 4000 bytes")
def static_tls(t, bad):
    t.python().ctranslate2(flags=DF_STATIC_TLS, tls={"size": 4000 if bad else 1600, "align": 16},
                           tls_refs=[{}])
    t.system_cublas()


@case("static-tls-exhausted", "not-gpu-runtime", "libctranslate2-01234567.so.4",
      repair=r"export LD_PRELOAD=\S*/libctranslate2-01234567.so.4$",
      evidence="libearly.so.1 uses 1000 bytes")
def static_tls_taken_before(t, bad):
    """Whether the second one fits depends on the first."""
    t.python().ctranslate2(flags=DF_STATIC_TLS, tls={"size": 900, "align": 8}, tls_refs=[{}],
                           needed=["libearly.so.1"])
    t.system_cublas()
    t.lib(SYSTEM + "/libearly.so.1", tls={"size": 1000, "align": 8},
          tls_refs=[{"descriptor": not bad}])


@case("cpu-level", "not-gpu-runtime", "libcublas.so.12", evidence="x86-64-v1")
def cpu_level(t, bad):
    t.python().ctranslate2()
    t.put(SYSTEM + "/libcublas.so.12", tree.compiled(
        "int here(void); int here(void) { return 1; }", "-Wl,-soname,libcublas.so.12",
        "-Wl,-z,x86-64-v3"))
    return {"args": ["--cpu", "x86-64-v1" if bad else "x86-64-v3"]}


@case("page-size", "not-gpu-runtime", "libfoo.so.1", repair="64 KiB",
      evidence=r"less than 64 KiB, and this kernel's are of 64 KiB[\s\S]*not page-aligned")
def page_size(t, bad):
    """A program of aarch64 whose kernel has pages of 64 KiB."""
    arm = {"machine": tree.elfgen.AARCH64}
    t.put("/lib/ld-linux-aarch64.so.1", tree.elf("ld-linux-aarch64.so.1", verdef=["GLIBC_PRIVATE"], **arm))
    t.put("/usr/bin/app", tree.elf(None, interp="/lib/ld-linux-aarch64.so.1", needed=["libfoo.so.1"],
                                  runpath="/usr/lib", **arm))
    t.put("/usr/lib/libfoo.so.1", tree.elf("libfoo.so.1", shift=0x1000 if bad else 0x10000, **arm))
    t.put("/proc/cpuinfo", "processor\t: 0\nFeatures\t: fp asimd atomics\nCPU architecture: 8\n")
    return {"target": "/usr/bin/app", "args": ["--page-size", "65536", "--glibc", "2.36"]}


def jetson_app(t, needs, release="R36 (release), REVISION: 4.3", soc="tegra234"):
    """A program of aarch64 on a Jetson board with Ubuntu, on which its library is missing."""
    arm = {"machine": tree.elfgen.AARCH64}
    t.put("/lib/ld-linux-aarch64.so.1", tree.elf("ld-linux-aarch64.so.1", verdef=["GLIBC_PRIVATE"], **arm))
    t.put("/usr/bin/app", tree.elf(None, interp="/lib/ld-linux-aarch64.so.1", needed=[needs], runpath="/usr/lib", **arm))
    t.put("/.gpumend-nodes", "/dev/nvgpu/igpu0/ctrl c 501 1 666 0 0 ok\n/dev/nvmap c 10 121 666 0 0 ok\n")
    t.put("/sys/module/nvgpu/initstate", "live\n")
    libcuda = "/usr/lib/aarch64-linux-gnu/nvidia/libcuda.so.1"
    t.lib(libcuda, **arm)
    entry = {"key": "libcuda.so.1", "path": libcuda, "flags": 0xa03}  # FLAG_AARCH64_LIB64, FLAG_ELF_LIBC6
    t.put("/etc/ld.so.cache", tree.elfgen.cache({"entries": [entry]}))
    t.put("/usr/bin/apt-get", "")
    t.put("/etc/os-release", "ID=ubuntu\nVERSION_ID=\"22.04\"\n")
    t.put("/proc/cpuinfo", "processor\t: 0\nFeatures\t: fp asimd atomics\nCPU architecture: 8\n")
    t.put("/etc/nv_tegra_release", "# %s, GCID: 1, BOARD: generic, EABI: aarch64\n" % release)
    t.put("/proc/device-tree/compatible", "nvidia,p3767\0nvidia,%s\0" % soc)
    return arm


def on_jetson(name, library, repair, **more):
    """NVIDIA's packages for Arm servers are no cure on Jetson boards before JetPack 7."""
    def build(t, bad):
        arm = jetson_app(t, library, **more)
        if not bad:
            t.lib("/usr/lib/" + library, **arm)
        return {"target": "/usr/bin/app", "args": ["--glibc", "2.35"]}
    case("library-missing", "lib-missing", library, name=name, repair=repair)(build)


on_jetson("jetson-jetpack-6", "libcublas.so.12", r"(?s)has CUDA 12 of its own.*apt-get install nvidia-jetpack")
on_jetson("jetson-other-cuda", "libcublas.so.12", r"Use a build of app for JetPack: this Jetson \(L4T R35\) has CUDA 11",
          release="R35 (release), REVISION: 4.1")
on_jetson("jetson-cudnn", "libcudnn.so.9", r"If they do not contain libcudnn\.so\.9, use a build of app")
on_jetson("jetson-thor", "libcublas.so.13", r"/sbsa/cuda-keyring", release="R38 (release), REVISION: 2.0",
          soc="tegra264")


# ---- the program and its start --------------------------------------------------------------

@case("extension-other-python", "python-dep-conflict", "ctranslate2", repair="force-reinstall")
def extension_other_python(t, bad):
    t.python().ctranslate2()
    t.system_cublas()
    if bad:
        os.rename(t.real("%s/ctranslate2/_ext.%s.so" % (t.site, TAG)),
                  t.real(t.site + "/ctranslate2/_ext.cpython-310-x86_64-linux-gnu.so"))


@case("secure-execution", "env-set-too-late", "python3.11", severity="warning", repair="chmod")
def secure_execution(t, bad):
    if os.geteuid() != 0:
        raise tree.Skip("only root makes a program of another user's")
    t.python().ctranslate2(ext={"rpath": t.site + "/ctranslate2.libs"})
    t.system_cublas()
    program = t.real("/usr/bin/python3.11")
    os.chown(program, 65534, 65534)
    program.chmod(0o4755 if bad else 0o755)
    return {"env": {"LD_LIBRARY_PATH": "/opt"}}


@case("preload-ignored", "env-set-too-late", "/opt/hook.so", severity="warning")
def preload_ignored(t, bad):
    t.python().ctranslate2()
    t.system_cublas()
    if not bad:
        t.lib("/opt/hook.so")
    return {"env": {"LD_PRELOAD": "/opt/hook.so"}}


def element(name, text, severity="warning"):
    def build(t, bad):
        t.python().ctranslate2()
        t.system_cublas()
        t.lib("/opt/here/libother.so.1")
        t.lib("/here/libother.so.1")
        return {"env": {"LD_LIBRARY_PATH": text if bad else "/opt/here"}}
    case("library-path-element", "ld-library-path-shadow", "LD_LIBRARY_PATH", name=name,
         severity=severity, repair="LD_LIBRARY_PATH")(build)


element("empty-element", "/opt/here:")
element("relative-element", "here:/opt/here")
element("tilde-element", "/opt/here:~/lib")
element("missing-element", "/opt/here:/opt/gone", severity="note")


@case("undefined-symbol", "symbol-missing", "app", repair="for musl",
      evidence="Error relocating /opt/app/app: __printf_chk: symbol not found")
def musl_for_a_program_of_glibc(t, bad):
    """musl takes the place of libc.so.6, and lacks what only glibc has; a weak symbol may be absent."""
    names = [{"name": "__printf_chk"}, {"name": "puts"}]
    weak = {"name": "__gmon_start__", "weak": True, "lazy": False}
    t.lib(MUSL_LOADER, soname="libc.musl-x86_64.so.1", defs=names[1:] if bad else names)
    t.lib("/opt/app/app", soname=None, interp=MUSL_LOADER, needed=["libc.so.6"],
          undef=[*({**n, "lazy": False} for n in names), weak])
    return {"target": "/opt/app/app"}


@case("musl", "platform-unsupported", MUSL_LOADER, evidence="_ext.* is for a Python of glibc")
def musl(t, bad):
    t.python(interp=MUSL_LOADER if bad else LOADER)
    t.lib(MUSL_LOADER, soname="ld-musl-x86_64.so.1")
    t.ctranslate2(needed=["libc.so.6"] if bad else [])
    t.lib("/usr/lib/libcublas.so.12")
    t.lib("/usr/lib/libcublasLt.so.12")


@case("loader-missing", "lib-missing", LOADER)
def loader_missing(t, bad):
    t.python().ctranslate2()
    t.system_cublas()
    if bad:
        t.remove(LOADER)


@case("loader-missing", "lib-missing", LOADER, name="loader-missing-with-its-libraries",
      evidence="libc.so.6, which it needs, is not found either")
def loader_and_libraries(t, bad):
    """A program of another system: its loader and its libraries are missing for one cause."""
    t.loader()
    t.lib("/opt/app/app", soname=None, interp=LOADER, needed=["libc.so.6", "libm.so.6"])
    if bad:
        t.remove(LOADER)
    else:
        t.lib(SYSTEM + "/libc.so.6")
        t.lib(SYSTEM + "/libm.so.6")
    return {"target": "/opt/app/app"}


# ---- a file's own notes ---------------------------------------------------------------------

def noted(priority, severity):
    def build(t, bad):
        t.loader()
        t.put("/opt/app/libapp.so", tree.compiled(tree.dlopen_note(
            (priority, ["libwanted.so.3", "libwanted.so.2"])), "-Wl,-soname,libapp.so"))
        if not bad:
            t.lib(SYSTEM + "/libwanted.so.2")
        return {"target": "/opt/app/libapp.so"}
    case("library-missing", "lib-missing", "libwanted.so.3", name="note-" + priority,
         severity=severity, evidence=r"\.note\.dlopen")(build)


noted("required", "error")
noted("recommended", "warning")
