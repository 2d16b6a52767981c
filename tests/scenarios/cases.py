"""The scenarios: what is installed, what is changed, what is run, and what gpumend must say.

Each is an environment made of wheels (WHEELS names groups of them), edits to its files, variables
at start, and a script of imports and first uses. Whether the script works is not written here: a
child process finds out (truth.py), and both its answer and gpumend's must be the one expected. What
gpumend says holds for every order of uses; where the orders differ, the script has one that fails.

An expected error names the classes that are a right answer, the culprits (patterns), and words
that its repairs must mention. `{env}` and `{site}` stand for the environment and its
site-packages.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Error:
    """An error finding that must be there (or may be, if optional)."""
    classes: tuple
    culprits: tuple
    repairs: tuple = ()
    causes: tuple = ()          # identifiers; empty: the class decides
    optional: bool = False
    severity: str = "error"


@dataclasses.dataclass(frozen=True)
class Scenario:
    name: str
    wheels: tuple
    imports: tuple
    verdict: str                # ok | broken: of the script, and of gpumend for it
    errors: tuple = ()
    says: str = ""              # what a library or the loader says when it fails (pattern)
    uses: tuple = None          # first uses in order; None: those of the imports, in that order
    steps: tuple = ()           # imports and uses in another order: all imports come first otherwise
    edits: tuple = ()           # ("delete", PATH) | ("take", PATH, REQUIREMENT, PATH in it)
    env: tuple = ()             # (NAME, VALUE)
    clean: bool = False         # neither warning nor error for this script
    healthy: bool = False       # nor for any script that gpumend itself chooses

    def script(self):
        if self.steps:
            return list(self.steps)
        uses = self.imports if self.uses is None else self.uses
        return ["import " + n for n in self.imports] + ["use " + n for n in uses]


NUMPY = ("numpy==2.4.6", "pyyaml==6.0.3", "setuptools==80.10.2")
CUBLAS12 = ("nvidia-cublas-cu12==12.4.5.8", "nvidia-cuda-nvrtc-cu12==12.4.127")
CUDNN_OLD = "nvidia-cudnn-cu12==9.1.0.70"
CUDNN_NEW = "nvidia-cudnn-cu12==9.10.2.21"
CUDNN12 = (CUDNN_OLD, *CUBLAS12)
FOR_TORCH = ("filelock==4.2.11", "fsspec==2026.9.0", "jinja2==3.1.6", "markupsafe==3.0.4",
             "mpmath==1.3.0", "networkx==3.6.1", "typing-extensions==4.16.0")
TORCH12 = ("torch==2.5.1", "triton==3.1.0", "sympy==1.13.1", *FOR_TORCH, *CUDNN12, *NUMPY,
           "nvidia-cuda-runtime-cu12==12.4.127", "nvidia-cuda-cupti-cu12==12.4.127",
           "nvidia-cufft-cu12==11.2.1.3", "nvidia-curand-cu12==10.3.5.147",
           "nvidia-cusolver-cu12==11.6.1.9", "nvidia-cusparse-cu12==12.3.1.170",
           "nvidia-nccl-cu12==2.21.5", "nvidia-nvtx-cu12==12.4.127",
           "nvidia-nvjitlink-cu12==12.4.127")
TORCH13 = ("torch==2.15.0", "triton==3.9.0", "sympy==1.14.0", *FOR_TORCH, *NUMPY,
           "cuda-toolkit==13.2.2", "cuda-bindings==13.5.0", "cuda-pathfinder==1.9.0",
           "nvidia-cublas==13.4.1.3", "nvidia-cuda-cccl==13.3.5.0.6",
           "nvidia-cuda-cupti==13.2.86", "nvidia-cuda-nvrtc==13.2.86",
           "nvidia-cuda-runtime==13.2.86", "nvidia-cudnn-cu13==9.26.0.51",
           "nvidia-cufft==12.2.0.57", "nvidia-cufile==1.17.1.22", "nvidia-cusolver==12.2.0.11",
           "nvidia-cusparse==12.7.10.12", "nvidia-cusparselt-cu13==0.8.1",
           "nvidia-nccl-cu13==2.30.7", "nvidia-nvjitlink==13.5.37",
           "nvidia-nvshmem-cu13==3.7.2", "nvidia-nvtx==13.2.86")
FOR_ONNX = ("flatbuffers==25.12.19", "protobuf==7.36.2", "packaging==26.3", *NUMPY)
ONNX12 = ("onnxruntime-gpu==1.23.2", *FOR_ONNX)
ONNX13 = ("onnxruntime-gpu==1.31.1", *FOR_ONNX)
CT_450 = ("ctranslate2==4.5.0", *NUMPY)
CT_463 = ("ctranslate2==4.6.3", *NUMPY)
CT_485 = ("ctranslate2==4.8.5", *NUMPY)

CUDNN = "{site}/nvidia/cudnn/lib"
CUBLAS = "{site}/nvidia/cublas/lib"
ON_PATH = (("LD_LIBRARY_PATH", CUDNN + ":" + CUBLAS),)
SUB_LIBRARIES = ("libcudnn_ops*", "libcudnn_cnn*", "libcudnn_graph*")
NO_SUBLIBRARY = r"Unable to load any of \{libcudnn_(ops|cnn)\.so\.9\.1\.0, "
NO_CUBLAS12 = r"libcublas\.so\.12: cannot open shared object file"


def take(path, requirement, source):
    return ("take", path, requirement, source)


def newer(library, folder):
    """The sub-library of the newer cuDNN, put into folder."""
    return take(folder + "/" + library, CUDNN_NEW, "nvidia/cudnn/lib/" + library)


NEWER_SET = tuple(newer("libcudnn%s.so.9" % part, "{env}/newer") for part in (
    "", "_adv", "_cnn", "_engines_precompiled", "_engines_runtime_compiled", "_graph",
    "_heuristic", "_ops"))

CUBLAS_MISSING = Error(("lib-missing", "wrong-major"), ("libcublas*.so.12",),
                       ("nvidia-cublas-cu12",))
CUBLAS_NOT_FOUND = Error(("lib-not-on-path",), ("libcublas*.so.12",), ("LD_LIBRARY_PATH",))
# The program would meet these after the error that the scenario is about.
ALSO_CUBLAS = (dataclasses.replace(CUBLAS_MISSING, optional=True),
               dataclasses.replace(CUBLAS_NOT_FOUND, optional=True))
CUDNN_NOT_FOUND = Error(("lib-not-on-path", "partial-cudnn"), SUB_LIBRARIES,
                        ("LD_LIBRARY_PATH", "ctranslate2"))

SCENARIOS = (
    Scenario("no-gpu-package",
             ("requests==2.34.2", "idna==3.20", "urllib3==2.8.0", "certifi==2026.10.18",
              "charset-normalizer==3.5.2"),
             ("requests",), "ok", uses=(), healthy=True),

    # ctranslate2 4.5.0 brings the main cuDNN library, and none that it loads.
    Scenario("ctranslate2-4.5.0-alone", CT_450, ("ctranslate2",), "broken",
             (Error(("partial-cudnn", "lib-missing"), SUB_LIBRARIES,
                    ("ctranslate2", "nvidia-cudnn-cu12", "LD_LIBRARY_PATH")), *ALSO_CUBLAS),
             NO_SUBLIBRARY),
    Scenario("ctranslate2-4.5.0-cudnn-not-on-path", (*CT_450, *CUDNN12), ("ctranslate2",),
             "broken", (CUDNN_NOT_FOUND, *ALSO_CUBLAS), NO_SUBLIBRARY),
    Scenario("ctranslate2-4.5.0-cudnn-on-path", (*CT_450, *CUDNN12), ("ctranslate2",), "ok",
             env=ON_PATH),
    Scenario("ctranslate2-4.5.0-newer-cudnn-on-path", (*CT_450, *CUDNN12), ("ctranslate2",),
             "ok",
             (Error(("sublib-version-mismatch", "ld-library-path-shadow"), ("*cudnn*",),
                    severity="warning"),),
             edits=NEWER_SET, env=(("LD_LIBRARY_PATH", "{env}/newer:" + CUBLAS),)),
    Scenario("ctranslate2-4.5.0-part-of-newer-cudnn-first", (*CT_450, *CUDNN12),
             ("ctranslate2",), "broken",
             (Error(("sublib-version-mismatch", "symbol-missing", "ld-library-path-shadow"),
                    ("*cudnn*",)), *ALSO_CUBLAS),
             NO_SUBLIBRARY, edits=(newer("libcudnn_ops.so.9", "{env}/newer"),),
             env=(("LD_LIBRARY_PATH", "{env}/newer:" + CUDNN + ":" + CUBLAS),)),
    Scenario("ctranslate2-4.5.0-sublibrary-deleted", (*CT_450, *CUDNN12), ("ctranslate2",),
             "broken",
             (Error(("partial-cudnn", "lib-missing"), ("libcudnn_cnn*",),
                    ("nvidia-cudnn-cu12",)), *ALSO_CUBLAS),
             NO_SUBLIBRARY, edits=(("delete", CUDNN + "/libcudnn_cnn.so.9"),), env=ON_PATH),
    Scenario("ctranslate2-4.5.0-two-versions-in-one-folder", (*CT_450, *CUDNN12),
             ("ctranslate2",), "broken",
             (Error(("sublib-version-mismatch", "symbol-missing"), ("*cudnn*",),
                    ("nvidia-cudnn-cu12",)), *ALSO_CUBLAS),
             NO_SUBLIBRARY, edits=(newer("libcudnn_ops.so.9", CUDNN),), env=ON_PATH),

    # From 4.6.3 on it needs no cuDNN; cuBLAS it opens by its soname.
    Scenario("ctranslate2-4.6.3-cublas-missing", CT_463, ("ctranslate2",), "broken",
             (CUBLAS_MISSING,), NO_CUBLAS12),
    Scenario("ctranslate2-4.6.3-cublas-not-on-path", (*CT_463, *CUBLAS12), ("ctranslate2",),
             "broken", (CUBLAS_NOT_FOUND,), NO_CUBLAS12),
    Scenario("ctranslate2-4.6.3-cublas-on-path", (*CT_463, *CUBLAS12), ("ctranslate2",), "ok",
             env=(("LD_LIBRARY_PATH", CUBLAS),)),

    # What torch has loaded serves ctranslate2, once torch has loaded it: its import does not load the
    # sub-libraries of cuDNN, so it is of no use to be imported first.
    Scenario("torch-2.5.1", TORCH12, ("torch",), "ok", healthy=True),
    Scenario("torch-2.5.1-then-ctranslate2-4.5.0", (*TORCH12, *CT_450),
             ("torch", "ctranslate2"), "broken", (CUDNN_NOT_FOUND,), NO_SUBLIBRARY,
             uses=("ctranslate2", "torch")),
    Scenario("torch-2.5.1-then-ctranslate2-4.5.0-on-path", (*TORCH12, *CT_450),
             ("torch", "ctranslate2"), "ok", env=ON_PATH, clean=True),
    Scenario("ctranslate2-4.5.0-then-torch-2.5.1", (*TORCH12, *CT_450),
             ("ctranslate2", "torch"), "broken", (CUDNN_NOT_FOUND,), NO_SUBLIBRARY),
    Scenario("torch-2.5.1-then-ctranslate2-4.8.5", (*TORCH12, *CT_485),
             ("torch", "ctranslate2"), "ok", clean=True),

    # Its older releases import torch themselves, and so find torch's cuBLAS; newer ones do not.
    Scenario("ctranslate2-4.6.3-beside-torch-2.5.1", (*TORCH12, *CT_463), ("ctranslate2",), "ok",
             healthy=True),
    Scenario("ctranslate2-4.8.5-beside-torch-2.5.1", (*TORCH12, *CT_485), ("ctranslate2",),
             "broken", (CUBLAS_NOT_FOUND,), NO_CUBLAS12),

    # torch for CUDA 13 beside a ctranslate2 for CUDA 12: no order helps.
    Scenario("torch-2.15", TORCH13, ("torch",), "ok", healthy=True),
    Scenario("torch-2.15-then-ctranslate2-4.5.0", (*TORCH13, *CT_450),
             ("torch", "ctranslate2"), "broken", (CUBLAS_MISSING, CUDNN_NOT_FOUND), NO_CUBLAS12),
    Scenario("ctranslate2-4.5.0-then-torch-2.15", (*TORCH13, *CT_450),
             ("ctranslate2", "torch"), "broken",
             (CUDNN_NOT_FOUND, dataclasses.replace(CUBLAS_MISSING, optional=True)),
             NO_SUBLIBRARY),
    Scenario("torch-2.15-then-ctranslate2-4.8.5", (*TORCH13, *CT_485),
             ("torch", "ctranslate2"), "broken", (CUBLAS_MISSING,), NO_CUBLAS12),
    Scenario("ctranslate2-4.8.5-then-torch-2.15", (*TORCH13, *CT_485),
             ("ctranslate2", "torch"), "broken", (CUBLAS_MISSING,), NO_CUBLAS12),

    # onnxruntime goes on with the CPU, and only logs it.
    Scenario("onnxruntime-1.23.2-alone", ONNX12, ("onnxruntime",), "broken",
             (Error(("lib-missing",), ("libcublasLt.so.12", "libcublas*.so.12"),
                    ("nvidia-cublas-cu12",)),),
             r"libcublasLt\.so\.12: cannot open shared object file"),
    Scenario("onnxruntime-1.31.1-alone", ONNX13, ("onnxruntime",), "broken",
             (Error(("lib-missing",), ("libcublasLt.so.13", "libcublas*.so.13"),
                    ("nvidia-cublas",)),),
             r"libcublasLt\.so\.13: cannot open shared object file"),
    Scenario("torch-2.5.1-then-onnxruntime-1.23.2", (*TORCH12, *ONNX12),
             ("torch", "onnxruntime"), "ok"),
    Scenario("onnxruntime-1.23.2-used-before-torch-2.5.1-is-imported", (*TORCH12, *ONNX12),
             ("onnxruntime", "torch"), "broken",
             (Error(("lib-not-on-path",), ("libcublasLt.so.12", "libcublas*.so.12")),),
             r"libcublasLt\.so\.12: cannot open shared object file",
             steps=("import onnxruntime", "use onnxruntime", "import torch", "use torch")),
    Scenario("torch-2.5.1-ctranslate2-4.5.0-and-onnxruntime-1.23.2-on-path",
             (*TORCH12, *CT_450, *ONNX12), ("torch", "ctranslate2", "onnxruntime"), "ok",
             env=ON_PATH),
    Scenario("onnxruntime-1.23.2-without-torch-imported", (*TORCH12, *ONNX12),
             ("onnxruntime",), "broken",
             (Error(("lib-not-on-path",), ("libcublasLt.so.12", "libcublas*.so.12")),),
             r"libcublasLt\.so\.12: cannot open shared object file"),
    Scenario("torch-2.15-then-onnxruntime-1.31.1", (*TORCH13, *ONNX13),
             ("torch", "onnxruntime"), "broken",
             (Error(("lib-missing",), ("libcurand.so.10",), ("nvidia-curand",)),),
             r"libcurand\.so\.10: cannot open shared object file"),
)
