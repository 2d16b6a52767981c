#include "probe/stage.h"

#include <string.h>

/* A stage of one of the target's CUDA libraries on one GPU, after the driver's own kernel. */
#define LIBRARY_STAGE(name_, needs_, stem_, api_, title_, shows_, means_)                          \
    {                                                                                              \
        .name = name_, .vendor = PROBE_NVIDIA, .needs = "kernel", .needs_too = needs_,             \
        .per_device = true, .stem = stem_, .api = api_, .title = title_, .shows = shows_,          \
        .means = means_                                                                            \
    }

/* A matrix product in one number format, and in each. */
#define GEMM_STAGE(prefix, stem_, name_, type)                                                     \
    LIBRARY_STAGE(prefix "-" type, "cublas-start", stem_, PROBE_API_CUBLAS, name_ ", " type,       \
                  name_ " multiplies in " type,                                                    \
                  "The driver, memory and kernels work; what asks " name_ " for " type             \
                  " products fails or is wrong. Other number formats have their own stages.")
#define GEMM_STAGES(prefix, stem_, name_)                                                          \
    GEMM_STAGE(prefix, stem_, name_, "float32"), GEMM_STAGE(prefix, stem_, name_, "tf32"),         \
        GEMM_STAGE(prefix, stem_, name_, "float16"), GEMM_STAGE(prefix, stem_, name_, "bfloat16"), \
        GEMM_STAGE(prefix, stem_, name_, "int8")

/* A package of the target, by its own interpreter; its import alone may take half a minute. */
#define PACKAGE_STAGE(module_, title_)                                                             \
    {                                                                                              \
        .name = "python-" module_, .vendor = PROBE_ANY, .deadline_ms = 120000, .module = module_,  \
        .title = title_, .shows = title_ " uses the GPU",                                          \
        .means =                                                                                   \
            "This is what a program sees that imports " title_ " alone; the stages before tell "   \
            "whether the driver or a library below it is at fault."                                \
    }
/* A matrix product of hipBLAS. */
#define HIPBLAS_STAGE(type)                                                                        \
    {                                                                                              \
        .name = "hipblas-" type, .vendor = PROBE_AMD, .needs = "hip-memory", .per_device = true,   \
        .stem = "libhipblas.so", .api = PROBE_API_HIPBLAS, .title = "hipBLAS, " type,              \
        .shows = "hipBLAS multiplies in " type,                                                    \
        .means =                                                                                   \
            "HIP and memory work; what asks hipBLAS for " type " products fails or is wrong. "     \
            "Other number formats have their own stages."                                          \
    }

const struct probe_stage probe_stages[] = {
    {.name = "driver-found",
     .vendor = PROBE_NVIDIA,
     .quick = true,
     .title = "driver library",
     .shows = "the driver's library is present",
     .means = "Without the driver's library no program can use an NVIDIA GPU. The GPU itself was "
              "not tested."},
    {.name = "driver-opens",
     .vendor = PROBE_NVIDIA,
     .needs = "driver-found",
     .quick = true,
     .title = "driver library opens",
     .shows = "the driver's library opens",
     .means = "The driver's library is present but cannot be loaded."},
    {.name = "driver-symbols",
     .vendor = PROBE_NVIDIA,
     .needs = "driver-opens",
     .quick = true,
     .title = "driver functions",
     .shows = "the driver's library has the expected functions",
     .means = "The file is not the driver's library, or the driver is too old for CUDA programs."},
    {.name = "driver-version",
     .vendor = PROBE_NVIDIA,
     .needs = "driver-symbols",
     .quick = true,
     .api = PROBE_API_CUDA_DRIVER,
     .title = "driver version",
     .shows = "the driver states its CUDA version",
     .means = "The driver's library and kernel module are of different versions, so the GPU cannot "
              "be used until they match; neither the GPU nor the environment is at fault."},
    {.name = "driver-init",
     .vendor = PROBE_NVIDIA,
     .needs = "driver-symbols",
     .quick = true,
     .all_devices = true,
     .api = PROBE_API_CUDA_DRIVER,
     .title = "cuInit",
     .shows = "the driver starts",
     .means = "The driver's library does not start. That alone does not show whether the library, "
              "the kernel module or the GPU is at fault."},
    {.name = "device-count",
     .vendor = PROBE_NVIDIA,
     .needs = "driver-init",
     .quick = true,
     .all_devices = true,
     .api = PROBE_API_CUDA_DRIVER,
     .title = "GPUs of the driver",
     .shows = "the driver counts its GPUs",
     .means = "The driver runs but has no GPU to offer: this container or virtual machine was "
              "given none, or MIG is on and has no instance."},
    {.name = "visible-devices",
     .vendor = PROBE_NVIDIA,
     .needs = "device-count",
     .quick = true,
     .api = PROBE_API_CUDA_DRIVER,
     .title = "GPUs that programs see",
     .shows = "programs see GPUs",
     .means = "The driver has a GPU, but environment variables hide it."},
    {.name = "context",
     .vendor = PROBE_NVIDIA,
     .needs = "visible-devices",
     .per_device = true,
     .quick = true,
     .api = PROBE_API_CUDA_DRIVER,
     .title = "context",
     .shows = "a context can be created",
     .means = "The driver sees this GPU but cannot use it. No library of the environment was "
              "involved."},
    {.name = "attributes",
     .vendor = PROBE_NVIDIA,
     .needs = "visible-devices",
     .per_device = true,
     .quick = true,
     .api = PROBE_API_CUDA_DRIVER,
     .title = "attributes",
     .shows = "the GPU reports its properties",
     .means = "The driver cannot identify the GPU. No library of the environment was involved."},
    {.name = "memory-free",
     .vendor = PROBE_NVIDIA,
     .needs = "context",
     .per_device = true,
     .quick = true,
     .api = PROBE_API_CUDA_DRIVER,
     .title = "free memory",
     .shows = "the driver reports its memory",
     .means = "A context was created, but the driver does not report the GPU's memory. No library "
              "of the environment "
              "was involved."},
    {.name = "memory",
     .vendor = PROBE_NVIDIA,
     .needs = "context",
     .per_device = true,
     .quick = true,
     .api = PROBE_API_CUDA_DRIVER,
     .title = "memory",
     .shows = "a memory round trip succeeds",
     .means = "A context was created, but memory does not work: other programs may hold it, or it "
              "may be damaged. No "
              "library of the environment was involved."},
    {.name = "kernel",
     .vendor = PROBE_NVIDIA,
     .needs = "memory",
     .per_device = true,
     .quick = true,
     .api = PROBE_API_CUDA_DRIVER,
     .title = "kernel",
     .shows = "a kernel computes correctly",
     .means = "The driver works up to the memory copy; compiling or running a kernel fails. No "
              "library of the environment was involved."},
    {.name = "cudart",
     .vendor = PROBE_NVIDIA,
     .stem = "libcudart.so",
     .api = PROBE_API_CUDA_RUNTIME,
     .title = "CUDA runtime",
     .shows = "the target's CUDA runtime works with the driver",
     .means = "Whatever in the target uses the CUDA runtime fails here. The driver's stages show "
              "whether the driver and the GPU work without it."},
    {.name = "cublas",
     .vendor = PROBE_NVIDIA,
     .stem = "libcublas.so",
     .api = PROBE_API_CUBLAS,
     .title = "cuBLAS, version",
     .shows = "cuBLAS opens",
     .means = "cuBLAS cannot be opened or does not answer. gpumend check TARGET shows whether one "
              "of its files is missing or the wrong one; the driver's stages show whether the "
              "driver and the GPU work."},
    {.name = "cudnn",
     .vendor = PROBE_NVIDIA,
     .stem = "libcudnn.so",
     .api = PROBE_API_CUDNN,
     .title = "cuDNN, versions",
     .shows = "cuDNN and its sub-libraries open and match",
     .means = "cuDNN cannot be opened, does not answer, or its libraries do not match: what uses "
              "it (convolutions, attention) fails. gpumend check TARGET shows whether one of its "
              "files is missing or the wrong one."},
    {.name = "nvrtc",
     .vendor = PROBE_NVIDIA,
     .stem = "libnvrtc.so",
     .api = PROBE_API_NVRTC,
     .title = "NVRTC compiles",
     .shows = "NVRTC compiles",
     .means = "What compiles kernels at run time (CuPy, torch's fused kernels, engines of cuDNN) "
              "fails here. The driver's stages show whether the driver and the GPU work."},
    {.name = "nccl",
     .vendor = PROBE_NVIDIA,
     .stem = "libnccl.so",
     .api = PROBE_API_NCCL,
     .title = "NCCL, version",
     .shows = "NCCL opens",
     .means = "Programs linked against NCCL (torch) may not start; others do not load it."},
    LIBRARY_STAGE("cudart-memory", "cudart", "libcudart.so", PROBE_API_CUDA_RUNTIME,
                  "CUDA runtime, memory", "the CUDA runtime allocates and copies",
                  "The driver's own copy works, but the copy by the target's runtime does not: its "
                  "version, free memory or this user's limit on locked memory may be the reason."),
    LIBRARY_STAGE("cublas-start", "cublas", "libcublas.so", PROBE_API_CUBLAS, "cuBLAS starts",
                  "cuBLAS starts",
                  "The driver, memory and kernels work; every matrix product by cuBLAS fails, "
                  "whatever the number format."),
    GEMM_STAGES("cublas", "libcublas.so", "cuBLAS"),
    GEMM_STAGES("cublaslt", "libcublasLt.so", "cuBLASLt"),
    LIBRARY_STAGE("cudnn-convolution", "cudnn", "libcudnn.so", PROBE_API_CUDNN,
                  "cuDNN, convolution", "cuDNN convolves",
                  "Models with convolutions fail here, Whisper's first layers among them; the "
                  "driver and kernels work."),
    LIBRARY_STAGE("nvrtc-run", "nvrtc", "libnvrtc.so", PROBE_API_NVRTC, "NVRTC, a kernel",
                  "a kernel from NVRTC runs",
                  "What compiles kernels at run time fails here; the driver's own kernel ran."),
    LIBRARY_STAGE("nccl-allreduce", "nccl", "libnccl.so", PROBE_API_NCCL, "NCCL, a sum",
                  "NCCL sums over one rank",
                  "Programs on one GPU that do not use NCCL are not affected; NCCL_DEBUG=INFO "
                  "makes NCCL log more."),
    {.name = "nvml",
     .vendor = PROBE_NVIDIA,
     .needs = "driver-found",
     .all_devices = true,
     .api = PROBE_API_NVML,
     .title = "NVML",
     .shows = "NVML agrees with CUDA",
     .means = "Monitoring tools and schedulers see other GPUs than CUDA programs do, or none; the "
              "other stages show what CUDA can do."},

    {.name = "kfd",
     .vendor = PROBE_AMD,
     .quick = true,
     .title = "compute driver",
     .shows = "the kernel's compute driver opens",
     .means =
         "No program of this user can use an AMD GPU for compute. No library of the environment "
         "was involved."},
    {.name = "hsa",
     .vendor = PROBE_AMD,
     .needs = "kfd",
     .quick = true,
     .all_devices = true,
     .stem = "libhsa-runtime64.so",
     .api = PROBE_API_HSA,
     .title = "HSA runtime",
     .shows = "the HSA runtime lists its GPUs",
     .means = "The kernel's driver answers, but the HSA runtime that the target loads does not "
              "work with it: their versions, a render node or a limit may be the reason. HIP needs "
              "this runtime."},
    {.name = "hip-init",
     .vendor = PROBE_AMD,
     .needs = "hsa",
     .quick = true,
     .stem = "libamdhip64.so",
     .api = PROBE_API_HIP,
     .title = "hipInit",
     .shows = "HIP starts",
     .means = "The HSA runtime works; HIP (the target's own libamdhip64) does not start on it or "
              "finds no GPU, so every framework fails."},
    {.name = "hip-device",
     .vendor = PROBE_AMD,
     .needs = "hip-init",
     .per_device = true,
     .quick = true,
     .stem = "libamdhip64.so",
     .api = PROBE_API_HIP,
     .title = "device",
     .shows = "HIP reports the GPU's properties",
     .means = "HIP starts but cannot query this GPU; others may work."},
    {.name = "hip-memory",
     .vendor = PROBE_AMD,
     .needs = "hip-device",
     .per_device = true,
     .quick = true,
     .stem = "libamdhip64.so",
     .api = PROBE_API_HIP,
     .title = "memory",
     .shows = "the memory copy",
     .means = "HIP has the GPU, but a memory round trip fails."},
    {.name = "hiprtc-kernel",
     .vendor = PROBE_AMD,
     .needs = "hip-memory",
     .per_device = true,
     .quick = true,
     .stem = "libhiprtc.so",
     .api = PROBE_API_HIPRTC,
     .title = "kernel",
     .shows = "a kernel compiled for it runs",
     .means = "Memory works, but code for this GPU does not compile, does not load or computes "
              "wrong results. The target's "
              "compiler may not know the gfx target, or an override may name a wrong one."},
    HIPBLAS_STAGE("float32"),
    HIPBLAS_STAGE("float16"),
    HIPBLAS_STAGE("bfloat16"),
    HIPBLAS_STAGE("int8"),
    {.name = "miopen-convolution",
     .vendor = PROBE_AMD,
     .needs = "hip-memory",
     .per_device = true,
     .deadline_ms = 120000, // the first search on a machine compiles its kernels
     .stem = "libMIOpen.so",
     .api = PROBE_API_MIOPEN,
     .title = "MIOpen, convolution",
     .shows = "MIOpen convolves",
     .means = "HIP and memory work; programs that convolve (Whisper's first layers do) fail here. "
              "MIOpen, its kernels or its cache may be the reason."},

    {.name = "cpu",
     .vendor = PROBE_CPU,
     .title = "CPU",
     .shows = "the CPU is as choose reports it",
     .means = "What files say about the CPU does not hold in a process: a virtual machine or a "
              "container may show another CPU than it provides."},

    PACKAGE_STAGE("torch", "PyTorch"),
    PACKAGE_STAGE("ctranslate2", "CTranslate2"),
    PACKAGE_STAGE("onnxruntime", "ONNX Runtime"),
};
const size_t probe_n_stages = sizeof probe_stages / sizeof *probe_stages;

const char *probe_vendor_name(enum probe_vendor vendor)
{
    static const char *const names[PROBE_VENDORS] = {
        [PROBE_ANY] = "any", [PROBE_NVIDIA] = "nvidia", [PROBE_AMD] = "amd", [PROBE_CPU] = "cpu"};
    return names[vendor];
}

const struct probe_stage *probe_stage_find(const char *name)
{
    for (size_t i = 0; i < probe_n_stages; i++) {
        if (strcmp(probe_stages[i].name, name) == 0) {
            return &probe_stages[i];
        }
    }
    return NULL;
}

unsigned probe_stage_deadline_ms(const struct probe_stage *s)
{
    return s->deadline_ms ? s->deadline_ms : s->vendor == PROBE_AMD ? 30000 : 15000;
}
