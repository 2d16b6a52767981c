/*
 * Releases that crash where CUDA's libraries are found and NVIDIA's driver is not, and that fall
 * back to the CPU where neither is found. Until there is a driver, making the libraries findable is
 * no repair.
 */
#include <string.h>

#include "diag/internal.h"

/* The object that a process has loaded of a package's library, or NULL. */
static const struct ldso_object *loaded_library(const struct model_process *p, const char *name)
{
    for (size_t i = 0; p && p->ldso && i < p->ldso->objects.n; i++) {
        if (strcmp(path_base(p->ldso->objects.items[i]->path), name) == 0) {
            return p->ldso->objects.items[i];
        }
    }
    return NULL;
}

/* Whether dlopen("libcuda.so.1") in the process finds a file. One that lies elsewhere on the disk,
 * such as that of forward compatibility, does not help. */
static bool finds_driver(struct diag *d, const struct model_process *p)
{
    struct gm_err err;
    if (!p->ldso || ldso_find_object(p->ldso, "libcuda.so.1")) {
        return p->ldso != NULL;
    }
    struct ldso_process *again = ldso_process_new(d->m->store, d->a, &p->ldso->config);
    return p->ldso->main && ldso_start(again, p->ldso->main->path, &err) == 0 &&
           ldso_dlopen(again, NULL, "libcuda.so.1", LDSO_NOW) &&
           ldso_find_object(again, "libcuda.so.1");
}

/* The process once more, without the start-up hook of gpumend. */
static bool ends_without_hook(struct diag *d, const struct model_process *p, const char *name)
{
    VEC(const char *) env = {0};
    for (size_t i = 0; i < d->m->config.n_env; i++) {
        VEC_PUSH(d->a, &env, d->m->config.env[i]);
    }
    VEC_PUSH(d->a, &env, "GPUMEND_HOOK=0");
    return loaded_library(model_try(d->m, p, env.items, env.n), name) != NULL;
}

static void add_end(struct diag *d, const struct kb_trait *t, const struct py_dist *dist,
                    const struct ldso_object *o, const struct model_process *p)
{
    struct diag_finding *f =
        diag_add(d, DIAG_LIBRARY_DEFECT, t->package, t->package,
                 arena_printf(d->a, "%s %s does not fall back to the CPU here: %s", t->package,
                              dist->version, t->says));
    f->stage = DIAG_STAGE_USE;
    diag_seen_in(d, f, p);
    if (f->repairs.n) {
        return;
    }
    diag_evidence(d, f, "%s loads with all that it needs, and libcuda.so.1 is not found",
                  path_normal(d->a, o->path));
    diag_evidence(d, f, "known from: knowledge base, row %s", t->id);
    if (d->m->hook.file && !ends_without_hook(d, p, t->name)) {
        diag_repair(
            d, f, DIAG_REPAIR_TEXT, NULL,
            "Set GPUMEND_HOOK=0 where there is no driver: without the start-up hook, %s "
            "does not find CUDA's libraries, and falls back to the CPU (tried in the model).",
            t->package);
    }
    diag_repair(d, f, DIAG_REPAIR_TEXT, NULL,
                "Where there is no driver, ask for CPUExecutionProvider alone, or install a "
                "release that falls back to the CPU.");
}

static void add_advice(struct diag *d, struct diag_finding *f, const struct kb_trait *t,
                       const struct py_dist *dist)
{
    diag_evidence(d, f, "%s %s: %s", t->package, dist->version, t->says);
    diag_repair(d, f, DIAG_REPAIR_TEXT, NULL,
                "Change nothing while this machine has no NVIDIA driver: %s %s falls back to the "
                "CPU as long as it does not find CUDA's libraries, and crashes without a driver "
                "once it does. Other releases fall back to the CPU in both cases.",
                t->package, dist->version);
}

/* Whether a program with this repair finds the libraries, and so crashes. */
static bool leads_to_end(struct diag *d, const struct kb_trait *t, const struct diag_repair *r)
{
    struct diag_variable v;
    if (!diag_repair_variable(d->a, r, &v) || strcmp(v.name, "LD_LIBRARY_PATH") != 0 || !v.value) {
        return false;
    }
    const char *old = v.prepend ? diag_getenv(d, v.name) : NULL;
    const char *path = old && *old ? arena_printf(d->a, "%s:%s", v.value, old) : v.value;
    bool found = false;
    for (size_t i = 0; i < d->m->processes.n && !found; i++) {
        const struct model_process *p = d->m->processes.items[i];
        found = p->ldso && loaded_library(diag_replay(d, p, path), t->name);
    }
    return found;
}

/* Whether one of the finding's repairs makes a program crash. They all make the same library
 * findable, so that none of them is one then. */
static bool is_better_left(struct diag *d, const struct kb_trait *t, const struct diag_finding *f)
{
    bool leads = false;
    for (size_t i = 0; i < f->repairs.n && !leads; i++) {
        leads = leads_to_end(d, t, &f->repairs.items[i]);
    }
    return leads;
}

static void leave_unfound(struct diag *d, const struct kb_trait *t, const struct py_dist *dist)
{
    for (size_t i = 0; i < d->report->findings.n; i++) {
        struct diag_finding *f = d->report->findings.items[i];
        bool is_its = f->askers.n == 1 && py_env_by_dist(d->m->env, f->askers.items[0]) == dist;
        is_its = is_its && f->severity == DIAG_ERROR && f->stage == DIAG_STAGE_USE;
        if (is_its || is_better_left(d, t, f)) {
            f->repairs.n = 0;
            add_advice(d, f, t, dist);
        }
    }
}

static void judge_ends(struct diag *d, const struct kb_trait *t)
{
    const struct py_dist *dist = d->m->env ? py_env_by_dist(d->m->env, t->package) : NULL;
    if (!dist || !dist->version || !model_version_fits(d->a, t->versions, dist->version)) {
        return;
    }
    bool has_driver = true;
    for (size_t i = 0; i < d->m->processes.n; i++) {
        const struct model_process *p = d->m->processes.items[i];
        const struct ldso_object *o = loaded_library(p, t->name);
        if (finds_driver(d, p)) {
            continue;
        }
        has_driver = false;
        if (o) {
            add_end(d, t, dist, o, p);
        }
    }
    if (!has_driver) {
        leave_unfound(d, t, dist);
    }
}

/* A tree without a PCI bus may be an image, whose driver comes from its host. */
void diag_judge_ends(struct diag *d)
{
    struct kb_traits traits;
    struct gm_err err;
    const struct host *h = d->m->pid ? NULL : d->m->host;
    if (!h || h->pci.state == HOST_UNKNOWN || d->m->host_elsewhere ||
        kb_traits(d->m->kb, &traits, &err) < 0) {
        return;
    }
    for (size_t i = 0; i < traits.n; i++) {
        if (traits.rows[i].kind == KB_TRAIT_ENDS) {
            judge_ends(d, &traits.rows[i]);
        }
    }
}
