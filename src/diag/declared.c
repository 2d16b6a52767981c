/* What installed packages declare that they need: Requires-Dist of their metadata. */
#include "diag/internal.h"
#include "model/requires.h"
#include "py/dist.h"

bool diag_requirement_at(struct diag *d, const struct py_metadata *meta, size_t i,
                         const struct py_marker_env *markers, struct py_requirement *ret)
{
    struct gm_err err;
    return py_requirement_parse(d->a, meta->requires_dist[i], ret, &err) == 0 &&
           py_marker_eval(d->a, ret->marker, markers) == PY_YES;
}

const struct py_metadata *diag_metadata_of(struct diag *d, const char *package)
{
    struct py_dist *dist = d->m->env ? py_env_by_dist(d->m->env, package) : NULL;
    return dist ? py_dist_metadata(d->m->env, dist) : NULL;
}

const char *diag_specifiers_text(struct diag *d, const struct py_requirement *q)
{
    static const char *const ops[] = {
        [PY_OP_EQ] = "==", [PY_OP_NE] = "!=", [PY_OP_COMPATIBLE] = "~=", [PY_OP_LE] = "<=",
        [PY_OP_LT] = "<",  [PY_OP_GE] = ">=", [PY_OP_GT] = ">",          [PY_OP_IDENTICAL] = "==="};
    const char *text = "";
    for (size_t i = 0; i < q->specifiers.n; i++) {
        const struct py_specifier *s = &q->specifiers.items[i];
        text =
            arena_printf(d->a, "%s%s%s" STR_FMT, text, i ? "," : "", ops[s->op], STR_ARG(s->text));
    }
    return text;
}

bool diag_requirement(struct diag *d, const char *package, const char *pattern,
                      const char **ret_name, const char **ret_specifiers)
{
    const struct py_metadata *meta = diag_metadata_of(d, package);
    struct py_marker_env markers = d->m->env ? model_markers(d->m) : (struct py_marker_env){0};
    struct py_requirement q;
    for (size_t i = 0; meta && i < meta->n_requires_dist; i++) {
        if (diag_requirement_at(d, meta, i, &markers, &q) &&
            str_glob(pattern, py_name_normal(d->a, q.name))) {
            *ret_name = py_name_normal(d->a, q.name);
            *ret_specifiers = diag_specifiers_text(d, &q);
            return true;
        }
    }
    return false;
}

const struct py_dist *diag_pinned_by(struct diag *d, const char *name, const char *version,
                                     const char **ret_specifiers)
{
    const char *found = NULL;
    for (size_t i = 0; d->m->env && i < d->m->env->n_dists; i++) {
        const struct py_dist *dist = &d->m->env->dists[i];
        if (!diag_is_torch_family(dist->name_normal) &&
            diag_requirement(d, dist->name, name, &found, ret_specifiers) &&
            !model_version_fits(d->a, *ret_specifiers, version)) {
            return dist;
        }
    }
    return NULL;
}

const struct py_dist *diag_required_by(struct diag *d, const char *name)
{
    const char *found = NULL, *specifiers = NULL;
    for (size_t i = 0; i < d->m->known.n; i++) {
        if (diag_requirement(d, d->m->known.items[i]->name, name, &found, &specifiers)) {
            return d->m->known.items[i];
        }
    }
    return NULL;
}
