"""Probes of real environments, made of NVIDIA's wheels and the frameworks, where there is no
driver: what can be done without one is done, and what is said of the rest is true. The wheels come
out of the store of tests/scenarios; what it does not hold is skipped."""

import functools
import os
import re
import shutil
import subprocess
import sys

from lab import HERE, differences, stage

sys.path.insert(0, str(HERE.parent / "scenarios"))
import cases as scenarios  # noqa: E402
import store as wheels  # noqa: E402

SETS = {
    "cuda12": (*scenarios.TORCH12, *scenarios.ONNX12, *scenarios.CT_485),
    "cuda13": (*scenarios.TORCH13, *scenarios.ONNX13),
    "ctranslate2": (*scenarios.CT_485, *scenarios.CUBLAS12),
    "cudnn8": ("nvidia-cudnn-cu12==8.9.7.29",),  # not among those that the scenarios fetch
}
CUDNN, NVRTC = "nvidia/cudnn/lib", "nvidia/cuda_nvrtc/lib"
PRODUCTS = ["cublas-start"] + [f"{library}-{kind}" for library in ("cublas", "cublaslt")
            for kind in ("float32", "tf32", "float16", "bfloat16", "int8")]
# What the packages say of a machine without a driver, in their own words.
WITHOUT_DRIVER = {
    ("cuda12", "torch"): ("Found no NVIDIA driver on your system", "torch.cuda.init", True),
    ("cuda13", "torch"): ("Found no NVIDIA driver on your system", "torch.cuda.init", True),
    ("cuda12", "ctranslate2"): ("CUDA driver version is insufficient for CUDA runtime version",
                                "ctranslate2.get_supported_compute_types", True),
    # Alone it does not find CUDA's libraries, with or without a driver.
    ("cuda12", "onnxruntime"): ("libcublasLt.so.12: cannot open shared object file",
                                "onnxruntime.InferenceSession", False),
    ("cuda13", "onnxruntime"): ("libcublasLt.so.13: cannot open shared object file",
                                "onnxruntime.InferenceSession", False),
}


class Missing(Exception):
    """An environment cannot be made here; the text says why."""


def link(source, target):
    try:
        os.link(source, target)
    except OSError:  # another file system
        os.symlink(source, target)


class Environments:
    """Made on first use, out of the store as it is: nothing is fetched."""

    def __init__(self, lab):
        self.lab = lab
        self.made = {}

    def site(self, name):
        return wheels.site_packages(self.get(name))

    def get(self, name):
        if name not in self.made:
            self.made[name] = self.build(name)
        if isinstance(self.made[name], str):
            raise Missing(self.made[name])
        return self.made[name]

    def build(self, name):
        kept = wheels.Store(wheels.cache_folder(), {}, print)
        try:
            wheels.usable_python()
        except wheels.Skip as why:
            return str(why)
        if kept.missing(SETS[name]):
            return f"the store of wheels has no {kept.missing(SETS[name])[0]}"
        env = self.lab.folder / "envs" / name
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(env)], check=True,
                       env=wheels.clean_environment())
        for requirement in dict.fromkeys(SETS[name]):
            link_tree(kept.wheel_folder(requirement), wheels.site_packages(env))
        return env


def link_tree(source, target):
    for base, _, names in os.walk(source):
        there = os.path.join(target, os.path.relpath(base, source))
        os.makedirs(there, exist_ok=True)
        for name in names:
            if name != ".complete" and not os.path.lexists(os.path.join(there, name)):
                link(os.path.join(base, name), os.path.join(there, name))


def has_driver():
    return subprocess.run([sys.executable, "-c", "import ctypes; ctypes.CDLL('libcuda.so.1')"],
                          capture_output=True, check=False).returncode == 0


# ------------------------------------------------------------------ stages


def without_driver(lab, envs, name, versions):
    """Every stage of an environment, on a machine that has no driver."""
    if has_driver():
        yield "SKIP there is a driver here"
        return
    answer = lab.probe(lab.environment([]), str(envs.get(name)))
    if not answer.document:
        yield answer.errors
        return
    for part, expected in versions.items():
        yield from differences(stage(answer.document, part), **expected)
    for part in (*PRODUCTS, "cudart-memory", "cudnn-convolution", "nvrtc-run", "nccl-allreduce"):
        yield from differences(stage(answer.document, part), outcome="not-run")
    yield from differences(stage(answer.document, "driver-found"), outcome="failed",
                           says="no NVIDIA driver here")
    if answer.document["first_failure"] != "driver-found":
        yield f"first failure {answer.document['first_failure']}"
    if (answer.document["verdict"], answer.status) != ("no-driver", 1):
        yield f"verdict {answer.document['verdict']}, status {answer.status}"


VERSIONS12 = {
    "cudart": {"outcome": "failed", "says": "the CUDA runtime 12.4 finds no NVIDIA driver"},
    "cublas": {"outcome": "passed", "says": "cuBLAS 12.4.5"},
    "cudnn": {"outcome": "passed", "says": "cuDNN 9.1.0 and 7 sub-libraries that match it"},
    "nvrtc": {"outcome": "passed", "says": "NVRTC 12.4 compiles a kernel to PTX"},
    "nccl": {"outcome": "passed", "says": "NCCL 2.21.5 opens"},
}
VERSIONS13 = {
    "cudart": {"outcome": "failed", "says": "the CUDA runtime 13.2 finds no NVIDIA driver"},
    "cublas": {"outcome": "passed", "says": "cuBLAS 13.4.1"},
    "cudnn": {"outcome": "passed", "says": "cuDNN 9.26.0 and 7 sub-libraries that match it"},
    "nvrtc": {"outcome": "passed", "says": "NVRTC 13.2 compiles a kernel to PTX"},
    "nccl": {"outcome": "passed", "says": "NCCL 2.30.7 opens"},
}
# The real libraries on the fake driver, which has little of what they call: each says so.
ON_FAKE = {
    "cudart": {"outcome": "failed", "code": 36, "code_name": "cudaErrorCallRequiresNewerDriver",
               "says": "cudaGetDeviceCount failed"},
    "cublas-start": {"outcome": "failed", "code": 1, "code_name": "CUBLAS_STATUS_NOT_INITIALIZED",
                     "last_call": "cublasCreate_v2"},
    "cudnn-convolution": {"outcome": "failed", "code": 1001, "last_call": "cudnnCreate",
                          "code_name": "CUDNN_STATUS_NOT_INITIALIZED"},
    "nvrtc-run": {"outcome": "passed", "says": "a kernel that NVRTC 12.4 compiled for compute "
                                               "capability 9.0 runs correctly"},
    "nccl-allreduce": {"outcome": "failed", "code": 1, "code_name": "ncclUnhandledCudaError",
                       "last_call": "ncclCommInitAll"},
}


def on_fake_driver(lab, envs):
    answer = lab.probe(lab.environment([lab.driver()]), str(envs.get("cuda12")))
    for part, expected in ON_FAKE.items():
        yield from differences(stage(answer.document, part), **expected)
    if answer.document["first_failure"] != "cudart":
        yield f"first failure {answer.document['first_failure']}"


def not_on_path(lab, envs):
    """CTranslate2 opens cuBLAS by its soname, which finds no wheel."""
    env = str(envs.get("ctranslate2"))
    answer = lab.probe(lab.environment([]), env, "--stage", "cublas,cublas-int8")
    yield from differences(stage(answer.document, "cublas"), outcome="failed",
                           says="the target needs libcublas.so.12, but the loader does not find it")
    yield from differences(stage(answer.document, "cublas-int8"), outcome="not-run")
    folder = envs.site("ctranslate2") / "nvidia/cublas/lib"
    answer = lab.probe(lab.environment([folder]), env, "--stage", "cublas")
    yield from differences(stage(answer.document, "cublas"), outcome="passed", says="cuBLAS 12.4.5")


# Run by the environment's interpreter: the files that the process has mapped after the import.
MAPPED = ("import torch\nfor line in open('/proc/self/maps'):\n"
          "    if '.so' in line: print(line.rsplit(None, 1)[1])\n")


def same_files(lab, envs, name):
    """The stages use the files that a process of the environment really loads."""
    env = envs.get(name)
    run = subprocess.run([str(env / "bin/python"), "-c", MAPPED], capture_output=True, text=True,
                         env=lab.environment([]), check=True)
    mapped = {os.path.basename(path): os.path.realpath(path) for path in run.stdout.split()}
    answer = lab.probe(lab.environment([]), str(env), "--import", "torch")
    compared = 0
    for part in ("cudart", "cublas", "cudnn", "nvrtc", "nccl"):
        path = stage(answer.document, part)["facts"].get("library")
        real = mapped.get(os.path.basename(path or ""))
        if real:
            compared += 1
            if os.path.realpath(path) != real:
                yield f"{part}: the probe opens {path}, the process {real}"
    if compared < 4:
        yield f"only {compared} libraries are in both"


def plain_program(lab, library):
    """A program that is linked against one library by name and brings nothing of it."""
    program = lab.folder / ("with-" + library.name)
    if not program.exists():
        source = lab.folder / "plain.c"
        source.write_text("int main(void) { return 0; }\n")
        subprocess.run(["cc", str(source), "-o", str(program), "-Wl,--no-as-needed",
                        "-Wl,--unresolved-symbols=ignore-all", str(library)], check=True)
    return program


def changed(lab, folder, left_out, library, part, **expected):
    """The stage of a program that finds the library in a copy of its folder with one file less."""
    copy = lab.folder / f"without-{left_out}"
    shutil.rmtree(copy, ignore_errors=True)
    link_tree(folder, copy)
    (copy / left_out).unlink()
    answer = lab.probe(lab.environment([copy]), str(plain_program(lab, folder / library)),
                       "--stage", part)
    yield from differences(stage(answer.document, part), **expected)


def without_part(lab, envs):
    folder, library = envs.site("cuda12") / CUDNN, "libcudnn.so.9"
    yield from changed(lab, folder, "libcudnn_cnn.so.9", library, "cudnn", outcome="crashed",
                       signal=6, last_call="cudnnCnnVersionCheck")
    yield from changed(lab, folder, "libcudnn_heuristic.so.9", library, "cudnn", outcome="failed",
                       says="libcudnn_heuristic.so.9, which cuDNN opens at its first convolution, "
                       "is neither")
    yield from changed(lab, folder, "libcudnn_graph.so.9", library, "cudnn", outcome="crashed",
                       signal=6, last_call="cudnnGetVersion")


def newer_without_part(lab, envs):
    yield from changed(lab, envs.site("cuda13") / CUDNN, "libcudnn_cnn.so.9", "libcudnn.so.9",
                       "cudnn", outcome="failed", code=3009,
                       code_name="CUDNN_STATUS_NOT_SUPPORTED_SUBLIBRARY_UNAVAILABLE",
                       says="cudnnCnnVersionCheck: libcudnn_cnn is missing")


def cudnn8(lab, envs):
    """The one of Whisper's well-known end."""
    folder, library = envs.site("cudnn8") / CUDNN, "libcudnn.so.8"
    cublas = envs.site("cuda12") / "nvidia/cublas/lib"
    program = str(plain_program(lab, folder / library))
    answer = lab.probe(lab.environment([folder, cublas]), program, "--stage", "cudnn")
    yield from differences(stage(answer.document, "cudnn"), outcome="passed",
                           says="cuDNN 8.9.7 and 6 sub-libraries that match it")
    yield from changed(lab, folder, "libcudnn_cnn_infer.so.8", library, "cudnn", outcome="crashed",
                       signal=6, last_call="cudnnCnnInferVersionCheck")


def without_builtins(lab, envs):
    yield from changed(lab, envs.site("cuda12") / NVRTC, "libnvrtc-builtins.so.12.4",
                       "libnvrtc.so.12", "nvrtc", outcome="failed", code=7,
                       code_name="NVRTC_ERROR_BUILTIN_OPERATION_FAILURE", says="libnvrtc-builtins")


# ------------------------------------------------------------------ packages


def package(lab, envs, name, module):
    if has_driver():
        yield "SKIP there is a driver here"
        return
    says, call, absent = WITHOUT_DRIVER[name, module]
    answer = lab.probe(lab.environment([]), str(envs.get(name)), "--stage", "cpu", "--python",
                       module)
    found = stage(answer.document, f"python-{module}")
    yield from differences(found, outcome="failed", last_call=call, says=says)
    if ("absent" in found["facts"]) != absent:
        yield f"the driver's absence is {'not ' if absent else ''}said"
    if answer.document["verdict"] != ("no-driver" if absent else "broken"):
        yield f"verdict {answer.document['verdict']}"


# Put into an environment as sitecustomize.py: the packages take the CPU for a GPU, so that all that
# a stage computes is computed. WRONG makes the GPU's numbers wrong.
PRETEND = '''
import importlib.abc, importlib.util, os, sys
WRONG = "WRONG" in os.environ

def torch(m):
    real, matmul = m.device, m.matmul
    m.cuda.init = lambda: None
    m.cuda.device_count = lambda: 1
    m.cuda.get_device_name = lambda device: "a pretended GPU"
    m.device = lambda kind, index=0: real("cpu")
    if WRONG:
        m.matmul = lambda a, b: matmul(a, b) * (1 if a.dtype == m.float64 else 1.1)

def ctranslate2(m):
    real = m.models.Whisper
    m.get_supported_compute_types = lambda device, index: {"float32", "int8"}
    def whisper(path, device, device_index, compute_type, files):
        model = real(path, device="cpu", compute_type=compute_type, files=files)
        encode = model.encode
        class Model:
            def encode(self, sound, to_cpu):
                import numpy
                right = numpy.array(encode(sound, to_cpu=to_cpu))
                return m.StorageView.from_array(right * (1.5 if WRONG and device == "cuda" else 1))
        return Model()
    m.models.Whisper = whisper

def onnxruntime(m):
    real = m.InferenceSession
    m.get_available_providers = lambda: ["CUDAExecutionProvider", "CPUExecutionProvider"]
    class Session:
        def __init__(self, model, providers):
            self.gpu = providers != ["CPUExecutionProvider"]
            self.real = real(model, providers=["CPUExecutionProvider"])
        def get_providers(self):
            return ["CUDAExecutionProvider" if self.gpu else "CPUExecutionProvider"]
        def run(self, names, inputs):
            return [x * (1.1 if WRONG and self.gpu else 1) for x in self.real.run(names, inputs)]
    m.InferenceSession = Session

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        patch = {"torch": torch, "ctranslate2": ctranslate2, "onnxruntime": onnxruntime}.get(name)
        if not patch:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        sys.meta_path.insert(0, self)
        run = spec.loader.exec_module
        spec.loader.exec_module = lambda m: (run(m), patch(m))
        return spec

sys.meta_path.insert(0, Finder())
'''
PRETENDED = {
    "torch": (r"^torch 2\.5\.1\+cu124 multiplies and convolves on a pretended GPU in float32 and "
              "float16$", "matmul in float32 on the GPU differs from the CPU by"),
    "ctranslate2": (r"^CTranslate2 4\.8\.5 encodes with a small Whisper model on the GPU in "
                    "float32$",
                    "encode in float32 on the GPU differs from the CPU by"),
    "onnxruntime": (r"^onnxruntime 1\.23\.2 multiplies and convolves with CUDAExecutionProvider$",
                    "MatMul on the GPU differs from the CPU by"),
}


def pretended(lab, envs, module):
    """What a stage does after the driver was found, with the CPU in the GPU's place."""
    right, wrong = PRETENDED[module]
    folder = lab.folder / "pretend"
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(PRETEND)
    for variables, outcome, words in (({}, "passed", right), ({"WRONG": "1"}, "failed", wrong)):
        env = lab.environment([], PYTHONPATH=str(folder), **variables)
        answer = lab.probe(env, str(envs.get("cuda12")), "--stage", "cpu", "--python", module)
        found = stage(answer.document, f"python-{module}")
        yield from differences(found, outcome=outcome)
        if not re.search(words, found.get("says") or ""):
            yield f"says: {found.get('says')}"


# ------------------------------------------------------------------ packages that are none

STUBS = {
    "is not there": (None, "failed", "No module named 'torch'", {"verdict": "broken"}),
    "hangs": ("import time; time.sleep(60)", "timed-out", "import torch",
              {"last_call": "import torch"}),
    "aborts": ("import os; os.abort()", "crashed", "signal 6", {"signal": 6}),
    "crashes": ("import ctypes; ctypes.string_at(0)", "crashed", "signal 11", {"signal": 11}),
    "ends the interpreter": ("import os; os._exit(3)", "crashed", "", {}),
    "leaves": ("raise SystemExit(1)", "failed", "SystemExit: 1", {}),
    "does not find a library": ("import ctypes; ctypes.CDLL('libcudnn.so.9999')", "failed",
                                "libcudnn.so.9999: cannot open shared object file",
                                {"verdict": "broken"}),
    "is for the CPU": ("import types\n__version__ = '2.5.1+cpu'\n"
                       "version = types.SimpleNamespace(cuda=None, hip=None)", "failed",
                       "torch 2.5.1+cpu is a build for the CPU and has no code for a GPU", {}),
    "sees too few": ("import types\n__version__ = '2.5.1'\n"
                     "version = types.SimpleNamespace(cuda='12.4', hip=None)\n"
                     "cuda = types.SimpleNamespace(init=lambda: 0, device_count=lambda: 2)",
                     "failed",
                     "torch counts 2 GPUs, so there is no GPU 3", {"arguments": ["--device", "3"]}),
    "writes a lot": ("import os\nfor i in range(3000): os.write(1, b'x' * 1000 + b'\\n')\n"
                     "os.write(2, b'passed done')\nraise ValueError('at last %20 100%')", "failed",
                     "ValueError: at last %20 100%", {}),
}


def stub(lab, name):
    text, outcome, says, more = STUBS[name]
    env = lab.folder / "envs" / ("stub-" + name.replace(" ", "-"))
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(env)], check=True)
    if text:
        (wheels.site_packages(env) / "torch.py").write_text(text)
    driver = lab.driver()
    answer = lab.probe(lab.environment([driver]), str(env), "--stage", "cpu", "--python", "torch",
                       "--python-timeout", "3", *more.get("arguments", ()))
    found = stage(answer.document, "python-torch")
    expected = {k: more[k] for k in ("last_call", "signal") if k in more}
    yield from differences(found, outcome=outcome, says=says, **expected)
    if "verdict" in more and answer.document["verdict"] != more["verdict"]:
        yield f"verdict {answer.document['verdict']}"


CPU_RUNTIME = ("__version__ = '1.30.0'\ndef get_available_providers(): return ['CPUExecutionProvider']\n")


def for_cpu(lab):
    """onnxruntime for the CPU, which applications require, is a failure only where it is asked for by
    name, or where a distribution for a GPU is installed, too."""
    env = lab.folder / "envs" / "onnxruntime-for-cpu"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(env)], check=True)
    site = wheels.site_packages(env)
    (site / "onnxruntime.py").write_text(CPU_RUNTIME)
    (site / "numpy.py").write_text("")
    for names, asked, outcome, says in (
            (["onnxruntime"], "all", "not-run", "onnxruntime 1.30.0 is the build for the CPU"),
            (["onnxruntime"], "onnxruntime", "failed", "onnxruntime 1.30.0 is the build for the CPU"),
            (["onnxruntime", "onnxruntime-gpu"], "all", "failed", "one lies over the other")):
        for name in names:
            info = site / ("%s-1.30.0.dist-info" % name.replace("-", "_"))
            info.mkdir(exist_ok=True)
            (info / "METADATA").write_text("Metadata-Version: 2.1\nName: %s\nVersion: 1.30.0\n" % name)
        answer = lab.probe(lab.environment([]), str(env), "--stage", "cpu", "--python", asked)
        found = stage(answer.document, "python-onnxruntime")
        yield from differences(found, outcome=outcome)
        if says not in (found.get("says") or ""):
            yield f"{names} {asked}: says {found.get('says')}"


def refused(lab):
    """What --python does not take."""
    for target, word, says in (("/bin/true", "torch", "needs a Python environment"),
                               (sys.executable, "numpy",
                                "knows torch, ctranslate2 and onnxruntime")):
        answer = lab.probe(lab.environment([]), target, "--python", word)
        if answer.status != 2 or says not in answer.errors:
            yield f"{target} {word}: status {answer.status}, {answer.errors}"
    answer = lab.probe(lab.environment([]), "/bin/true", "--stage", "python-torch")
    yield from differences(stage(answer.document, "python-torch"), outcome="unknown",
                           says="the target is not a Python environment")


def or_skipped(case):
    try:
        yield from case()
    except Missing as why:
        yield f"SKIP {why}"


def cases(lab):
    envs = Environments(lab)
    parts = {
        "CUDA 12 without a driver": (without_driver, lab, envs, "cuda12", VERSIONS12),
        "CUDA 13 without a driver": (without_driver, lab, envs, "cuda13", VERSIONS13),
        "CTranslate2 with cuBLAS not on its path": (not_on_path, lab, envs),
        "CUDA 12 on a driver that has little": (on_fake_driver, lab, envs),
        "the files that torch loads, CUDA 12": (same_files, lab, envs, "cuda12"),
        "the files that torch loads, CUDA 13": (same_files, lab, envs, "cuda13"),
        "cuDNN 9.1 without a part": (without_part, lab, envs),
        "cuDNN 9.26 without a part": (newer_without_part, lab, envs),
        "cuDNN 8.9, whole and without a part": (cudnn8, lab, envs),
        "NVRTC without its builtins": (without_builtins, lab, envs),
        "what --python does not take": (refused, lab),
        "ONNX Runtime for the CPU": (for_cpu, lab),
    }
    parts.update({f"{module} of {name} without a driver": (package, lab, envs, name, module)
                  for name, module in WITHOUT_DRIVER})
    parts.update({f"{module} with a pretended GPU": (pretended, lab, envs, module)
                  for module in PRETENDED})
    parts.update({f"a torch that {name}": (stub, lab, name) for name in STUBS})
    for name, (function, *arguments) in parts.items():
        yield name, functools.partial(or_skipped, functools.partial(function, *arguments))
