/* Repairs for a library that is not found. A search path is offered only after the same script was
 * replayed in the model with it and the request was served. */
#include <string.h>

#include "diag/internal.h"
#include "py/dist.h"

static const char *python_of(const struct diag *d)
{
    return d->m->env && d->m->env->executable ? d->m->env->executable : "python3";
}

static const char *current_path(const struct diag *d)
{
    for (size_t i = 0; i < d->m->config.n_env; i++) {
        if (starts_with(d->m->config.env[i], "LD_LIBRARY_PATH=")) {
            return d->m->config.env[i] + strlen("LD_LIBRARY_PATH=");
        }
    }
    return "";
}

/* ------------------------------------------------------------------ search path */

/* The folders in which the process's missing libraries lie, joined by colons; "" if any of them is
 * nowhere to be found. */
static const char *folders_for(struct diag *d, const struct model_process *p)
{
    struct diag_failure *list = NULL;
    size_t n = diag_failures(d, p, &list);
    const char *path = "";
    for (size_t i = 0; i < n; i++) {
        struct model_library *found = NULL;
        size_t n_found = model_libraries(d->m, list[i].name, &found);
        for (size_t k = 0; k < n_found; k++) {
            const char *dir = path_dir(d->a, found[k].path);
            if (found[k].usable && strcmp(found[k].name, list[i].name) == 0) {
                if (!strstr(arena_printf(d->a, ":%s:", path), arena_printf(d->a, ":%s:", dir))) {
                    path = arena_printf(d->a, "%s%s%s", path, *path ? ":" : "", dir);
                }
                break;
            }
        }
    }
    return path;
}

/* Whether the script has no failure over one of these names when it runs with that search path.
 * A failure that only then comes up is searched for as well, a few times over. */
static const char *path_that_serves(struct diag *d, const struct diag_failure *x)
{
    const struct model_process *p = x->process;
    const char *path = folders_for(d, p);
    for (int tries = 0; tries < 4 && *path; tries++) {
        VEC(const char *) env = {0};
        for (size_t i = 0; i < d->m->config.n_env; i++) {
            if (!starts_with(d->m->config.env[i], "LD_LIBRARY_PATH=")) {
                VEC_PUSH(d->a, &env, d->m->config.env[i]);
            }
        }
        const char *rest = current_path(d);
        VEC_PUSH(d->a, &env, arena_printf(d->a, "LD_LIBRARY_PATH=%s%s%s", path, *rest ? ":" : "", rest));
        const struct model_process *tried =
            model_try_script(d->m, p->script, p->n_script, env.items, env.n);
        struct diag_failure *left = NULL;
        size_t n = diag_failures(d, tried, &left);
        bool served = true;
        for (size_t i = 0; i < n; i++) {
            served &= strcmp(left[i].name, x->name) != 0 && !left[i].defect;
        }
        const char *more = n ? folders_for(d, tried) : "";
        if (n == 0 || (served && !*more)) {
            return served ? path : "";
        }
        const char *joined = path;
        if (*more && !strstr(path, more)) {
            joined = arena_printf(d->a, "%s:%s", path, more);
        }
        if (strcmp(joined, path) == 0) {
            return served ? path : "";
        }
        path = joined;
    }
    return "";
}

static void repair_by_path(struct diag *d, struct diag_finding *f, const struct diag_failure *x)
{
    if (!x->process->ldso || x->process->ldso->secure || x->process->n_script == 0) {
        return;
    }
    const char *path = path_that_serves(d, x);
    if (*path) {
        diag_repair(d, f, DIAG_REPAIR_ENV,
                    arena_printf(d->a, "export LD_LIBRARY_PATH=%s${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}",
                                 path),
                    "Set LD_LIBRARY_PATH before the program starts; replayed in the model, %s is then "
                    "found.", x->name);
    }
}

/* ------------------------------------------------------------------ packages */

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

/* A later release of the package that was built without cuDNN. */
static void repair_by_release(struct diag *d, struct diag_finding *f, const char *package)
{
    const struct kb_compat *now = compat_of(d, package);
    struct kb_compats compats;
    struct gm_err err;
    if (!now || !now->cudnn || kb_compats(d->m->kb, &compats, &err) < 0) {
        return;
    }
    for (size_t i = 0; i < compats.n; i++) {
        const struct kb_compat *c = &compats.rows[i];
        bool later = starts_with(c->versions, ">=") && !strchr(c->versions, ',');
        if (strcmp(c->package, now->package) == 0 && !c->cudnn && later &&
            c->cuda_major == now->cuda_major) {
            diag_repair(d, f, DIAG_REPAIR_PACKAGE,
                        arena_printf(d->a, "%s -m pip install '%s%s'", python_of(d), c->package,
                                     c->versions),
                        "Update %s: releases %s need no cuDNN.", c->package, c->versions);
        }
    }
}

/* The CUDA major version that the asking package was built for; -1 if not known. */
static int cuda_major(struct diag *d, const char *package)
{
    const struct kb_compat *c = compat_of(d, package);
    return c ? c->cuda_major : -1;
}

/* "nvidia-cudnn-cu12==9.1.0.70" where a row of the asking package or the version of the library
 * that asks says which, else the bare name. */
static const char *pinned(struct diag *d, const struct diag_failure *x, const char *name)
{
    const char *package = x->attempt ? x->attempt->package : NULL;
    const struct kb_compat *c = compat_of(d, package);
    bool cudnn = strstr(name, "cudnn") != NULL;
    if (cudnn && c && c->cudnn && strchr(c->cudnn, '.')) {
        size_t dots = 0;
        for (const char *s = c->cudnn; *s; s++) {
            dots += *s == '.';
        }
        return arena_printf(d->a, dots >= 3 ? "%s==%s" : "%s==%s.*", name, c->cudnn);
    }
    for (size_t i = 0; c && i < c->n_needs; i++) {
        if (strcmp(c->needs[i].package, name) == 0 && c->needs[i].versions) {
            return arena_printf(d->a, "%s%s", name, c->needs[i].versions);
        }
    }
    return name;
}

/* Whether a package name may serve a program of that CUDA major: "-cu12" at its end binds it to one,
 * a name without such an end is bound to none. */
static bool ends_with_cuda(const char *package, int major)
{
    size_t n = strlen(package);
    bool bound = n > 5 && starts_with(package + n - 5, "-cu1");
    return major <= 0 || !bound || package[n - 1] == '0' + major % 10;
}

/* The row for a library; of several (libcurand.so.10 serves CUDA 11, 12 and 13) the one of the CUDA
 * that the asking package was built for. */
static const struct kb_provide *provide_of(struct diag *d, const char *name, int major)
{
    struct kb_provides provides;
    struct gm_err err;
    const struct kb_provide *first = NULL;
    if (kb_provides(d->m->kb, &provides, &err) < 0) {
        return NULL;
    }
    for (size_t i = 0; i < provides.n; i++) {
        const struct kb_provide *row = &provides.rows[i];
        if (str_glob(row->soname, name)) {
            if (row->cuda_major == major) {
                return row;
            }
            first = first ? first : row;
        }
    }
    return first;
}

static bool uses_manager(const struct diag *d, enum kb_manager manager)
{
    if (manager == KB_MANAGER_PIP) {
        return d->m->env != NULL;
    }
    if (manager == KB_MANAGER_CONDA) {
        return d->m->env && d->m->env->kind == PY_ENV_CONDA;
    }
    return d->m->env == NULL;
}

static void repair_by_package(struct diag *d, struct diag_finding *f, const struct diag_failure *x)
{
    int major = cuda_major(d, x->attempt ? x->attempt->package : NULL);
    const struct kb_provide *row = provide_of(d, x->name, major);
    bool said[KB_MANAGER_DRIVER + 1] = {false};
    for (size_t i = 0; row && i < row->n_providers; i++) {
        const struct kb_provider *v = &row->providers[i];
        if (v->manager == KB_MANAGER_DRIVER) {
            diag_repair(d, f, DIAG_REPAIR_TEXT, NULL, "%s comes with the driver: install that.",
                        x->name);
            continue;
        }
        if (said[v->manager] || !uses_manager(d, v->manager) ||
            (v->manager == KB_MANAGER_PIP && !ends_with_cuda(v->package, major))) {
            continue;
        }
        said[v->manager] = true;
        const char *spec =
            v->manager == KB_MANAGER_PIP ? pinned(d, x, v->package) : v->package;
        static const char *const forms[] = {
            [KB_MANAGER_PIP] = "%s -m pip install '%s'",
            [KB_MANAGER_APT] = "%sapt-get install %s",
            [KB_MANAGER_DNF] = "%sdnf install %s",
            [KB_MANAGER_CONDA] = "%sconda install -c conda-forge %s",
        };
        const char *command =
            arena_printf(d->a, forms[v->manager], v->manager == KB_MANAGER_PIP ? python_of(d) : "", spec);
        bool own_folder = v->manager == KB_MANAGER_PIP && v->folder && x->process->n_script;
        diag_repair(d, f, DIAG_REPAIR_PACKAGE, command,
                    own_folder ? "Install %s, which provides %s in %s below site-packages; where the "
                                 "loader does not look there, LD_LIBRARY_PATH has to name that folder."
                               : "Install %s, which provides %s%s.",
                    spec, x->name, own_folder ? v->folder : "");
    }
    if (!row) {
        diag_repair(d, f, DIAG_REPAIR_TEXT, NULL, "Install the package that provides %s.", x->name);
    }
}

/* ------------------------------------------------------------------ order of imports */

static bool imports(const struct model_process *p, const char *line)
{
    for (size_t i = 0; i < p->n_script; i++) {
        if (strcmp(p->script[i], line) == 0) {
            return true;
        }
    }
    return false;
}

/* A pair of imports that serves the name because another package comes first. */
static void repair_by_order(struct diag *d, struct diag_finding *f, const struct diag_failure *x)
{
    const char *package = x->attempt ? x->attempt->package : NULL;
    const char *line = arena_printf(d->a, "use %s", package ? package : "");
    for (size_t i = 0; package && i < d->m->processes.n; i++) {
        const struct model_process *p = d->m->processes.items[i];
        struct diag_failure *none = NULL;
        if (p != x->process && p->n_script == 4 && imports(p, line) &&
            diag_failures(d, p, &none) == 0) {
            diag_repair(d, f, DIAG_REPAIR_TEXT, NULL,
                        "Put \"%s\" before \"%s\": what it has loaded serves both.", p->script[0],
                        p->script[1]);
            return;
        }
    }
}

void diag_repair_missing(struct diag *d, struct diag_finding *f, const struct diag_failure *x,
                         const struct model_library *elsewhere)
{
    const char *package = x->attempt ? x->attempt->package : NULL;
    repair_by_path(d, f, x);
    repair_by_order(d, f, x);
    if (strstr(x->name, "cudnn")) {
        repair_by_release(d, f, package);
    }
    if (!elsewhere) {
        repair_by_package(d, f, x);
    }
    if (f->repairs.n == 0 && elsewhere) {
        diag_repair(d, f, DIAG_REPAIR_TEXT, NULL,
                    "Make %s findable for the program: its folder in LD_LIBRARY_PATH at start.",
                    elsewhere->path);
    }
    if (!elsewhere && x->process->n_script && f->repairs.n && strstr(x->name, "cudnn")) {
        diag_repair(d, f, DIAG_REPAIR_ENV, NULL,
                    "With a cuDNN installed, its folder must be in LD_LIBRARY_PATH at start.");
    }
}
