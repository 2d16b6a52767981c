/* Imports that the knowledge base has no row of. */
#include <string.h>

#include "base/nearest.h"
#include "model/imports.h"
#include "model/run.h"
#include "py/module.h"
#include "py/owner.h"
#include "py/requirement.h"

/* Of one distribution. */
enum { SOURCES_MAX = 4096, SOURCE_BYTES_MAX = 4 << 20 };

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

/* Whether the name, of a module or a distribution, is that of `to`; with `to` NULL: of any that is
 * installed and whose imports the knowledge base knows. */
static bool is_name_of(struct model *m, struct str name, const struct py_dist *to)
{
    const struct kb_import *row = NULL;
    const struct py_dist *dist =
        name.n ? model_find_import(m, str_dup(m->arena, name), &row) : NULL;
    return dist && row && (!to || dist == to);
}

/* Whether a line of Python ("import a.b as c, d", "from a.b import c") names `to`. */
static bool line_imports(struct model *m, struct str line, const struct py_dist *to)
{
    line = str_trim(line);
    bool from = str_starts(line, "from ");
    if (!from && !str_starts(line, "import ")) {
        return false;
    }
    struct str rest = line;
    (void)str_cut(&rest, ' ');
    while (rest.s && rest.n) {
        struct str item = str_trim(str_cut(&rest, ','));
        struct str dotted = str_trim(str_cut(&item, ' ')), whole = dotted;
        if (is_name_of(m, str_cut(&dotted, '.'), to) || is_name_of(m, whole, to)) {
            return true;
        }
        if (from) {
            break;
        }
    }
    return false;
}

static bool source_imports(struct model *m, const char *path, const struct py_dist *to)
{
    struct str text, line;
    if (root_read(m->root, m->arena, path, SOURCE_BYTES_MAX, &text) < 0) {
        return true; // it may
    }
    while (str_line(&text, &line)) {
        if (line_imports(m, line, to)) {
            return true;
        }
    }
    return false;
}

/* Whether a file of it imports `to`, which it need not require: Keras imports the one that a
 * variable or a file names. */
static bool files_import(struct model *m, const struct py_dist *dist, const struct py_dist *to)
{
    struct str text;
    struct py_record_row row;
    size_t n = 0;
    if (root_read(m->root, m->arena, path_join(m->arena, dist->info, "RECORD"), PY_RECORD_BYTES_MAX,
                  &text) < 0) {
        return true;
    }
    const char *site = path_dir(m->arena, dist->info);
    while (py_record_next(m->arena, &text, &row)) {
        const char *path = str_dup(m->arena, row.path);
        if (str_ends(row.path, ".py") &&
            (n++ == SOURCES_MAX || source_imports(m, path_join(m->arena, site, path), to))) {
            return true;
        }
    }
    return false;
}

/* Whether it requires `to`, or a package that does so in its turn. Metadata that cannot be read may
 * require it. */
static bool requires_package(struct model *m, struct py_dist *dist, const struct py_dist *to)
{
    bool *seen = arena_array(m->arena, m->env->n_dists, sizeof *seen);
    struct py_dist **list = arena_array(m->arena, m->env->n_dists, sizeof(struct py_dist *));
    size_t n = 0;
    list[n++] = dist;
    seen[dist - m->env->dists] = true;
    for (size_t k = 0; k < n; k++) {
        const struct py_metadata *meta = py_dist_metadata(m->env, list[k]);
        for (size_t i = 0; meta && i < meta->n_requires_dist; i++) {
            struct py_requirement q;
            struct gm_err err;
            if (py_requirement_parse(m->arena, meta->requires_dist[i], &q, &err) < 0) {
                continue;
            }
            struct py_dist *next = py_env_by_dist(m->env, str_dup(m->arena, q.name));
            if (is_name_of(m, q.name, to)) {
                return true;
            }
            if (next && !seen[next - m->env->dists]) {
                seen[next - m->env->dists] = true;
                list[n++] = next;
            }
        }
        if (!meta) {
            return true;
        }
    }
    return false;
}

bool model_leads_to(struct model *m, struct py_dist *dist, const struct py_dist *to)
{
    return requires_package(m, dist, to) || files_import(m, dist, to);
}

/* The distribution, or module of one, whose name is nearly this one: of those that are installed,
 * else of those that are known to use a GPU; NULL: none. */
static const char *package_near(struct model *m, const char *name)
{
    struct nearest n, known;
    nearest_init(&n, name);
    nearest_init(&known, name);
    for (size_t i = 0; i < m->imports.n; i++) {
        if (py_env_by_dist(m->env, m->imports.rows[i].package)) {
            nearest_try(&n, m->imports.rows[i].module);
        }
        nearest_try(&known, m->imports.rows[i].module);
    }
    for (size_t i = 0; i < m->env->n_dists; i++) {
        nearest_try(&n, m->env->dists[i].name);
    }
    return nearest_best(&n) ? nearest_best(&n) : nearest_best(&known);
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
        const char *meant = package_near(m, name);
        r->out->n_not_installed++;
        model_run_unsure(
            r, meant ? arena_printf(m->arena, "%s is not installed; did you mean %s?", name, meant)
                     : arena_printf(m->arena, "%s is not installed", name));
    } else if (!dist || has_compiled_file(m, dist) || model_leads_to(m, dist, NULL)) {
        if (dist) {
            VEC_PUSH(m->arena, &r->out->untold, dist);
        }
        VEC_PUSH(m->arena, &r->out->unknown,
                 arena_printf(m->arena,
                              "%s is installed, but what its import loads is unknown; "
                              "name the GPU packages that it imports instead",
                              name));
    } else {
        VEC_PUSH(m->arena, &r->out->imported, dist->name);
    }
}
