#include "launch/teardown.h"

#include <string.h>

#include "base/str.h"

/* The first that fits counts. Each was read on 2026-11-21; that of
 * CTranslate2's handles was open then, so that every release has the fault. */
static const struct launch_teardown known[] = {
    {"libctranslate2", LAUNCH_AT_THREAD_END, true, "OpenNMT/CTranslate2#1201",
     "cuBLAS and cuDNN handles are destroyed when a thread has ended"},
    {"libctranslate2", LAUNCH_AT_END, false, "OpenNMT/CTranslate2#1782",
     "Python crashes at its end after CUDA was used"},
    {"libtorch libtorch_cpu libtorch_cuda libtorch_hip", LAUNCH_AT_THREAD_END | LAUNCH_AT_END,
     false, "pytorch/pytorch#36408", "libtorch crashes at the end: handle pools of threads"},
    {"libcudnn libcudnn_adv libcudnn_adv_infer libcudnn_cnn libcudnn_cnn_infer libcudnn_graph "
     "libcudnn_ops libcudnn_ops_infer",
     LAUNCH_AT_THREAD_END | LAUNCH_AT_END, false, "pytorch/pytorch#17658",
     "cudnnDestroy() crashes in a destructor at the end"},
    {"libonnxruntime libonnxruntime_providers_cuda libonnxruntime_providers_tensorrt",
     LAUNCH_AT_END, false, "microsoft/onnxruntime#15174",
     "an error that the driver is shutting down is thrown when the program ends"},
    {"libcublas libcublasLt", LAUNCH_AT_END, false, "microsoft/onnxruntime#21207",
     "a crash in cuBLAS's own destructors at the end"},
    {"libnvinfer libnvinfer_plugin", LAUNCH_AT_END, false, "NVIDIA/TensorRT#4617",
     "a library is closed by a destructor at the end"},
    {"libamdhip64", LAUNCH_AT_END, false, "ROCm/AMDMIGraphX#4792",
     "the HIP runtime frees what its destructors still use"},
    {"libhsa-runtime64", LAUNCH_AT_END, false, "ROCm/AMDMIGraphX#4792",
     "the HIP runtime frees what its destructors still use"},
    {"libcudart", LAUNCH_AT_THREAD_END, false, "rapidsai/rmm#1371",
     "thread-local objects are destroyed after the CUDA runtime's state"},
    {"libcudart", LAUNCH_AT_END, false, "NVIDIA/cccl#7063",
     "CUDA is called after it has been unloaded at the end"},
    {"libcuda", LAUNCH_AT_THREAD_END, false, "rapidsai/rmm#1371",
     "thread-local objects are destroyed after the CUDA runtime's state"},
    {"libcuda", LAUNCH_AT_END, false, "NVIDIA/cccl#7063",
     "CUDA is called after it has been unloaded at the end"},
};

static bool base_is_named(const char *base, struct str name)
{
    if (name.n && name.s[name.n - 1] == '*') {
        return strncmp(base, name.s, name.n - 1) == 0;
    }
    if (strncmp(base, name.s, name.n) != 0) {
        return false;
    }
    base += name.n;
    size_t hash = *base == '-' ? strspn(base + 1, "0123456789abcdef") : 0;
    return starts_with(base + (hash ? hash + 1 : 0), ".so");
}

bool launch_library_is(const char *path, const char *names)
{
    struct str rest = str_of(names);
    while (rest.s) {
        struct str name = str_cut(&rest, ' ');
        if (name.n && base_is_named(path_base(path), name)) {
            return true;
        }
    }
    return false;
}

const struct launch_teardown *launch_teardown_known(const char *path, unsigned when)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (known[i].when & when && launch_library_is(path, known[i].libraries)) {
            return &known[i];
        }
    }
    return NULL;
}

static bool elf_has_gpu_code(const struct elf_image *e)
{
    uint64_t offset, size;
    return elf_section(e, ".nv_fatbin", &offset, &size) ||
           elf_section(e, ".hip_fatbin", &offset, &size);
}

static bool registers_destructors(const struct elf_image *e)
{
    uint32_t n = elf_symbol_undef_count(e);
    for (uint32_t i = 0; i < n; i++) {
        struct elf_symbol s;
        if (elf_symbol_at(e, i, &s) && s.shndx == 0 &&
            (strcmp(s.name, "__cxa_thread_atexit") == 0 ||
             strcmp(s.name, "__cxa_thread_atexit_impl") == 0)) {
            return true;
        }
    }
    return false;
}

static const struct ldso_object *guarded_in(const struct ldso_process *p,
                                            const struct launch_teardown **ret_known)
{
    for (size_t i = 0; i < p->objects.n; i++) {
        const struct ldso_object *o = p->objects.items[i];
        const struct launch_teardown *k = launch_teardown_known(o->path, LAUNCH_AT_THREAD_END);
        if (k && k->guarded && o->file && elf_has_gpu_code(&o->file->image) &&
            registers_destructors(&o->file->image)) {
            *ret_known = k;
            return o;
        }
    }
    return NULL;
}

const struct ldso_object *launch_teardown_guard(const struct model *m,
                                                const struct launch_teardown **ret_known)
{
    for (size_t i = 0; i < m->processes.n; i++) {
        const struct ldso_process *p = m->processes.items[i]->ldso;
        const struct ldso_object *o = p ? guarded_in(p, ret_known) : NULL;
        if (o) {
            return o;
        }
    }
    return NULL;
}
