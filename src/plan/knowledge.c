/*
 * The machine for which packages are chosen, and which package and build serve a library or a
 * toolkit.
 */
#include <stdio.h>
#include <string.h>

#include "diag/finding.h"
#include "model/gpu.h"
#include "plan/knowledge.h"
#include "plan/knowledge_internal.h"
#include "py/dist.h"

/* ------------------------------------------------------------------ the machine */

static void look_at_python(struct plan_knowledge *k)
{
    const struct py_env *env = k->m->env;
    if (env->major < 0 || env->minor < 0) {
        return;
    }
    k->machine.python = arena_printf(k->a, "%d.%d", env->major, env->minor);
    k->machine.python_full =
        env->micro < 0 ? NULL : arena_printf(k->a, "%s.%d", k->machine.python, env->micro);
}

static void look_at_gpus(struct plan_knowledge *k, const struct host *h)
{
    for (size_t i = 0; i < h->gpus.n; i++) {
        const struct host_gpu *g = &h->gpus.items[i];
        struct plan_knowledge_gpu gpu = {.name = g->name};
        const char *value = g->compute_capability.value;
        if (g->vendor == HOST_NVIDIA && g->compute_capability.state == HOST_YES && value &&
            sscanf(value, "%u.%u", &gpu.major, &gpu.minor) == 2) {
            VEC_PUSH(k->a, &k->machine.gpus, gpu);
        }
    }
}

static void look_at_driver(struct plan_knowledge *k, const struct host *h)
{
    const struct host_fact *facts[] = {&h->nvidia.module, &h->nvidia.versions_match};
    for (size_t i = 0;
         i < sizeof facts / sizeof *facts && !k->machine.driver && !host_has_tegra_alone(h); i++) {
        struct py_version v;
        if (facts[i]->value && py_version_parse(str_of(facts[i]->value), &v)) {
            k->machine.driver = facts[i]->value;
            k->machine.driver_where = facts[i]->where;
        }
    }
}

static void knowledge_look(struct plan_knowledge *k)
{
    look_at_python(k);
    for (size_t i = 0; i < k->m->processes.n && !k->machine.glibc_minor; i++) {
        const struct ldso_process *p = k->m->processes.items[i]->ldso;
        k->machine.glibc_minor = p ? p->glibc_minor : 0;
    }
    if (k->m->host) {
        look_at_gpus(k, k->m->host);
        look_at_driver(k, k->m->host);
    }
}

bool plan_knowledge_open(struct model *m, struct plan_knowledge *ret)
{
    struct gm_err err;
    *ret = (struct plan_knowledge){.m = m, .a = m->arena};
    if (!m->env || kb_releases(m->kb, &ret->releases, &err) < 0 ||
        kb_builds(m->kb, &ret->builds, &err) < 0 || kb_compats(m->kb, &ret->compats, &err) < 0 ||
        kb_cudnns(m->kb, &ret->cudnns, &err) < 0 || kb_drivers(m->kb, &ret->drivers, &err) < 0 ||
        kb_provides(m->kb, &ret->provides, &err) < 0 ||
        kb_toolkits(m->kb, &ret->toolkits, &err) < 0) {
        return false;
    }
    knowledge_look(ret);
    return true;
}

/* ------------------------------------------------------------------ rows */

bool plan_knowledge_is_other_build(const struct plan_knowledge *k, const char *package)
{
    const struct py_dist *dist = py_env_by_dist(k->m->env, package);
    enum model_build build = dist ? model_build_of_dist(k->m, dist) : MODEL_BUILD_UNKNOWN;
    return build == MODEL_BUILD_CPU || build == MODEL_BUILD_HIP;
}

const struct kb_compat *plan_knowledge_compat(const struct plan_knowledge *k, const char *package,
                                              const char *version)
{
    for (size_t i = 0; i < k->compats.n && !plan_knowledge_is_other_build(k, package); i++) {
        const struct kb_compat *c = &k->compats.rows[i];
        if (strcmp(c->package, package) == 0 && model_version_fits(k->a, c->versions, version)) {
            return c;
        }
    }
    return NULL;
}

const struct kb_build *plan_knowledge_build(const struct plan_knowledge *k, const char *package,
                                            const char *version)
{
    for (size_t i = 0; i < k->builds.n && !plan_knowledge_is_other_build(k, package); i++) {
        const struct kb_build *b = &k->builds.rows[i];
        if (b->is_default && strcmp(b->package, package) == 0 &&
            model_version_fits(k->a, b->versions, version)) {
            return b;
        }
    }
    return NULL;
}

int plan_knowledge_cuda_major_of_package(const struct plan_knowledge *k, const char *package)
{
    for (size_t i = 0; i < k->provides.n; i++) {
        const struct kb_provide *row = &k->provides.rows[i];
        for (size_t n = 0; n < row->n_providers; n++) {
            if (row->providers[n].manager == KB_MANAGER_PIP &&
                strcmp(row->providers[n].package, package) == 0) {
                return row->cuda_major;
            }
        }
    }
    return -1;
}

const struct kb_provider *plan_knowledge_provider(const struct plan_knowledge *k,
                                                  const char *soname, int cuda_major,
                                                  const struct kb_provide **ret_row)
{
    const struct kb_provider *found = NULL;
    for (size_t i = 0; i < k->provides.n; i++) {
        const struct kb_provide *row = &k->provides.rows[i];
        bool other = cuda_major >= 0 && row->cuda_major >= 0 && row->cuda_major != cuda_major;
        for (size_t n = 0; n < row->n_providers && !other && str_glob(row->soname, soname); n++) {
            const struct kb_provider *v = &row->providers[n];
            if (v->manager == KB_MANAGER_PIP && found && strcmp(found->package, v->package) != 0 &&
                *ret_row != row) {
                return NULL;
            }
            if (v->manager == KB_MANAGER_PIP && !found) {
                found = v;
                *ret_row = row;
            }
        }
    }
    return found;
}

const char *plan_knowledge_folder(const struct plan_knowledge *k, const char *package)
{
    for (size_t i = 0; i < k->provides.n; i++) {
        const struct kb_provide *row = &k->provides.rows[i];
        for (size_t n = 0; n < row->n_providers; n++) {
            const struct kb_provider *v = &row->providers[n];
            if (v->manager == KB_MANAGER_PIP && v->folder && strcmp(v->package, package) == 0) {
                return v->folder;
            }
        }
    }
    return NULL;
}

/* "libcublas.so.12*" -> "libcublas.so.12", if the star is all there is to it. */
static const char *plain_name(struct plan_knowledge *k, const char *glob)
{
    size_t n = strcspn(glob, "*?[");
    return glob[n] == '*' && !glob[n + 1] && n && glob[n - 1] != '.' ? arena_strndup(k->a, glob, n)
                                                                     : NULL;
}

static bool lies_outside(struct plan_knowledge *k, const char *name)
{
    struct model_library *list = NULL;
    size_t n = model_libraries(k->m, name, &list);
    for (size_t i = 0; i < n; i++) {
        if (list[i].usable && !list[i].package && strcmp(list[i].name, name) == 0 &&
            !strstr(list[i].path, "/stubs/") && !diag_serves_other_arm(k->m, list[i].path)) {
            return true;
        }
    }
    return false;
}

bool plan_knowledge_served_otherwise(struct plan_knowledge *k, const char *package)
{
    for (size_t i = 0; i < k->provides.n; i++) {
        const struct kb_provide *row = &k->provides.rows[i];
        for (size_t n = 0; n < row->n_providers; n++) {
            const struct kb_provider *v = &row->providers[n];
            const char *name = v->manager == KB_MANAGER_PIP && strcmp(v->package, package) == 0
                                   ? plain_name(k, row->soname)
                                   : NULL;
            if (name && lies_outside(k, name)) {
                return true;
            }
        }
    }
    return false;
}

/* Seen in what torch pins: 2.5.1, for CUDA 12.4, pins them all to 12.4.*; the versions of the
 * other libraries, and of cuBLAS for CUDA 13, run on their own. */
bool plan_knowledge_numbered_as_cuda(const char *package)
{
    static const char *const names[] = {
        "nvidia-cublas-cu12",  "nvidia-cuda-nvrtc",        "nvidia-cuda-nvrtc-cu12",
        "nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12", "nvidia-nvjitlink-cu12",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], package) == 0) {
            return true;
        }
    }
    return false;
}

/* ------------------------------------------------------------------ the driver */

int plan_knowledge_cmp_versions(const char *a, const char *b)
{
    struct py_version x, y;
    return py_version_parse(str_of(a), &x) && py_version_parse(str_of(b), &y)
               ? py_version_cmp(&x, &y)
               : strcmp(a, b);
}

int plan_knowledge_toolkit_of_driver(const struct plan_knowledge *k, int cuda_major)
{
    int best = -1;
    for (size_t i = 0; i < k->drivers.n && k->machine.driver; i++) {
        const struct kb_driver *d = &k->drivers.rows[i];
        int major = 0, minor = 0;
        if (d->kind == KB_DRIVER_TOOLKIT && d->cuda && d->linux_min &&
            sscanf(d->cuda, "%d.%d", &major, &minor) == 2 && major == cuda_major && minor > best &&
            plan_knowledge_cmp_versions(d->linux_min, k->machine.driver) <= 0) {
            best = minor;
        }
    }
    return best;
}

static bool compiles_for(const struct kb_toolkit *t, const struct plan_knowledge_gpu *gpu)
{
    char name[32];
    (void)snprintf(name, sizeof name, "sm_%u%u", gpu->major, gpu->minor);
    for (size_t i = 0; i < t->sm.n; i++) {
        if (strcmp(t->sm.items[i], name) == 0) {
            return true;
        }
    }
    return false;
}

int plan_knowledge_toolkit_of_gpus(const struct plan_knowledge *k, int cuda_major)
{
    int least = -1;
    for (size_t i = 0; i < k->toolkits.n && k->machine.gpus.n; i++) {
        const struct kb_toolkit *t = &k->toolkits.rows[i];
        int major = 0, minor = 0;
        bool all = sscanf(t->cuda, "%d.%d", &major, &minor) == 2 && major == cuda_major;
        for (size_t g = 0; g < k->machine.gpus.n && all; g++) {
            all = compiles_for(t, &k->machine.gpus.items[g]);
        }
        least = all && (least < 0 || minor < least) ? minor : least;
    }
    return least;
}
