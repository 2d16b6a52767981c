/*
 * Which packages of an index bring the libraries that are missing, and what those packages open in
 * turn.
 */
#include <stdlib.h>
#include <string.h>

#include "diag/internal.h"
#include "diag/wanted.h"
#include "host/manager.h"
#include "model/package.h"
#include "py/dist.h"

static const struct kb_compat *compat_of(struct diag *d, const char *package)
{
    struct kb_compats compats;
    struct gm_err err;
    const struct py_dist *dist = package && d->m->env ? py_env_by_dist(d->m->env, package) : NULL;
    if (!dist || kb_compats(d->m->kb, &compats, &err) < 0) {
        return NULL;
    }
    for (size_t i = 0; i < compats.n; i++) {
        if (strcmp(compats.rows[i].package, dist->name_normal) == 0 &&
            model_version_fits(d->a, compats.rows[i].versions, dist->version)) {
            return &compats.rows[i];
        }
    }
    return NULL;
}

/* What the asking package declares of the package that provides the name, where such a version can
 * provide it; or NULL. */
static const char *diag_wanted_declared(const struct wanted *w, const struct kb_provider *v)
{
    struct diag *d = w->d;
    const char *name = NULL, *text = NULL;
    if (!w->x->attempt || !w->x->attempt->package ||
        !diag_requirement(d, w->x->attempt->package, v->package, &name, &text) || !*text) {
        return NULL;
    }
    bool one = starts_with(text, "==") && !strpbrk(text, ",*");
    return !v->versions ? text
           : !one       ? arena_printf(d->a, "%s,%s", v->versions, text)
           : model_version_fits(d->a, v->versions, text + strlen("==")) ? text
                                                                        : NULL;
}

const char *diag_wanted_pinned(const struct wanted *w, const struct kb_provider *v)
{
    struct diag *d = w->d;
    const struct kb_compat *c = w->compat;
    const char *package = v->package;
    if (strstr(package, "cudnn") && c && c->cudnn && strchr(c->cudnn, '.')) {
        size_t dots = 0;
        for (const char *s = c->cudnn; *s; s++) {
            dots += *s == '.';
        }
        return arena_printf(d->a, dots >= 3 ? "%s==%s" : "%s==%s.*", package, c->cudnn);
    }
    for (size_t i = 0; c && i < c->n_needs; i++) {
        if (strcmp(c->needs[i].package, package) == 0 && c->needs[i].versions) {
            return arena_printf(d->a, "%s%s", package, c->needs[i].versions);
        }
    }
    const char *versions = diag_wanted_declared(w, v);
    versions = versions ? versions : v->versions;
    return versions ? arena_printf(d->a, "%s%s", package, versions) : package;
}

/* The CUDA of what NVIDIA distributes; -1: not known, or of somebody else. */
static int cuda_of(const struct wanted *w, const struct kb_provide *row)
{
    const struct kb_provider *pip = diag_wanted_provider(w, row, KB_MANAGER_PIP);
    return row->cuda_major > 0                           ? row->cuda_major
           : pip && starts_with(pip->package, "nvidia-") ? w->cuda_major
                                                         : -1;
}

const char *diag_wanted_conda(const struct wanted *w, const struct kb_provide *row,
                              const struct kb_provider *v)
{
    struct arena *a = w->d->a;
    const struct kb_provider *pip = diag_wanted_provider(w, row, KB_MANAGER_PIP);
    const char *pinned = pip ? diag_wanted_pinned(w, pip) : "";
    const char *equal = strstr(pinned, "==");
    if (strcmp(v->package, "cudatoolkit") == 0 && cuda_of(w, row) > 0) {
        return arena_printf(a, "cudatoolkit=%d", cuda_of(w, row));
    }
    if (equal && !strchr(pinned, ',')) { // conda's "=9.1" is pip's "==9.1.*"
        size_t n = strlen(equal + 2), tail = ends_with(equal, ".*") ? 2 : 0;
        return arena_printf(a, "%s=%.*s", v->package, (int)(n - tail), equal + 2);
    }
    return v->versions ? arena_printf(a, "%s%s", v->package, v->versions) : v->package;
}

const char *diag_wanted_cuda_version(const struct wanted *w, const struct kb_provide *row)
{
    int cuda = cuda_of(w, row);
    return cuda >= 12 ? arena_printf(w->d->a, "cuda-version=%d", cuda) : NULL;
}

/* The one CUDA major version of which the knowledge base knows the name; -1 if there are several
 * (libcurand.so.10 serves CUDA 11, 12 and 13) or none. */
static int major_by_name(const struct wanted *w, const char *name)
{
    int major = -1;
    for (size_t i = 0; i < w->provides.n; i++) {
        const struct kb_provide *row = &w->provides.rows[i];
        if (row->cuda_major > 0 && str_glob(row->soname, name)) {
            if (major > 0 && major != row->cuda_major) {
                return -1;
            }
            major = row->cuda_major;
        }
    }
    return major;
}

/* That of a library which the process has loaded before: a program keeps to one CUDA. */
static int major_by_loaded(const struct wanted *w, const struct model_process *p)
{
    int major = -1;
    for (size_t i = 0; p && p->ldso && i < p->ldso->objects.n && major < 0; i++) {
        const char *soname = p->ldso->objects.items[i]->soname;
        major = soname ? major_by_name(w, soname) : -1;
    }
    return major;
}

bool diag_wanted_add(struct diag *d, struct diag_finding *f, const struct diag_failure *x,
                     struct wanted *w)
{
    struct gm_err err;
    *w = (struct wanted){.d = d,
                         .x = x,
                         .cuda_major = -1,
                         .compat = compat_of(d, x->attempt ? x->attempt->package : NULL)};
    if (kb_provides(d->m->kb, &w->provides, &err) < 0) {
        return false;
    }
    VEC_PUSH(d->a, &w->names, f->culprit);
    for (size_t i = 0; i < f->likewise.n; i++) {
        VEC_PUSH(d->a, &w->names, f->likewise.items[i]);
    }
    const char *torch =
        x->attempt && x->attempt->package && d->m->env && strcmp(x->attempt->package, "torch") == 0
            ? model_torch(d->m)->cuda // of this build, which may be of another index
            : NULL;
    w->cuda_major = torch ? atoi(torch) : w->compat ? w->compat->cuda_major : -1;
    for (size_t i = 0; i < w->names.n && w->cuda_major < 0; i++) {
        w->cuda_major = major_by_name(w, w->names.items[i]);
    }
    w->cuda_major = w->cuda_major < 0 ? major_by_loaded(w, x->process) : w->cuda_major;
    return true;
}

const struct kb_provide *diag_wanted_provide(const struct wanted *w, const char *name)
{
    const struct kb_provide *first = NULL;
    for (size_t i = 0; i < w->provides.n; i++) {
        const struct kb_provide *row = &w->provides.rows[i];
        if (str_glob(row->soname, name)) {
            if (row->cuda_major == w->cuda_major) {
                return row;
            }
            first = first ? first : row;
        }
    }
    return first;
}

const char *diag_library_title(struct diag *d, const char *name)
{
    struct gm_err err;
    struct wanted w = {.d = d, .cuda_major = -1};
    const struct kb_provide *row =
        kb_provides(d->m->kb, &w.provides, &err) < 0 ? NULL : diag_wanted_provide(&w, name);
    return row ? row->library : NULL;
}

/* "nvidia-cudnn-cu12" does not serve CUDA 13. */
static bool for_this_cuda(const struct wanted *w, const char *package)
{
    const char *suffix = w->cuda_major == 11 ? "-cu11" : w->cuda_major == 12 ? "-cu12" : "-cu13";
    return w->cuda_major < 0 || !strstr(package, "-cu1") || ends_with(package, suffix);
}

/* Whether this system's own repositories have the package. A tree that does not say what it is may
 * be one that has. */
static bool is_of_this_system(const struct wanted *w, const struct kb_provider *v)
{
    const char *id = v->systems.n ? host_system(w->d->m->root, w->d->a).id : NULL;
    bool found = !id;
    for (size_t i = 0; i < v->systems.n && !found; i++) {
        found = strcmp(v->systems.items[i], id) == 0;
    }
    return found;
}

const struct kb_provider *diag_wanted_provider(const struct wanted *w, const struct kb_provide *row,
                                               enum kb_manager manager)
{
    for (size_t i = 0; row && i < row->n_providers; i++) {
        const struct kb_provider *v = &row->providers[i];
        if (v->manager == manager && is_of_this_system(w, v) &&
            (manager != KB_MANAGER_PIP || for_this_cuda(w, v->package))) {
            return v;
        }
    }
    for (size_t i = 0; row && manager == KB_MANAGER_ZYPPER && i < row->n_providers; i++) {
        const struct kb_provider *v = &row->providers[i];
        if (v->manager == KB_MANAGER_DNF && v->repository) {
            return v; // the same package, in the vendor's repository for SUSE
        }
    }
    return NULL;
}

/* The set of versions in a requirement: ">=9,<10" of "nvidia-cudnn-cu12>=9,<10"; NULL: any. */
static const char *versions_of(const char *spec)
{
    const char *set = spec + strcspn(spec, "<>=!~");
    return *set ? set : NULL;
}

/* Whether the asker's process has it, or finds it where the asker looked. */
static bool diag_wanted_is_in_reach(const struct wanted *w, const char *name)
{
    struct diag *d = w->d;
    struct model_library *list = NULL;
    const struct model_process *p = w->x->process;
    if (p && p->ldso && ldso_find_object(p->ldso, name)) {
        return true;
    }
    for (size_t i = 0, n = model_libraries(d->m, name, &list); i < n; i++) {
        if (list[i].usable && diag_searched(d, w->x->request, path_dir(d->a, list[i].path))) {
            return true;
        }
    }
    return false;
}

static bool library_is_wanted(const struct wanted *w, const char *name)
{
    for (size_t i = 0; i < w->names.n; i++) {
        if (strcmp(w->names.items[i], name) == 0) {
            return true;
        }
    }
    return false;
}

void diag_wanted_follow(struct diag_finding *f, struct wanted *w)
{
    struct diag *d = w->d;
    for (size_t i = 0; d->m->env && i < w->names.n; i++) {
        const struct kb_provider *v =
            diag_wanted_provider(w, diag_wanted_provide(w, w->names.items[i]), KB_MANAGER_PIP);
        const struct kb_release *r =
            v ? diag_release_for(d, v->package, versions_of(diag_wanted_pinned(w, v)), 0) : NULL;
        diag_opened_list opened = {0};
        if (r) {
            opened = diag_opened_by(d->m, v->package, r->version);
        }
        for (size_t k = 0; k < opened.n; k++) {
            const struct diag_opened *o = &opened.items[k];
            if (!library_is_wanted(w, o->name) && !diag_wanted_is_in_reach(w, o->name)) {
                diag_evidence(d, f, "%s of %s %s opens %s (knowledge base, row %s)", o->by,
                              v->package, r->version, o->name, o->row);
                VEC_PUSH(d->a, &w->names, o->name);
            }
        }
    }
}
