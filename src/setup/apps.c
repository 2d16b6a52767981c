/* The applications. */
#include <string.h>

#include "base/nearest.h"
#include "setup/setup.h"

#define COUNTS_CTRANSLATE2 "import ctranslate2; print(ctranslate2.get_cuda_device_count())"
#define COUNTS_LLAMA       "import llama_cpp; print(int(llama_cpp.llama_supports_gpu_offload()))"
/* get_available_providers() names what the build has, whether it loads or not; a session has the
 * provider if it could be made. The model is one Relu in opset 13. */
#define COUNTS_ONNXRUNTIME                                                                         \
    "import base64, onnxruntime as o; getattr(o, 'preload_dlls', int)(); "                         \
    "print(int('CUDAExecutionProvider' in o.InferenceSession(base64.b64decode("                    \
    "'CAg6MwoMCgF4EgF5IgRSZWx1EgFnWg8KAXgSCgoICAESBAoCCAFiDwoBeRIKCggIARIECgIIAUICEA0='), "        \
    "providers=['CUDAExecutionProvider']).get_providers()))"
#define COUNTS_TORCH "import torch; print(torch.cuda.device_count())"

static const struct setup_app apps[] = {
    {.name = "faster-whisper",
     .package = "faster-whisper",
     .engines = "ctranslate2",
     .module = "faster_whisper",
     .counts = COUNTS_CTRANSLATE2,
     .hook = true,
     .whisper = true},
    {.name = "whisperx",
     .package = "whisperx",
     .engines = "torch ctranslate2",
     .module = "whisperx",
     .counts = COUNTS_CTRANSLATE2,
     .whisper = true},
    {.name = "speaches",
     .package = "speaches",
     // Whisper runs by ctranslate2, the voices of Kokoro by onnxruntime-gpu.
     .engines = "ctranslate2 onnxruntime-gpu",
     .module = "speaches",
     .counts = COUNTS_CTRANSLATE2,
     .hook = true,
     .git = "https://github.com/speaches-ai/speaches"},
    {.name = "ctranslate2",
     .package = "ctranslate2",
     .engines = "ctranslate2",
     .module = "ctranslate2",
     .counts = COUNTS_CTRANSLATE2,
     .hook = true,
     .whisper = true},
    {.name = "torch",
     .package = "torch",
     .engines = "torch",
     .module = "torch",
     .counts = COUNTS_TORCH},
    {.name = "onnxruntime",
     .package = "onnxruntime-gpu",
     .cpu = "onnxruntime",
     .extras = "cuda,cudnn",
     .engines = "onnxruntime-gpu",
     .hook = true,
     .module = "onnxruntime",
     .counts = COUNTS_ONNXRUNTIME},
    {.name = "openai-whisper",
     .package = "openai-whisper",
     .engines = "torch",
     .module = "whisper",
     .counts = COUNTS_TORCH},
    {.name = "vllm",
     .package = "vllm",
     .engines = "vllm torch",
     .module = "vllm",
     .counts = COUNTS_TORCH,
     // docs/getting_started/installation of vllm-project/vllm: gpu.rocm, gpu.xpu, cpu.x86.
     .others = "vLLM's own builds for ROCm, for Intel's GPUs and for CPUs are not in the knowledge "
               "base"},
    {.name = "jax",
     .package = "jax",
     .extras = "cuda13",
     .engines = "jax-cuda13-plugin",
     .module = "jax",
     .counts = "import jax; print(jax.device_count('gpu'))"},
    {.name = "jax",
     .package = "jax",
     .extras = "cuda12",
     .engines = "jax-cuda12-plugin",
     .module = "jax",
     .counts = "import jax; print(jax.device_count('gpu'))"},
    {.name = "jax",
     .package = "jax",
     .extras = "rocm7-local",
     .engines = "jax-rocm7-plugin",
     .module = "jax",
     .counts = "import jax; print(jax.device_count('gpu'))",
     .rocm = true},
    {.name = "tensorflow",
     .package = "tensorflow",
     .extras = "and-cuda",
     .engines = "tensorflow",
     .hook = true,
     .hook_some = true,
     .module = "tensorflow",
     .counts = "import tensorflow as t; print(len(t.config.list_physical_devices('GPU')))"},
    {.name = "cupy",
     .package = "cupy-cuda13x",
     .extras = "ctk",
     .engines = "cupy-cuda13x",
     .module = "cupy",
     .counts = "import cupy; print(cupy.cuda.runtime.getDeviceCount())",
     .code = SETUP_CODE_TOOLKIT,
     .cuda = "13"},
    {.name = "cupy",
     .package = "cupy-cuda12x",
     .extras = "ctk",
     .engines = "cupy-cuda12x",
     .module = "cupy",
     .counts = "import cupy; print(cupy.cuda.runtime.getDeviceCount())",
     .code = SETUP_CODE_TOOLKIT,
     .cuda = "12"},
    {.name = "cupy",
     .package = "cupy-rocm-7-0",
     .engines = "cupy-rocm-7-0",
     .module = "cupy",
     .counts = "import cupy; print(cupy.cuda.runtime.getDeviceCount())",
     .rocm = true},
    {.name = "bitsandbytes",
     .package = "bitsandbytes",
     .engines = "bitsandbytes torch",
     .module = "bitsandbytes",
     .counts = COUNTS_TORCH},
    {.name = "llama-cpp-python",
     .package = "llama-cpp-python",
     .engines = "llama-cpp-python",
     .module = "llama_cpp",
     .counts = COUNTS_LLAMA,
     .code = SETUP_CODE_SOURCE,
     .cuda = "13"},
    {.name = "llama-cpp-python",
     .package = "llama-cpp-python",
     .engines = "llama-cpp-python",
     .module = "llama_cpp",
     .counts = COUNTS_LLAMA,
     .code = SETUP_CODE_SOURCE,
     .cuda = "12"},
};
enum { N_APPS = sizeof apps / sizeof *apps };

const struct setup_app *setup_app_find(const char *name, size_t i)
{
    for (size_t k = 0; k < N_APPS; k++) {
        if (strcmp(apps[k].name, name) == 0 && i-- == 0) {
            return &apps[k];
        }
    }
    return NULL;
}

const char *setup_app_name(size_t i)
{
    for (size_t k = 0; k < N_APPS; k++) {
        bool again = k > 0 && strcmp(apps[k].name, apps[k - 1].name) == 0;
        if (!again && i-- == 0) {
            return apps[k].name;
        }
    }
    return NULL;
}

const char *setup_app_near(const char *name)
{
    struct nearest n;
    nearest_init(&n, name);
    for (size_t i = 0; i < N_APPS; i++) {
        nearest_try(&n, apps[i].name);
    }
    return nearest_best(&n);
}
