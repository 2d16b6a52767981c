#include "py/places.h"

#include <string.h>

#include "base/str.h"

enum { CHILDREN_MAX = 256, DISTS_MAX = 8192, VERSIONS_MAX = 16 };
enum { WALK_FOLDERS_MAX = 8192, WALK_ENTRIES_MAX = 1 << 17 };

struct search {
    struct root *root;
    struct arena *a;
    py_places *out;
};

static bool is_dist(const char *name, void *arg)
{
    (void)arg;
    return ends_with(name, ".dist-info");
}

static bool is_version(const char *name, void *arg)
{
    (void)arg;
    return starts_with(name, "python3");
}

static bool search_is_file(struct search *s, const char *path)
{
    struct stat st;
    return root_stat(s->root, path, &st) == 0 && S_ISREG(st.st_mode);
}

static bool site_is_known(const struct search *s, const char *site)
{
    for (size_t i = 0; i < s->out->n; i++) {
        if (strcmp(s->out->items[i].site, site) == 0) {
            return true;
        }
    }
    return false;
}

/* Adds a folder that holds distributions, each under its path without links; false: it has none. */
static bool search_add_site(struct search *s, const char *prefix, const char *site)
{
    struct root_dir list;
    char *real = NULL;
    if (root_realpath(s->root, s->a, site, &real) < 0) {
        return false;
    }
    if (site_is_known(s, real)) {
        return true;
    }
    if (root_list(s->root, s->a, real, DISTS_MAX, &(struct root_filter){.keep = is_dist}, &list) <
            0 ||
        !list.n) {
        return false;
    }
    if (s->out->n >= PY_PLACES_MAX) {
        root_note_cut(s->root,
                      "more than %d folders have Python packages; the others were not "
                      "looked at",
                      PY_PLACES_MAX);
        return false;
    }
    struct py_place place = {.prefix = prefix, .site = real};
    for (size_t i = 0; i < list.n; i++) {
        size_t n = strcspn(list.names[i], "-");
        VEC_PUSH(s->a, &place.names, arena_strndup(s->a, list.names[i], n));
    }
    place.has_python = search_is_file(s, path_join(s->a, prefix, "bin/python3")) ||
                       search_is_file(s, path_join(s->a, prefix, "bin/python"));
    VEC_PUSH(s->a, s->out, place);
    return true;
}

enum prefix_kind { PREFIX_NONE, PREFIX_ENVIRONMENT, PREFIX_TARGET };

/* The site folders of a prefix. */
static enum prefix_kind search_add_prefix(struct search *s, const char *prefix)
{
    static const char *const libs[] = {"lib", "lib64"};
    static const char *const sites[] = {"site-packages", "dist-packages"};
    bool any = false;
    for (size_t i = 0; i < 2; i++) {
        struct root_dir list;
        const char *lib = path_join(s->a, prefix, libs[i]);
        if (root_list(s->root, s->a, lib, VERSIONS_MAX, &(struct root_filter){.keep = is_version},
                      &list) < 0) {
            continue;
        }
        for (size_t k = 0; k < list.n * 2; k++) {
            const char *dir = path_join(s->a, lib, list.names[k / 2]);
            search_add_site(s, prefix, path_join(s->a, dir, sites[k % 2]));
            any = true;
        }
    }
    return any                                  ? PREFIX_ENVIRONMENT
           : search_add_site(s, prefix, prefix) ? PREFIX_TARGET
                                                : PREFIX_NONE;
}

static void add_children(struct search *s, const char *dir)
{
    struct root_dir list;
    if (root_list(s->root, s->a, dir, CHILDREN_MAX, NULL, &list) < 0) {
        return;
    }
    for (size_t i = 0; i < list.n; i++) {
        search_add_prefix(s, path_join(s->a, dir, list.names[i]));
    }
}

/* A folder of an application or a user: itself, and what is usual below it. */
static void search_add_folder(struct search *s, const char *dir)
{
    static const char *const names[] = {".venv",      "venv",      "env",        ".env",
                                        "miniconda3", "anaconda3", "miniforge3", "mambaforge"};
    static const char *const parents[] = {"envs",
                                          "miniconda3/envs",
                                          "anaconda3/envs",
                                          "miniforge3/envs",
                                          "mambaforge/envs",
                                          ".pyenv/versions",
                                          ".conda/envs",
                                          ".cache/pypoetry/virtualenvs",
                                          ".local/share/virtualenvs",
                                          ".virtualenvs",
                                          ".pixi/envs"};
    search_add_prefix(s, dir);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        search_add_prefix(s, path_join(s->a, dir, names[i]));
    }
    for (size_t i = 0; i < sizeof parents / sizeof *parents; i++) {
        add_children(s, path_join(s->a, dir, parents[i]));
    }
}

static bool is_kernel_folder(const char *path)
{
    return strcmp(path, "/proc") == 0 || strcmp(path, "/sys") == 0 || strcmp(path, "/dev") == 0;
}

/* ------------------------------------------------------------------ the rest of the tree */

/* Folders of the system, where its package manager puts files. */
static bool is_of_system(const char *path)
{
    static const char *const folders[] = {
        "/bin",         "/boot",       "/dev",         "/etc",          "/lib",        "/lib32",
        "/lib64",       "/libx32",     "/lost+found",  "/proc",         "/run",        "/sbin",
        "/sys",         "/usr/bin",    "/usr/include", "/usr/lib",      "/usr/lib32",  "/usr/lib64",
        "/usr/libexec", "/usr/libx32", "/usr/sbin",    "/usr/share",    "/var/cache",  "/var/log",
        "/var/run",     "/var/spool",  "/var/lib/apt", "/var/lib/dpkg", "/var/lib/rpm"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        if (strcmp(path, folders[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Folders that hold only parts of something, here or in an environment. */
static bool child_is_part(const char *name, bool of_environment)
{
    static const char *const parts[] = {".git", "__pycache__", "node_modules"};
    static const char *const of_one[] = {"bin",   "conda-meta", "include", "lib",
                                         "lib64", "pkgs",       "share"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (strcmp(name, parts[i]) == 0) {
            return true;
        }
    }
    for (size_t i = 0; of_environment && i < sizeof of_one / sizeof *of_one; i++) {
        if (strcmp(name, of_one[i]) == 0) {
            return true;
        }
    }
    return false;
}

static bool search_is_folder(struct search *s, const char *path)
{
    struct stat st;
    return root_lstat(s->root, path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Breadth first, so that what a limit leaves out is deep down. False: something was left out. */
static bool walk_tree(struct search *s)
{
    VEC(const char *) queue = {0};
    size_t n_entries = 0;
    bool whole = true;
    VEC_PUSH(s->a, &queue, "/");
    for (size_t i = 0; i < queue.n; i++) {
        const char *at = queue.items[i];
        enum prefix_kind kind = search_add_prefix(s, at);
        struct root_dir list;
        if (kind == PREFIX_TARGET ||
            root_list(s->root, s->a, at, WALK_ENTRIES_MAX, NULL, &list) < 0) {
            continue;
        }
        whole = whole && !list.truncated;
        for (size_t k = 0; k < list.n; k++) {
            const char *path = path_join(s->a, at, list.names[k]);
            if (is_of_system(path) || child_is_part(list.names[k], kind == PREFIX_ENVIRONMENT)) {
                continue;
            }
            if (n_entries >= WALK_ENTRIES_MAX || queue.n >= WALK_FOLDERS_MAX) {
                return false;
            }
            n_entries++;
            if (search_is_folder(s, path)) {
                VEC_PUSH(s->a, &queue, path);
            }
        }
    }
    return whole;
}

bool py_places_find(struct root *r, struct arena *a, const char *cwd, py_places *ret)
{
    static const char *const bases[] = {"/app",  "/",          "/opt",     "/srv",      "/home",
                                        "/root", "/workspace", "/code",    "/usr/src",  "/data",
                                        "/mnt",  "/var/www",   "/var/lib", "/usr/local"};
    struct search s = {r, a, ret};
    *ret = (py_places){0};
    if (cwd && strcmp(cwd, "/") != 0) {
        search_add_folder(&s, cwd);
    }
    for (size_t i = 0; i < sizeof bases / sizeof *bases; i++) {
        struct root_dir list;
        if (strcmp(bases[i], "/") != 0) {
            search_add_folder(&s, bases[i]);
        }
        if (root_list(r, a, bases[i], CHILDREN_MAX, NULL, &list) < 0) {
            continue;
        }
        for (size_t k = 0; k < list.n; k++) {
            const char *dir = path_join(a, bases[i], list.names[k]);
            if (!is_kernel_folder(dir)) {
                search_add_folder(&s, dir);
            }
        }
    }
    return walk_tree(&s);
}
