/*
 * What the findings mean for each entry of the target (model/entry.c), and for the parts of an
 * application. What stops only a program that imports a part by itself is no error where the
 * application that brought the part works.
 */
#include <string.h>

#include "diag/internal.h"
#include "kb/serves.h"

/* The module that a script imports alone; NULL: it imports several, or none. */
static const char *alone(const struct model_process *p)
{
    return model_n_imports(p) == 1 ? model_import(p, 0) + strlen("import ") : NULL;
}

static const struct model_process *process_importing(struct diag *d, const char *module)
{
    for (size_t i = 0; i < d->m->processes.n; i++) {
        const struct model_process *p = d->m->processes.items[i];
        const char *name = p->part_of ? NULL : alone(p);
        if (name && strcmp(name, module) == 0) {
            return p;
        }
    }
    return NULL;
}

static bool shows_in(struct diag *d, const struct diag_finding *f, const struct model_process *p)
{
    const char *text = diag_script_text(d, p);
    for (size_t i = 0; i < f->scripts.n; i++) {
        if (strcmp(f->scripts.items[i], text) == 0) {
            return true;
        }
    }
    return false;
}

static bool works_alone(struct diag *d, const struct model_process *p)
{
    struct diag_failure *failures = NULL;
    return p->ldso && !p->error && !p->unknown.n && !p->ldso->start_failed &&
           !p->ldso->loader.missing && diag_failures(d, p, &failures) == 0;
}

/* In every order in which its parts can be used. */
static bool works(struct diag *d, const struct model_process *p)
{
    bool all = p;
    for (size_t i = 0; i < d->m->processes.n && all; i++) {
        const struct model_process *x = d->m->processes.items[i];
        all = x->group != p->group || works_alone(d, x);
    }
    return all;
}

/* ------------------------------------------------------------------ parts */

struct parts {
    const char *names, *wholes; // "ctranslate2, faster_whisper"; "whisperx"
    const char *last;           // of wholes
    bool is_wish;               // an application shows it too, and does without
};

static const char *joined_names(struct diag *d, const char *list, const char *name)
{
    return *list ? arena_printf(d->a, "%s, %s", list, name) : name;
}

/* Whether a finding is an error in scripts of parts alone. A program that it shows in and that
 * works does without what is missing. */
static bool only_in_parts(struct diag *d, const struct diag_finding *f, struct parts *ret)
{
    for (size_t i = 0; i < d->m->processes.n; i++) {
        const struct model_process *p = d->m->processes.items[i];
        if (!shows_in(d, f, p)) {
            continue;
        }
        if (!p->part_of && works(d, p)) {
            ret->is_wish = true;
            continue;
        }
        if (!p->part_of || !works(d, process_importing(d, p->part_of))) {
            return false;
        }
        ret->names = joined_names(d, ret->names, alone(p));
        if (strcmp(ret->last, p->part_of) != 0) {
            ret->wholes = joined_names(d, ret->wholes, p->part_of);
            ret->last = p->part_of;
        }
    }
    return *ret->names;
}

void diag_soften_parts(struct diag *d)
{
    for (size_t i = 0; i < d->report->findings.n; i++) {
        struct diag_finding *f = d->report->findings.items[i];
        struct parts parts = {"", "", "", false};
        if (f->severity != DIAG_ERROR || !only_in_parts(d, f, &parts)) {
            continue;
        }
        f->severity = DIAG_WARNING;
        if (!parts.is_wish) {
            f->summary = arena_printf(d->a,
                                      "%s It affects only programs that import a part of %s "
                                      "alone (%s): %s itself works.",
                                      f->summary, parts.wholes, parts.names, parts.wholes);
        }
    }
}

/* ------------------------------------------------------------------ on the CPU */

/* Causes that are about what computes on the GPU, whatever their culprit is. */
static bool is_of_gpu_build(enum diag_cause cause)
{
    return cause == DIAG_GPU_CODE_MISSING || cause == DIAG_GFX_NOT_COVERED ||
           cause == DIAG_BUILD_WITHOUT_GPU || cause == DIAG_BUILD_OTHER_VENDOR ||
           cause == DIAG_ONNXRUNTIME_TWICE || cause == DIAG_COMPUTE_TYPE;
}

/* A distribution that computes on GPUs alone, so that nothing is fine for it on the CPU: CuPy, and
 * vLLM save where its version is labelled +cpu (kb/traits.json). */
static bool is_gpu_alone(const struct model *m, const char *name)
{
    const struct py_dist *dist = m->env ? py_env_by_dist(m->env, name) : NULL;
    const char *version = dist && dist->version ? dist->version : "";
    struct kb_traits traits;
    struct gm_err err;
    return kb_traits(m->kb, &traits, &err) == 0 && kb_gpu_alone(&traits, name) &&
           !strstr(version, "+cpu");
}

static const char *gpu_alone(const struct model *m, const struct model_process *p)
{
    for (size_t i = 0; i < p->imported.n; i++) {
        if (is_gpu_alone(m, p->imported.items[i])) {
            return p->imported.items[i];
        }
    }
    return NULL;
}

static const char *any_gpu_alone(const struct model *m)
{
    const char *name = NULL;
    for (size_t i = 0; i < m->processes.n && !name; i++) {
        name = gpu_alone(m, m->processes.items[i]);
    }
    return name;
}

static const char *driver_at_import(struct diag *d, const struct model_process *p)
{
    const struct model_attempt *at;
    const struct ldso_request *r = diag_driver_at_import(d, p, &at);
    return r ? r->name : NULL;
}

/* Whether the process computes on no CPU here, whatever the environment has. */
static bool is_no_cpu_program(struct diag *d, const struct model_process *p)
{
    return d->m->for_cpu && (gpu_alone(d->m, p) || driver_at_import(d, p));
}

/* What keeps the verdict from "ok"; true: a library of the driver is wanted on every device. */
static bool note_no_cpu_program(struct diag *d)
{
    const char *alone_there = any_gpu_alone(d->m), *driver = NULL;
    for (size_t i = 0; i < d->m->processes.n && !driver; i++) {
        driver = driver_at_import(d, d->m->processes.items[i]);
    }
    if (alone_there) {
        VEC_PUSH(d->a, &d->report->notes,
                 arena_printf(d->a, "%s computes on GPUs alone: it cannot be judged for the CPU",
                              alone_there));
    }
    if (driver) {
        VEC_PUSH(d->a, &d->report->notes,
                 arena_printf(d->a,
                              "an import needs %s of the GPU's driver, which is not found here: it "
                              "fails on the CPU too",
                              driver));
    }
    d->unsure |= alone_there || driver;
    return driver;
}

/* By its family, or by the repository of CUDA's or ROCm's packages that has it. A name without a
 * version, as a toolkit has it for building, is of the same library. */
static bool is_gpu_library(const struct model *m, const char *name)
{
    struct kb_provides list;
    struct gm_err err;
    name = ends_with(name, ".so") ? arena_printf(m->arena, "%s.0", name) : name;
    if (kb_family_of(&m->families, name) || kb_provides(m->kb, &list, &err) < 0) {
        return kb_family_of(&m->families, name) != NULL;
    }
    for (size_t i = 0; i < list.n; i++) {
        for (size_t k = 0; k < list.rows[i].n_providers; k++) {
            if (list.rows[i].providers[k].repository && str_glob(list.rows[i].soname, name)) {
                return true;
            }
        }
    }
    return false;
}

bool diag_is_only_for_gpu(const struct model *m, const struct diag_finding *f)
{
    return !any_gpu_alone(m) &&
           (f->stage == DIAG_STAGE_MACHINE ||
            (f->stage == DIAG_STAGE_USE &&
             (is_of_gpu_build(f->cause) || is_gpu_library(m, path_base(f->culprit)))));
}

void diag_soften_gpu(struct diag *d)
{
    bool driver = d->m->for_cpu && note_no_cpu_program(d);
    for (size_t i = 0; i < d->report->findings.n && d->m->for_cpu; i++) {
        struct diag_finding *f = d->report->findings.items[i];
        bool met = driver && f->stage == DIAG_STAGE_MACHINE;
        if (!met && diag_is_only_for_gpu(d->m, f) && f->severity != DIAG_NOTE) {
            f->severity = DIAG_NOTE;
            f->summary =
                arena_printf(d->a, "%s Only programs that use the GPU meet it.", f->summary);
        }
    }
}

/* ------------------------------------------------------------------ entries */

static bool is_judged(const struct model_process *p)
{
    return p->ldso && !p->error && !p->unsure && (p->unknown.n == 0 || p->imported.n);
}

static enum diag_verdict verdict_of_one(struct diag *d, const struct model_process *p)
{
    for (size_t i = 0; i < d->report->findings.n; i++) {
        const struct diag_finding *f = d->report->findings.items[i];
        if (f->severity != DIAG_NOTE && shows_in(d, f, p)) {
            struct diag_failure *failures = NULL;
            if (f->severity == DIAG_ERROR || diag_failures(d, p, &failures)) {
                return DIAG_BROKEN;
            }
        }
    }
    return is_judged(p) && !is_no_cpu_program(d, p) && !diag_is_driverless(d, p) ? DIAG_OK
                                                                                 : DIAG_CANNOT_TELL;
}

/* That of the worst order in which its parts can be used. */
static enum diag_verdict verdict_of(struct diag *d, const struct model_process *first)
{
    enum diag_verdict verdict = verdict_of_one(d, first);
    for (size_t i = 0; i < d->m->processes.n && verdict == DIAG_OK; i++) {
        const struct model_process *p = d->m->processes.items[i];
        verdict = p->group == first->group ? verdict_of_one(d, p) : verdict;
    }
    return verdict;
}

void diag_judge_entries(struct diag *d)
{
    for (size_t i = 0; i < d->m->processes.n; i++) {
        const struct model_process *p = d->m->processes.items[i];
        const char *module = p == diag_first_of(d, p->group) ? alone(p) : NULL;
        if (module) {
            VEC_PUSH(d->a, &d->report->entries,
                     (struct diag_entry){module, p->part_of, verdict_of(d, p)});
        }
    }
}
