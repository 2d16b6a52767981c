/*
 * Number formats and instruction sets that a program asks for by default or by a variable, and
 * that the machine does not have. What a program passes itself (compute_type= in its code, an
 * option of its command line) is in no file: `gpumend choose` answers for that.
 */
#include <string.h>

#include "diag/internal.h"
#include "py/dist.h"

/* ------------------------------------------------------------------ compute types */

/* The row of CTranslate2's compute types for a capability, "8.6". */
static const struct kb_model *types_for(struct diag *d, const struct kb_models *rows,
                                        const char *capability)
{
    for (size_t i = 0; i < rows->n; i++) {
        const struct kb_model *r = &rows->rows[i];
        if (r->kind == KB_MODEL_COMPUTE && r->device && strcmp(r->device, "cuda") == 0 &&
            r->n_runs > 1 && model_version_fits(d->a, r->applies, capability)) {
            return r;
        }
    }
    return NULL;
}

static const char *runs_as(const struct kb_model *types, const char *asked)
{
    for (size_t i = 0; i < types->n_runs; i++) {
        if (strcmp(types->runs[i].asked, asked) == 0) {
            return types->runs[i].runs_as;
        }
    }
    return NULL;
}

/* The smallest format that runs as asked. */
static const char *better_type(const struct kb_model *types)
{
    static const char *const order[] = {"int8_float16", "int8_float32"};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        const char *runs = runs_as(types, order[i]);
        if (runs && strcmp(runs, order[i]) == 0) {
            return order[i];
        }
    }
    return "float32";
}

static bool is_allowed(const struct diag *d, const char *type)
{
    const char *name = strstr(type, "bfloat16") ? "CT2_CUDA_ALLOW_BF16" : "CT2_CUDA_ALLOW_FP16";
    const char *value = diag_variable(d, name);
    return value &&
           (strcmp(value, "1") == 0 || strcmp(value, "true") == 0 || strcmp(value, "TRUE") == 0);
}

static void rule_default(struct diag *d, const struct kb_models *rows, const struct kb_model *row,
                         const struct host_gpu *g)
{
    const struct py_dist *dist = py_env_by_dist(d->m->env, row->engine);
    const char *capability = g->compute_capability.value;
    const struct kb_model *types = dist ? types_for(d, rows, capability) : NULL;
    const char *runs = types ? runs_as(types, row->compute) : NULL;
    if (!runs || strcmp(runs, row->compute) == 0 || is_allowed(d, row->compute)) {
        return;
    }
    struct diag_finding *f = diag_add(
        d, DIAG_COMPUTE_TYPE, row->engine, row->engine,
        arena_printf(d->a,
                     "%s requests %s by default, which is not efficient on the %s (compute "
                     "capability %s): CTranslate2 rejects it.",
                     row->engine, row->compute, g->name ? g->name : "GPU", capability));
    f->stage = DIAG_STAGE_USE;
    diag_evidence(d, f, "known from: knowledge base, rows %s and %s", row->id, types->id);
    diag_evidence(d, f,
                  "the program then says: Requested %s compute type, but the target device or "
                  "backend do not support efficient %s computation.",
                  row->compute, row->compute);
    diag_repair(d, f, DIAG_REPAIR_TEXT, NULL, "Use another compute type: --compute_type %s.",
                better_type(types));
    diag_repair(d, f, DIAG_REPAIR_ENV, "export CT2_CUDA_ALLOW_FP16=1",
                "Or allow %s anyway; it is slow there.", row->compute);
}

static void rule_compute_types(struct diag *d)
{
    struct kb_models rows;
    struct gm_err err;
    const struct host_gpu *g = diag_next_gpu(d, HOST_NVIDIA, NULL);
    unsigned major = 0, minor = 0;
    bool one = g && !diag_next_gpu(d, HOST_NVIDIA, g); // of several, the program may take any
    if (!one || !diag_capability(g, &major, &minor) || kb_models(d->m->kb, &rows, &err) < 0) {
        return;
    }
    for (size_t i = 0; i < rows.n; i++) {
        const struct kb_model *r = &rows.rows[i];
        if (r->kind == KB_MODEL_DEFAULT && r->engine && r->compute && r->device &&
            strcmp(r->device, "cuda") == 0) {
            rule_default(d, &rows, r, g);
        }
    }
}

/* ------------------------------------------------------------------ CT2_FORCE_CPU_ISA */

/* The x86-64 level that has all of it; the values are those of libctranslate2. */
static const struct {
    const char *name;
    int level; // that is enough
} isas[] = {{"GENERIC", 0}, {"AVX", 3}, {"AVX2", 3}, {"AVX512", 4}};

static void add_isa(struct diag *d, const char *value, const char *summary, const char *says)
{
    struct diag_finding *f = diag_add(d, DIAG_CPU_ISA_FORCED, value, "CT2_FORCE_CPU_ISA", summary);
    diag_evidence(d, f, "CT2_FORCE_CPU_ISA=%s", value);
    diag_evidence(d, f, "the program then says: %s %s", says, value);
    diag_repair(d, f, DIAG_REPAIR_ENV, "unset CT2_FORCE_CPU_ISA",
                "Leave it out: CTranslate2 takes the best that the processor has.");
}

static void rule_isa(struct diag *d, const struct model_process *p)
{
    const char *value = diag_variable(d, "CT2_FORCE_CPU_ISA");
    const struct ldso_cpu *cpu = &p->ldso->cpu;
    if (!value || !*value || cpu->level == 0) {
        return; // ARM and others have other values
    }
    for (size_t i = 0; i < sizeof isas / sizeof *isas; i++) {
        if (strcmp(isas[i].name, value) == 0) {
            /* AVX alone is no level: below v3 it cannot be determined. */
            bool lacks = cpu->level < isas[i].level && strcmp(value, "AVX") != 0;
            if (lacks) {
                add_isa(d, value,
                        arena_printf(d->a,
                                     "CT2_FORCE_CPU_ISA requests %s, but the processor only "
                                     "supports x86-64-v%d: ctranslate2 stops.",
                                     value, cpu->level),
                        "The CPU does not support");
            }
            return;
        }
    }
    add_isa(d, value,
            arena_printf(d->a,
                         "CT2_FORCE_CPU_ISA=%s is none of GENERIC, AVX, AVX2, AVX512: "
                         "ctranslate2 stops.",
                         value),
            "Invalid CPU ISA:");
}

void diag_rule_compute(struct diag *d)
{
    if (!d->m->env || !py_env_by_dist(d->m->env, "ctranslate2")) {
        return;
    }
    rule_compute_types(d);
    for (size_t i = 0; i < d->m->processes.n; i++) {
        if (d->m->processes.items[i]->ldso) {
            rule_isa(d, d->m->processes.items[i]);
            return; // one start environment, one processor
        }
    }
}
