/*
 * A package for the solver: its releases, the newest first, what each needs, and which of them are
 * refused.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/knowledge.h"
#include "plan/knowledge_internal.h"
#include "py/dist.h"
#include "py/requirement.h"

/* The build that the version names itself ("2.5.1+cu121"), else the plain index's. */
static const struct kb_build *build_of_installed(const struct plan_knowledge *k,
                                                 const struct plan_knowledge_package *p)
{
    const char *local = strchr(p->dist->version, '+');
    for (size_t i = 0; i < k->builds.n && local; i++) {
        const struct kb_build *b = &k->builds.rows[i];
        if (strcmp(b->build, local + 1) == 0 && strcmp(b->package, p->solve.name) == 0 &&
            model_version_fits(k->a, b->versions, p->dist->version)) {
            return b;
        }
    }
    return local ? NULL : plan_knowledge_build(k, p->solve.name, p->dist->version);
}

const char *plan_knowledge_refuses_installed(const struct plan_knowledge *k,
                                             const struct plan_knowledge_package *p)
{
    const struct kb_build *b = p->dist ? build_of_installed(k, p) : NULL;
    const struct kb_compat *c =
        p->dist ? plan_knowledge_compat(k, p->solve.name, p->dist->version) : NULL;
    const char *cuda = b && b->cuda             ? b->cuda
                       : c && c->cuda_major > 0 ? arena_printf(k->a, "%d", c->cuda_major)
                                                : NULL;
    const char *why = plan_knowledge_driver_refuses(k, cuda);
    return why ? why : plan_knowledge_gpu_refuses(k, b);
}

typedef VEC(struct plan_solve_need) need_list;

static void add_need(struct plan_knowledge *k, need_list *out, const char *package,
                     const char *versions, const char *source, bool library)
{
    struct plan_solve_need need;
    if (plan_solve_need_init(k->a, package, versions, source, &need)) {
        need.strict = need.files = library;
        VEC_PUSH(k->a, out, need);
    }
}

static bool marker_holds(const struct plan_knowledge *k, const struct py_marker *marker)
{
    const struct py_marker_env env = {
        .python_version = k->machine.python,
        .python_full_version = k->machine.python_full,
        .sys_platform = "linux",
        .platform_system = "Linux",
        .os_name = "posix",
        .platform_machine = k->m->env->machine,
        .implementation_name = k->m->env->implementation,
        .platform_python_implementation = "CPython",
    };
    return py_marker_eval(k->a, marker, &env) == PY_YES;
}

static bool condition_holds(const struct plan_knowledge *k, const char *when)
{
    const struct py_marker *marker = NULL;
    struct gm_err err;
    return !when ||
           (py_marker_parse(k->a, str_of(when), &marker, &err) == 0 && marker_holds(k, marker));
}

/* A release that bundles the main cuDNN library needs the others of that very version. */
static const char *cudnn_set(const struct plan_knowledge *k, const struct kb_compat *c,
                             const struct kb_need *need)
{
    size_t dots = 0;
    for (const char *s = c->cudnn; s && *s; s++) {
        dots += *s == '.';
    }
    return !strstr(need->package, "cudnn") || dots < 2
               ? need->versions
               : arena_printf(k->a, dots == 2 ? "==%s.*" : "==%s", c->cudnn);
}

static struct plan_solve_need *said_already(const need_list *list, const char *package)
{
    for (size_t i = 0; i < list->n; i++) {
        if (strcmp(list->items[i].package, package) == 0) {
            return &list->items[i];
        }
    }
    return NULL;
}

/* What a release asks of libraries by name. Where its metadata has a word on it, that holds. */
static void library_needs(struct plan_knowledge *k, const char *package, const char *version,
                          need_list *out)
{
    const struct kb_compat *c = plan_knowledge_compat(k, package, version);
    const char *source = c ? arena_printf(k->a, "knowledge base, compat/%s", c->id) : NULL;
    for (size_t i = 0; c && i < c->n_needs; i++) {
        const struct kb_need *need = &c->needs[i];
        const char *set = cudnn_set(k, c, need);
        struct plan_solve_need *said = said_already(out, need->package);
        if (said) {
            said->strict = said->files = true;
        } else if (!plan_knowledge_served_otherwise(k, need->package)) {
            add_need(k, out, need->package, set, source, true);
        }
    }
}

static struct plan_solve_release release_of_row(struct plan_knowledge *k,
                                                const struct kb_release *r, bool asks)
{
    need_list needs = {0};
    const char *source = arena_printf(k->a, "knowledge base, releases/%s", r->id);
    for (size_t i = 0; i < r->n_needs; i++) {
        if (!r->needs[i].extra && condition_holds(k, r->needs[i].when)) {
            add_need(k, &needs, r->needs[i].package, r->needs[i].versions, source, false);
        }
    }
    if (asks) {
        library_needs(k, r->package, r->version, &needs);
    }
    return (struct plan_solve_release){r->version, needs.items, needs.n, r->id};
}

static const struct plan_solve_release *release_of_dist(struct plan_knowledge *k,
                                                        struct py_dist *dist, bool asks)
{
    const struct py_metadata *meta = py_dist_metadata(k->m->env, dist);
    need_list needs = {0};
    for (size_t i = 0; meta && i < meta->n_requires_dist; i++) {
        struct py_requirement r;
        struct gm_err err;
        if (py_requirement_parse(k->a, meta->requires_dist[i], &r, &err) == 0 && !r.url.n &&
            marker_holds(k, r.marker)) {
            struct plan_solve_need need = {.package = py_name_normal(k->a, r.name),
                                           .set = r.specifiers,
                                           .source = "its metadata",
                                           .versions = ""};
            for (size_t n = 0; n < r.specifiers.n; n++) {
                static const char *const ops[] = {"==", "!=", "~=", "<=", "<", ">=", ">", "==="};
                const struct py_specifier *s = &r.specifiers.items[n];
                need.versions = arena_printf(k->a, "%s%s%s" STR_FMT, need.versions, n ? "," : "",
                                             ops[s->op], STR_ARG(s->text));
            }
            VEC_PUSH(k->a, &needs, need);
        }
    }
    if (asks) {
        library_needs(k, dist->name_normal, dist->version, &needs);
    }
    struct plan_solve_release *out = arena_alloc(k->a, sizeof *out);
    *out = (struct plan_solve_release){dist->version, needs.items, needs.n, NULL};
    return out;
}

static int newest_first(const void *x, const void *y)
{
    const struct kb_release *a = *(const struct kb_release *const *)x;
    const struct kb_release *b = *(const struct kb_release *const *)y;
    return plan_knowledge_cmp_versions(b->version, a->version);
}

/* "2.5.1+cu121" and "2.5.1" are one release for pip. */
static bool package_is_installed(const struct plan_knowledge_package *p, const char *version)
{
    const char *have = p->dist ? p->dist->version : NULL;
    size_t n = have ? strcspn(have, "+") : 0;
    return have && strlen(version) == n && strncmp(have, version, n) == 0;
}

static void version_refuse(struct plan_knowledge *k, struct plan_knowledge_package *p,
                           const char *version, const char *reason)
{
    struct plan_knowledge_refusal *last =
        p->refusals.n ? &p->refusals.items[p->refusals.n - 1] : NULL;
    if (last && strcmp(last->reason, reason) == 0) {
        last->first = version;
        return;
    }
    VEC_PUSH(k->a, &p->refusals, (struct plan_knowledge_refusal){version, version, reason});
}

/* Of equal worth otherwise, the driver's own CUDA is better than a newer one. */
static bool beyond_driver(const struct plan_knowledge *k, const char *package, const char *version)
{
    int major = 0, minor = 0;
    if (!plan_knowledge_numbered_as_cuda(package) ||
        sscanf(version, "%d.%d", &major, &minor) != 2) {
        return false;
    }
    int best = plan_knowledge_toolkit_of_driver(k, major);
    return best >= 0 && minor > best;
}

static void collect_releases(struct plan_knowledge *k, struct plan_knowledge_package *p)
{
    VEC(const struct kb_release *) rows = {0};
    VEC(struct plan_solve_release) good = {0};
    VEC(const char *) refused = {0};
    for (size_t i = 0; i < k->releases.n && !plan_knowledge_is_other_build(k, p->solve.name); i++) {
        if (strcmp(k->releases.rows[i].package, p->solve.name) == 0) {
            VEC_PUSH(k->a, &rows, &k->releases.rows[i]);
        }
    }
    if (rows.n) {
        qsort(rows.items, rows.n, sizeof *rows.items, newest_first);
    }
    for (int beyond = 0; beyond < 2; beyond++) {
        for (size_t i = 0; i < rows.n; i++) {
            const struct kb_release *r = rows.items[i];
            if (package_is_installed(p, r->version) ||
                beyond_driver(k, r->package, r->version) != (beyond == 1)) {
                continue;
            }
            const char *why = plan_knowledge_refuses(k, r);
            if (why) {
                version_refuse(k, p, r->version, why);
                VEC_PUSH(k->a, &refused, r->version);
            } else {
                VEC_PUSH(k->a, &good, release_of_row(k, r, p->asks));
            }
        }
    }
    p->solve.known = rows.n > 0;
    p->solve.releases = good.items;
    p->solve.n_releases = good.n;
    p->solve.refused = refused.items;
    p->solve.n_refused = refused.n;
}

/* Whether the list names the package already. */
static bool has_collision(const struct plan_solve_collision *list, size_t n, const char *package)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(list[i].package, package) == 0) {
            return true;
        }
    }
    return false;
}

/* Other packages that put a library of the same name into the same folder. */
static void collect_collisions(struct plan_knowledge *k, struct plan_knowledge_package *p)
{
    VEC(struct plan_solve_collision) list = {0};
    for (size_t i = 0; i < k->provides.n; i++) {
        const struct kb_provide *row = &k->provides.rows[i];
        const char *folder = NULL;
        for (size_t n = 0; n < row->n_providers; n++) {
            const struct kb_provider *v = &row->providers[n];
            bool own = v->manager == KB_MANAGER_PIP && strcmp(v->package, p->solve.name) == 0;
            folder = own ? v->folder : folder;
        }
        for (size_t n = 0; folder && n < row->n_providers; n++) {
            const struct kb_provider *v = &row->providers[n];
            if (v->manager == KB_MANAGER_PIP && v->folder && strcmp(v->folder, folder) == 0 &&
                strcmp(v->package, p->solve.name) != 0 &&
                !has_collision(list.items, list.n, v->package)) {
                VEC_PUSH(k->a, &list, (struct plan_solve_collision){v->package, folder});
            }
        }
    }
    p->solve.collisions = list.items;
    p->solve.n_collisions = list.n;
}

static struct plan_knowledge_package *made_package(struct plan_knowledge *k, const char *name)
{
    for (size_t i = 0; i < k->packages.n; i++) {
        if (strcmp(k->packages.items[i]->solve.name, name) == 0) {
            return k->packages.items[i];
        }
    }
    return NULL;
}

static struct plan_knowledge_package *make_package(struct plan_knowledge *k, const char *name,
                                                   bool asks)
{
    struct plan_knowledge_package *p = arena_alloc(k->a, sizeof *p);
    struct py_dist *dist = py_env_by_dist(k->m->env, name);
    p->solve.name = name;
    p->asks = asks;
    if (dist && dist->version) {
        p->dist = dist;
        p->solve.installed = release_of_dist(k, dist, asks);
    }
    VEC_PUSH(k->a, &k->packages, p);
    collect_releases(k, p);
    collect_collisions(k, p);
    return p;
}

void plan_knowledge_asks(struct plan_knowledge *k, const char *name)
{
    if (!made_package(k, name)) {
        (void)make_package(k, name, true);
    }
}

struct plan_knowledge_package *plan_knowledge_package(struct plan_knowledge *k, const char *name)
{
    struct plan_knowledge_package *p = made_package(k, name);
    return p ? p : make_package(k, name, false);
}

static int packages_by_name(const void *x, const void *y)
{
    return strcmp((*(const struct plan_solve_package *const *)x)->name,
                  (*(const struct plan_solve_package *const *)y)->name);
}

void plan_knowledge_all_installed(struct plan_knowledge *k)
{
    for (size_t i = 0; i < k->m->env->n_dists; i++) {
        const struct py_dist *dist = &k->m->env->dists[i];
        const struct plan_solve_package *p =
            dist->shadowed_by ? NULL : &plan_knowledge_package(k, dist->name_normal)->solve;
        if (p && p->installed) {
            VEC_PUSH(k->a, &k->installed, p);
        }
    }
    if (k->installed.n) {
        qsort(k->installed.items, k->installed.n, sizeof *k->installed.items, packages_by_name);
    }
}
