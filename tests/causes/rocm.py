"""Cases of builds for AMD's GPUs, and of builds for none: what a package opens follows its binary.

A CTranslate2 for ROCm has the name and the version of the one for CUDA; upstream publishes it with
each release since 4.7. See cases.py.
"""

import json
import re

from build import merged
from cases import case
from live import answer, run
from gpucode import CT2, RTX3060, RX7900XTX, cuda_library, hip_library, with_sections
from tree import SHIM, TAG, Tree, compiled, elf

BOTH = merged(RX7900XTX, {k: v for k, v in RTX3060.items() if "nvidia" in k or "cuda" in k
                          or "0000:01:00.0" in k},
              {"nodes": [n for n in RTX3060["nodes"] if n not in RX7900XTX["nodes"]]})
HIP = ["libhiprand.so.1", "libhipblas.so.3", "libamdhip64.so.7"]
LIBRARY = "/ctranslate2.libs/libctranslate2-01234567.so.4"


def amd(t):
    return t.python().machine(RX7900XTX)


@case("library-missing", "lib-missing", "libhiprand.so.1", evidence="libhipblas.so.3.*libamdhip64",
      repair="^apt-get install hiprand hipblas hip-runtime-amd$")
def rocm_ctranslate2(t, bad):
    """By its DT_NEEDED entries: the healthy twin is not told of cuBLAS."""
    amd(t).ctranslate2("4.8.1", needed=HIP, rpath="/opt/rocm/lib")
    for name in () if bad else HIP:
        t.lib("/opt/rocm/lib/" + name)


@case("library-missing", "lib-missing", "libcublas.so.12", repair="nvidia-cublas-cu12")
def ctranslate2_by_its_code(t, bad):
    """The twin has code for AMD alone."""
    t.python().ctranslate2("4.8.1")
    t.put(t.site + LIBRARY, cuda_library(LIBRARY.rsplit("/", 1)[1], CT2) if bad
          else hip_library(LIBRARY.rsplit("/", 1)[1], "gfx1030", "gfx1100"))


@case("library-missing", "lib-missing", "libcublas.so.12", repair="nvidia-cublas-cu12")
def ctranslate2_without_gpu(t, bad):
    """The twin is a build for the CPU alone, as on aarch64."""
    t.python().ctranslate2("4.8.5")
    t.put(t.site + LIBRARY, cuda_library(LIBRARY.rsplit("/", 1)[1], CT2) if bad
          else with_sections(LIBRARY.rsplit("/", 1)[1], {}))


@case("build-for-other-vendor", "cpu-only-build", "ctranslate2", severity="warning",
      repair="for ROCm")
def cuda_ctranslate2_with_amd(t, bad):
    """cuBLAS would not help: the build is what is wrong."""
    amd(t).ctranslate2("4.8.5")
    t.put(t.site + LIBRARY, cuda_library(LIBRARY.rsplit("/", 1)[1], CT2) if bad
          else hip_library(LIBRARY.rsplit("/", 1)[1], "gfx1100"))


@case("build-for-other-vendor", "cpu-only-build", "ctranslate2", severity="warning",
      repair="for ROCm")
def cuda_ctranslate2_with_its_cudnn_and_amd(t, bad):
    """Nor would the sub-libraries that the main library of cuDNN in the wheel asks for."""
    amd(t).ctranslate2("4.5.0", ext={"needed": [SHIM, LIBRARY.rsplit("/", 1)[1]]} if bad else {})
    t.put(t.site + LIBRARY, cuda_library(LIBRARY.rsplit("/", 1)[1], CT2) if bad
          else hip_library(LIBRARY.rsplit("/", 1)[1], "gfx1100"))


# What a build for a GPU that is not here lacks is not to be installed: the build is what is wrong.

@case("build-for-other-vendor", "cpu-only-build", "ctranslate2", evidence="libhiprand.so.1",
      repair="^/opt/venv/bin/python -m pip install 'ctranslate2>=")
def rocm_ctranslate2_with_nvidia(t, bad):
    """Its import fails; the twin has an AMD GPU beside the other, and ROCm."""
    t.python().machine(RTX3060 if bad else BOTH).ctranslate2("4.8.1", needed=HIP,
                                                             rpath="/opt/rocm/lib")
    for name in () if bad else HIP:
        t.lib("/opt/rocm/lib/" + name)


@case("build-for-other-vendor", "cpu-only-build", "torch", evidence="libamdhip64.so.6",
      repair="^/opt/venv/bin/python -m pip install 'torch>=")
def rocm_torch_with_nvidia(t, bad):
    t.python().machine(RTX3060)
    if bad:
        t.torch_for("hip", "6.4.43482", "2.9.0", needed=["libamdhip64.so.6"], rpath="$ORIGIN/lib")
    else:
        t.torch_for("cuda", "12.4", needed=["libcuda.so.1"])


@case("build-for-other-vendor", "cpu-only-build", "torch", evidence="libcublas.so.12",
      repair="torch-backend=rocm")
def cuda_torch_with_amd(t, bad):
    amd(t).torch_for("cuda" if bad else "hip", "12.4", "2.9.0",
                     needed=["libcublas.so.12"] if bad else [])


def bitsandbytes(t, *files):
    """Beside a torch for ROCm 6.4; 0.50 takes the nearest of the same major, 0.49 the exact one."""
    amd(t).torch_for("hip", "6.4.43482", "2.9.0")
    t.put(t.site + "/bitsandbytes/__init__.py", "")
    for name in files:
        needed = ["libcudart.so.12", "libcublas.so.12"] if "cuda" in name else ["libamdhip64.so.6"]
        t.lib("%s/bitsandbytes/libbitsandbytes_%s.so" % (t.site, name), needed=needed)


@case("library-missing", "lib-missing", "libamdhip64.so.6", severity="warning",
      evidence="libbitsandbytes_rocm64.so", repair="^apt-get install hip-runtime-amd$")
def bitsandbytes_for_rocm(t, bad):
    bitsandbytes(t, "cuda124", "rocm63", "rocm64", "rocm714")
    t.dist("bitsandbytes", "0.49.2", [])
    if not bad:
        t.lib("/usr/lib/x86_64-linux-gnu/libamdhip64.so.6")


@case("library-missing", "lib-missing", "libamdhip64.so.6", severity="warning",
      evidence="libbitsandbytes_rocm63.so", repair="^apt-get install hip-runtime-amd$")
def bitsandbytes_for_the_nearest_rocm(t, bad):
    bitsandbytes(t, "cuda124", "rocm62", "rocm63", "rocm70", "rocm714")
    t.dist("bitsandbytes", "0.50.2", [])
    if not bad:
        t.lib("/usr/lib/x86_64-linux-gnu/libamdhip64.so.6")


ORT_NEEDS = ["libhipblas.so.3", "libMIOpen.so.1", "libamdhip64.so.7"]


def onnxruntime(t, provider, dist, version, needed, machine=RX7900XTX):
    """The provider takes Provider_GetHost from a library that onnxruntime has made global before."""
    t.python().machine(machine)
    host = [{"name": "Provider_GetHost"}]
    capi = t.site + "/onnxruntime/capi/"
    for folder in (capi, t.site + "/onnxruntime/"):
        t.put(folder + "__init__.py", "")
    t.lib(capi + "onnxruntime_pybind11_state.so", soname=None)
    t.lib(capi + "libonnxruntime_providers_shared.so", defs=host)
    t.lib(capi + "libonnxruntime_providers_%s.so" % provider, needed=needed, undef=host,
          runpath="/opt/rocm/lib")
    t.dist(dist, version, [])


@case("library-missing", "lib-missing", "libhipblas.so.3", evidence="ROCMExecutionProvider",
      repair="^apt-get install hipblas miopen-hip hip-runtime-amd$")
def onnxruntime_for_rocm(t, bad):
    onnxruntime(t, "rocm", "onnxruntime-rocm", "1.22.2.post3", ORT_NEEDS)
    for name in () if bad else ORT_NEEDS:
        t.lib("/opt/rocm/lib/" + name)


@case("library-missing", "lib-missing", "libopenvino.so.2541",
      evidence="OpenVINOExecutionProvider", repair="provides libopenvino")
def onnxruntime_for_openvino(t, bad):
    """No library of CUDA or ROCm is asked for."""
    onnxruntime(t, "openvino", "onnxruntime-openvino", "1.24.1", ["libopenvino.so.2541"])
    if not bad:
        t.lib("/opt/rocm/lib/libopenvino.so.2541")


@case("build-for-other-vendor", "cpu-only-build", "onnxruntime-rocm", severity="warning",
      evidence="libhipblas.so.3",
      repair="pip uninstall -y onnxruntime-rocm && .*pip install 'onnxruntime-gpu>=")
def onnxruntime_for_rocm_with_nvidia(t, bad):
    """It takes the CPU then."""
    onnxruntime(t, "rocm", "onnxruntime-rocm", "1.22.2.post3", ORT_NEEDS, RTX3060 if bad else BOTH)
    for name in () if bad else ORT_NEEDS:
        t.lib("/opt/rocm/lib/" + name)


@case("build-for-other-vendor", "cpu-only-build", "onnxruntime-gpu", severity="warning",
      evidence="libcublasLt.so.12", repair="^Install onnxruntime-migraphx")
def onnxruntime_for_cuda_with_amd(t, bad):
    amd(t)
    if bad:
        t.onnxruntime()


MIGRAPHX_NEEDS = ["libmigraphx_c.so.3", "libamdhip64.so.7"]


@case("library-missing", "lib-missing", "libmigraphx_c.so.3", evidence="MIGraphXExecutionProvider",
      repair="apt-get install .*hip-runtime-amd")
def onnxruntime_for_migraphx(t, bad):
    onnxruntime(t, "migraphx", "onnxruntime-migraphx", "1.27.1", MIGRAPHX_NEEDS)
    for name in () if bad else MIGRAPHX_NEEDS:
        t.lib("/opt/rocm/lib/" + name)


@case("library-missing", "lib-missing", "libMIOpen.so.1", evidence="xla_rocm_plugin.so",
      repair="^apt-get install miopen-hip hip-runtime-amd$")
def jax_for_rocm(t, bad):
    """Its parts are no entries either, and what the modules lack is not told twice."""
    amd(t)
    for name in ("jax", "jaxlib", "jax_plugins", "jax_plugins/xla_rocm7", "jax_rocm7_plugin"):
        t.put("%s/%s/__init__.py" % (t.site, name), "")
    t.lib("%s/jaxlib/_jax.%s.so" % (t.site, TAG), soname=None)
    t.lib(t.site + "/jax_rocm7_plugin/_solver.so", soname=None, needed=["libhipblas.so.3"],
          runpath="/opt/rocm/lib")
    t.lib(t.site + "/jax_plugins/xla_rocm7/xla_rocm_plugin.so",
          needed=["libMIOpen.so.1", "libamdhip64.so.7"], runpath="/opt/rocm/lib")
    for name, requires in (("jax", ["jaxlib"]), ("jaxlib", []), ("jax-rocm7-pjrt", []),
                           ("jax-rocm7-plugin", ["jax-rocm7-pjrt"])):
        t.dist(name, "0.10.2", [], requires=requires)
    for name in () if bad else ("libMIOpen.so.1", "libamdhip64.so.7"):
        t.lib("/opt/rocm/lib/" + name)


# ---- packages of whose imports nothing is known -----------------------------------------------

def large(t, name, version, path, library):
    """A distribution with one large library."""
    t.put("%s/%s/__init__.py" % (t.site, path.split("/")[0]), "")
    t.put("%s/%s" % (t.site, path), library + bytes(2 << 20))
    t.dist(name, version, [path])


def tensorflow_rocm(t):
    """No code of its own in this library: it is linked with the HIP runtime."""
    large(t, "tensorflow-rocm", "2.18.1", "tensorflow/libtensorflow_cc.so.2",
          elf("libtensorflow_cc.so.2", needed=["libamdhip64.so.6"], rpath="/opt/rocm/lib"))
    t.lib("/opt/rocm/lib/libamdhip64.so.6")


def paddle_of_rocm(t):
    large(t, "paddlepaddle-dcu", "3.2.0", "paddle/base/libpaddle.so",
          hip_library("libpaddle.so", "gfx1100"))


def paddle_of_no_gpu(t):
    large(t, "paddlepaddle", "3.2.0", "paddle/base/libpaddle.so", elf("libpaddle.so"))


def small(t, name, path, needed):
    """A distribution with a library of a few KiB, and a larger one that has nothing to do with GPUs."""
    folder = path.rsplit("/", 1)[0]
    paths = [path, folder + "/libother.so"]
    t.put("%s/%s/__init__.py" % (t.site, path.split("/")[0]), "")
    t.lib("%s/%s" % (t.site, path), soname=None, needed=needed)
    t.put("%s/%s" % (t.site, paths[1]), elf("libother.so") + bytes(2 << 20))
    t.dist(name, "1.0", paths)


def small_of_cuda(t):
    small(t, "pynvvideocodec", "PyNvVideoCodec/_codec.%s.so" % TAG, ["libcuda.so.1"])


def module_of_nvidia(t):
    small(t, "nvidia-dali-cuda120", "nvidia/dali/backend_impl.so", ["libcuda.so.1"])


def libraries_of_nvidia(t):
    """Known by no row, and there for others: nothing imports them."""
    small(t, "nvidia-cuda-sandbox", "nvidia/sandbox/lib/libsandbox.so", ["libcuda.so.1"])


def opens_driver(name, path="taichi/core.%s.so" % TAG, call="dlopen"):
    """A library that passes a name to dlopen: its constants hold the name."""
    def put(t):
        source = "void *%s(const char *, int);\nvoid *go(void);\nvoid *go(void)\n" % call
        source += '{ return %s("%s", 2); }\n' % (call, name)
        t.put("%s/taichi/__init__.py" % t.site, "")
        t.put("%s/%s" % (t.site, path), compiled(source))
        t.dist("taichi", "1.7.4", [path])
    return put


def said_of(exe, folder, machine, *builders):
    """Status, notes and findings of a check."""
    tree = Tree(folder).python().machine(machine)
    for build in builders:
        build(tree)
    status, text, _ = run(exe, ["check", "--root", str(tree.top), tree.prefix, "--json"])
    document = json.loads(text)
    words = [f["summary"] for f in document["findings"]] + [
        r["command"] or r["text"] for f in document["findings"] for r in f["repairs"]]
    return status, document["notes"], words


@answer
def packages_that_are_not_known(exe, folder, show):
    """Alone, they make the verdict unknown; beside one that is known, they are named. No package of
    another vendor is offered for them."""
    table = (("tensorflow-rocm", 3, RX7900XTX, tensorflow_rocm),
             ("paddlepaddle-dcu", 3, RX7900XTX, paddle_of_rocm),
             ("tensorflow-rocm", 0, RX7900XTX, tensorflow_rocm, torch_of_rocm),
             ("pynvvideocodec", 3, RTX3060, small_of_cuda),
             ("nvidia-dali-cuda120", 3, RTX3060, module_of_nvidia),
             ("taichi", 3, RTX3060, opens_driver("libcuda.so")),
             ("taichi", 3, RTX3060, opens_driver("libcuda.so.1")),
             (None, 0, RTX3060, opens_driver("no libcuda.so")),
             (None, 0, RTX3060, opens_driver("libcuda.so", call="other")),
             (None, 0, RTX3060, opens_driver("libcuda.so.1", "taichi.libs/libavutil-1.so.60")),
             (None, 0, RTX3060, opens_driver("libcuda.so"),
              lambda t: t.torch_for("cuda", "12.4")),
             (None, 0, RTX3060, libraries_of_nvidia),
             (None, 0, RX7900XTX, paddle_of_no_gpu), (None, 0, RX7900XTX, torch_of_rocm))
    for i, (name, expected, machine, *builders) in enumerate(table):
        status, notes, words = said_of(exe, folder / str(i), machine, *builders)
        if show:
            print(status, notes, words)
        named = [n for n in notes if "not looked at" in n]
        if status != expected or bool(name) != bool(named) or (name and name not in named[0]):
            yield "%d: status %d, notes %s" % (i, status, notes)
        yield from ("%d: %s" % (i, w) for w in words if "nvidia" in w and machine is RX7900XTX)


def torch_of_rocm(t):
    t.torch_for("hip", "6.4.43482", "2.9.0", needed=["libtorch_hip.so"], rpath="$ORIGIN/lib")
    t.put(t.site + "/torch/lib/libtorch_hip.so", hip_library("libtorch_hip.so", "gfx1100"))


# ---- a machine with a GPU of each vendor ------------------------------------------------------

def of_rocm(t):
    t.ctranslate2("4.8.1", needed=HIP, rpath="/opt/rocm/lib")


def of_cuda(t):
    t.ctranslate2("4.8.1")
    t.put(t.site + LIBRARY, cuda_library(LIBRARY.rsplit("/", 1)[1], CT2))


def torch_of_cuda(t):
    t.torch_for("cuda", "12.4", needed=["libcuda.so.1"])


@answer
def settings_that_follow_the_binary(exe, folder, show):
    """A container gets the GPU that its application is built for, and no package of the other
    vendor's is named; with applications for both, the first GPU's."""
    table = ((BOTH, (of_rocm,), "/dev/kfd", "nvidia"), (BOTH, (of_cuda,), "--gpus", "/dev/kfd"),
             (BOTH, (torch_of_rocm,), "/dev/kfd", "nvidia"),
             (BOTH, (of_rocm, torch_of_cuda), "--gpus", "/dev/kfd"),
             (BOTH, (), "--gpus", "/dev/kfd"), (RX7900XTX, (of_cuda,), "/dev/kfd", "nvidia-ctk"),
             (RX7900XTX, (of_cuda,), "is a build for CUDA; it does not use", "nvidia-ctk"),
             (RTX3060, (of_rocm,), "is a build for ROCm: it cannot be imported", "hiprand"),
             (RTX3060, (of_rocm,), "CUDA of the image: unknown", "hiprand"))
    for i, (machine, builders, wanted, forbidden) in enumerate(table):
        tree = Tree(folder / str(i)).python().machine(machine)
        for build in builders:
            build(tree)
        top = str(tree.top)
        status, text, _ = run(exe, ["container", "docker", "--root", top, "--host", top, "/opt/venv"])
        if show:
            print(status, text)
        if status != 0 or wanted not in text or forbidden in text:
            yield "%d: status %d, without %s or with %s: %s" % (i, status, wanted, forbidden, text)


@answer
def lines_that_need_a_repository_first(exe, folder, show):
    """AMD's packages are in no list that an image has: the lines of a Dockerfile say it too."""
    tree = Tree(folder / "tree").python().machine(RX7900XTX)
    of_rocm(tree)
    top = str(tree.top)
    _, text, _ = run(exe, ["container", "dockerfile", "--root", top, "--host", top, "/opt/venv"])
    if show:
        print(text)
    if not re.search(r"first add that of the release.*\n#\s+RUN .*hiprand", text):
        yield text


@answer
def needs_of_what_does_not_load(exe, folder, show):
    """The loader stops at the first library that is missing; the others say what is needed."""
    tree = Tree(folder / "tree").python().machine(RTX3060)
    of_rocm(tree)
    status, text, _ = run(exe, ["needs", "--root", str(tree.top), "/opt/venv"])
    if show:
        print(text)
    if status != 0 or "AMD (asked for by" not in text or "cannot be imported here" not in text:
        yield "status %d: %s" % (status, text)


@answer
def explain_without_the_other_vendor(exe, folder, show):
    """A library of ROCm is in no package of NVIDIA's; one of CUDA's is named with it."""
    tree = Tree(folder / "tree").python().machine(RX7900XTX)
    log = folder / "log"
    for name in (*HIP, "librocblas.so.5", "libMIOpen.so.1", "libcublas.so.12"):
        log.write_text("ImportError: %s: cannot open shared object file: No such file or directory\n"
                       % name)
        for where in (["--root", str(tree.top)], []):
            _, text, _ = run(exe, ["explain", *where, str(log)])
            if show:
                print(text)
            named = "nvidia-cu" in text or "CUDA toolkit" in text or "base image of that CUDA" in text
            if named != ("cublas" in name) or name not in text:
                yield "%s: %s" % (name, text)
