/* sys.path as getpath.py and site.py would build it. */
#include <errno.h>
#include <string.h>

#include "py/internal.h"

enum {
    SITE_PY_BYTES_MAX = 256 << 10,
    PTH_BYTES_MAX = 256 << 10,
    PTH_FILES_MAX = 4096,
    PTH_LINES_MAX = 16384,
    NAMED_MAX = 16, // of the files that one note is about
};

struct builder {
    struct py_env *env;
    const struct py_env_hints *hints;
    VEC(struct py_path) paths;
    size_t pth_lines;       // read so far, of all files
    VEC(const char *) code; // .pth and .start files that run code
    bool debian;            // site.py has Debian's dist-packages
    bool hidden;            // site.py reads .pth files whose names begin with a dot
};

static bool builder_lists(const struct builder *b, const char *dir)
{
    for (size_t i = 0; i < b->paths.n; i++) {
        if (strcmp(b->paths.items[i].dir, dir) == 0) {
            return true;
        }
    }
    return false;
}

/* Appends unless it is there already; false when sys.path is full. */
static bool builder_add(struct builder *b, const char *dir, enum py_path_origin origin,
                        const char *from)
{
    struct py_env *env = b->env;
    if (builder_lists(b, dir)) {
        return true;
    }
    if (b->paths.n == PY_PATHS_MAX) {
        py_note(env, "sys.path has more than %d entries; the rest is not looked at", PY_PATHS_MAX);
        env->cut = true;
        return false;
    }
    VEC_PUSH(env->arena, &b->paths, (struct py_path){dir, origin, from, py_is_dir(env, dir)});
    return true;
}

static void add_pythonpath(struct builder *b)
{
    const char *value = b->hints->pythonpath;
    if (!value || !*value) {
        return;
    }
    struct arena *a = b->env->arena;
    struct str rest = str_of(value);
    while (rest.s) {
        char *part = str_dup(a, str_cut(&rest, ':'));
        if (part[0] != '/' && !(b->hints->cwd && *b->hints->cwd)) {
            py_note(b->env,
                    "PYTHONPATH has the relative element \"%s\", and the working directory "
                    "is not known",
                    part);
            continue;
        }
        if (!builder_add(b, py_absolute(a, part, b->hints), PY_PATH_PYTHONPATH, NULL)) {
            return;
        }
    }
}

static void add_stdlib(struct builder *b)
{
    struct py_env *env = b->env;
    if (!env->stdlib) {
        return;
    }
    (void)builder_add(b,
                      arena_printf(env->arena, "%s/%s/python%d%d%s.zip", env->base_prefix,
                                   env->platlib_name, env->major, env->minor,
                                   env->free_threaded ? "t" : ""),
                      PY_PATH_ZIP, NULL);
    (void)builder_add(b, env->stdlib, PY_PATH_STDLIB, NULL);
    (void)builder_add(b, env->lib_dynload, PY_PATH_DYNLOAD, NULL);
}

/* One line of a .pth file: a path, relative to the site folder, that counts if it exists. */
static bool add_pth_line(struct builder *b, const char *site, const char *file, struct str line)
{
    struct arena *a = b->env->arena;
    if (memchr(line.s, '\0', line.n)) {
        py_note(b->env, "%s: a line holds a NUL byte", file);
        return true;
    }
    char *path = str_dup(a, line);
    char *dir = path_normal(a, path[0] == '/' ? path : path_join(a, site, path));
    struct stat st;
    if (root_stat(b->env->root, dir, &st) < 0) {
        py_note(b->env, "%s names %s, which does not exist", file, dir);
        return true;
    }
    return builder_add(b, dir, PY_PATH_PTH, file);
}

/* One note for all of them: many a healthy environment has several. Within a folder the name is
 * enough behind the first. */
static void note_code(struct builder *b)
{
    struct arena *a = b->env->arena;
    const char *text = b->code.n ? b->code.items[0] : NULL;
    size_t shown = b->code.n < NAMED_MAX ? b->code.n : NAMED_MAX;
    for (size_t i = 1; i < shown; i++) {
        const char *file = b->code.items[i];
        bool same = strcmp(path_dir(a, file), path_dir(a, b->code.items[i - 1])) == 0;
        const char *joint = i + 1 == b->code.n ? " and" : ",";
        text = arena_printf(a, "%s%s %s", text, joint, same ? path_base(file) : file);
    }
    if (b->code.n > shown) {
        text = arena_printf(a, "%s and %zu more", text, b->code.n - shown);
    }
    if (text) {
        py_note(b->env, "%s %s code when Python starts; what that does to sys.path is not known",
                text, b->code.n > 1 ? "run" : "runs");
    }
}

/* The text of a .pth or .start file; false, and noted, if it cannot be read. */
static bool read_startup_file(struct builder *b, const char *file, struct str *ret)
{
    struct py_env *env = b->env;
    int rc = root_read(env->root, env->arena, file, PTH_BYTES_MAX, ret);
    if (rc < 0) {
        py_note(env, "%s: %s", file, py_why(rc));
        env->cut |= rc == -EFBIG;
        return false;
    }
    *ret = py_startup_text(env, *ret);
    return true;
}

/* PEP 829: since 3.15 a .start file takes the place of the import lines of the .pth file beside it,
 * even if it is empty; one that is not UTF-8 is passed over. */
static bool has_start_file(struct builder *b, const char *pth)
{
    struct arena *a = b->env->arena;
    const char *file = arena_printf(a, "%.*s.start", (int)(strlen(pth) - strlen(".pth")), pth);
    struct stat st;
    struct str text;
    return py_is_since(b->env, 15) && root_stat(b->env->root, file, &st) == 0 &&
           read_startup_file(b, file, &text) && str_is_utf8(text.s, text.n);
}

/* What becomes of the import lines of a .pth file. */
static void note_imports(struct builder *b, const char *file)
{
    struct py_env *env = b->env;
    if (has_start_file(b, file)) {
        return;
    }
    if (py_is_since(env, 18)) {
        py_note(env, "%s has import lines, which Python %d.%d ignores", file, env->major,
                env->minor);
    } else {
        VEC_PUSH(env->arena, &b->code, file);
    }
}

/* site.py addpackage(). Lines that begin with "import" are code: noted, not run. */
static void add_pth(struct builder *b, const char *site, const char *name)
{
    struct py_env *env = b->env;
    char *file = path_join(env->arena, site, name);
    struct str text, line;
    bool runs_code = false;
    if (!read_startup_file(b, file, &text)) {
        return;
    }
    if (!str_is_utf8(text.s, text.n)) { // seen with 3.11: UnicodeDecodeError, and no start
        py_note(env, "%s is not UTF-8: where the locale is UTF-8, Python does not start", file);
        env->cut = true;
    }
    while (py_startup_line(env, &text, &line)) {
        struct str trimmed = py_startup_trim(line);
        line = py_is_since(env, 15) ? trimmed : line; // earlier ones strip the end alone
        if (trimmed.n == 0 || line.s[0] == '#') {
            continue;
        }
        if (++b->pth_lines > PTH_LINES_MAX) {
            py_note(env, "%s: more than %d lines in .pth files; the rest is not looked at", file,
                    PTH_LINES_MAX);
            env->cut = true;
            return;
        }
        if (str_starts(line, "import ") || str_starts(line, "import\t")) {
            runs_code = true;
            continue;
        }
        line.n = (size_t)(trimmed.s + trimmed.n - line.s); // rstrip()
        if (!add_pth_line(b, site, file, line)) {
            return;
        }
    }
    if (runs_code && strcmp(name, "distutils-precedence.pth") != 0) { // setuptools: no paths
        note_imports(b, file);
    }
}

/* The entry points of a .start file are code, too, which runs after every .pth file was read. */
static void note_start_file(struct builder *b, const char *site, const char *name)
{
    const char *file = path_join(b->env->arena, site, name);
    struct str text, line;
    if (!read_startup_file(b, file, &text) || !str_is_utf8(text.s, text.n)) {
        return;
    }
    while (py_startup_line(b->env, &text, &line)) {
        struct str trimmed = py_startup_trim(line);
        if (trimmed.n && trimmed.s[0] != '#' && py_is_entry_point(trimmed)) {
            VEC_PUSH(b->env->arena, &b->code, file);
            return;
        }
    }
}

static bool keep_startup(const char *name, void *arg)
{
    const struct builder *b = arg;
    return (name[0] != '.' || b->hidden) &&
           (ends_with(name, ".pth") || (py_is_since(b->env, 15) && ends_with(name, ".start")));
}

/* site.py addsitedir(): the folder if it exists, then what its .pth files name. */
static void builder_add_site(struct builder *b, const char *dir, enum py_path_origin origin)
{
    struct py_env *env = b->env;
    struct root_dir names;
    struct stat st;
    int rc = root_stat(env->root, dir, &st);
    if (rc == -EACCES && origin == PY_PATH_SITE) {
        py_note_denied(env, dir);
    }
    if (rc < 0 || !S_ISDIR(st.st_mode) || !builder_add(b, dir, origin, NULL)) {
        return;
    }
    rc = root_list(env->root, env->arena, dir, PTH_FILES_MAX,
                   &(struct root_filter){keep_startup, b}, &names);
    if (rc < 0) {
        return; // said when the distributions are listed
    }
    if (names.truncated) {
        py_note(env, "%s: more than %d .pth and .start files; the rest is not looked at", dir,
                PTH_FILES_MAX);
        env->cut = true;
    }
    for (size_t i = 0; i < names.n; i++) {
        if (ends_with(names.names[i], ".pth")) {
            add_pth(b, dir, names.names[i]);
        }
    }
    for (size_t i = 0; i < names.n; i++) {
        if (ends_with(names.names[i], ".start")) {
            note_start_file(b, dir, names.names[i]);
        }
    }
}

/* site.py check_enableusersite() and getuserbase(). */
static void add_user_site(struct builder *b)
{
    struct py_env *env = b->env;
    const char *off = b->hints->pythonnousersite;
    const char *base = b->hints->pythonuserbase;
    if ((env->config && !env->system_site) || (off && *off)) {
        env->user_site_enabled = PY_NO;
        return;
    }
    if (!base || !*base) {
        const char *home = b->hints->home;
        if (!home || home[0] != '/') {
            env->user_site_enabled = PY_UNKNOWN;
            py_note(env, "the home folder is not known, so the user site was not looked at");
            return;
        }
        base = path_join(env->arena, home, ".local");
    }
    env->user_site_enabled = PY_YES;
    char *dir = py_absolute(env->arena, base, b->hints);
    env->user_site = arena_printf(env->arena, "%s/lib/%s/site-packages", dir, env->lib_name);
    builder_add_site(b, env->user_site, PY_PATH_USER);
}

/* site.py getsitepackages() for one prefix, as CPython, Debian and Fedora have it. */
static void builder_add_prefix(struct builder *b, const char *prefix)
{
    struct py_env *env = b->env;
    struct arena *a = env->arena;
    const char *root = prefix[1] ? prefix : "";
    bool venv = env->config != NULL;
    bool fedora = !b->debian && !venv && strcmp(prefix, "/usr") == 0 &&
                  strcmp(env->platlib_name, "lib64") == 0;
    if (!env->purelib) {
        env->purelib = arena_printf(
            a, b->debian && !venv ? "%s/local/lib/%s/dist-packages" : "%s/lib/%s/site-packages",
            fedora ? "/usr/local" : root, env->lib_name);
    }
    if (!b->debian) {
        for (int local = fedora; local >= 0; local--) {
            const char *head = local ? "/usr/local" : root;
            builder_add_site(
                b,
                arena_printf(a, "%s/%s/%s/site-packages", head, env->platlib_name, env->lib_name),
                PY_PATH_SITE);
            if (strcmp(env->platlib_name, "lib") != 0) {
                builder_add_site(b, arena_printf(a, "%s/lib/%s/site-packages", head, env->lib_name),
                                 PY_PATH_SITE);
            }
        }
        return;
    }
    if (venv) {
        builder_add_site(b, arena_printf(a, "%s/lib/%s/site-packages", root, env->lib_name),
                         PY_PATH_SITE);
    }
    builder_add_site(b, arena_printf(a, "%s/local/lib/%s/dist-packages", root, env->lib_name),
                     PY_PATH_SITE);
    builder_add_site(b, arena_printf(a, "%s/lib/python3/dist-packages", root), PY_PATH_SITE);
    builder_add_site(b, arena_printf(a, "%s/lib/%s/dist-packages", root, env->lib_name),
                     PY_PATH_SITE);
}

/* What site.py itself tells: Debian and its derivatives change it, and that hidden files are passed
 * over came into patch releases (3.11.8, 3.12.2), which those keep the number of. */
static void read_site_py(struct builder *b)
{
    struct py_env *env = b->env;
    struct str text;
    if (!env->stdlib || py_read_head(env, path_join(env->arena, env->stdlib, "site.py"),
                                     SITE_PY_BYTES_MAX, &text, NULL) < 0) {
        return;
    }
    b->debian = str_find(text, "dist-packages") < text.n;
    b->hidden = str_find(text, "def addsitedir") < text.n &&
                str_find(text, "name.startswith(\".\")") == text.n;
}

void py_syspath(struct py_env *env, const struct py_env_hints *hints)
{
    struct builder b = {.env = env, .hints = hints};
    read_site_py(&b);
    add_pythonpath(&b);
    add_stdlib(&b);
    if (env->lib_name) {
        if (env->config) { // site.py venv(): the environment's own folders come first
            builder_add_prefix(&b, env->prefix);
        }
        add_user_site(&b);
        if (!env->config) {
            builder_add_prefix(&b, env->prefix);
        } else if (env->system_site && env->base_prefix) {
            builder_add_prefix(&b, env->base_prefix);
        }
    }
    note_code(&b);
    env->paths = b.paths.items, env->n_paths = b.paths.n;
}
