#include "py/env.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "py/dist.h"
#include "py/internal.h"

enum { CONFIG_BYTES_MAX = 64 << 10, LIB_NAMES_MAX = 4096, PARENTS_MAX = 64 };

static const char *const kind_names[] = {
    [PY_ENV_SYSTEM] = "system", [PY_ENV_VENV] = "venv",   [PY_ENV_VIRTUALENV] = "virtualenv",
    [PY_ENV_CONDA] = "conda",   [PY_ENV_PYENV] = "pyenv", [PY_ENV_STANDALONE] = "standalone",
};

static const char *const origin_names[] = {
    [PY_PATH_PYTHONPATH] = "PYTHONPATH",   [PY_PATH_ZIP] = "standard library archive",
    [PY_PATH_STDLIB] = "standard library", [PY_PATH_DYNLOAD] = "lib-dynload",
    [PY_PATH_SITE] = "site-packages",      [PY_PATH_USER] = "user site",
    [PY_PATH_PTH] = ".pth file",
};

const char *py_env_kind_name(enum py_env_kind kind)
{
    return kind_names[kind];
}

const char *py_path_origin_name(enum py_path_origin origin)
{
    return origin_names[origin];
}

const char *py_env_version(struct arena *a, const struct py_env *e)
{
    return e->major < 0   ? "of unknown version"
           : e->micro < 0 ? arena_printf(a, "%d.%d", e->major, e->minor)
                          : arena_printf(a, "%d.%d.%d", e->major, e->minor, e->micro);
}

/* What pyvenv.cfg says; texts are empty where it says nothing. */
struct config {
    struct str home, version, implementation, prompt;
    bool virtualenv, uv, system_site;
};

static void config_set(struct config *c, struct str key, struct str value)
{
    const struct {
        const char *key;
        struct str *field;
    } texts[] = {
        {"home", &c->home},
        {"version", &c->version},
        {"version_info", &c->version},
        {"implementation", &c->implementation},
        {"prompt", &c->prompt},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (str_eq_nocase(key, str_of(texts[i].key))) {
            *texts[i].field = value;
        }
    }
    c->virtualenv |= str_eq_nocase(key, STR("virtualenv"));
    c->uv |= str_eq_nocase(key, STR("uv"));
    if (str_eq_nocase(key, STR("include-system-site-packages"))) {
        c->system_site = str_eq_nocase(value, STR("true"));
    }
}

/* Lib/site.py venv(): lines "key = value", keys without regard to case, the last one counts. */
static void config_parse(struct str text, struct config *ret)
{
    struct str line;
    while (str_line(&text, &line)) {
        struct str key = str_cut(&line, '=');
        if (line.s) {
            config_set(ret, str_trim(key), str_trim(line));
        }
    }
}

/* virtualenv 20 writes a prompt as it is, 21 within quotes; NULL: it names none. */
static const char *unquoted(struct arena *a, struct str prompt)
{
    if (prompt.n >= 2 && prompt.s[0] == '"' && prompt.s[prompt.n - 1] == '"') {
        prompt = (struct str){prompt.s + 1, prompt.n - 2};
    }
    return prompt.n ? str_dup(a, prompt) : NULL;
}

/* getpath.py: pyvenv.cfg stands beside the interpreter or one folder above it; PYTHONHOME turns
 * it off. */
static void config_find(struct py_env *env, const struct py_env_hints *hints, struct config *ret)
{
    struct arena *a = env->arena;
    const char *dirs[2] = {env->prefix, NULL};
    if (hints->pythonhome && *hints->pythonhome) {
        return;
    }
    if (env->executable) {
        dirs[0] = path_dir(a, env->executable);
        dirs[1] = path_dir(a, dirs[0]);
    }
    for (size_t i = 0; i < 2 && dirs[i]; i++) {
        char *path = path_join(a, dirs[i], "pyvenv.cfg");
        struct str text;
        int rc = root_read(env->root, a, path, CONFIG_BYTES_MAX, &text);
        if (rc < 0) {
            if (rc == -EACCES) {
                py_note_denied(env, path);
            } else if (rc != -ENOENT && rc != -ENOTDIR) {
                py_note(env, "%s: %s", path, py_why(rc));
            }
            continue;
        }
        config_parse(text, ret);
        env->config = path;
        env->prefix = dirs[i];
        env->system_site = ret->system_site;
        env->made_by_uv = ret->uv;
        env->prompt = unquoted(a, ret->prompt);
        if (ret->home.n == 0) {
            py_note(env, "%s has no \"home\" line; Python would not take it for an environment",
                    path);
        }
        return;
    }
}

/* The name is the folder of a standard library, as far as a name tells. */
static bool keep_lib(const char *name, void *arg)
{
    (void)arg;
    int major, minor;
    bool t;
    return py_name_version(name, &major, &minor, &t) && major == 3 && minor >= 0;
}

static bool has_stdlib(struct py_env *env, const char *lib, const char *name)
{
    char *dir = path_join(env->arena, lib, name);
    return py_is_file(env, path_join(env->arena, dir, "os.py"));
}

/* The library folder of a prefix that holds os.py, of the wanted version if one is known. */
static const char *stdlib_name(struct py_env *env, const char *lib)
{
    struct arena *a = env->arena;
    if (env->minor >= 0) {
        const char *plain = arena_printf(a, "python%d.%d", env->major, env->minor);
        const char *threaded = arena_printf(a, "%st", plain);
        if (!env->free_threaded && has_stdlib(env, lib, plain)) {
            return plain;
        }
        return has_stdlib(env, lib, threaded) ? threaded : NULL;
    }
    struct root_dir names;
    if (root_list(env->root, a, lib, LIB_NAMES_MAX, &(struct root_filter){.keep = keep_lib},
                  &names) < 0) {
        return NULL;
    }
    const char *only = NULL;
    for (size_t i = 0; i < names.n; i++) {
        if (has_stdlib(env, lib, names.names[i])) {
            if (only) {
                py_note(env,
                        "%s has several standard libraries (%s and %s), and the interpreter's "
                        "name does not say which is its own",
                        lib, only, names.names[i]);
                return NULL;
            }
            only = names.names[i];
        }
    }
    return only;
}

/* getpath.py search_up(): the first folder from `start` upwards with lib/pythonX.Y/os.py. */
static bool search_up(struct py_env *env, const char *start)
{
    static const char *const libs[] = {"lib", "lib64"};
    struct arena *a = env->arena;
    const char *dir = start;
    for (int up = 0; up < PARENTS_MAX && dir[0] == '/'; up++) {
        for (size_t i = 0; i < sizeof libs / sizeof *libs; i++) {
            char *lib = path_join(a, dir, libs[i]);
            const char *name = stdlib_name(env, lib);
            if (name) {
                env->base_prefix = dir;
                env->platlib_name = libs[i];
                env->lib_name = name;
                env->stdlib = path_join(a, lib, name);
                return true;
            }
        }
        if (dir[1] == '\0') {
            break;
        }
        dir = path_dir(a, dir);
    }
    return false;
}

/* "3.11.7", "3.11.7.final.0", "3.13.0rc1": the numbers at the head. */
static bool parse_version(struct str text, int ret[3])
{
    int found = 0;
    ret[0] = ret[1] = ret[2] = -1;
    for (; found < 3; found++) {
        size_t n = 0;
        int value = 0;
        while (n < text.n && n < 4 && isdigit((unsigned char)text.s[n])) {
            value = value * 10 + (text.s[n++] - '0');
        }
        if (n == 0) {
            break;
        }
        ret[found] = value;
        bool more = n < text.n && text.s[n] == '.';
        text.s += n + more, text.n -= n + more;
        if (!more) {
            found++;
            break;
        }
    }
    return found >= 2;
}

/* Takes the version from a text if nothing has given it so far, or the patch level if the text
 * agrees with what is known. False if it contradicts that. */
static bool version_take(struct py_env *env, struct str text, const char *from)
{
    int v[3];
    if (!parse_version(text, v)) {
        return true;
    }
    if (env->minor >= 0 && (v[0] != env->major || v[1] != env->minor)) {
        return false;
    }
    if (env->minor < 0 || (env->micro < 0 && v[2] >= 0)) {
        env->major = v[0], env->minor = v[1], env->micro = v[2];
        env->version_from = from;
    }
    return true;
}

/* Of "python3.11" behind the links, else of the name it is started by. */
static void version_from_executable(struct py_env *env)
{
    const char *names[] = {env->executable_real, env->executable};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int major, minor;
        bool t;
        if (names[i] && py_name_version(path_base(names[i]), &major, &minor, &t) && minor >= 0) {
            env->major = major, env->minor = minor;
            env->free_threaded = t;
            env->version_from = names[i];
            return;
        }
    }
}

/* `#define PY_VERSION "3.11.7"` of the base's own headers. */
static void version_from_header(struct py_env *env)
{
    struct arena *a = env->arena;
    char *path = arena_printf(a, "%s/include/%s/patchlevel.h", env->base_prefix, env->lib_name);
    struct str text;
    if (py_read_head(env, path, CONFIG_BYTES_MAX, &text, NULL) < 0) {
        return;
    }
    size_t at = str_find(text, "PY_VERSION ");
    struct str rest = {text.s + at, text.n - at};
    (void)str_cut(&rest, '"');
    if (rest.s) {
        (void)version_take(env, str_cut(&rest, '"'), path);
    }
}

static bool keep_conda_python(const char *name, void *arg)
{
    (void)arg;
    return starts_with(name, "python-3.") && ends_with(name, ".json");
}

/* conda-meta/python-3.11.7-h12debd9_0_cpython.json */
static void version_from_conda(struct py_env *env)
{
    struct arena *a = env->arena;
    char *meta = path_join(a, env->base_prefix, "conda-meta");
    struct root_dir names;
    if (root_list(env->root, a, meta, LIB_NAMES_MAX,
                  &(struct root_filter){.keep = keep_conda_python}, &names) == 0 &&
        names.n) {
        const char *version = names.names[0] + strlen("python-");
        struct str text = {version, strcspn(version, "-")};
        (void)version_take(env, text, path_join(a, meta, names.names[0]));
    }
}

/* /root/.pyenv/versions/3.11.7 */
static void version_from_prefix(struct py_env *env)
{
    if (strcmp(path_base(path_dir(env->arena, env->base_prefix)), "versions") == 0) {
        (void)version_take(env, str_of(path_base(env->base_prefix)), env->base_prefix);
    }
}

static void version_finish(struct py_env *env, const struct config *c)
{
    if (env->base_prefix) {
        int major = -1, minor = -1;
        bool t = false;
        if (py_name_version(env->lib_name, &major, &minor, &t)) {
            if (env->minor < 0) {
                env->version_from = env->stdlib;
            }
            env->major = major, env->minor = minor;
            env->free_threaded = t;
        }
        version_from_header(env);
        version_from_conda(env);
        version_from_prefix(env);
    }
    if (!version_take(env, c->version, env->config)) {
        py_note(env, "%s was written for Python %s, but the interpreter is now %d.%d", env->config,
                str_dup(env->arena, c->version), env->major, env->minor);
    }
}

/* Finds the base: from "home" of pyvenv.cfg as written, else from the interpreter behind links. */
static void find_base(struct py_env *env, const struct config *c, const struct py_env_hints *hints)
{
    struct arena *a = env->arena;
    if (hints->pythonhome && *hints->pythonhome) {
        struct str home = str_of(hints->pythonhome);
        char *dir = py_absolute(a, str_dup(a, str_cut(&home, ':')), hints);
        py_note(env, "PYTHONHOME puts the standard library at %s", dir);
        if (search_up(env, dir)) {
            return;
        }
    }
    char *home = c->home.n ? path_normal(a, str_dup(a, c->home)) : NULL;
    struct stat st;
    if (home && home[0] == '/' && root_stat(env->root, home, &st) == -EACCES) {
        // What lies above it is another Python's: the system's, below /lib.
        py_note(env, "this user may not look into %s, where pyvenv.cfg says that Python is", home);
        return;
    }
    if (home && home[0] == '/' && search_up(env, home)) {
        return;
    }
    if (env->executable_real && search_up(env, path_dir(a, env->executable_real))) {
        return;
    }
    py_note(env, "the Python installation behind this environment was not found%s%s",
            home ? "; pyvenv.cfg says " : "", home ? home : "");
}

static bool keep_tagged(const char *name, void *arg)
{
    (void)arg;
    return strstr(name, ".cpython-") && ends_with(name, ".so");
}

/* Names of machines as they stand in extension names: sysconfig's MULTIARCH. */
static const struct {
    unsigned machine; // e_machine
    const char *name, *platform;
} machines[] = {
    {62, "x86_64", "x86_64-linux-"},    {183, "aarch64", "aarch64-linux-"},
    {3, "i686", "i386-linux-"},         {21, "ppc64le", "powerpc64le-linux-"},
    {243, "riscv64", "riscv64-linux-"}, {22, "s390x", "s390x-linux-"},
};

enum { ELF_HEAD_BYTES = 4096, ELF_DATA_AT = 5, ELF_MACHINE_AT = 18 };

/* Sets machine; returns the platform part of extension names, or NULL. */
static const char *platform_of(struct py_env *env)
{
    struct str head;
    if (!env->executable_real ||
        py_read_head(env, env->executable_real, ELF_HEAD_BYTES, &head, NULL) < 0 ||
        !str_starts(head, "\177ELF") || head.n < ELF_MACHINE_AT + 2) {
        return NULL;
    }
    const unsigned char *m = (const unsigned char *)head.s + ELF_MACHINE_AT;
    bool big = head.s[ELF_DATA_AT] == 2;
    unsigned machine = big ? m[0] * 256u + m[1] : m[1] * 256u + m[0];
    bool musl = str_find(head, "/ld-musl-") < head.n; // PT_INTERP stands in the first page
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        if (machines[i].machine == machine) {
            env->machine = machines[i].name;
            return arena_printf(env->arena, "%s%s", machines[i].platform, musl ? "musl" : "gnu");
        }
    }
    return NULL;
}

/* The tag that CPython's own modules carry, "cpython-311-x86_64-linux-gnu"; else put together from
 * version and machine, for builds that have all of them built in. */
static char *extension_tag(struct py_env *env)
{
    struct arena *a = env->arena;
    struct root_dir names;
    const char *platform = platform_of(env);
    if (env->lib_dynload &&
        root_list(env->root, a, env->lib_dynload, LIB_NAMES_MAX,
                  &(struct root_filter){.keep = keep_tagged}, &names) == 0 &&
        names.n) {
        const char *tag = strstr(names.names[0], ".cpython-") + 1;
        return arena_strndup(a, tag, strlen(tag) - strlen(".so"));
    }
    if (!platform || env->minor < 0) {
        return NULL;
    }
    return arena_printf(a, "cpython-%d%d%s-%s", env->major, env->minor,
                        env->free_threaded ? "t" : "", platform);
}

/* _PyImport_DynLoadFiletab of CPython's Python/dynload_shlib.c. */
static void set_suffixes(struct py_env *env)
{
    char *tag = extension_tag(env);
    if (tag) {
        env->suffixes[env->n_suffixes++] = arena_printf(env->arena, ".%s.so", tag);
    } else {
        py_note(env, "the names of extension modules for this interpreter are not known");
    }
    if (!env->free_threaded) { // the limited API has no free-threaded build
        env->suffixes[env->n_suffixes++] = ".abi3.so";
    }
    env->suffixes[env->n_suffixes++] = ".so";
}

static enum py_env_kind find_kind(struct py_env *env, const struct config *c)
{
    struct arena *a = env->arena;
    if (env->config) {
        return c->virtualenv ? PY_ENV_VIRTUALENV : PY_ENV_VENV;
    }
    if (py_is_dir(env, path_join(a, env->prefix, "conda-meta"))) {
        return PY_ENV_CONDA;
    }
    char *versions = path_dir(a, env->prefix);
    if (strcmp(path_base(versions), "versions") == 0 &&
        py_is_dir(env, path_join(a, path_dir(a, versions), "shims"))) {
        return PY_ENV_PYENV;
    }
    static const char *const system[] = {"/", "/usr", "/usr/local"};
    for (size_t i = 0; i < sizeof system / sizeof *system; i++) {
        if (strcmp(env->prefix, system[i]) == 0) {
            return PY_ENV_SYSTEM;
        }
    }
    return PY_ENV_STANDALONE;
}

/* The version whose library folder the environment has, for one whose base is gone. */
static void version_from_own_lib(struct py_env *env)
{
    struct arena *a = env->arena;
    char *lib = path_join(a, env->prefix, "lib");
    struct root_dir names;
    if (root_list(env->root, a, lib, LIB_NAMES_MAX, &(struct root_filter){.keep = keep_lib},
                  &names) == 0 &&
        names.n == 1) {
        bool t = false;
        if (py_name_version(names.names[0], &env->major, &env->minor, &t)) {
            env->free_threaded = t;
            env->version_from = path_join(a, lib, names.names[0]);
        }
    }
}

/* Where things are. Without a base the names still follow from the version. */
static void set_layout(struct py_env *env)
{
    struct arena *a = env->arena;
    if (!env->lib_name && env->minor < 0) {
        version_from_own_lib(env);
    }
    if (!env->lib_name && env->minor >= 0) {
        env->lib_name =
            arena_printf(a, "python%d.%d%s", env->major, env->minor, env->free_threaded ? "t" : "");
    }
    if (!env->platlib_name) {
        env->platlib_name = "lib";
    }
    if (env->stdlib) {
        env->lib_dynload = path_join(a, env->stdlib, "lib-dynload");
    }
}

static void note_other_versions(struct py_env *env)
{
    struct arena *a = env->arena;
    char *lib = path_join(a, env->prefix, "lib");
    struct root_dir names;
    if (!env->config || !env->lib_name ||
        root_list(env->root, a, lib, LIB_NAMES_MAX, &(struct root_filter){.keep = keep_lib},
                  &names) < 0) {
        return;
    }
    for (size_t i = 0; i < names.n; i++) {
        if (strcmp(names.names[i], env->lib_name) != 0) {
            py_note(env, "%s/%s is not used: the interpreter looks in %s", lib, names.names[i],
                    env->lib_name);
        }
    }
}

int py_env_open(struct root *r, struct arena *a, const char *target,
                const struct py_env_hints *hints, struct py_env *ret, struct gm_err *err)
{
    struct py_env env = {
        .root = r, .arena = a, .major = -1, .minor = -1, .micro = -1, .uid = hints->uid};
    struct config config = {0};
    int rc = py_find(&env, target, hints, err);
    if (rc < 0) {
        return rc;
    }
    config_find(&env, hints, &config);
    version_from_executable(&env);
    if (env.major == 2) {
        return gm_err_set(err, GM_ERR_UNSUPPORTED, "%s is Python 2, which is not modelled",
                          str_printable(a, env.executable));
    }
    if (str_eq_nocase(config.implementation, STR("PyPy"))) {
        return gm_err_set(err, GM_ERR_UNSUPPORTED,
                          "%s is an environment of PyPy, which is not "
                          "modelled",
                          str_printable(a, env.prefix));
    }
    env.implementation = "cpython";
    find_base(&env, &config, hints);
    version_finish(&env, &config);
    if (!env.config && env.base_prefix) {
        env.prefix = env.base_prefix;
    } else if (!env.prefix) {
        env.prefix = path_dir(a, path_dir(a, env.executable));
    }
    set_layout(&env);
    env.kind = find_kind(&env, &config);
    py_manager(&env);
    set_suffixes(&env);
    note_other_versions(&env);
    py_syspath(&env, hints);
    py_dists_list(&env);
    *ret = env;
    return 0;
}
