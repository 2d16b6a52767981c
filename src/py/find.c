/* From a target to the interpreter that would be started: folders, PATH, shims, scripts. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "py/internal.h"

enum { SCRIPT_BYTES_MAX = 8 << 10, HOPS_MAX = 4, BIN_NAMES_MAX = 1024, PARENTS_MAX = 64 };

struct finder {
    struct py_env *env;
    const struct py_env_hints *hints;
    struct gm_err *err;
    const char *skip_dir; // a shim folder that must not be found again
    unsigned hops;        // shims and scripts followed so far
};

static int use_file(struct finder *f, const char *path);

static bool is_set(const char *value)
{
    return value && *value;
}

/* Whether the name is "python", "python3", "python3.11" or the like. */
static bool is_python_name(const char *name)
{
    int major, minor;
    bool t;
    return strcmp(name, "python") == 0 || py_name_version(name, &major, &minor, &t);
}

/* The first executable file called `name` on PATH; NULL if there is none. */
static char *path_lookup(struct finder *f, const char *name)
{
    struct arena *a = f->env->arena;
    struct str rest = str_of(f->hints->path);
    while (rest.s) {
        struct str part = str_cut(&rest, ':');
        char *dir = py_absolute(a, part.n ? str_dup(a, part) : ".", f->hints);
        char *path = path_join(a, dir, name);
        if ((!f->skip_dir || strcmp(dir, f->skip_dir) != 0) && py_is_file(f->env, path) &&
            root_access(f->env->root, path, X_OK) == 0) {
            return path;
        }
    }
    return NULL;
}

static int use_path(struct finder *f)
{
    static const char *const names[] = {"python3", "python"};
    if (!is_set(f->hints->path)) {
        return gm_err_set(f->err, GM_ERR_LOOK, "no Python environment is active and PATH is empty");
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path = path_lookup(f, names[i]);
        if (path) {
            return use_file(f, path);
        }
    }
    return gm_err_set(f->err, GM_ERR_LOOK,
                      "no Python environment is active and PATH has neither python3 nor python");
}

/* The greatest version folder of pyenv that `wanted` names: itself, or "3.11" for 3.11.7. */
static char *pyenv_folder(struct finder *f, const char *versions, struct str wanted)
{
    struct arena *a = f->env->arena;
    char *exact = path_join(a, versions, str_dup(a, wanted));
    if (py_is_dir(f->env, exact)) {
        return exact;
    }
    struct root_dir names;
    if (root_list(f->env->root, a, versions, BIN_NAMES_MAX, NULL, &names) < 0) {
        return NULL;
    }
    const char *start = arena_printf(a, "%s.", str_dup(a, wanted));
    const char *best = NULL;
    struct py_version best_version, version;
    for (size_t i = 0; i < names.n; i++) {
        if (starts_with(names.names[i], start) &&
            py_version_parse(str_of(names.names[i]), &version) &&
            (!best || py_version_cmp(&version, &best_version) > 0)) {
            best = names.names[i], best_version = version;
        }
    }
    return best ? path_join(a, versions, best) : NULL;
}

/* What PYENV_VERSION, a .python-version file of the working directory or above it, or pyenv's own
 * version file says; .s is NULL if nothing does. */
static struct str pyenv_selection(struct finder *f, const char *pyenv_root, const char **ret_from)
{
    struct arena *a = f->env->arena;
    struct str text = {NULL, 0};
    if (is_set(f->hints->pyenv_version)) {
        *ret_from = "PYENV_VERSION";
        return str_of(f->hints->pyenv_version);
    }
    char *dir = is_set(f->hints->cwd) ? path_normal(a, f->hints->cwd) : NULL;
    for (int i = 0; dir && dir[0] == '/' && i < PARENTS_MAX; i++) {
        char *file = path_join(a, dir, ".python-version");
        if (py_read_head(f->env, file, SCRIPT_BYTES_MAX, &text, NULL) == 0) {
            *ret_from = file;
            return text;
        }
        dir = dir[1] ? path_dir(a, dir) : NULL;
    }
    char *file = path_join(a, pyenv_root, "version");
    if (py_read_head(f->env, file, SCRIPT_BYTES_MAX, &text, NULL) == 0) {
        *ret_from = file;
        return text;
    }
    return (struct str){NULL, 0};
}

static int use_system_behind(struct finder *f, const char *shim)
{
    f->skip_dir = path_dir(f->env->arena, shim);
    char *path = path_lookup(f, path_base(shim));
    return path ? use_file(f, path)
                : gm_err_set(f->err, GM_ERR_LOOK,
                             "%s: pyenv selects the system's Python, and PATH has none", shim);
}

/* Follows pyenv's own rule: the first selected version that has the program. */
static int use_pyenv_shim(struct finder *f, const char *shim)
{
    struct arena *a = f->env->arena;
    char *pyenv_root = path_dir(a, path_dir(a, shim));
    char *versions = path_join(a, pyenv_root, "versions");
    const char *from = NULL;
    struct str rest = pyenv_selection(f, pyenv_root, &from);
    if (!rest.s) {
        return use_system_behind(f, shim); // pyenv's default when nothing is selected
    }
    while (rest.n) {
        size_t n = 0;
        while (n < rest.n && !strchr(" \t\r\n:", rest.s[n])) {
            n++;
        }
        struct str wanted = {rest.s, n};
        n += n < rest.n;
        rest.s += n, rest.n -= n;
        if (wanted.n == 0 || str_find_char(wanted, '/') < wanted.n) {
            continue;
        }
        if (str_is(wanted, "system")) {
            return use_system_behind(f, shim);
        }
        char *folder = pyenv_folder(f, versions, wanted);
        char *bin = folder ? path_join(a, folder, "bin") : NULL;
        char *path = bin ? path_join(a, bin, path_base(shim)) : NULL;
        if (path && py_is_file(f->env, path)) {
            py_note(f->env, "%s is a pyenv shim; %s selects %s", shim, from, path);
            return use_file(f, path);
        }
    }
    return gm_err_set(f->err, GM_ERR_LOOK,
                      "%s is a pyenv shim, and no version that %s names has this program", shim,
                      from);
}

/* The word at the head, blanks before it skipped. */
static struct str take_shebang_word(struct str *s)
{
    *s = str_trim(*s);
    size_t n = 0;
    while (n < s->n && s->s[n] != ' ' && s->s[n] != '\t') {
        n++;
    }
    struct str word = {s->s, n};
    s->s += n, s->n -= n;
    return word;
}

/* A script with "#!/path/python3" or "#!/usr/bin/env python3": its interpreter. */
static int use_script(struct finder *f, const char *path, struct str text)
{
    struct arena *a = f->env->arena;
    struct str line = {text.s + 2, str_find_char(text, '\n') - 2};
    struct str first = take_shebang_word(&line), second = take_shebang_word(&line);
    char *program = str_dup(a, first);
    char *name = str_dup(a, second);
    if (first.n && program[0] == '/' && is_python_name(path_base(program))) {
        return use_file(f, path_normal(a, program));
    }
    char *found = NULL;
    if (strcmp(path_base(program), "env") == 0 && is_python_name(name) && !strchr(name, '/')) {
        found = path_lookup(f, name);
    }
    if (found) {
        return use_file(f, found);
    }
    return gm_err_set(f->err, GM_ERR_UNSUPPORTED,
                      "%s is a script, and which Python it starts is known only by running it",
                      str_printable(a, path));
}

static int use_elf(struct finder *f, const char *path)
{
    struct arena *a = f->env->arena;
    char *real = NULL;
    if (root_realpath(f->env->root, a, path, &real) < 0) {
        real = arena_strdup(a, path);
    }
    if (strstr(path_base(real), "pypy")) {
        return gm_err_set(f->err, GM_ERR_UNSUPPORTED, "%s is PyPy, which is not modelled",
                          str_printable(a, path));
    }
    if (!is_python_name(path_base(real)) && !is_python_name(path_base(path))) {
        return gm_err_set(f->err, GM_ERR_UNSUPPORTED, "%s is not a Python interpreter by its name",
                          str_printable(a, path));
    }
    f->env->executable = arena_strdup(a, path);
    f->env->executable_real = real;
    return 0;
}

static int use_file(struct finder *f, const char *path)
{
    struct arena *a = f->env->arena;
    struct str head = {NULL, 0};
    if (++f->hops > HOPS_MAX) {
        return gm_err_set(f->err, GM_ERR_LIMIT, "%s: more than %d start scripts in a row",
                          str_printable(a, path), HOPS_MAX);
    }
    int rc = py_read_head(f->env, path, SCRIPT_BYTES_MAX, &head, NULL);
    if (rc < 0) {
        return gm_err_set(f->err, GM_ERR_LOOK, "%s: %s", str_printable(a, path), py_why(rc));
    }
    if (str_starts(head, "\177ELF")) {
        return use_elf(f, path);
    }
    if (!str_starts(head, "#!")) {
        return gm_err_set(f->err, GM_ERR_FORMAT, "%s is neither an ELF file nor a script",
                          str_printable(a, path));
    }
    char *dir = path_dir(a, path);
    if (strcmp(path_base(dir), "shims") == 0 && str_find(head, "pyenv") < head.n) {
        return use_pyenv_shim(f, path);
    }
    return use_script(f, path, head);
}

static bool keep_python3(const char *name, void *arg)
{
    (void)arg;
    int major, minor;
    bool t;
    return py_name_version(name, &major, &minor, &t) && major == 3;
}

/* The interpreter in a prefix's bin folder; NULL if none can be started. */
static char *folder_python(struct finder *f, const char *folder)
{
    static const char *const names[] = {"python3", "python"};
    struct arena *a = f->env->arena;
    char *bin = path_join(a, folder, "bin");
    char *target = NULL;
    struct stat st;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path = path_join(a, bin, names[i]);
        if (py_is_file(f->env, path)) {
            return path;
        }
        if (!target && root_readlink(f->env->root, a, path, &target) == 0) {
            bool closed = root_stat(f->env->root, path, &st) == -EACCES;
            py_note(f->env, "%s is a link to %s, which %s", path, str_printable(a, target),
                    closed ? "this user may not look at" : "leads to no file");
        }
    }
    struct root_dir found;
    if (root_list(f->env->root, a, bin, BIN_NAMES_MAX, &(struct root_filter){.keep = keep_python3},
                  &found) == 0) {
        for (size_t i = 0; i < found.n; i++) {
            char *path = path_join(a, bin, found.names[i]);
            if (py_is_file(f->env, path)) {
                return path;
            }
        }
    }
    return NULL;
}

const char *py_env_inside(struct root *r, struct arena *a, const char *folder)
{
    static const char *const names[] = {".venv", "venv"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct stat st;
        const char *inner = path_join(a, folder, names[i]);
        if (root_stat(r, path_join(a, inner, "pyvenv.cfg"), &st) == 0 && S_ISREG(st.st_mode)) {
            return inner;
        }
    }
    return NULL;
}

/* What to name in place of a folder that is no environment; NULL: that is not known. */
static const char *named_instead(struct finder *f, const char *folder)
{
    struct arena *a = f->env->arena;
    const char *inner = py_env_inside(f->env->root, a, folder);
    if (inner) {
        return arena_printf(a, "%s is one", str_printable(a, inner));
    }
    return py_is_file(f->env, path_join(a, folder, "_internal/base_library.zip"))
               ? "PyInstaller made the program in it: name the program's file"
               : NULL;
}

/* A folder is an environment if it has pyvenv.cfg, conda-meta or an interpreter. */
static int use_folder(struct finder *f, const char *folder)
{
    struct arena *a = f->env->arena;
    char *python = folder_python(f, folder);
    f->env->prefix = arena_strdup(a, folder);
    if (python) {
        return use_file(f, python);
    }
    if (py_is_file(f->env, path_join(a, folder, "pyvenv.cfg")) ||
        py_is_dir(f->env, path_join(a, folder, "conda-meta"))) {
        py_note(f->env, "%s has no Python interpreter that could be started",
                str_printable(a, folder));
        return 0;
    }
    struct stat st;
    if (root_stat(f->env->root, path_join(a, folder, "pyvenv.cfg"), &st) == -EACCES) {
        return gm_err_set(f->err, GM_ERR_LOOK, "%s: this user may not look into it",
                          str_printable(a, folder));
    }
    const char *instead = named_instead(f, folder);
    return gm_err_set(f->err, GM_ERR_LOOK,
                      "%s is not a Python environment: neither pyvenv.cfg nor conda-meta nor "
                      "bin/python3 is there%s%s",
                      str_printable(a, folder), instead ? "; " : "", instead ? instead : "");
}

/* The environment that an activation script has set, if it is there. */
static bool use_active(struct finder *f, const char *variable, const char *value)
{
    struct gm_err err = {0};
    if (!is_set(value)) {
        return false;
    }
    struct finder attempt = *f;
    attempt.err = &err;
    if (use_folder(&attempt, py_absolute(f->env->arena, value, f->hints)) == 0) {
        f->env->chosen_by = variable;
        return true;
    }
    py_note(f->env, "%s is passed over: %s", variable, err.text);
    f->env->prefix = NULL;
    return false;
}

/* Activation puts the environment's bin folder in front of PATH; tell when something else won. */
static void compare_with_path(struct finder *f)
{
    char *found = is_set(f->hints->path) ? path_lookup(f, "python3") : NULL;
    char *expected = path_join(f->env->arena, f->env->prefix, "bin/python3");
    if (found && f->env->executable && strcmp(found, expected) != 0 &&
        strcmp(found, f->env->executable) != 0) {
        py_note(f->env, "%s names %s, but python3 on PATH is %s", f->env->chosen_by, f->env->prefix,
                found);
    }
}

/* Commands that act run the interpreter of the environment, and here nobody has named it. */
static bool is_trusted(struct finder *f, const char *folder)
{
    struct stat st;
    return !f->env->root->is_host || (root_stat(f->env->root, folder, &st) == 0 &&
                                      (st.st_uid == f->hints->uid || st.st_uid == 0));
}

/* The environment that a project keeps in its own folder, under the names that uv, pixi and
 * Python's documentation of venv use, or that pdm names. */
static bool use_own(struct finder *f, const char *name, const char *folder)
{
    struct arena *a = f->env->arena;
    if (!py_is_file(f->env, path_join(a, folder, "pyvenv.cfg")) &&
        !py_is_dir(f->env, path_join(a, folder, "conda-meta"))) {
        return false;
    }
    if (!is_trusted(f, folder)) {
        py_note(f->env, "%s is passed over: it belongs to another user (name it to look at it)",
                str_printable(a, folder));
        return false;
    }
    return use_active(f, name, folder);
}

static bool use_working_folder(struct finder *f)
{
    static const char *const names[] = {"./.venv", "./venv", "./.pixi/envs/default"};
    enum { N_NAMES = sizeof names / sizeof *names };
    const char *cwd = f->hints->cwd;
    if (!is_set(cwd)) {
        return false;
    }
    const char *pdm = py_manager_pdm(f->env, cwd);
    if (pdm && is_trusted(f, path_join(f->env->arena, cwd, ".pdm-python")) &&
        use_own(f, "./.pdm-python", pdm)) {
        return true;
    }
    for (size_t i = 0; i < N_NAMES; i++) {
        if (use_own(f, names[i], path_join(f->env->arena, cwd, names[i] + 2))) {
            return true;
        }
    }
    py_manager_elsewhere(f->env, cwd);
    return false;
}

static int use_target(struct finder *f, const char *target)
{
    struct arena *a = f->env->arena;
    char *path = py_absolute(a, target, f->hints);
    struct stat st;
    int rc = root_stat(f->env->root, path, &st);
    if (rc == -ENOENT && !strchr(target, '/') && is_set(f->hints->path)) {
        char *found = path_lookup(f, target);
        if (found) {
            return use_file(f, found);
        }
    }
    if (rc < 0) {
        return gm_err_set(f->err, GM_ERR_LOOK, "%s: %s", str_printable(a, path), strerror(-rc));
    }
    return S_ISDIR(st.st_mode) ? use_folder(f, path) : use_file(f, path);
}

int py_find(struct py_env *env, const char *target, const struct py_env_hints *hints,
            struct gm_err *err)
{
    struct finder f = {.env = env, .hints = hints, .err = err};
    if (target) {
        env->chosen_by = "argument";
        return use_target(&f, target);
    }
    if (use_active(&f, "VIRTUAL_ENV", hints->virtual_env) ||
        use_active(&f, "CONDA_PREFIX", hints->conda_prefix)) {
        compare_with_path(&f);
        return 0;
    }
    if (use_working_folder(&f)) {
        return 0;
    }
    env->chosen_by = "PATH";
    return use_path(&f);
}
