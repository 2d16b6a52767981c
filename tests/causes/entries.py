"""Cases of what a program imports by itself: applications, their parts, and parts of a framework.

The worlds have the layout and the requirements of the real wheels; see cases.py. ENTRIES holds what
`check` must say of each entry: {name: (function of a tree, {module: (part_of, verdict)}[, verdict])}.
"""

import json

from cases import case
from gpucode import CT2, cuda_library
from live import answer, run
from tree import TAG, Tree, compiled

NVIDIA = {"cublas": ["libcublas.so.12", "libcublasLt.so.12"],
          "cuda_nvrtc": ["libnvrtc.so.12", "libnvrtc-builtins.so.12.9"],
          "cudnn": ["libcudnn.so.9"], "cusolver": ["libcusolver.so.11"]}


def module(t, name, text=""):
    t.put("%s/%s/__init__.py" % (t.site, name.replace(".", "/")), text)


def extension(t, path, **spec):
    t.lib("%s/%s.%s.so" % (t.site, path, TAG), soname=None, **spec)


def nvidia(t, version, without=()):
    for part, names in NVIDIA.items():
        if part in without:
            continue
        for name in names:
            t.lib("%s/nvidia/%s/lib/%s" % (t.site, part, name), rpath="$ORIGIN")
        t.dist("nvidia-%s-cu12" % part.replace("_", "-"), version,
               ["nvidia/%s/lib/%s" % (part, name) for name in names])


def jax(t, without=()):
    """pip install "jax[cuda12]" of 0.10.2: only the plugin's own module opens NVIDIA's libraries."""
    t.python()
    nvidia(t, "12.9.3", without)
    for name in ("jax", "jaxlib", "jax_plugins", "jax_plugins.xla_cuda12", "jax_cuda12_plugin"):
        module(t, name)
    rpath = "$ORIGIN/../nvidia/cublas/lib:$ORIGIN/../nvidia/cusolver/lib"
    extension(t, "jaxlib/_jax")
    extension(t, "jax_cuda12_plugin/_solver", rpath=rpath,
              needed=["libcusolver.so.11", "libcublas.so.12", "libcublasLt.so.12"])
    t.lib(t.site + "/jax_plugins/xla_cuda12/xla_cuda_plugin.so")
    t.dist("jax", "0.10.2", [], requires=[
        "jaxlib<=0.10.2,>=0.10.2", 'jax-cuda12-plugin[with-cuda]==0.10.2; extra == "cuda12"'])
    t.dist("jaxlib", "0.10.2", ["jaxlib/_jax.%s.so" % TAG])
    t.dist("jax-cuda12-plugin", "0.10.2", ["jax_cuda12_plugin/_solver.%s.so" % TAG],
           requires=["jax-cuda12-pjrt==0.10.2"])
    t.dist("jax-cuda12-pjrt", "0.10.2", ["jax_plugins/xla_cuda12/xla_cuda_plugin.so"])


@case("library-missing", "lib-missing", "libnvrtc.so.12", severity="warning",
      repair="nvidia-cuda-nvrtc-cu12")
def jax_with_cuda(t, bad):
    """The healthy twin is the plain installation: its parts are no entries of their own."""
    jax(t, without=["cuda_nvrtc"] if bad else [])


def whisperx(t, torch_brings_cublas=True):
    """whisperx 3.8: ctranslate2 finds cuBLAS because torch, which is imported before, has it."""
    t.python().ctranslate2()
    for name in ("whisperx", "faster_whisper", "transformers", "av", "tokenizers", "onnxruntime"):
        module(t, name)
    nvidia(t, "12.8.4", without=["cuda_nvrtc", "cusolver"])
    t.torch("2.8.0", **({"needed": ["libcublas.so.12"], "rpath": "$ORIGIN/../nvidia/cublas/lib"}
                        if torch_brings_cublas else {}))
    t.dist("whisperx", "3.8.6", [],
           requires=["ctranslate2>=4.5.0", "faster-whisper>=1.2.0", "torch~=2.8.0"])
    t.dist("faster-whisper", "1.2.1", [], requires=["ctranslate2<5,>=4.0"])
    t.dist("transformers", "4.57.6", [])


@case("library-not-on-path", "lib-not-on-path", "libcublas.so.12", severity="warning",
      repair="export LD_LIBRARY_PATH",
      evidence=r"part of whisperx alone \(ctranslate2, faster_whisper\): whisperx itself works")
def part_of_a_working_application(t, bad):
    whisperx(t)
    if not bad:
        t.system_cublas()


@case("library-not-on-path", "lib-not-on-path", "libcublas.so.12", severity="error",
      repair="export LD_LIBRARY_PATH")
def application_that_fails_with_its_part(t, bad):
    whisperx(t, torch_brings_cublas=False)
    if not bad:
        t.system_cublas()


# An application that does not require what it imports does not vouch for it.
@case("library-not-on-path", "lib-not-on-path", "libcublas.so.12", severity="error",
      repair="export LD_LIBRARY_PATH")
def not_required_by_the_application(t, bad):
    whisperx(t)
    for name, version in (("whisperx", "3.8.6"), ("faster-whisper", "1.2.1")):
        t.dist(name, version, [], requires=['ctranslate2; extra == "gpu"', "torch"])
    if not bad:
        t.system_cublas()


# A wish that no order of imports grants is one warning, and none of them is offered as a cure.
@case("library-wrong-major", "wrong-major", "libcudart.so.12", severity="warning",
      evidence=r"can't load C\+\+/CUDA extensions", repair="nvidia-cuda-runtime-cu12")
def xformers_for_another_cuda(t, bad):
    t.python().cudart("libcudart.so.13")
    t.torch("2.15.0", needed=["libcudart.so.13"])
    module(t, "xformers")
    t.lib(t.site + "/xformers/_C.so", needed=["libcudart.so.%d" % (12 if bad else 13)])
    t.dist("xformers", "0.0.35", ["xformers/_C.so"], requires=["torch>=2.10"])


def nothing_of_the_framework(t):
    """A plugin whose framework is not installed is what a program could import."""
    jax(t)
    for name in ("jax-0.10.2", "jaxlib-0.10.2"):
        t.remove("%s/%s.dist-info/METADATA" % (t.site, name))
        t.remove("%s/%s.dist-info/RECORD" % (t.site, name))
        t.real("%s/%s.dist-info" % (t.site, name)).rmdir()


def unknown_package(t):
    """A package with GPU code that nothing is known of, beside a wheel that only brings libraries."""
    t.python()
    nvidia(t, "12.9.3")
    module(t, "oneflow")
    library = cuda_library("liboneflow.so", CT2) + bytes(2 << 20)
    t.put(t.site + "/oneflow.libs/liboneflow.so", library)
    t.dist("oneflow", "0.9.0", ["oneflow.libs/liboneflow.so"])


def bindings(t):
    t.python()
    t.put(t.site + "/cuda/bindings/__init__.py", "")
    t.dist("cuda-bindings", "12.9.10", ["cuda/bindings/__init__.py"], requires=["cuda-pathfinder"])


def opens_driver(name, *options):
    return compiled('void *dlopen(const char *, int); void *driver(void) { return dlopen("%s", 1); }' % name,
                    "-Wno-missing-prototypes", *options)


def unknown_package_of_another_linker(t):
    """Texts have a section of their own, as mold leaves it for taichi's module."""
    t.python()
    t.put(t.site + "/taichi/__init__.py", "")
    t.put(t.site + "/taichi/core.so", opens_driver("libcuda.so", "-O1", "-Wl,--unique=.rodata.str1.1"))
    t.dist("taichi", "1.7.4", ["taichi/core.so"])


def unknown_package_over_bindings(t):
    """Bindings load nothing until another package calls them: that one matters."""
    bindings(t)
    t.put(t.site + "/librmm/lib64/librmm.so", opens_driver("libcuda.so.1"))
    t.dist("librmm-cu12", "25.10.0", ["librmm/lib64/librmm.so"])


def jaxlib(t, version, module):
    t.python()
    t.dist("jax", version, [], requires=["jaxlib"])
    t.put(t.site + "/jax/__init__.py", "")
    t.put(t.site + "/jaxlib/__init__.py", "")
    extension(t, "jaxlib/" + module)
    t.dist("jaxlib", version, [])


def module_that_is_not_there(t):
    """The module that the rows name for this release is neither there nor recorded."""
    jaxlib(t, "0.9.1", "_renamed")


def release_that_is_not_known(t):
    """A library of JAX from before the releases that the rows are for."""
    jaxlib(t, "0.4.30", "xla_extension")
    t.remove(t.site + "/jaxlib-0.4.30.dist-info/RECORD")
    t.remove(t.site + "/jaxlib-0.4.30.dist-info/METADATA")
    t.real(t.site + "/jaxlib-0.4.30.dist-info").rmdir()
    t.dist("jaxlib", "0.3.25", [])


def whisperx_and_kin(t):
    """What whisperx requires and does not import, and a part that opens what torch has opened."""
    whisperx(t)
    needs = {"torch": ["libtorch_cpu.so", "libtorch_cuda.so"], "torch_cpu": [],
             "torch_cuda": ["libcublas.so.12"], "torch_cuda_linalg": []}
    for name, needed in needs.items():
        t.lib("%s/torch/lib/lib%s.so" % (t.site, name), needed=needed,
              rpath="$ORIGIN:$ORIGIN/../../nvidia/cublas/lib")
    for name in ("torchvision", "torchaudio", "torchaudio.lib"):
        module(t, name)
    t.lib(t.site + "/torchvision/_C.so", soname=None, needed=["libtorch.so"])
    t.lib(t.site + "/torchaudio/lib/libtorchaudio.so", needed=["libtorch.so"])
    t.lib(t.site + "/torch/_C.%s.so" % TAG, soname=None, needed=["libtorch.so"],
          rpath="$ORIGIN/lib")
    for name, version in (("torchvision", "0.23.0"), ("torchaudio", "2.8.0")):
        t.dist(name, version, [])
    t.dist("whisperx", "3.8.6", [], requires=[
        "ctranslate2>=4.5.0", "faster-whisper>=1.2.0", "torch~=2.8.0", "torchaudio~=2.8.0",
        "torchvision~=0.23.0", "transformers>=4.48.0"])


@answer
def uses_that_come_to_the_same(exe, folder, show):
    """Using torchaudio is using torch: no order of the two is modelled, and no pair with a part."""
    tree = Tree(folder / "root")
    whisperx_and_kin(tree)
    status, text, _ = run(exe, ["check", "--root", str(tree.top), tree.prefix, "--json"])
    document = json.loads(text)
    scripts = [" ; ".join(p["script"]) for p in document["processes"]]
    if show:
        print(status, *scripts, sep="\n")
    if status != 0 or not any("use torch in whisperx.asr" in s for s in scripts):
        yield "status %d, %d processes: %s" % (status, len(scripts), document["notes"])
    wholes = {e["module"]: e["part_of"] for e in document["entries"]}
    if wholes["torchvision"] != "whisperx" or wholes["whisperx"]:
        yield "parts of %s" % wholes
    orders = sum("use torchaudio in" in s for s in scripts)
    pairs = sum("import whisperx" in s and "import torchvision" in s for s in scripts)
    if orders or pairs:
        yield "%d orders of torch and torchaudio, %d pairs of whisperx and a part" % (orders, pairs)


def wish_of_one_need_of_another(t):
    """NVRTC is missing: torch needs it, and cuBLAS, which ctranslate2 uses, only wishes for it."""
    t.python().ctranslate2(rpath="$ORIGIN/../nvidia/cublas/lib")
    t.pip_cublas("12.8.4.1")
    t.lib(t.cublas + "/libcublas.so.12", needed=["libcublasLt.so.12"], runpath="$ORIGIN")
    names = ["libtorch_cpu.so", "libtorch_cuda.so", "libtorch_cuda_linalg.so", "libcudart.so.12"]
    t.torch(needed=[n for n in names if "linalg" not in n], rpath="$ORIGIN/lib")
    for name in names:
        t.lib(t.site + "/torch/lib/" + name, rpath="$ORIGIN")


ENTRIES = {
    "entries-with-a-wish-and-a-need": (wish_of_one_need_of_another, {
        "ctranslate2": (None, "ok"), "torch": (None, "broken")}, "broken"),
    "entries-without-their-module": (module_that_is_not_there, {"jax": (None, "unknown")},
                                     "unknown"),
    "entries-of-an-unknown-release": (release_that_is_not_known, {"jax": (None, "unknown")},
                                      "unknown"),
    "entries-that-are-not-known": (unknown_package, {}, "unknown"),
    "entries-that-another-linker-made": (unknown_package_of_another_linker, {}, "unknown"),
    "entries-of-bindings": (bindings, {"cuda.bindings": (None, "ok")}, "ok"),
    "entries-over-bindings": (unknown_package_over_bindings, {"cuda.bindings": (None, "ok")},
                              "unknown"),
    "entries-of-jax": (jax, {"jax": (None, "ok")}),
    "entries-without-a-framework": (nothing_of_the_framework, {
        "jax_plugins.xla_cuda12": (None, "ok"), "jax_cuda12_plugin": (None, "ok")}),
    "entries-of-whisperx": (whisperx, {
        "whisperx": (None, "ok"), "ctranslate2": ("whisperx", "broken"),
        "faster_whisper": ("whisperx", "broken"), "torch": ("whisperx", "ok"),
        "transformers": (None, "ok")}),
}
