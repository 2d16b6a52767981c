/*
 * AMD: no code for this GPU in the library that is loaded, and no rocBLAS index for it.
 *
 * HSA_OVERRIDE_GFX_VERSION makes the runtime take every GPU for another one, so what must be there
 * is the code of that one. Whether the override suits the GPU is another rule's question; with an
 * override for single GPUs (HSA_OVERRIDE_GFX_VERSION_0) nothing is said.
 */
#include <string.h>

#include "diag/internal.h"
#include "host/parse.h"
#include "model/gpu.h"

static const struct {
    const char *name, *package;
} libraries[] = {
    {"libtorch_hip.so", "torch"},
    {"libctranslate2*.so*", "ctranslate2"},
    {"libonnxruntime_providers_rocm.so", "onnxruntime-rocm"},
    {"libbitsandbytes_rocm*.so", "bitsandbytes"},
};

const char *diag_hip_library_package(const char *path)
{
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        if (str_glob(libraries[i].name, path_base(path))) {
            return libraries[i].package;
        }
    }
    return NULL;
}

/* What the runtime takes the GPU for, and why. */
struct taken {
    const char *gfx;   // NULL: cannot be determined
    const char *value; // of the override, or NULL
};

static struct taken taken_for(struct diag *d, const struct host_gpu *g)
{
    const char *own = g->gfx.state == HOST_YES ? g->gfx.value : NULL;
    const char *value = diag_variable(d, "HSA_OVERRIDE_GFX_VERSION");
    for (unsigned i = 0; i < 16; i++) {
        if (diag_variable(d, arena_printf(d->a, "HSA_OVERRIDE_GFX_VERSION_%u", i))) {
            return (struct taken){NULL, NULL};
        }
    }
    const char *other = value && *value ? host_parse_gfx_override(d->a, value) : NULL;
    return other ? (struct taken){other, value}
                 : (struct taken){value && *value ? NULL : own, NULL};
}

/* ------------------------------------------------------------------ what is there */

static enum gpu_serves code_serves(struct diag *d, const struct ldso_object *o, const char *gfx)
{
    struct gpu_answer answer;
    const struct gpu_code *code = model_gpu_code(d->m, o, GPU_READ_SECTIONS);
    if (!code || code->n_targets == 0) {
        return GPU_SERVES_UNKNOWN;
    }
    gpu_code_serves_amd(code, gfx, &answer);
    return answer.serves;
}

static const char *data_folder(struct diag *d, const struct ldso_object *o)
{
    const char *named = diag_variable(d, "ROCBLAS_TENSILE_LIBPATH");
    const char *real = model_real_path(d->m, model_absolute(d->m, o->path));
    return named && *named == '/'
               ? named
               : path_join(d->a, path_dir(d->a, real ? real : o->path), "rocblas/library");
}

static enum gpu_serves data_serves(struct diag *d, const struct ldso_object *o, const char *gfx)
{
    const struct gpu_data *data = model_gpu_data(d->m, data_folder(d, o));
    size_t indices = 0;
    for (size_t i = 0; data && i < data->n; i++) {
        indices += data->rows[i].n_index;
    }
    if (!indices || data->truncated) {
        return GPU_SERVES_UNKNOWN;
    }
    const struct gpu_data_row *row = gpu_data_find(data, gfx);
    return row && row->n_index ? GPU_SERVES_NATIVE : GPU_SERVES_NONE;
}

static bool is_rocblas(const struct ldso_object *o)
{
    return str_glob("librocblas.so*", path_base(o->path));
}

static enum gpu_serves library_serves_gfx(struct diag *d, const struct ldso_object *o,
                                          const char *gfx)
{
    return is_rocblas(o) ? data_serves(d, o, gfx) : code_serves(d, o, gfx);
}

static const char *what_is_there(struct diag *d, const struct ldso_object *o)
{
    const char *text = "";
    const struct gpu_code *code = is_rocblas(o) ? NULL : model_gpu_code(d->m, o, GPU_READ_SECTIONS);
    const struct gpu_data *data = is_rocblas(o) ? model_gpu_data(d->m, data_folder(d, o)) : NULL;
    for (size_t i = 0; code && i < code->n_targets; i++) {
        text = arena_printf(d->a, "%s%s%s", text, i ? " " : "", code->targets[i].name);
    }
    for (size_t i = 0; data && i < data->n; i++) {
        if (data->rows[i].n_index) {
            text = arena_printf(d->a, "%s%s%s", text, *text ? " " : "", data->rows[i].target);
        }
    }
    return text;
}

/* ------------------------------------------------------------------ the finding */

/* The override to a target with the same instruction set for which there is code. */
static const char *override_for(struct diag *d, const struct ldso_object *o, const char *own)
{
    struct kb_rocms rows;
    struct gm_err err;
    if (kb_rocms(d->m->kb, &rows, &err) < 0) {
        return NULL;
    }
    for (size_t i = 0; i < rows.n; i++) {
        const struct kb_rocm *r = &rows.rows[i];
        bool fits = r->kind == KB_ROCM_OVERRIDE && r->verdict == KB_VERDICT_SAME_ISA && r->gfx.n &&
                    strcmp(r->gfx.items[0], own) == 0;
        const char *gfx = fits ? host_parse_gfx_override(d->a, r->override) : NULL;
        if (gfx && library_serves_gfx(d, o, gfx) == GPU_SERVES_NATIVE) {
            return r->override;
        }
    }
    return NULL;
}

/* A library without code for what the runtime takes a GPU for. */
struct fault {
    const struct ldso_object *object;
    const char *package; // that it comes with, or NULL
    const struct host_gpu *gpu;
    struct taken taken;
};

static void add_repairs(struct diag *d, struct diag_finding *f, const struct fault *fault)
{
    const struct ldso_object *o = fault->object;
    const struct taken *taken = &fault->taken;
    const char *own = fault->gpu->gfx.state == HOST_YES ? fault->gpu->gfx.value : NULL;
    if (own && taken->value && library_serves_gfx(d, o, own) == GPU_SERVES_NATIVE) {
        diag_repair(d, f, DIAG_REPAIR_ENV, "unset HSA_OVERRIDE_GFX_VERSION",
                    "Unset the override: there is code for %s itself.", own);
        return;
    }
    const char *override = own ? override_for(d, o, own) : NULL;
    if (override) {
        diag_repair(d, f, DIAG_REPAIR_ENV,
                    arena_printf(d->a, "export HSA_OVERRIDE_GFX_VERSION=%s", override),
                    "Let ROCm treat it as %s, which has the same instruction set; only a run can "
                    "confirm that it works.",
                    host_parse_gfx_override(d->a, override));
    }
    struct diag_target target = {.gfx = own};
    if (!own || !fault->package || !diag_repair_build(d, f, fault->package, &target, 1)) {
        diag_repair(d, f, DIAG_REPAIR_PACKAGE, NULL,
                    "Use a build with code for %s (a distribution's, or one of your own).",
                    own ? own : taken->gfx);
    }
}

static void add_fault(struct diag *d, const struct model_process *p, const struct fault *fault,
                      bool others_served)
{
    const struct ldso_object *o = fault->object;
    const struct taken *taken = &fault->taken;
    const char *name = path_base(o->path), *owner = model_owner(d->m, o->path);
    const char *as =
        taken->value ? arena_printf(d->a, " (HSA_OVERRIDE_GFX_VERSION=%s)", taken->value) : "";
    const char *who = owner ? arena_printf(d->a, "%s (%s)", owner, name) : name;
    const char *summary =
        is_rocblas(o) ? arena_printf(d->a,
                                     "rocBLAS (%s) has no kernels for %s%s, %s: the first matrix "
                                     "product aborts.",
                                     name, taken->gfx, as, fault->gpu->name)
                      : arena_printf(d->a, "%s has no code for %s%s, %s.", who, taken->gfx, as,
                                     fault->gpu->name);
    /* One GPU, one fault: the framework's libraries and rocBLAS are mended together. */
    struct diag_finding *f = diag_add(d, DIAG_GFX_NOT_COVERED, taken->gfx, name, summary);
    f->stage = DIAG_STAGE_USE;
    diag_likewise(d, f, name);
    diag_seen_in(d, f, p);
    diag_evidence(d, f, "%s has %s for %s", path_normal(d->a, o->path),
                  is_rocblas(o) ? "data files in rocblas/library" : "code", what_is_there(d, o));
    diag_evidence(d, f,
                  is_rocblas(o) ? "the program then says: rocBLAS error: Cannot read "
                                  "TensileLibrary.dat: No such file or directory for GPU arch : %s"
                                : "the program then says: HIP error: invalid device function (%s)",
                  taken->gfx);
    f->severity = others_served ? DIAG_WARNING : f->severity;
    if (f->repairs.n == 0) {
        add_repairs(d, f, fault);
    }
}

static const char *gfx_package(const struct ldso_object *o, bool *ret_known)
{
    *ret_known = is_rocblas(o);
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        if (str_glob(libraries[i].name, path_base(o->path))) {
            *ret_known = true;
            return libraries[i].package;
        }
    }
    return NULL;
}

static void gfx_judge(struct diag *d, const struct model_process *p, const struct ldso_object *o)
{
    bool known = false;
    const char *package = gfx_package(o, &known);
    const struct host_gpu *g = NULL;
    size_t served = 0;
    while (known && (g = diag_next_gpu(d, HOST_AMD, g)) != NULL) {
        struct taken taken = taken_for(d, g);
        served += taken.gfx && library_serves_gfx(d, o, taken.gfx) == GPU_SERVES_NATIVE;
    }
    while (known && (g = diag_next_gpu(d, HOST_AMD, g)) != NULL) {
        const struct fault fault = {o, package, g, taken_for(d, g)};
        if (fault.taken.gfx && library_serves_gfx(d, o, fault.taken.gfx) == GPU_SERVES_NONE) {
            add_fault(d, p, &fault, served > 0);
        }
    }
}

static bool gpus_are_hidden(const struct diag *d)
{
    static const char *const names[] = {"ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
                                        "CUDA_VISIBLE_DEVICES"};
    bool hidden = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = diag_variable(d, names[i]);
        hidden = hidden || (value && (!*value || starts_with(value, "-")));
    }
    return hidden;
}

void diag_rule_gfx(struct diag *d)
{
    if (!diag_next_gpu(d, HOST_AMD, NULL) || gpus_are_hidden(d)) {
        return;
    }
    for (size_t i = 0; i < d->m->processes.n; i++) {
        const struct model_process *p = d->m->processes.items[i];
        for (size_t k = 0; p->ldso && k < p->ldso->objects.n; k++) {
            gfx_judge(d, p, p->ldso->objects.items[k]);
        }
    }
}
