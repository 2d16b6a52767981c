/* Another release of a package: it is advised only where it has a wheel for this Python and this
 * glibc. coming.c has what comes with it. */
#include <string.h>

#include "diag/internal.h"
#include "model/package.h"
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

/* What is asked of a release. */
struct wish {
    const char *package, *versions;
    int glibc_minor;
    const char *cuda, *torchaudio; // NULL: any
};

static bool wish_is_met(struct diag *d, const struct wish *w, const struct kb_release *r)
{
    int floor = r->glibc ? diag_glibc_minor(r->glibc) : 0;
    return strcmp(r->package, w->package) == 0 &&
           (!w->cuda || (r->cuda && strcmp(r->cuda, w->cuda) == 0)) &&
           model_version_fits(d->a, w->versions, r->version) && floor >= 0 &&
           (w->glibc_minor <= 0 || floor <= w->glibc_minor) && has_python(d, r) &&
           (!w->torchaudio ||
            model_version_fits(d->a, model_torchaudio_pair(d->a, r->version), w->torchaudio));
}

static const struct kb_release *newest_release(struct diag *d, const struct wish *w)
{
    struct kb_releases rows;
    struct gm_err err;
    const struct kb_release *best = NULL;
    if (kb_releases(d->m->kb, &rows, &err) < 0) {
        return NULL;
    }
    for (size_t i = 0; i < rows.n; i++) {
        const struct kb_release *r = &rows.rows[i];
        if (wish_is_met(d, w, r) && (!best || release_is_newer(r->version, best->version))) {
            best = r;
        }
    }
    return best;
}

const struct kb_release *diag_release_for(struct diag *d, const char *package, const char *versions,
                                          int glibc_minor)
{
    const struct wish w = {.package = package, .versions = versions, .glibc_minor = glibc_minor};
    return newest_release(d, &w);
}

const struct kb_release *diag_torch_for(struct diag *d, const char *cuda, const char *torchaudio)
{
    const struct wish w = {.package = "torch",
                           .glibc_minor = diag_glibc_here(d),
                           .cuda = cuda,
                           .torchaudio = torchaudio};
    return newest_release(d, &w);
}

int diag_glibc_here(const struct diag *d)
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
           diag_release_for(d, package, versions, diag_glibc_here(d));
}

/* ------------------------------------------------------------------ what it opens itself */

/* The pip package for the same CUDA as `package` that provides the library. */
static const struct kb_provider *provider_beside(const struct kb_provides *rows, const char *name,
                                                 const char *package)
{
    const char *suffix = strstr(package, "-cu1");
    for (size_t i = 0; i < rows->n; i++) {
        const struct kb_provide *row = &rows->rows[i];
        for (size_t k = 0; str_glob(row->soname, name) && k < row->n_providers; k++) {
            const struct kb_provider *v = &row->providers[k];
            const char *its = strstr(v->package, "-cu1");
            if (v->manager == KB_MANAGER_PIP && v->folder &&
                (!suffix || !its || strcmp(suffix, its) == 0)) {
                return v;
            }
        }
    }
    return NULL;
}

diag_opened_list diag_opened_by(struct model *m, const char *package, const char *version)
{
    diag_opened_list out = {0};
    struct kb_provides provides;
    struct gm_err err;
    if (kb_provides(m->kb, &provides, &err) < 0) {
        return out;
    }
    for (size_t i = 0; i < m->dlopens.n; i++) {
        const struct kb_dlopen *row = &m->dlopens.rows[i];
        if (!row->package || strcmp(row->package, package) != 0 || row->object_version ||
            !model_version_fits(m->arena, row->package_versions, version)) {
            continue;
        }
        for (size_t k = 0; k < row->n_requests; k++) {
            const struct kb_request *q = &row->requests[k];
            const char *name = q->names.n ? q->names.items[0] : "{";
            const struct kb_provider *v =
                !strchr(name, '{') ? provider_beside(&provides, name, package) : NULL;
            if (v && (q->required || q->warn) && strcmp(v->package, package) != 0) {
                VEC_PUSH(m->arena, &out,
                         (struct diag_opened){name, v->package, v->folder, row->objects.items[0],
                                              row->id});
            }
        }
    }
    return out;
}
