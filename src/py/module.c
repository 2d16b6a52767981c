#include "py/module.h"

#include <errno.h>
#include <string.h>

#include "py/internal.h"

enum { NAME_BYTES_MAX = 1024, NAME_PARTS_MAX = 32, EXTENSIONS_MAX = 65536 };

/* Where one part of a name is looked for: sys.path, or the folders of its parent. */
struct search {
    const char **dirs;
    const struct py_path **entries; // the sys.path entry each of them stands for
    size_t n;
};

/* The shared objects that lie in one folder. */
struct py_extensions {
    struct py_extensions *next;
    const char *dir;
    struct root_dir files;
};

static bool is_extension(const char *name, void *arg)
{
    (void)arg;
    return ends_with(name, ".so") || ends_with(name, ".pyd");
}

/* Each module that is not installed asks for the folders of sys.path again: they are listed once.
 */
static const struct root_dir *extensions_in(struct py_env *env, const char *dir)
{
    struct py_extensions *known = env->extensions;
    while (known && strcmp(known->dir, dir) != 0) {
        known = known->next;
    }
    if (!known) {
        known = arena_alloc(env->arena, sizeof *known);
        *known = (struct py_extensions){.dir = arena_strdup(env->arena, dir)};
        if (root_list(env->root, env->arena, dir, EXTENSIONS_MAX,
                      &(struct root_filter){is_extension, NULL}, &known->files) != 0) {
            known->files = (struct root_dir){0};
        }
        env->cut |= known->files.truncated;
        known->next = env->extensions;
        env->extensions = known;
    }
    return &known->files;
}

static bool module_is_file(struct py_env *env, const char *path, struct py_module *ret)
{
    struct stat st;
    int rc = root_stat(env->root, path, &st);
    ret->denied = rc == -EACCES && !ret->denied ? path : ret->denied;
    return rc == 0 && S_ISREG(st.st_mode);
}

/* Tries stem + each suffix that imports know, in their order. */
static bool module_find_file(struct py_env *env, const char *stem, struct py_module *ret)
{
    static const char *const sources[] = {".py", ".pyc"};
    for (size_t i = 0; i < env->n_suffixes; i++) {
        char *file = arena_printf(env->arena, "%s%s", stem, env->suffixes[i]);
        if (module_is_file(env, file, ret)) {
            ret->kind = PY_MODULE_EXTENSION, ret->file = file;
            return true;
        }
    }
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        char *file = arena_printf(env->arena, "%s%s", stem, sources[i]);
        if (module_is_file(env, file, ret)) {
            ret->kind = PY_MODULE_SOURCE, ret->file = file;
            return true;
        }
    }
    return false;
}

/* FileFinder.find_spec() for one folder. True when the search ends here; a namespace portion is
 * added to `portions` and the search goes on. */
static bool module_find_in(struct py_env *env, const struct search *where, size_t at,
                           const char *part, struct py_module *ret, struct search *portions)
{
    char *stem = path_join(env->arena, where->dirs[at], part);
    bool is_dir = py_is_dir(env, stem);
    if (is_dir && module_find_file(env, path_join(env->arena, stem, "__init__"), ret)) {
        ret->kind = PY_MODULE_PACKAGE;
        return true;
    }
    if (module_find_file(env, stem, ret)) {
        return true;
    }
    if (is_dir) {
        portions->dirs[portions->n] = stem;
        portions->entries[portions->n++] = where->entries[at];
    }
    return false;
}

/* An extension of that name with a suffix that this interpreter does not know. */
static void find_foreign(struct py_env *env, const struct search *where, const char *part,
                         struct py_module *ret)
{
    const char *start = arena_printf(env->arena, "%s.", part);
    for (size_t i = 0; i < where->n; i++) {
        const struct root_dir *files = extensions_in(env, where->dirs[i]);
        for (size_t k = 0; k < files->n; k++) {
            if (starts_with(files->names[k], start)) {
                ret->foreign = path_join(env->arena, where->dirs[i], files->names[k]);
                ret->foreign_suffix = files->names[k] + strlen(part);
                return;
            }
        }
    }
}

static struct search search_new(struct arena *a, size_t cap)
{
    return (struct search){.dirs = arena_array(a, cap, sizeof(char *)),
                           .entries = arena_array(a, cap, sizeof(struct py_path *))};
}

/* Finds one part; on success *where becomes what its own parts are looked for in. */
static void find_part(struct py_env *env, struct search *where, const char *part,
                      struct py_module *ret)
{
    struct search portions = search_new(env->arena, where->n);
    for (size_t i = 0; i < where->n; i++) {
        if (module_find_in(env, where, i, part, ret, &portions)) {
            ret->entry = where->entries[i];
            portions.n = 0;
            if (ret->kind == PY_MODULE_PACKAGE) {
                portions.dirs[0] = path_dir(env->arena, ret->file);
                portions.entries[0] = ret->entry;
                portions.n = 1;
            }
            *where = portions;
            return;
        }
    }
    if (portions.n) {
        ret->kind = PY_MODULE_NAMESPACE, ret->file = portions.dirs[0];
        ret->entry = portions.entries[0];
    }
    find_foreign(env, where, part, ret);
    if (portions.n) {
        *where = portions;
    }
}

static bool module_is_part(struct str part)
{
    return part.n && str_find_char(part, '/') == part.n;
}

static void module_find(struct py_env *env, const char *name, struct py_module *ret)
{
    struct arena *a = env->arena;
    struct search where = search_new(a, env->n_paths);
    struct py_module found = {0};
    struct str rest = str_of(name);
    *ret = found;
    if (rest.n > NAME_BYTES_MAX) {
        return;
    }
    for (size_t i = 0; i < env->n_paths; i++) {
        if (env->paths[i].is_dir) {
            where.dirs[where.n] = env->paths[i].dir;
            where.entries[where.n++] = &env->paths[i];
        }
    }
    for (int parts = 0; rest.s && parts < NAME_PARTS_MAX; parts++) {
        struct str part = str_cut(&rest, '.');
        const char *parent = parts ? arena_strndup(a, name, (size_t)(part.s - name) - 1) : NULL;
        found = (struct py_module){0};
        if (module_is_part(part) && where.n) {
            find_part(env, &where, str_dup(a, part), &found);
        }
        if (found.kind == PY_MODULE_NONE) {
            found.found_parent = parent;
            break;
        }
    }
    *ret = rest.s && found.kind != PY_MODULE_NONE ? (struct py_module){0} : found;
}

/* Judging one environment asks for the same modules hundreds of times. */
struct py_found_modules {
    struct py_found_modules *next;
    const char *name;
    struct py_module module;
};

/* A part of a package that is not installed: the answer is the package's own. */
static void module_look_up(struct py_env *env, const char *name, struct py_module *ret)
{
    size_t top = strcspn(name, ".");
    if (top && name[top]) {
        py_module_find(env, arena_strndup(env->arena, name, top), ret);
        if (ret->kind == PY_MODULE_NONE) {
            return;
        }
    }
    module_find(env, name, ret);
}

void py_module_find(struct py_env *env, const char *name, struct py_module *ret)
{
    struct py_found_modules *known = env->found_modules;
    while (known && strcmp(known->name, name) != 0) {
        known = known->next;
    }
    if (!known) {
        known = arena_alloc(env->arena, sizeof *known);
        *known = (struct py_found_modules){.name = arena_strdup(env->arena, name)};
        module_look_up(env, name, &known->module);
        known->next = env->found_modules;
        env->found_modules = known;
    }
    *ret = known->module;
}
