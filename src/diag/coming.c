/* The command that installs a release, with what that release loads and does not bring, and with
 * the folders in which nobody would look for that. */
#include <string.h>

#include "diag/internal.h"
#include "py/dist.h"

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
static bool package_is_served(struct diag *d, const char *package)
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

/* ------------------------------------------------------------------ and be findable */

/* Whether importing this release opens libraries of that folder by their paths. */
static bool release_opens_from(const struct diag *d, const struct kb_release *r, const char *folder)
{
    for (size_t i = 0; i < d->m->imports.n; i++) {
        const struct kb_import *row = &d->m->imports.rows[i];
        if (strcmp(row->package, r->package) != 0 ||
            !model_version_fits(d->a, row->versions, r->version)) {
            continue;
        }
        for (size_t k = 0; k < row->n_steps; k++) {
            for (size_t n = 0; n < row->steps[k].n_libs; n++) {
                const struct kb_strs *list = &row->steps[k].libs[n].folders;
                for (size_t j = 0; j < list->n; j++) {
                    if (strcmp(list->items[j], folder) == 0) {
                        return true;
                    }
                }
            }
        }
        return false;
    }
    return false;
}

static const char *package_folder(const struct diag *d, const char *package)
{
    struct kb_provides rows;
    struct gm_err err;
    if (kb_provides(d->m->kb, &rows, &err) < 0) {
        return NULL;
    }
    for (size_t i = 0; i < rows.n; i++) {
        for (size_t k = 0; k < rows.rows[i].n_providers; k++) {
            const struct kb_provider *v = &rows.rows[i].providers[k];
            if (v->manager == KB_MANAGER_PIP && v->folder && strcmp(v->package, package) == 0) {
                return v->folder;
            }
        }
    }
    return NULL;
}

/* What an installer is asked for, and what has to be named in LD_LIBRARY_PATH. */
struct coming {
    const char *words, *folders;
};

/* Below the folder in which pip installs. */
static const char *site_folder(const struct diag *d, const char *below)
{
    const char *folder = below ? diag_pip_folder(d->m, NULL) : NULL;
    return folder ? path_join(d->a, folder, below) : NULL;
}

static void name_folder(struct diag *d, const struct kb_release *r, const char *package,
                        struct coming *c)
{
    const char *below = package_folder(d, package), *folder = site_folder(d, below);
    const char *now = diag_getenv(d, "LD_LIBRARY_PATH");
    const char *fence = arena_printf(d->a, ":%s:%s:", now ? now : "", c->folders);
    if (folder && !release_opens_from(d, r, below) &&
        !strstr(fence, arena_printf(d->a, ":%s:", folder))) {
        c->folders = arena_printf(d->a, "%s%s%s", c->folders, *c->folders ? ":" : "", folder);
    }
}

/* A release that bundles the main cuDNN library needs the others of that very version. */
static const char *versions_beside(struct diag *d, const struct kb_compat *c,
                                   const struct kb_need *need)
{
    size_t dots = 0;
    for (const char *s = c->cudnn; s && *s; s++) {
        dots += *s == '.';
    }
    return strstr(need->package, "cudnn") && dots >= 2
               ? arena_printf(d->a, dots == 2 ? "==%s.*" : "==%s", c->cudnn)
               : need->versions;
}

/* A library that the release opens; and those that this one opens, which come with it. */
static void coming_add(struct diag *d, const struct kb_release *r, const struct kb_compat *row,
                       const struct kb_need *need, struct coming *c)
{
    const char *versions = versions_beside(d, row, need), *set = versions ? versions : "";
    c->words = arena_printf(d->a, "%s %s", c->words,
                            diag_quote(d, arena_printf(d->a, "%s%s", need->package, set)));
    name_folder(d, r, need->package, c);
    const struct kb_release *its = diag_release_for(d, need->package, versions, 0);
    diag_opened_list opened = {0};
    if (its) {
        opened = diag_opened_by(d->m, need->package, its->version);
    }
    for (size_t i = 0; i < opened.n; i++) {
        if (!package_is_served(d, opened.items[i].package)) {
            name_folder(d, r, opened.items[i].package, c);
        }
    }
}

static struct coming coming_with(struct diag *d, const char *package, const char *versions)
{
    struct coming out = {diag_quote(d, arena_printf(d->a, "%s%s", package, versions)), ""};
    const struct kb_release *r =
        d->m->env ? diag_release_for(d, package, versions, diag_glibc_here(d)) : NULL;
    if (r && strcmp(package, "torch") == 0) {
        out.words = arena_printf(d->a, "%s%s", out.words, diag_torch_others(d, r->version));
    }
    struct kb_compats rows;
    struct gm_err err;
    if (!r || kb_compats(d->m->kb, &rows, &err) < 0) {
        return out;
    }
    for (size_t i = 0; i < rows.n; i++) {
        const struct kb_compat *c = &rows.rows[i];
        bool it =
            strcmp(c->package, package) == 0 && model_version_fits(d->a, c->versions, r->version);
        for (size_t k = 0; it && k < c->n_needs; k++) {
            const struct kb_need *need = &c->needs[k];
            if (!is_declared(r, need->package) && !has_installed(d, need) &&
                !package_is_served(d, need->package)) {
                coming_add(d, r, c, need, &out);
            }
        }
    }
    return out;
}

const char *diag_release_command(struct diag *d, bool here, const char *options,
                                 const char *package, const char *versions)
{
    struct coming c = coming_with(d, package, versions);
    const char *words = arena_printf(d->a, "%s%s", options, c.words);
    const char *command = here ? diag_pip_here(d, words) : diag_pip(d, words);
    return *c.folders ? diag_findable_command(d, command, c.folders) : command;
}
