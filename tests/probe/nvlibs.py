"""The stages of the CUDA runtime libraries against fake ones: every stage, every outcome, and its
words.

The fakes (fake/*.c) are built into a folder and linked by a program, which is the TARGET; the fake
driver is on LD_LIBRARY_PATH, and a table says how they misbehave (fake/table.h). A case is a table,
the stage that is judged, and what must come out for it.
"""

import functools
import json
import os
import shutil
import subprocess
from pathlib import Path

from lab import case_faults

FAKE = Path(__file__).resolve().parent / "fake"
CC = ["cc", "-O1", "-fPIC", "-shared", "-D_GNU_SOURCE", "-Wall", "-Wextra", f"-I{FAKE}"]
PARTS = ("graph", "ops", "cnn", "adv", "engines_precompiled", "engines_runtime_compiled",
         "heuristic")
PARTS8 = ("ops_infer", "cnn_infer", "adv_infer")
# name: (source, what it is linked against, options)
LIBRARIES = {
    "libcudart.so.12": ("cudart.c", (), ()),
    "libcublasLt.so.12": ("cublaslt.c", (), ()),
    "libcublas.so.12": ("cublas.c", ("libcublasLt.so.12",), ()),
    "libcudnn.so.9": ("cudnn.c", (), ("-ldl",)),
    "libnvrtc.so.12": ("nvrtc.c", (), ()),
    "libnccl.so.2": ("nccl.c", (), ()),
}
# Programs with other copies of a library: (its options, the sub-libraries that are left out)
VARIANTS = {
    "plain": ({}, ()),
    "no-cudaMalloc": ({"libcudart.so.12": "-DWITHOUT_cudaMalloc"}, ()),
    "no-cublasGemmEx": ({"libcublas.so.12": "-DWITHOUT_cublasGemmEx"}, ()),
    "no-convolution": ({"libcudnn.so.9": "-DWITHOUT_cudnnCreateConvolutionDescriptor"}, ()),
    "no-compile": ({"libnvrtc.so.12": "-DWITHOUT_nvrtcCompileProgram"}, ()),
    "no-allreduce": ({"libnccl.so.2": "-DWITHOUT_ncclAllReduce"}, ()),
    "no-cnn": ({}, ("cnn",)),
    "no-ops": ({}, ("ops",)),
    "no-heuristic": ({}, ("heuristic",)),
    "cudnn8": ({}, ()),
    "cudnn8-no-cnn": ({}, ("cnn_infer",)),
    "no-libraries": ({}, ()),
    "shadow": ({"libcublasLt.so.12": "-DWITHOUT_cublasLtMatmul"}, ()),
    "rpath": ({}, ()),
    "lost": ({}, ()),
    "broken-cudart": ({}, ()),
}


def compile_library(to, source, *options):
    subprocess.run([*CC, str(source), "-o", str(to), f"-Wl,-soname,{to.name}", *options],
                   check=True)


def build_variant(place, options, left_out):
    """All of a variant's own is compiled, and the rest is the plain one's."""
    place.mkdir()
    plain, eight = place.parent / "plain", place.name.startswith("cudnn8")
    for name, (source, needs, libs) in LIBRARIES.items():
        extra = [options[name]] if name in options else []
        if name == "libcudnn.so.9" and eight:
            name, extra = "libcudnn.so.8", ["-DCUDNN8"]
        if place != plain and not extra:
            shutil.copy(plain / name, place / name)
            continue
        compile_library(place / name, FAKE / source, *extra, *libs, "-Wl,-rpath,$ORIGIN",
                        *(str(place / n) for n in needs))
    empty = place / "empty.c"
    empty.write_text("int nothing;\n")
    for part in PARTS8 if eight else PARTS:
        name = f"libcudnn_{part}.so.{8 if eight else 9}"
        if part in left_out:
            continue
        if place == plain or eight:
            compile_library(place / name, empty)
        else:
            shutil.copy(plain / name, place / name)
    (place / "main.c").write_text("int main(void) { return 0; }\n")
    linked = [] if place.name == "no-libraries" else sorted(
        str(p) for p in place.glob("lib*.so.*") if "_" not in p.name)
    kind = ["-Wl,--disable-new-dtags"] if place.name == "rpath" else []  # before LD_LIBRARY_PATH
    subprocess.run(["cc", str(place / "main.c"), "-o", str(place / "program"), *kind,
                    "-Wl,--no-as-needed", *linked, "-Wl,-rpath,$ORIGIN"], check=True)
    if place.name == "lost":
        (place / "libcublas.so.12").unlink()
    if place.name == "broken-cudart":  # not an ELF file any more
        (place / "libcudart.so.12").write_bytes(b"\x7fELF" + bytes(2000))


def build(folder):
    """Once: the folder is there afterwards."""
    if folder.exists():
        return
    folder.mkdir()
    (folder / "driver").mkdir()
    compile_library(folder / "driver/libcuda.so.1", FAKE / "cuda.c")
    for name, (options, left_out) in VARIANTS.items():
        build_variant(folder / name, options, left_out)


class Probe:
    """One case. `stage` is the one that is judged and asked for."""

    def __init__(self, name, stage, table, outcome, says, **more):
        self.name, self.stage, self.table = name, stage, table
        self.outcome, self.says = outcome, says
        self.more = more


P, F, C, T, N, U = "passed", "failed", "crashed", "timed-out", "not-run", "unknown"
TYPES = ("float32", "tf32", "float16", "bfloat16", "int8")
CRASHES = (("abort", r"signal 6 \(Aborted\)"), ("segfault", r"signal 11 \(Segmentation fault\)"))
BUSY = "the GPU is busy, not broken"
FULL = "cuMemGetInfo_v2 value 40"


def crashes(stage, function):
    """A crash and a hang are told with the call they happened in; garbage and delay do nothing."""
    name = function.partition("@")[0]
    for behaviour, signal in CRASHES:
        yield Probe(f"{stage} {behaviour}", stage, f"{function} {behaviour}", C,
                    f"{signal} in {name}", last_call=name, verdict="broken")
    yield Probe(f"{stage} hang", stage, f"{function} hang", T, name, last_call=name,
                options=["--timeout", "0.7"], verdict="cannot-tell")
    yield Probe(f"{stage} garbage", stage, f"{function} garbage", P, "")
    yield Probe(f"{stage} slow", stage, f"{function} slow 300", P, "", ms_min=250)


def gemm_cases(prefix, create, multiply):
    """The cases of each number format of cuBLAS or cuBLASLt."""
    for kind in TYPES:
        stage = f"{prefix}-{kind}"
        old = {"tf32": "75", "float16": "52", "bfloat16": "75",
               "int8": "70" if prefix == "cublaslt" else "60"}.get(kind)
        yield Probe(f"{stage} is right", stage, "", P, f"{multiply} multiplies in {kind} correctly")
        yield Probe(f"{stage} is wrong", stage, f"{multiply} wrong", F,
                    rf"{multiply} in {kind} \(64 x 48 x 80, A transposed\): 1 of 3072 numbers are "
                    "wrong, the worst at row 32, column 24", code=None, verdict="broken")
        yield Probe(f"{stage} fails", stage, f"{multiply} return 13", F,
                    rf"{multiply} failed: CUBLAS_STATUS_EXECUTION_FAILED \(13\), a cuBLAS kernel",
                    code=13, code_name="CUBLAS_STATUS_EXECUTION_FAILED")
        yield from crashes(stage, multiply)
        if old:
            card = f"attribute-75 value {old[0]}\nattribute-76 value {old[1]}"
            yield Probe(f"{stage} on an old card", stage, f"{card}\n{multiply} return 8", F,
                        f"does not support {kind} on this GPU, which is not broken: its compute capability "
                        rf"is {old[0]}\.{old[1]}, and {kind} needs .*; use ",
                        code_name="CUBLAS_STATUS_ARCH_MISMATCH")
            yield Probe(f"{stage} without units", stage, card, P,
                        f"correctly, but without hardware units for it: .*{old[0]}\\.{old[1]}")
        yield Probe(f"{stage} refused by a card that has it", stage, f"{multiply} return 15", F,
                    rf"^{multiply} failed: CUBLAS_STATUS_NOT_SUPPORTED \(15\)", code=15)
    stage = "cublas-start" if prefix == "cublas" else "cublaslt-float32"
    yield Probe(f"{stage} does not start", stage, f"{create} return 1", F,
                rf"{create} failed: CUBLAS_STATUS_NOT_INITIALIZED \(1\)", code=1)
    yield Probe(f"{stage} on a full card", stage, f"{create} return 1\n{FULL}", F,
                BUSY + ": other processes hold nearly all of its memory", verdict="busy",
                facts={"memory.free.mib": "40", "memory.total.mib": "8000"})
    yield Probe(f"{stage} without memory for its workspace", stage, f"{create} return 3", F,
                "CUBLAS_STATUS_ALLOC_FAILED", code=3, verdict="broken")
    yield from crashes(stage, create)


CASES = [
    # ---------------------------------------------------------------- the CUDA runtime
    Probe("cudart", "cudart", "", P,
          r"CUDA runtime 12\.4 on a driver for CUDA 12\.8 finds 1 GPU$",
          facts={"cudart.version": "12.4", "driver.cuda.version": "12.8"}),
    Probe("cudart counts three", "cudart", "cudaGetDeviceCount value 3", P, "finds 3 GPUs$"),
    Probe("cudart counts none", "cudart", "cudaGetDeviceCount value 0", F, "finds no GPU"),
    Probe("cudart finds no driver", "cudart", "cudaDriverGetVersion value 0", F,
          r"the CUDA runtime 12\.4 finds no NVIDIA driver", verdict="no-driver"),
    Probe("cudart and an old driver", "cudart",
          "cudaDriverGetVersion value 11040\ncudaGetDeviceCount return 35", F,
          r"cudaGetDeviceCount failed: cudaErrorInsufficientDriver \(35\), the driver is older "
          "than the CUDA runtime", code=35, facts={"driver.cuda.version": "11.4"}),
    Probe("cudart sees no card", "cudart", "cudaGetDeviceCount return 100", F,
          r"cudaErrorNoDevice \(100\), the driver sees no GPU", code=100),
    Probe("cudart, an error without a name", "cudart", "cudaRuntimeGetVersion return 12345", F,
          r"cudaRuntimeGetVersion failed: .*12345", code=12345),
    Probe("cudart that is no library", "cudart", "", F, "the target needs libcudart.so.12",
          variant="broken-cudart"),
    Probe("no cudart", "cudart", "", N, "the target does not load libcudart.so, so there is nothing to run",
          variant="no-libraries", verdict="works"),
    *crashes("cudart", "cudaGetDeviceCount"),
    Probe("cudart's memory", "cudart-memory", "", P, "a memory round trip .* succeeds"),
    Probe("cudart's memory is wrong", "cudart-memory", "cudaMemcpy#2 wrong", F,
          "cudaMemcpy: byte 524288 of 1048576 came back as"),
    Probe("locked memory", "cudart-memory", "cudaMallocHost return 2", F,
          r"cudaMallocHost failed: cudaErrorMemoryAllocation \(2\)", code=2, verdict="broken"),
    Probe("the card's memory", "cudart-memory", "cudaMalloc return 2", F,
          r"cudaMalloc failed: cudaErrorMemoryAllocation \(2\)", code=2, verdict="broken"),
    Probe("a full card", "cudart-memory", "cudaMalloc return 2\ncudaMemGetInfo value 12", F,
          f"cudaMalloc: {BUSY}: other processes", verdict="busy", facts={"memory.free.mib": "12"}),
    Probe("a card that is held", "cudart-memory", "cudaSetDevice return 46", F,
          rf"cudaSetDevice: {BUSY}: it is in exclusive mode, and another process holds it", verdict="busy"),
    Probe("the second copy fails", "cudart-memory", "cudaMemcpy#2 return 719", F,
          "cudaMemcpy failed: .*719", code=719),
    Probe("no cudaMalloc", "cudart-memory", "", F, "no function cudaMalloc",
          variant="no-cudaMalloc"),
    Probe("memory is not tried without a runtime", "cudart-memory", "cudaGetDeviceCount return 35",
          N, "cudart", because="cudart"),
    Probe("memory is not tried without a kernel", "cudart-memory", "cuLaunchKernel return 700", N,
          "kernel", because="kernel"),
    *crashes("cudart-memory", "cudaMallocHost"),
    # ---------------------------------------------------------------- cuBLAS
    Probe("cublas", "cublas", "", P, r"cuBLAS 12\.4\.5$", facts={"cublas.version": "12.4.5"}),
    Probe("cublas of CUDA 10", "cublas", "cublasGetProperty value 10", U,
          r"cuBLAS 10\.4\.5 is older than CUDA 11", verdict="cannot-tell"),
    Probe("cublas has no version", "cublas", "cublasGetProperty return 7", F,
          "cublasGetProperty failed", code=7),
    Probe("no cublas", "cublas", "", N, "the target does not load libcublas.so", variant="no-libraries"),
    Probe("cublas is not found", "cublas", "", F,
          r"the target needs libcublas\.so\.12, but the loader does not find it",
          variant="lost", code=None, verdict="broken"),
    Probe("no product where cublas is not found", "cublas-float16", "", N, "cublas",
          variant="lost", because="cublas"),
    Probe("no product without cublas", "cublas-float16", "", N, "the target does not load libcublas.so",
          variant="no-libraries"),
    Probe("cublas starts", "cublas-start", "", P, "cuBLAS starts on the GPU"),
    Probe("cublas does not start: no product", "cublaslt-int8", "cublasCreate_v2 return 1", N,
          "cublas-start", because="cublas-start"),
    Probe("cublas is older: no product", "cublas-float32", "cublasGetProperty value 10", N,
          "cublas", because="cublas"),
    *crashes("cublas", "cublasGetProperty"),
    *gemm_cases("cublas", "cublasCreate_v2", "cublasGemmEx"),
    *gemm_cases("cublaslt", "cublasLtCreate", "cublasLtMatmul"),
    Probe("a product that is transposed", "cublas-float32", "cublasGemmEx value transposed", F,
          r"\d{4} of 3072 numbers are wrong"),
    Probe("a product that is not written", "cublas-bfloat16", "cublasGemmEx value nothing", F,
          "the call succeeded but wrote no result"),
    Probe("a product that is not written, of integers", "cublas-int8", "cublasGemmEx value nothing",
          F, "the call succeeded but wrote no result"),
    Probe("the second product fails", "cublas-float32", "cublasGemmEx#2 return 14", F,
          "cublasGemmEx failed: .*14", code=14),
    Probe("no cublasGemmEx", "cublas-float32", "", F, "no function cublasGemmEx",
          variant="no-cublasGemmEx"),
    Probe("the card is lost at the end", "cublas-float32",
          "cuCtxSynchronize@cublas-float32 return 719", F,
          r"cuCtxSynchronize failed: .*\(719\), a kernel crashed on the device", code=719),
    Probe("no memory for the matrices", "cublas-float32",
          f"cuMemAlloc_v2@cublas-float32 return 2\n{FULL}", F, f"cuMemAlloc_v2: {BUSY}",
          verdict="busy"),
    Probe("the card is taken meanwhile", "cublas-float32",
          "cuDevicePrimaryCtxRetain@cublas-float32 return 46", F,
          f"cuDevicePrimaryCtxRetain: {BUSY}: it is in exclusive mode", verdict="busy"),
    Probe("a layout is refused", "cublaslt-int8", "cublasLtMatrixLayoutCreate#3 return 7", F,
          "cublasLtMatrixLayoutCreate failed", code=7),
    # ---------------------------------------------------------------- cuDNN
    Probe("cudnn", "cudnn", "", P, r"cuDNN 9\.1\.0 and 7 sub-libraries that match it",
          facts={"cudnn.version": "90100", "libcudnn_cnn": "agrees"}),
    Probe("cudnn 8", "cudnn", "", P, r"cuDNN 8\.9\.7 and 3 sub-libraries", variant="cudnn8"),
    Probe("cudnn without one part aborts", "cudnn", "", C,
          r"signal 6 \(Aborted\) in cudnnCnnVersionCheck", variant="no-cnn",
          last_call="cudnnCnnVersionCheck"),
    Probe("cudnn 8 without one part aborts", "cudnn", "", C, "cudnnCnnInferVersionCheck",
          variant="cudnn8-no-cnn"),
    Probe("a newer cudnn without one part", "cudnn", "cudnnGetVersion value 92600", F,
          "cudnnCnnVersionCheck: libcudnn_cnn is missing, or its version differs from that of libcudnn: "
          r"CUDNN_STATUS_NOT_SUPPORTED_SUBLIBRARY_UNAVAILABLE \(3009\)", variant="no-cnn",
          code=3009),
    Probe("parts of two cudnns", "cudnn", "cudnnOpsVersionCheck return 1002", F,
          r"libcudnn_ops is missing, or its version differs.*SUBLIBRARY_VERSION_MISMATCH \(1002\)",
          code=1002),
    Probe("cudnn without an engine", "cudnn", "", F,
          r"libcudnn_heuristic\.so\.9, which cuDNN opens at its first convolution, is neither",
          variant="no-heuristic"),
    Probe("no cudnn", "cudnn", "", N, "the target does not load libcudnn.so", variant="no-libraries"),
    *crashes("cudnn", "cudnnGraphVersionCheck"),
    Probe("a convolution", "cudnn-convolution", "", P,
          r"cuDNN 9\.1\.0 convolves in float32 and float16 correctly"),
    Probe("a convolution of cudnn 8", "cudnn-convolution", "", P, r"cuDNN 8\.9\.7 convolves",
          variant="cudnn8"),
    Probe("a convolution that is wrong", "cudnn-convolution", "cudnnConvolutionForward wrong", F,
          r"cudnnConvolutionForward in float32: 1 of 720 numbers are wrong, the worst at row 12, "
          "column 15"),
    Probe("a convolution that is wrong in float16", "cudnn-convolution",
          "cudnnConvolutionForward#2 wrong", F, "cudnnConvolutionForward in float16: 1 of 720"),
    Probe("a convolution that fails", "cudnn-convolution", "cudnnConvolutionForward return 5000", F,
          r"cudnnConvolutionForward failed: CUDNN_STATUS_EXECUTION_FAILED \(5000\)", code=5000),
    Probe("a convolution without float16", "cudnn-convolution",
          "attribute-75 value 5\ncudnnConvolutionForward#2 wrong", P,
          r"convolves in float32 correctly; float16 needs .* 5\.3, and the GPU has 5\.0"),
    Probe("another algorithm", "cudnn-convolution",
          "cudnnGetConvolutionForwardWorkspaceSize#1 return 3000", P, "convolves"),
    Probe("no algorithm", "cudnn-convolution",
          "cudnnGetConvolutionForwardWorkspaceSize return 3000",
          F, r"cudnnGetConvolutionForwardWorkspaceSize failed: CUDNN_STATUS_NOT_SUPPORTED",
          code=3000),
    Probe("cudnn does not start", "cudnn-convolution", "cudnnCreate return 1001", F,
          r"cudnnCreate failed: CUDNN_STATUS_NOT_INITIALIZED \(1001\)", code=1001),
    Probe("cudnn on a full card", "cudnn-convolution", f"cudnnCreate return 1001\n{FULL}", F,
          f"cudnnCreate: {BUSY}", verdict="busy"),
    Probe("no convolution descriptors", "cudnn-convolution", "", F,
          "no function cudnnCreateConvolutionDescriptor", variant="no-convolution"),
    Probe("no convolution without parts", "cudnn-convolution", "", N, "cudnn", because="cudnn",
          variant="no-ops"),
    *crashes("cudnn-convolution", "cudnnConvolutionForward"),
    # ---------------------------------------------------------------- NVRTC
    Probe("nvrtc", "nvrtc", "", P,
          r"NVRTC 12\.4 compiles a kernel to PTX, which needs no GPU"),
    Probe("nvrtc without a card", "nvrtc", "cuInit return 100", P, "compiles a kernel to PTX",
          ask=["nvrtc", "driver-init"], verdict="broken"),
    Probe("nvrtc without builtins", "nvrtc", "nvrtcCompileProgram return 7", F,
          r"NVRTC_ERROR_BUILTIN_OPERATION_FAILURE \(7\), the builtins library", code=7),
    Probe("nvrtc does not compile", "nvrtc", "nvrtcCompileProgram return 6", F,
          r"NVRTC_ERROR_COMPILATION \(6\)", code=6,
          facts={"log": 'probe.cu(3): error: identifier "x" is undefined'}),
    Probe("nvrtc gives no kernel", "nvrtc", "nvrtcGetPTX wrong", F, "bytes without the kernel"),
    Probe("nvrtc has no compiler", "nvrtc", "", F, "no function nvrtcCompileProgram",
          variant="no-compile"),
    Probe("no nvrtc", "nvrtc", "", N, "the target does not load libnvrtc.so", variant="no-libraries"),
    *crashes("nvrtc", "nvrtcCompileProgram"),
    Probe("a kernel from nvrtc", "nvrtc-run", "", P,
          r"a kernel that NVRTC 12\.4 compiled for compute capability 9\.0 runs correctly"),
    Probe("a card that nvrtc does not know", "nvrtc-run",
          "attribute-75 value 12\nnvrtcCompileProgram@nvrtc-run return 5", F,
          r"NVRTC 12\.4 does not support compute capability 12\.0, which this GPU has.*"
          r"NVRTC_ERROR_INVALID_OPTION \(5\)", code=5),
    Probe("a driver that is older than nvrtc", "nvrtc-run", "cuModuleLoadData@nvrtc-run return 222",
          F,
          r"cuModuleLoadData failed: .*\(222\), the PTX is newer than what the driver can compile",
          code=222),
    Probe("a kernel from nvrtc that is not found", "nvrtc-run",
          "cuModuleGetFunction@nvrtc-run return 500", F, "cuModuleGetFunction failed", code=500),
    Probe("a kernel from nvrtc that is wrong", "nvrtc-run", "cuLaunchKernel@nvrtc-run wrong", F,
          "the kernel ran, but number 999 of 1000 is"),
    *crashes("nvrtc-run", "nvrtcGetPTXSize@nvrtc-run"),
    # ---------------------------------------------------------------- NCCL
    Probe("nccl", "nccl", "", P, r"NCCL 2\.21\.5 opens"),
    Probe("an old nccl", "nccl", "ncclGetVersion value 2708", P, r"NCCL 2\.7\.8 opens"),
    Probe("nccl has no version", "nccl", "ncclGetVersion return 4", F,
          r"ncclGetVersion failed: ncclInvalidArgument \(4\)", code=4),
    Probe("no nccl", "nccl", "", N, "the target does not load libnccl.so", variant="no-libraries"),
    *crashes("nccl", "ncclGetVersion"),
    Probe("a sum", "nccl-allreduce", "", P, r"a sum over one rank with NCCL 2\.21\.5 is correct"),
    Probe("a sum that is wrong", "nccl-allreduce", "ncclAllReduce wrong", F,
          "ncclAllReduce over one rank: number 500 of 1000 is 330 instead of 165"),
    Probe("no network interface", "nccl-allreduce", "ncclCommInitAll return 2", F,
          r"ncclCommInitAll failed: ncclSystemError \(2\), a system call failed", code=2),
    Probe("no sum", "nccl-allreduce", "", F, "no function ncclAllReduce", variant="no-allreduce"),
    *crashes("nccl-allreduce", "ncclCommInitAll"),
]


def which(folder, name):
    return str(folder / name / "libcublasLt.so.12")


# Which file it is: the target's, and not what the helper would find.
FILES = [
    ("its own, by RPATH", "rpath", "shadow", "rpath", P),
    ("another one's, by LD_LIBRARY_PATH before RUNPATH", "plain", "shadow", "shadow", F),
    ("its own, by RUNPATH", "plain", "no-ops/..", "plain", P),
    ("no target: what LD_LIBRARY_PATH names", None, "plain", "plain", P),
    ("no target: another one's", None, "shadow", "shadow", F),
]


def found(lab, folder, target, path, expected, outcome):
    build(folder)
    program = [str(folder / target / "program")] if target else []
    for variables in ({}, {"PATH": "/nowhere"}):  # without a Python, too
        env = {"PATH": os.environ["PATH"], "HOME": str(folder), **variables,
               "LD_LIBRARY_PATH": f"{folder / path}:{folder / 'driver'}"}
        document = lab.probe(env, *program, "--stage", "cublaslt-float32").document
        stage = [s for s in document["stages"] if s["name"] == "cublaslt-float32"][0]
        if (stage["facts"].get("library"), stage["outcome"]) != (which(folder, expected), outcome):
            yield f"{stage['facts'].get('library')}: {stage['outcome']}: {stage['says']}"


def probe(exe, folder, case):
    table = folder / "table"
    table.write_text(case.table + "\n")
    program = folder / case.more.get("variant", "plain") / "program"
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "FAKE_GPU_TABLE": str(table),
           "LD_LIBRARY_PATH": str(folder / "driver"), "TMPDIR": str(folder)}
    ask = case.more.get("ask", [case.stage])
    done = subprocess.run([exe, "probe", str(program), "--json", "--stage", ",".join(ask),
                           *case.more.get("options", ())], env=env, capture_output=True,
                          text=True, timeout=120, stdin=subprocess.DEVNULL, check=False)
    if not done.stdout:
        raise ValueError(f"status {done.returncode}: {done.stderr.strip()}")
    return done.returncode, json.loads(done.stdout)


def faults(case, status, document):
    more = case.more
    found = [s for s in document["stages"] if s["name"] == case.stage]
    if len(found) != 1:
        yield f"the stage is there {len(found)} times"
        return
    stage = found[0]
    yield from case_faults(case, stage, document)
    if (status == 0) != (document["verdict"] == "works"):
        yield f"status {status} with verdict {document['verdict']}"
    if case.outcome == P and "ask" not in more and document["verdict"] != "works":
        yield f"passed, and the verdict is {document['verdict']}"


def judged(lab, folder, case):
    build(folder)
    try:
        yield from faults(case, *probe(lab.exe, folder, case))
    except (ValueError, subprocess.TimeoutExpired) as error:
        yield str(error)


def cases(lab):
    folder = lab.folder / "nvlibs"
    for case in CASES:
        yield case.name, functools.partial(judged, lab, folder, case)
    for name, *words in FILES:
        yield f"the file is {name}", functools.partial(found, lab, folder, *words)
