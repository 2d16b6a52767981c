/* Imports that the knowledge base has no row of. */
#include <string.h>

#include "base/nearest.h"
#include "model/imports.h"
#include "model/run.h"
#include "py/module.h"
#include "py/owner.h"
#include "py/requirement.h"

/* Whether a distribution records a compiled file. A RECORD that cannot be read may list one. */
static bool has_compiled_file(struct model *m, const struct py_dist *dist)
{
    struct str text;
    struct py_record_row row;
    if (dist->kind != PY_DIST_INFO ||
        root_read(m->root, m->arena, path_join(m->arena, dist->info, "RECORD"), PY_RECORD_BYTES_MAX,
                  &text) < 0) {
        return true;
    }
    while (py_record_next(m->arena, &text, &row)) {
        if (str_ends(row.path, ".so") || str_find(row.path, ".so.") < row.path.n) {
            return true;
        }
    }
    return false;
}

/* Whether an installed requirement is a package whose imports the knowledge base knows. */
static bool requires_known(struct model *m, struct py_dist *dist)
{
    const struct py_metadata *meta = py_dist_metadata(m->env, dist);
    for (size_t i = 0; meta && i < meta->n_requires_dist; i++) {
        struct py_requirement q;
        struct gm_err err;
        const struct kb_import *row = NULL;
        if (py_requirement_parse(m->arena, meta->requires_dist[i], &q, &err) == 0 &&
            model_find_import(m, str_dup(m->arena, q.name), &row) && row) {
            return true;
        }
    }
    return !meta;
}

/* The installed distribution, or module of one, whose name is nearly this one; NULL: none. */
static const char *installed_near(struct model *m, const char *name)
{
    struct nearest n;
    nearest_init(&n, name);
    for (size_t i = 0; i < m->imports.n; i++) {
        if (py_env_by_dist(m->env, m->imports.rows[i].package)) {
            nearest_try(&n, m->imports.rows[i].module);
        }
    }
    for (size_t i = 0; i < m->env->n_dists; i++) {
        nearest_try(&n, m->env->dists[i].name);
    }
    return nearest_best(&n);
}

/* Modules without a file: what sys.builtin_module_names of CPython 3.11 has, as built from source
 * and as Debian builds it. They are of the standard library, which loads no library of a GPU. */
static bool is_built_in(const char *name)
{
    static const char *const names[] = {
        "array",        "atexit", "binascii", "builtins",    "cmath",     "errno",
        "faulthandler", "fcntl",  "gc",       "grp",         "itertools", "marshal",
        "math",         "posix",  "pwd",      "pyexpat",     "select",    "spwd",
        "sys",          "syslog", "time",     "unicodedata", "zlib"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_of_stdlib(const struct py_module *module)
{
    enum py_path_origin origin = module->entry ? module->entry->origin : PY_PATH_SITE;
    return module->kind != PY_MODULE_NONE &&
           (origin == PY_PATH_STDLIB || origin == PY_PATH_DYNLOAD || origin == PY_PATH_ZIP);
}

void model_import_unknown(struct model_run *r, const char *name)
{
    struct model *m = r->m;
    struct py_dist *dist = py_env_by_dist(m->env, name);
    struct py_module module;
    py_module_find(m->env, name, &module);
    if (!dist && (is_built_in(name) || is_of_stdlib(&module))) {
        VEC_PUSH(m->arena, &r->out->imported, arena_strdup(m->arena, name));
    } else if (!dist && module.kind == PY_MODULE_NONE) {
        const char *meant = installed_near(m, name);
        model_run_unsure(
            r, meant ? arena_printf(m->arena, "%s is not installed; did you mean %s?", name, meant)
                     : arena_printf(m->arena, "%s is not installed", name));
    } else if (!dist || has_compiled_file(m, dist) || requires_known(m, dist)) {
        VEC_PUSH(m->arena, &r->out->unknown,
                 arena_printf(m->arena,
                              "%s is installed, but what its import loads is unknown; "
                              "name the GPU packages that it imports instead",
                              name));
    } else {
        VEC_PUSH(m->arena, &r->out->imported, dist->name);
    }
}
