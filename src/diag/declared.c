/* What installed packages declare that they need: Requires-Dist of their metadata. */
#include <string.h>

#include "diag/internal.h"
#include "model/requires.h"
#include "py/dist.h"
#include "py/module.h"

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

/* ------------------------------------------------------------------ what is not there */

/* The module of a distribution: kb/ knows those that are called otherwise. */
const char *diag_module_of(struct diag *d, const char *package)
{
    for (size_t i = 0; i < d->m->imports.n; i++) {
        if (strcmp(d->m->imports.rows[i].package, package) == 0) {
            return d->m->imports.rows[i].module;
        }
    }
    char *name = arena_strdup(d->a, package);
    for (char *c = name; *c; c++) {
        *c = *c == '-' ? '_' : *c;
    }
    return name;
}

bool diag_package_is_there(struct diag *d, const char *package)
{
    struct py_module module;
    if (py_env_by_dist(d->m->env, package)) {
        return true;
    }
    py_module_find(d->m->env, diag_module_of(d, package), &module);
    return module.kind != PY_MODULE_NONE;
}

/* "cuda-toolkit[cublas,cudart]==13.0.2": without its extras it would bring nothing. */
static const char *requirement_text(struct diag *d, const struct py_requirement *q,
                                    const char *name)
{
    const char *text = name;
    for (size_t i = 0; i < q->n_extras; i++) {
        text = arena_printf(d->a, "%s%s" STR_FMT, text, i ? "," : "[", STR_ARG(q->extras[i]));
    }
    return arena_printf(d->a, "%s%s%s", text, q->n_extras ? "]" : "", diag_specifiers_text(d, q));
}

/* What an installed distribution needs for one of the extras that were asked of it, and that is not
 * installed: "nvidia-cublas==13.4.1.*"; NULL: nothing. */
static const char *extra_unmet(struct diag *d, const struct py_requirement *q, const char *name)
{
    const struct py_metadata *meta = diag_metadata_of(d, name);
    struct py_marker_env markers = model_markers(d->m);
    struct py_requirement need;
    for (size_t i = 0; i < q->n_extras; i++) {
        markers.extra = str_dup(d->a, q->extras[i]);
        for (size_t k = 0; meta && k < meta->n_requires_dist; k++) {
            if (diag_requirement_at(d, meta, k, &markers, &need) &&
                !diag_package_is_there(d, py_name_normal(d->a, need.name))) {
                return requirement_text(d, &need, py_name_normal(d->a, need.name));
            }
        }
    }
    return NULL;
}

/* "not installed", "2.4.6 is installed"; NULL if the requirement is met or cannot be judged. */
static const char *unmet(struct diag *d, const struct py_requirement *q, const char *name,
                         bool *ret_absent)
{
    const struct py_dist *have = py_env_by_dist(d->m->env, name);
    *ret_absent = !have;
    if (!have) {
        return diag_package_is_there(d, name) ? NULL : "not installed";
    }
    if (have->version && py_specifiers_match(&q->specifiers, str_of(have->version)) == PY_NO) {
        return arena_printf(d->a, "%s is installed", have->version);
    }
    const char *lacks = extra_unmet(d, q, name);
    *ret_absent = lacks != NULL;
    return lacks ? arena_printf(d->a, "%s, which its extra needs, is not installed", lacks) : NULL;
}

diag_unmet_list diag_unmet(struct diag *d, const char *package)
{
    const struct py_metadata *meta = diag_metadata_of(d, package);
    struct py_marker_env markers = d->m->env ? model_markers(d->m) : (struct py_marker_env){0};
    struct py_requirement q;
    diag_unmet_list list = {0};
    for (size_t i = 0; meta && i < meta->n_requires_dist; i++) {
        if (!diag_requirement_at(d, meta, i, &markers, &q)) {
            continue;
        }
        struct diag_unmet one = {.name = py_name_normal(d->a, q.name)};
        one.why = unmet(d, &q, one.name, &one.absent);
        if (one.why) {
            one.declared = requirement_text(d, &q, one.name);
            VEC_PUSH(d->a, &list, one);
        }
    }
    return list;
}
