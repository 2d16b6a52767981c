"""What the helper declares by itself of NVIDIA's interfaces, against NVIDIA's own headers: every
function's parameters, by a call that the compiler checks, and every constant's value. The headers
come with the wheels in the store of tests/scenarios."""

import functools
import re
import subprocess
import sys

from lab import HERE

sys.path.insert(0, str(HERE.parent / "scenarios"))
import store as wheels  # noqa: E402

HELPER = HERE.parents[1] / "src/inject/probe"
HEADERS = ("cuda.h", "cuda_runtime_api.h", "cublas_v2.h", "cublasLt.h", "cudnn.h", "nvrtc.h",
           "nccl.h")
RELEASES = {
    "CUDA 12.4": {"nvidia-cuda-runtime-cu12-12.4.127": "nvidia/cuda_runtime/include",
                  "nvidia-cublas-cu12-12.4.5.8": "nvidia/cublas/include",
                  "nvidia-cudnn-cu12-9.1.0.70": "nvidia/cudnn/include",
                  "nvidia-cuda-nvrtc-cu12-12.4.127": "nvidia/cuda_nvrtc/include",
                  "nvidia-nccl-cu12-2.21.5": "nvidia/nccl/include"},
    "CUDA 13.2": {"nvidia-cuda-runtime-13.2.86": "nvidia/cu13/include",
                  "nvidia-cublas-13.4.1.3": "nvidia/cu13/include",
                  "nvidia-cudnn-cu13-9.26.0.51": "nvidia/cudnn/include",
                  "nvidia-cuda-nvrtc-13.2.86": "nvidia/cu13/include",
                  "nvidia-nccl-cu13-2.30.7": "nvidia/nccl/include"},
}
# Headers that come with the compiler, as far as the others need them.
STUBS = {
    "crt/host_defines.h": "".join(f"#define {name}\n" for name in (
        "CUDARTAPI", "CUDARTAPI_CDECL", "CUDARTAPI_ENTRY", "__host__", "__device__",
        "__device_builtin__", "__device_builtin_texture_type__", "__device_builtin_surface_type__",
        "__cudart_builtin__")) + "#define __builtin_align__(n) __attribute__((aligned(n)))\n"
    "#define __align__(n) __attribute__((aligned(n)))\n",
    "cuda_fp16.h": "#pragma once\ntypedef struct { unsigned short x; } __half;\n",
    "cuda_bf16.h": "",
    "cuda_fp8.h": "",
    "cuda_runtime.h": "#include <cuda_runtime_api.h>\n",
}
# The helper's constants by their file, and what they are in the headers.
CONSTANTS = {
    "cuda.c": {"CUDA_ERROR_OUT_OF_MEMORY": "CUDA_ERROR_OUT_OF_MEMORY",
               "CUDA_ERROR_DEVICE_UNAVAILABLE": "CUDA_ERROR_DEVICE_UNAVAILABLE",
               "CAPABILITY_MAJOR": "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR",
               "CAPABILITY_MINOR": "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR"},
    "cudart.c": {"CUDA_ERROR_MEMORY_ALLOCATION": "cudaErrorMemoryAllocation",
                 "CUDA_ERROR_DEVICES_UNAVAILABLE": "cudaErrorDevicesUnavailable",
                 "HOST_TO_DEVICE": "cudaMemcpyHostToDevice",
                 "DEVICE_TO_HOST": "cudaMemcpyDeviceToHost"},
    "cublas.c": {"CUBLAS_STATUS_NOT_INITIALIZED": "CUBLAS_STATUS_NOT_INITIALIZED",
                 "CUBLAS_STATUS_ALLOC_FAILED": "CUBLAS_STATUS_ALLOC_FAILED",
                 "CUBLAS_STATUS_ARCH_MISMATCH": "CUBLAS_STATUS_ARCH_MISMATCH",
                 "CUBLAS_STATUS_NOT_SUPPORTED": "CUBLAS_STATUS_NOT_SUPPORTED",
                 "OP_N": "CUBLAS_OP_N", "OP_T": "CUBLAS_OP_T",
                 "GEMM_DEFAULT": "CUBLAS_GEMM_DEFAULT", "R_32F": "CUDA_R_32F",
                 "R_16F": "CUDA_R_16F", "R_8I": "CUDA_R_8I", "R_32I": "CUDA_R_32I",
                 "R_16BF": "CUDA_R_16BF", "COMPUTE_32F": "CUBLAS_COMPUTE_32F",
                 "COMPUTE_32I": "CUBLAS_COMPUTE_32I",
                 "COMPUTE_32F_FAST_TF32": "CUBLAS_COMPUTE_32F_FAST_TF32",
                 "DESC_TRANSA": "CUBLASLT_MATMUL_DESC_TRANSA",
                 "DESC_TRANSB": "CUBLASLT_MATMUL_DESC_TRANSB"},
    "cudnn.c": {"STATUS_NOT_INITIALIZED": "CUDNN_STATUS_NOT_INITIALIZED",
                "STATUS_NOT_SUPPORTED": "CUDNN_STATUS_NOT_SUPPORTED",
                "STATUS_DEVICE_ALLOCATION_FAILED":
                    "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
                "DATA_FLOAT": "CUDNN_DATA_FLOAT", "DATA_HALF": "CUDNN_DATA_HALF",
                "TENSOR_NCHW": "CUDNN_TENSOR_NCHW",
                "CROSS_CORRELATION": "CUDNN_CROSS_CORRELATION",
                "DEFAULT_MATH": "CUDNN_DEFAULT_MATH", "TENSOR_OP_MATH": "CUDNN_TENSOR_OP_MATH",
                "IMPLICIT_GEMM": "CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM",
                "IMPLICIT_PRECOMP_GEMM": "CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM"},
    "nvrtc.c": {"NVRTC_ERROR_INVALID_OPTION": "NVRTC_ERROR_INVALID_OPTION"},
    "nccl.c": {"NCCL_FLOAT32": "ncclFloat32", "NCCL_SUM": "ncclSum"},
    "nvidia_devices.c": {"ATTRIBUTE_MULTIPROCESSORS": "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT",
                        "ATTRIBUTE_INTEGRATED": "CU_DEVICE_ATTRIBUTE_INTEGRATED",
                        "ATTRIBUTE_COMPUTE_MODE": "CU_DEVICE_ATTRIBUTE_COMPUTE_MODE",
                        "ATTRIBUTE_ECC": "CU_DEVICE_ATTRIBUTE_ECC_ENABLED",
                        "COMPUTE_PROHIBITED": "CU_COMPUTEMODE_PROHIBITED",
                        "COMPUTE_EXCLUSIVE_PROCESS": "CU_COMPUTEMODE_EXCLUSIVE_PROCESS",
                        "CUDA_ERROR_NO_DEVICE": "CUDA_ERROR_NO_DEVICE"},
}
# Those with a typedef or without a variable of their own, which the pattern does not find.
DECLARED = re.compile(r"\(\*((?:cu|nv|nccl)\w+)\)\(([^;=]*?)\)\s*=")
PARAMETER = re.compile(r"^(.*?[\s*])(\w+)$", re.DOTALL)
TYPES = ("int", "unsigned", "size_t", "uint64_t", "int64_t", "char", "float")


def parameter_types(text):
    """The types of "void *handle, int, size_t n"."""
    for parameter in text.split(","):
        words = " ".join(parameter.split())
        named = PARAMETER.match(words)
        yield named[1].strip() if named and named[2] not in TYPES else words


def calls(source):
    """A function for each declaration: a call of the vendor's with our types."""
    for name, text in DECLARED.findall(source):
        types = [t for t in parameter_types(text) if t != "void"]
        declared = ", ".join(f"{t} a{i}" for i, t in enumerate(types)) or "void"
        given = ", ".join(f"a{i}" for i in range(len(types)))
        yield f"static inline void call_{name}({declared}) {{ (void){name}({given}); }}"


def constants(source, names):
    for ours, theirs in names.items():
        value = re.search(rf"\b{ours} = (-?\d+)", source)
        yield f'_Static_assert((int){theirs} == {value[1] if value else "no"}, "{ours}");'


def check(lab, release):
    folders = [wheels.cache_folder() / "store" / wheel / path
               for wheel, path in RELEASES[release].items()]
    missing = [f for f in folders if not f.is_dir()]
    if missing:
        yield f"SKIP {missing[0]} is not there"
        return
    place = lab.folder / ("declarations-" + release.replace(" ", "-"))
    for name, text in STUBS.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    lines = ["#include <stdint.h>", *(f"#include <{h}>" for h in HEADERS)]
    counted, seen = 0, set()
    for file, names in CONSTANTS.items():
        source = (HELPER / file).read_text()
        for line in (*calls(source), *constants(source, names)):
            counted += line not in seen
            lines += [line] if line not in seen else []
            seen.add(line)
    if counted < 100:
        yield f"only {counted} declarations were found"
    (place / "declarations.c").write_text("\n".join(lines) + "\n")
    done = subprocess.run(
        ["cc", "-std=gnu17", "-fsyntax-only", "-Werror", "-Wconversion", "-Wsign-conversion",
         "-Wno-incompatible-pointer-types", "-Wno-deprecated-declarations", f"-I{place}",
         *(f"-isystem{f}" for f in folders), str(place / "declarations.c")],
        capture_output=True, text=True, check=False)
    yield from [line for line in done.stderr.splitlines() if "error" in line][:20]


def cases(lab):
    for release in RELEASES:
        yield release, functools.partial(check, lab, release)
