/*
 * Packages that have another name for another CUDA: CuPy's own, which bring the toolkit's libraries
 * as an extra (metadata of 14.2.0; docs.cupy.dev, "Installation"), and JAX's plug-ins, which are
 * extras of jax (docs.jax.dev, "Installation").
 */
#include <stdlib.h>
#include <string.h>

#include "diag/internal.h"
#include "kb/serves.h"
#include "py/dist.h"

/* ------------------------------------------------------------------ two at once */

/* "libcublas" of libcublas.so.13, as its length; 0: it has no version in its name. */
static size_t stem_length(const struct ldso_object *o)
{
    const char *at = o->soname ? strstr(o->soname, ".so.") : NULL;
    return at ? (size_t)(at - o->soname) : 0;
}

static bool has_twin(const struct model_process *p, const struct ldso_object *o)
{
    size_t n = stem_length(o);
    bool has = false;
    for (size_t i = 0; n && i < p->ldso->objects.n && !has; i++) {
        const struct ldso_object *x = p->ldso->objects.items[i];
        has = x != o && stem_length(x) == n && strncmp(x->soname, o->soname, n) == 0 &&
              strcmp(x->soname, o->soname) != 0;
    }
    return has;
}

/* Whose dlopen is ctypes': its module, or where that is built in the interpreter. */
static bool is_python(const struct model_process *p, const struct ldso_object *o)
{
    const char *name = path_base(o->path);
    return o == p->ldso->main || starts_with(name, "libpython") || starts_with(name, "_ctypes.");
}

/* Libraries of one folder are of one CUDA: what one of them asks of the other is no use by itself.
 */
static bool is_asked_for(struct arena *a, const struct model_process *p,
                         const struct ldso_object *o)
{
    const char *folder = path_dir(a, o->path);
    bool asked = false;
    for (size_t i = 0; i < p->ldso->requests.n && !asked; i++) {
        const struct ldso_request *r = p->ldso->requests.items[i];
        asked = r->object == o && r->caller && !is_python(p, r->caller) &&
                strcmp(path_dir(a, r->caller->path), folder) != 0;
    }
    return asked;
}

bool diag_is_idle_twin(struct diag *d, const struct model_process *p, const struct ldso_object *o)
{
    return has_twin(p, o) && !is_asked_for(d->a, p, o);
}

/* ------------------------------------------------------------------ other packages */

enum { OTHER_CUDA_MAJOR = 12, OTHER_CAPABILITY_MIN = 52 }; // jax: "GPUs must be SM version 5.2"

/* CuPy asks cuda.pathfinder for its libraries, which takes those in nvidia/cu13/lib before those of
 * CUDA 12: they have to go, too, and the other has no use where something else needs them. */
static const struct {
    const char *dist;    // what an import of it brings
    const char *removed; // with what comes with it
    const char *instead; // as pip takes it
    unsigned cuda;
    bool with_libraries;
} names[] = {
    {"cupy-cuda13x", "cupy-cuda13x", "cupy-cuda12x[ctk]", 13, true},
    {"jax-cuda13-plugin", "jax-cuda13-plugin jax-cuda13-pjrt", "jax[cuda12]", 13, false},
};

typedef VEC(const char *) package_list;

static bool is_listed(const package_list *list, const char *name)
{
    bool found = false;
    for (size_t i = 0; i < list->n && !found; i++) {
        found = strcmp(list->items[i], name) == 0;
    }
    return found;
}

static void list_installed(struct diag *d, package_list *list, const char *package)
{
    const struct py_dist *dist = py_env_by_dist(d->m->env, package);
    if (dist && !is_listed(list, dist->name_normal)) {
        VEC_PUSH(d->a, list, dist->name_normal);
    }
}

/* The installed packages of this CUDA's libraries, by pip's names. */
static package_list libraries_of(struct diag *d, unsigned cuda)
{
    package_list list = {0};
    struct kb_provides provides;
    struct gm_err err;
    bool known = kb_provides(d->m->kb, &provides, &err) == 0;
    list_installed(d, &list, "cuda-toolkit");
    for (size_t i = 0; known && i < provides.n; i++) {
        const struct kb_provide *row = &provides.rows[i];
        for (size_t k = 0; row->cuda_major == (int)cuda && k < row->n_providers; k++) {
            if (row->providers[k].manager == KB_MANAGER_PIP) {
                list_installed(d, &list, row->providers[k].package);
            }
        }
    }
    return list;
}

/* Whether a package that is not in the list, other than `package`, requires one of it. */
static bool is_needed_elsewhere(struct diag *d, const package_list *list, const char *package)
{
    const char *found = NULL, *specifiers = NULL;
    bool needed = false;
    for (size_t i = 0; i < d->m->env->n_dists && !needed; i++) {
        const struct py_dist *dist = &d->m->env->dists[i];
        bool asked = !is_listed(list, dist->name_normal) && strcmp(dist->name_normal, package) != 0;
        for (size_t k = 0; asked && k < list->n && !needed; k++) {
            needed = diag_requirement(d, dist->name, list->items[k], &found, &specifiers);
        }
    }
    return needed;
}

/* The places of `names` whose packages use this CUDA in a program that is judged. */
static bool is_used(const struct diag *d, size_t at, unsigned cuda)
{
    const struct py_dist *dist =
        d->m->env && names[at].cuda == cuda ? py_env_by_dist(d->m->env, names[at].dist) : NULL;
    bool used = false;
    for (size_t i = 0; dist && i < d->m->processes.n && !used; i++) {
        const struct model_process *p = d->m->processes.items[i];
        for (size_t k = 0; k < p->imported.n && !used; k++) {
            used = strcmp(p->imported.items[k], dist->name) == 0;
        }
    }
    return used;
}

/* Whether the driver and every GPU of NVIDIA serve CUDA 12, as far as known. */
static bool other_cuda_serves(struct diag *d)
{
    struct kb_drivers drivers;
    struct gm_err err;
    const char *driver = diag_driver(d);
    const struct host_gpu *g = NULL;
    const struct kb_driver *least =
        kb_drivers(d->m->kb, &drivers, &err) == 0 ? kb_driver_floor(&drivers, "12") : NULL;
    bool serves = least && driver && host_version_cmp(driver, least->linux_min) >= 0;
    while (serves && (g = diag_next_gpu(d, HOST_NVIDIA, g)) != NULL) {
        unsigned major = 0, minor = 0;
        serves = diag_capability(g, &major, &minor) && major * 10 + minor >= OTHER_CAPABILITY_MIN;
    }
    return serves;
}

/* The packages that go with those of a row; NULL: something else needs them. */
static const char *also_removed(struct diag *d, size_t at)
{
    const char *text = names[at].removed;
    package_list list =
        names[at].with_libraries ? libraries_of(d, names[at].cuda) : (package_list){0};
    if (is_needed_elsewhere(d, &list, names[at].dist)) {
        return NULL;
    }
    for (size_t i = 0; i < list.n; i++) {
        text = arena_printf(d->a, "%s %s", text, list.items[i]);
    }
    return text;
}

bool diag_repair_other_cuda(struct diag *d, struct diag_finding *f, unsigned cuda, const char *why)
{
    const char *removed = "", *packages = "", *words = "";
    for (size_t i = 0; i < sizeof names / sizeof *names && removed; i++) {
        if (is_used(d, i, cuda)) {
            const char *space = *removed ? " " : "", *more = also_removed(d, i);
            removed = more ? arena_printf(d->a, "%s%s%s", removed, space, more) : NULL;
            packages =
                arena_printf(d->a, "%s%s%s", packages, space, diag_quote(d, names[i].instead));
            words = arena_printf(d->a, "%s%s%s", words, *words ? " and " : "", names[i].instead);
        }
    }
    if (!removed || !*removed || !other_cuda_serves(d)) {
        return false;
    }
    diag_repair(
        d, f, DIAG_REPAIR_PACKAGE,
        arena_printf(d->a, "%s && %s", diag_pip_remove(d, removed), diag_pip_here(d, packages)),
        "Install %s in place of what is for CUDA %u: CUDA %d %s.", words, cuda, OTHER_CUDA_MAJOR,
        why);
    return true;
}
