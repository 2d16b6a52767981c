/* Another release of a package, and what has to come with it: a release is advised only where it
 * has a wheel for this Python and this glibc, and together with what it loads and does not bring.
 */
#include <string.h>

#include "diag/internal.h"
#include "py/dist.h"

int diag_glibc_minor(const char *text)
{
    uint64_t minor = 0;
    return text && starts_with(text, "2.") && str_u64(str_of(text + 2), &minor) && minor < 1000
               ? (int)minor
               : -1;
}

static bool has_python(struct diag *d, const struct kb_release *r)
{
    const struct py_env *env = d->m->env;
    const char *own = arena_printf(d->a, "%d.%d", env->major, env->minor);
    for (size_t i = 0; i < r->pythons.n; i++) {
        if (strcmp(r->pythons.items[i], own) == 0) {
            return true;
        }
    }
    return env->major < 0;
}

static bool release_is_newer(const char *a, const char *b)
{
    struct py_version x, y;
    return py_version_parse(str_of(a), &x) && py_version_parse(str_of(b), &y) &&
           py_version_cmp(&x, &y) > 0;
}

const struct kb_release *diag_release_for(struct diag *d, const char *package, const char *versions,
                                          int glibc_minor)
{
    struct kb_releases rows;
    struct gm_err err;
    const struct kb_release *best = NULL;
    if (kb_releases(d->m->kb, &rows, &err) < 0) {
        return NULL;
    }
    for (size_t i = 0; i < rows.n; i++) {
        const struct kb_release *r = &rows.rows[i];
        int floor = r->glibc ? diag_glibc_minor(r->glibc) : 0;
        if (strcmp(r->package, package) == 0 && model_version_fits(d->a, versions, r->version) &&
            floor >= 0 && (glibc_minor <= 0 || floor <= glibc_minor) && has_python(d, r) &&
            (!best || release_is_newer(r->version, best->version))) {
            best = r;
        }
    }
    return best;
}

static int glibc_here(const struct diag *d)
{
    for (size_t i = 0; i < d->m->processes.n; i++) {
        const struct ldso_process *l = d->m->processes.items[i]->ldso;
        if (l && l->glibc_minor > 0) {
            return l->glibc_minor;
        }
    }
    return 0;
}

static bool versions_are_listed(struct diag *d, const char *package, const char *versions)
{
    struct kb_releases rows;
    struct gm_err err;
    if (kb_releases(d->m->kb, &rows, &err) < 0) {
        return false;
    }
    for (size_t i = 0; i < rows.n; i++) {
        if (strcmp(rows.rows[i].package, package) == 0 &&
            model_version_fits(d->a, versions, rows.rows[i].version)) {
            return true;
        }
    }
    return false;
}

bool diag_can_install(struct diag *d, const char *package, const char *versions)
{
    return !d->m->env || !versions_are_listed(d, package, versions) ||
           diag_release_for(d, package, versions, glibc_here(d));
}

/* ------------------------------------------------------------------ what has to come with it */

static bool is_brought_by(const struct kb_provide *row, const char *package)
{
    for (size_t i = 0; i < row->n_providers; i++) {
        if (row->providers[i].manager == KB_MANAGER_PIP &&
            strcmp(row->providers[i].package, package) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether a library of the package lies on the machine outside of packages: from apt, a toolkit. */
static bool is_served(struct diag *d, const char *package)
{
    struct kb_provides rows;
    struct gm_err err;
    if (kb_provides(d->m->kb, &rows, &err) < 0) {
        return false;
    }
    for (size_t i = 0; i < rows.n; i++) {
        struct model_library *list = NULL;
        size_t n = is_brought_by(&rows.rows[i], package)
                       ? model_libraries(d->m, rows.rows[i].soname, &list)
                       : 0;
        for (size_t k = 0; k < n; k++) {
            if (list[k].usable && !list[k].package && str_glob(rows.rows[i].soname, list[k].name) &&
                !strstr(list[k].path, "/stubs/")) {
                return true;
            }
        }
    }
    return false;
}

/* Whether its metadata ask for the package: an installer brings that by itself. */
static bool is_declared(const struct kb_release *r, const char *package)
{
    for (size_t i = 0; i < r->n_needs; i++) {
        if (!r->needs[i].extra && strcmp(r->needs[i].package, package) == 0) {
            return true;
        }
    }
    return false;
}

static bool has_installed(struct diag *d, const struct kb_need *need)
{
    const struct py_dist *dist = py_env_by_dist(d->m->env, need->package);
    return dist && dist->version && model_version_fits(d->a, need->versions, dist->version);
}

const char *diag_release_words(struct diag *d, const char *package, const char *versions)
{
    const char *words = diag_quote(d, arena_printf(d->a, "%s%s", package, versions));
    const struct kb_release *r =
        d->m->env ? diag_release_for(d, package, versions, glibc_here(d)) : NULL;
    struct kb_compats rows;
    struct gm_err err;
    if (!r || kb_compats(d->m->kb, &rows, &err) < 0) {
        return words;
    }
    for (size_t i = 0; i < rows.n; i++) {
        const struct kb_compat *c = &rows.rows[i];
        bool it =
            strcmp(c->package, package) == 0 && model_version_fits(d->a, c->versions, r->version);
        for (size_t k = 0; it && k < c->n_needs; k++) {
            const struct kb_need *need = &c->needs[k];
            if (!is_declared(r, need->package) && !has_installed(d, need) &&
                !is_served(d, need->package)) {
                const char *spec =
                    arena_printf(d->a, "%s%s", need->package, need->versions ? need->versions : "");
                words = arena_printf(d->a, "%s %s", words, diag_quote(d, spec));
            }
        }
    }
    return words;
}
