/*
 * Whose GPU code a program brings along: what nvcc and hipcc link into a file; and the libraries of
 * frameworks that hold theirs.
 */
#include "base/str.h"
#include "diag/internal.h"
#include "model/gpu.h"

static const struct diag_library frameworks[] = {
    {"libtorch_cuda.so", "torch", "every operation on the GPU", DIAG_ERROR},
    {"libctranslate2*.so*", "ctranslate2", "every operation on the GPU", DIAG_ERROR},
    {"libonnxruntime_providers_cuda.so", "onnxruntime-gpu", "the CUDA execution provider",
     DIAG_ERROR},
    {"libbitsandbytes_cuda*.so", "bitsandbytes", "every operation on the GPU", DIAG_ERROR},
    {"libggml-cuda.so", "llama-cpp-python", "every operation on the GPU", DIAG_ERROR},
    // Its programs compute on the CPU unless they ask for a GPU.
    {"libxgboost.so", "xgboost", "every computation on the GPU", DIAG_WARNING},
};
enum { N_FRAMEWORKS = sizeof frameworks / sizeof *frameworks };

const struct diag_library *diag_frameworks(size_t *ret_n)
{
    *ret_n = N_FRAMEWORKS;
    return frameworks;
}

const char *diag_cuda_library_package(const char *path)
{
    for (size_t i = 0; i < N_FRAMEWORKS; i++) {
        if (str_glob(frameworks[i].name, path_base(path))) {
            return frameworks[i].package;
        }
    }
    return NULL;
}

/* Libraries of the toolkit and its kin, whose thousands of containers are not worth the memory. */
static bool is_of_vendor(const struct ldso_object *o)
{
    static const char *const names[] = {"libcu*",  "libnv*",  "libnpp*",   "libnccl*",
                                        "libroc*", "libhip*", "libMIOpen*"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (str_glob(names[i], path_base(o->path))) {
            return true;
        }
    }
    return false;
}

static const struct gpu_code *code_within(struct model *m, const struct ldso_object *o)
{
    const struct gpu_code *code = model_gpu_code(m, o, GPU_READ_SECTIONS);
    return code && (code->cuda.n_native || code->cuda.n_ptx || code->n_targets) ? code : NULL;
}

diag_own_code_list diag_own_codes(struct model *m, const struct model_process *p)
{
    diag_own_code_list ret = {0};
    for (size_t i = 0; p->ldso && !m->env && i < p->ldso->objects.n; i++) {
        const struct ldso_object *o = p->ldso->objects.items[i];
        const struct gpu_code *code = is_of_vendor(o) ? NULL : code_within(m, o);
        struct diag_own_code one = {o, code};
        if (code && o == p->ldso->main) {
            ret.n = 0;
            VEC_PUSH(m->arena, &ret, one);
            return ret;
        }
        if (code) {
            VEC_PUSH(m->arena, &ret, one);
        }
    }
    return ret;
}

const struct ldso_object *diag_own_code(struct model *m, const struct model_process *p,
                                        const struct gpu_code **ret_code)
{
    diag_own_code_list all = diag_own_codes(m, p);
    *ret_code = all.n == 1 ? all.items[0].code : NULL;
    return all.n == 1 ? all.items[0].object : NULL; // which of several it uses, only it knows
}
