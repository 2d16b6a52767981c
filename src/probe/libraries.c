#include "probe/libraries.h"

#include <string.h>

/* By the stem of their file's name; the sonames in which each is found where nothing says more,
 * newest first (wheels of nvidia-*, CUDA 11 to 13; ROCm 5 to 7). */
static const struct family {
    const char *stem;
    enum probe_vendor vendor;
    const char *sonames[4];
} families[] = {
    {"libcuda", PROBE_NVIDIA, {NULL}}, // the driver's is found by its own stages
    {"libcudart", PROBE_NVIDIA, {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"}},
    {"libcublasLt", PROBE_NVIDIA, {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11"}},
    {"libcublas", PROBE_NVIDIA, {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11"}},
    {"libnvrtc", PROBE_NVIDIA, {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"}},
    {"libcudnn", PROBE_NVIDIA, {"libcudnn.so.9", "libcudnn.so.8"}},
    {"libcudnn_graph", PROBE_NVIDIA, {NULL}},
    {"libcudnn_ops", PROBE_NVIDIA, {NULL}},
    {"libcudnn_cnn", PROBE_NVIDIA, {NULL}},
    {"libcudnn_adv", PROBE_NVIDIA, {NULL}},
    {"libcudnn_ext", PROBE_NVIDIA, {NULL}},
    {"libcudnn_engines_precompiled", PROBE_NVIDIA, {NULL}},
    {"libcudnn_engines_runtime_compiled", PROBE_NVIDIA, {NULL}},
    {"libcudnn_engines_tensor_ir", PROBE_NVIDIA, {NULL}},
    {"libcudnn_heuristic", PROBE_NVIDIA, {NULL}},
    {"libcudnn_ops_infer", PROBE_NVIDIA, {NULL}},
    {"libcudnn_ops_train", PROBE_NVIDIA, {NULL}},
    {"libcudnn_cnn_infer", PROBE_NVIDIA, {NULL}},
    {"libcudnn_cnn_train", PROBE_NVIDIA, {NULL}},
    {"libcudnn_adv_infer", PROBE_NVIDIA, {NULL}},
    {"libcudnn_adv_train", PROBE_NVIDIA, {NULL}},
    {"libnccl", PROBE_NVIDIA, {"libnccl.so.2"}},
    {"libhsa-runtime64", PROBE_AMD, {"libhsa-runtime64.so.1"}},
    {"libamdhip64", PROBE_AMD, {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"}},
    {"libhiprtc", PROBE_AMD, {"libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5"}},
    {"librocblas", PROBE_AMD, {"librocblas.so.5", "librocblas.so.4", "librocblas.so.3"}},
    {"libhipblas", PROBE_AMD, {"libhipblas.so.3", "libhipblas.so.2", "libhipblas.so.1"}},
    {"libMIOpen", PROBE_AMD, {"libMIOpen.so.1"}},
};

enum { SONAMES_MAX = sizeof families->sonames / sizeof *families->sonames };

static const struct family *family_of(const struct ldso_object *o)
{
    struct str stem = model_stem(path_base(o->path));
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        if (str_is(stem, families[i].stem)) {
            return &families[i];
        }
    }
    return NULL;
}

/* ------------------------------------------------------------------ one process */

static size_t count_families(const struct model_process *p)
{
    size_t n = 0;
    for (size_t i = 0; p->ldso && i < p->ldso->objects.n; i++) {
        n += family_of(p->ldso->objects.items[i]) != NULL;
    }
    return n;
}

static bool has_name(const struct probe_libraries *out, const char *path)
{
    for (size_t i = 0; i < out->items.n; i++) {
        if (strcmp(path_base(out->items.items[i].path), path_base(path)) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether whoever opens it by name finds this file as the target does. */
static bool is_found_anyhow(const struct ldso_object *o)
{
    return o->via == LDSO_VIA_CACHE || o->via == LDSO_VIA_DEFAULT || o->via == LDSO_VIA_INTERP ||
           o->via == LDSO_VIA_MAIN || o->faked;
}

/* The object after what it is linked against; `mark` is this walk's. */
static void libraries_take(struct model *m, struct probe_libraries *out, struct ldso_object *o,
                           enum probe_vendor vendor, unsigned mark)
{
    if (o->mark == mark) {
        return;
    }
    o->mark = mark;
    for (size_t i = 0; i < o->deps.n; i++) {
        libraries_take(m, out, o->deps.items[i], vendor, mark);
    }
    const struct family *f = family_of(o);
    if ((f || !is_found_anyhow(o)) && !has_name(out, o->path)) {
        VEC_PUSH(m->arena, &out->items,
                 (struct probe_library){model_absolute(m, o->path), f ? f->vendor : vendor});
    }
}

static void take_process(struct model *m, struct probe_libraries *out, struct ldso_process *p)
{
    unsigned mark = ++p->mark;
    for (size_t i = 0; i < p->objects.n; i++) {
        const struct family *f = family_of(p->objects.items[i]);
        if (f) {
            libraries_take(m, out, p->objects.items[i], f->vendor, mark);
        }
    }
}

/* ------------------------------------------------------------------ no target */

/* A process of this machine that has loaded nothing of the kind: the environment's interpreter,
 * else a shell. NULL: none can be modelled. */
static struct ldso_process *plain_process(struct model *m)
{
    struct gm_err err;
    if (m->processes.n > 0) {
        return m->processes.items[0]->ldso;
    }
    struct ldso_process *p = ldso_process_new(m->store, m->arena, &m->config);
    return ldso_start(p, "/bin/sh", &err) < 0 ? NULL : p;
}

static void take_by_soname(struct model *m, struct probe_libraries *out)
{
    struct ldso_process *p = plain_process(m);
    for (size_t i = 0; p && i < sizeof families / sizeof *families; i++) {
        const struct ldso_load *load = NULL;
        for (size_t k = 0; k < SONAMES_MAX && families[i].sonames[k]; k++) {
            load = load && load->object ? load
                                        : ldso_dlopen(p, NULL, families[i].sonames[k], LDSO_NOW);
        }
    }
    if (p) {
        take_process(m, out, p);
    }
}

/* ------------------------------------------------------------------ all */

void probe_libraries(struct model *m, bool named, struct probe_libraries *ret)
{
    size_t most = 0;
    *ret = (struct probe_libraries){0};
    for (size_t i = 0; i < m->processes.n; i++) {
        size_t n = count_families(m->processes.items[i]);
        if (n > most) {
            most = n;
            ret->process = m->processes.items[i];
        }
    }
    if (ret->process) { // the model of it exists, as it has libraries
        take_process(m, ret, ret->process->ldso);
    }
    for (size_t i = 0; i < m->processes.n; i++) {
        if (m->processes.items[i]->ldso && m->processes.items[i] != ret->process) {
            take_process(m, ret, m->processes.items[i]->ldso);
        }
    }
    if (!ret->process && !named) {
        take_by_soname(m, ret);
    }
}
