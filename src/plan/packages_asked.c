/*
 * What the findings ask of packages: which distribution does not get what it needs, which library
 * or build would give it, and which installed files are to be installed again.
 */
#include <string.h>

#include "plan/knowledge.h"
#include "plan/packages.h"
#include "py/dist.h"
#include "py/requirement.h"

static bool has_package_repair(const struct diag_finding *f)
{
    for (size_t i = 0; i < f->repairs.n; i++) {
        if (f->repairs.items[i].kind == DIAG_REPAIR_PACKAGE) {
            return true;
        }
    }
    return false;
}

const struct diag_repair *plan_packages_reinstall_of(const struct diag_finding *f)
{
    for (size_t i = 0; i < f->repairs.n; i++) {
        if (f->repairs.items[i].reinstall) {
            return &f->repairs.items[i];
        }
    }
    return NULL;
}

/* Findings about code and driver, that only another release of the package mends. */
static bool is_about_the_build(const struct diag_finding *f)
{
    return strcmp(f->class, "arch-unsupported") == 0 || strcmp(f->class, "driver-too-old") == 0;
}

static bool names_cudnn(const struct diag_finding *f)
{
    bool it = strstr(f->culprit, "cudnn") != NULL;
    for (size_t i = 0; i < f->likewise.n && !it; i++) {
        it = strstr(f->likewise.items[i], "cudnn") != NULL;
    }
    return it;
}

static struct asker *asker_of(struct planner *p, const char *name)
{
    name = py_name_normal(p->a, str_of(name));
    for (size_t i = 0; i < p->askers.n; i++) {
        if (strcmp(p->askers.items[i].name, name) == 0) {
            return &p->askers.items[i];
        }
    }
    const struct py_dist *dist = py_env_by_dist(p->m->env, name);
    if (!dist || !dist->version || p->askers.n == ASKERS_MAX) {
        return NULL;
    }
    plan_knowledge_asks(&p->k, name);
    VEC_PUSH(p->a, &p->askers,
             (struct asker){.name = name, .p = plan_knowledge_package(&p->k, name)});
    return &p->askers.items[p->askers.n - 1];
}

/* Whether what the release asks for, by its row or its metadata, includes the package. */
static bool asks_for(const struct asker *x, const char *package)
{
    const struct plan_solve_release *r = x->p->solve.installed;
    for (size_t i = 0; i < r->n_needs; i++) {
        if (r->needs[i].strict && strcmp(r->needs[i].package, package) == 0) {
            return true;
        }
    }
    return false;
}

static int cuda_major_of(struct planner *p, const struct asker *x)
{
    const struct kb_compat *c =
        x ? plan_knowledge_compat(&p->k, x->name, x->p->solve.installed->version) : NULL;
    return c ? c->cuda_major : -1;
}

/* What NVRTC makes is PTX of its toolkit, which an older driver refuses; and it must know the GPU.
 */
const char *plan_packages_nvrtc_set(struct planner *p, const struct asker *x, int major)
{
    const struct kb_build *b =
        x ? plan_knowledge_build(&p->k, x->name, x->p->solve.installed->version) : NULL;
    int most = plan_knowledge_toolkit_of_driver(&p->k, major);
    int least = plan_knowledge_toolkit_of_gpus(&p->k, major);
    const char *set = least > 0 ? arena_printf(p->a, ">=%d.%d", major, least) : "";
    if (most >= 0) {
        return arena_printf(p->a, "%s%s<%d.%d", set, *set ? "," : "", major, most + 1);
    }
    return b && b->cuda && strchr(b->cuda, '.') ? arena_printf(p->a, "==%s.*", b->cuda) : set;
}

/* A library that no row says who asks for: the package that brings it. False: none is known. */
static bool want_library(struct planner *p, const struct asker *x, const char *soname)
{
    const struct kb_provide *row = NULL;
    const struct kb_provider *v = plan_knowledge_provider(&p->k, soname, cuda_major_of(p, x), &row);
    if (!v || (x && asks_for(x, v->package))) {
        return v != NULL;
    }
    struct plan_solve_need need;
    bool nvrtc = strstr(v->package, "nvrtc") != NULL;
    const char *set = nvrtc ? plan_packages_nvrtc_set(p, x, row->cuda_major) : v->versions;
    const char *source =
        arena_printf(p->a, "knowledge base, provides/%s: it brings %s", row->id, soname);
    for (size_t i = 0; i < p->needs.n; i++) {
        if (strcmp(p->needs.items[i].package, v->package) == 0) {
            return true;
        }
    }
    if (plan_solve_need_init(p->a, v->package, set, source, &need)) {
        need.strict = need.files = true;
        VEC_PUSH(p->a, &p->needs, need);
    }
    return true;
}

/* Adds what the finding asks for to the search. False: it asks for nothing that a version of a
 * package can answer. */
static bool want_libraries(struct planner *p, const struct diag_finding *f)
{
    struct asker *x = NULL;
    bool any = false;
    for (size_t i = 0; i < f->askers.n; i++) {
        struct asker *one = asker_of(p, f->askers.items[i]);
        if (one) {
            one->cudnn = one->cudnn || names_cudnn(f);
            any = any || asks_for(one, f->culprit);
            x = one;
        }
    }
    any = want_library(p, x, f->culprit) || any;
    for (size_t i = 0; i < f->likewise.n; i++) {
        any = want_library(p, x, f->likewise.items[i]) || any;
    }
    return any;
}

static bool must_move(struct planner *p, const char *name)
{
    struct asker *x = asker_of(p, name);
    if (x && x->p->solve.known) {
        x->must_move = true;
    }
    return x != NULL;
}

/* The packages that the finding names; where it names the machine, those whose build is refused. */
static void want_build(struct planner *p, const struct diag_finding *f)
{
    bool named = must_move(p, f->culprit);
    for (size_t i = 0; i < f->askers.n; i++) {
        named = must_move(p, f->askers.items[i]) || named;
    }
    for (size_t i = 0; i < p->m->known.n && !named; i++) {
        const char *name = p->m->known.items[i]->name_normal;
        plan_knowledge_asks(&p->k, name);
        if (plan_knowledge_refuses_installed(&p->k, plan_knowledge_package(&p->k, name))) {
            (void)must_move(p, name);
        }
    }
}

/* Whether a release of an asking package for the same CUDA needs no cuDNN, where this one does. */
static bool may_do_without_cudnn(struct planner *p, const struct diag_finding *f)
{
    for (size_t i = 0; names_cudnn(f) && i < f->askers.n; i++) {
        const struct py_dist *dist = py_env_by_dist(p->m->env, f->askers.items[i]);
        const struct kb_compat *now =
            dist && dist->version ? plan_knowledge_compat(&p->k, dist->name_normal, dist->version)
                                  : NULL;
        for (size_t n = 0; now && now->cudnn && n < p->k.compats.n; n++) {
            const struct kb_compat *c = &p->k.compats.rows[n];
            if (strcmp(c->package, now->package) == 0 && !c->cudnn &&
                c->cuda_major == now->cuda_major) {
                return true;
            }
        }
    }
    return false;
}

/* An RPATH goes before LD_LIBRARY_PATH: a copy that pip brings is never looked at. */
static bool is_held_by_rpath(const struct planner *p, const struct diag_finding *f)
{
    for (size_t i = 0; f->cause == DIAG_LIBRARY_WRONG_COPY && i < p->m->processes.n; i++) {
        const struct ldso_process *l = p->m->processes.items[i]->ldso;
        for (size_t n = 0; l && n < l->requests.n; n++) {
            const struct ldso_object *o = l->requests.items[n]->object;
            const char *name = !o ? NULL : o->soname ? o->soname : path_base(o->path);
            if (name && o->via == LDSO_VIA_RPATH && strcmp(name, f->culprit) == 0) {
                return true;
            }
        }
    }
    return false;
}

void plan_packages_read_findings(struct planner *p, const struct diag_report *report)
{
    for (size_t i = 0; i < report->findings.n; i++) {
        const struct diag_finding *f = report->findings.items[i];
        if ((f->severity != DIAG_ERROR && !f->behind) || is_held_by_rpath(p, f)) {
            continue;
        }
        if (plan_packages_reinstall_of(f)) {
            VEC_PUSH(p->a, &p->again, f);
        } else if (f->declared.n) {
            VEC_PUSH(p->a, &p->declared, f);
        } else if (is_about_the_build(f)) {
            want_build(p, f);
            VEC_PUSH(p->a, &p->findings, f);
        } else if ((has_package_repair(f) || may_do_without_cudnn(p, f)) && want_libraries(p, f)) {
            VEC_PUSH(p->a, &p->findings, f);
        }
    }
}
