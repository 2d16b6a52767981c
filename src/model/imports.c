#include "model/imports.h"

#include <string.h>

#include "py/owner.h"
#include "py/requirement.h"
#include "py/version.h"

bool model_version_fits(struct arena *a, const char *set, const char *version)
{
    struct py_specifiers s;
    struct gm_err err;
    if (!set) {
        return true;
    }
    return version && py_specifiers_parse(a, str_of(set), &s, &err) == 0 &&
           py_specifiers_match(&s, str_of(version)) == PY_YES;
}

/* A module, one below it (its import brings those above), or the distribution. */
static bool row_name_is(const struct kb_import *row, const char *name)
{
    size_t n = strlen(row->module);
    bool below = strncmp(row->module, name, n) == 0 && (name[n] == '\0' || name[n] == '.');
    return below || py_name_eq(str_of(row->package), str_of(name));
}

bool model_import_is_known(const struct model *m, const char *name)
{
    for (size_t i = 0; i < m->imports.n; i++) {
        if (row_name_is(&m->imports.rows[i], name)) {
            return true;
        }
    }
    return false;
}

/* The first by the order of the rows, other than `except`. */
static const struct py_dist *first_import(struct model *m, const char *name,
                                          const struct py_dist *except,
                                          const struct kb_import **ret_row)
{
    const struct py_dist *dist = NULL;
    *ret_row = NULL;
    for (size_t i = 0; i < m->imports.n; i++) {
        const struct kb_import *row = &m->imports.rows[i];
        const struct py_dist *d =
            row_name_is(row, name) ? py_env_by_dist(m->env, row->package) : NULL;
        if (!d || d == except) {
            continue;
        }
        dist = d;
        if (model_version_fits(m->arena, row->versions, d->version)) {
            *ret_row = row;
            return d;
        }
    }
    return dist;
}

static const struct py_dist *find_overwriter(struct model *m, const struct py_dist *dist)
{
    struct py_libraries list;
    (void)py_dist_libraries(m->env, dist, &list); // empty without a RECORD
    for (size_t i = 0; i < list.rows.n; i++) {
        const char *path =
            path_join(m->arena, dist->site, str_dup(m->arena, list.rows.items[i].path));
        struct stat st;
        const struct py_dist *by = root_stat(m->root, path, &st) == 0
                                       ? py_overwritten_by(m->env, dist, path, (uint64_t)st.st_size)
                                       : NULL;
        if (by) {
            return by;
        }
    }
    return NULL;
}

const struct py_dist *model_overwriter(struct model *m, const struct py_dist *dist)
{
    const char *key = arena_printf(m->arena, "overwriter of %s", dist->info);
    const struct py_dist **kept = ldso_store_recall(m->store, key);
    if (!kept) {
        kept = arena_alloc(m->arena, sizeof *kept);
        *kept = find_overwriter(m, dist);
        ldso_store_remember(m->store, key, (void *)kept);
    }
    return *kept;
}

struct found {
    const struct py_dist *dist;
    const struct kb_import *row;
};

static struct found find_import(struct model *m, const char *name)
{
    struct found f = {0};
    const struct kb_import *other_row = NULL;
    f.dist = first_import(m, name, NULL, &f.row);
    const struct py_dist *other = f.row ? first_import(m, f.row->module, f.dist, &other_row) : NULL;
    if (other && other_row && strcmp(other_row->module, f.row->module) == 0 &&
        model_overwriter(m, f.dist) == other) {
        return (struct found){other, other_row};
    }
    f.dist = f.dist ? f.dist : py_env_by_dist(m->env, name);
    return f;
}

/* Every process and every replay asks this of the same few names, so that the answer is kept. One
 * store may see several environments. */
const struct py_dist *model_find_import(struct model *m, const char *name,
                                        const struct kb_import **ret_row)
{
    const char *python = m->env->executable ? m->env->executable : m->env->prefix;
    const char *key = arena_printf(m->arena, "import of %s by %s", name, python);
    struct found *kept = ldso_store_recall(m->store, key);
    if (!kept) {
        kept = arena_alloc(m->arena, sizeof *kept);
        *kept = find_import(m, name);
        ldso_store_remember(m->store, key, kept);
    }
    *ret_row = kept->row;
    return kept->dist;
}
