#include "apply/imports.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/env.h"
#include "base/folder.h"
#include "base/str.h"

enum { DEPTH_MAX = 64, FILES_MAX = 2000000, OUTSIDE_MAX = 8 };

struct imports {
    struct arena *arena;
    const char *within; // the folder whose files are looked at, without links
    size_t n_files;
    unsigned outside; // folders that links led to, one within the other
    bool has_group;
    gid_t group; // one that keeps others out
};

static const char *tree_objection(struct imports *w, const char *path);

static bool has_access_list(int fd)
{
    return fgetxattr(fd, "system.posix_acl_access", NULL, 0) >= 0 ||
           (errno != ENODATA && errno != ENOTSUP);
}

/* Who else may write to what is open here: a group is asked about once, since there are as many
 * files as packages have. */
static const char *writers_objection(struct imports *w, int fd, const struct stat *st)
{
    bool plain = !(st->st_mode & S_IWOTH) && !has_access_list(fd);
    if (plain && w->has_group && w->group == st->st_gid) {
        return NULL;
    }
    const char *why = folder_other_writers(w->arena, fd, st);
    if (!why && plain) {
        w->has_group = true;
        w->group = st->st_gid;
    }
    return why;
}

static bool is_within(const struct imports *w, const char *path)
{
    size_t n = strlen(w->within);
    return strncmp(path, w->within, n) == 0 && (!path[n] || path[n] == '/');
}

/* Where the link leads to; what lies in the folder itself is looked at in its turn. */
static const char *link_objection(struct imports *w, const char *path)
{
    struct stat st;
    char *real = realpath(path, NULL);
    const char *why = NULL, *before = w->within;
    if (!real || stat(real, &st) < 0 || is_within(w, real)) {
        free(real); // a link to nothing imports nothing
        return NULL;
    }
    if (!S_ISDIR(st.st_mode)) {
        why = folder_program_objection(w->arena, path);
    } else if (w->outside == OUTSIDE_MAX) {
        why = arena_printf(w->arena, "%s: too many links to folders", path);
    } else {
        w->outside++;
        why = tree_objection(w, path);
        w->outside--;
        w->within = before;
    }
    free(real);
    return why;
}

static const char *folder_files_objection(struct imports *w, int fd, const char *path,
                                          unsigned depth);

static const char *file_objection(struct imports *w, int dir, const char *path, unsigned depth)
{
    struct stat st;
    const char *name = path_base(path), *why = NULL;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return errno == ENOENT ? NULL : arena_printf(w->arena, "%s: %s", path, strerror(errno));
    }
    if (st.st_uid != 0 && st.st_uid != geteuid()) {
        return arena_printf(w->arena, "%s: it belongs to user %u", path, (unsigned)st.st_uid);
    }
    if (S_ISLNK(st.st_mode)) {
        return link_objection(w, path);
    }
    bool others = st.st_mode & (S_IWGRP | S_IWOTH);
    if (!S_ISDIR(st.st_mode) && !(S_ISREG(st.st_mode) && others)) {
        return NULL;
    }
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        why = errno == EACCES ? NULL : arena_printf(w->arena, "%s: %s", path, strerror(errno));
    } else if (others && (why = writers_objection(w, fd, &st))) {
        why = arena_printf(w->arena, "%s: %s", path, why);
    } else if (S_ISDIR(st.st_mode)) {
        why = folder_files_objection(w, fd, path, depth);
        fd = -1;
    }
    if (fd >= 0) {
        (void)close(fd); // only read from
    }
    return why;
}

/* Takes the descriptor. */
static const char *folder_files_objection(struct imports *w, int fd, const char *path,
                                          unsigned depth)
{
    const char *why = NULL;
    DIR *names = fdopendir(fd);
    if (!names) {
        (void)close(fd); // a folder: nothing can be lost
        return arena_printf(w->arena, "%s: %s", path, strerror(errno));
    }
    for (struct dirent *e; !why && (e = readdir(names));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) {
            continue;
        }
        if (depth == 0 || ++w->n_files > FILES_MAX) {
            why = arena_printf(w->arena, "%s: too many files, or too deep", path);
        } else {
            why = file_objection(w, dirfd(names), path_join(w->arena, path, e->d_name), depth - 1);
        }
    }
    (void)closedir(names); // only read from
    return why;
}

/* The files of a folder of sys.path, which has no links in its path. */
static const char *folder_tree_objection(struct imports *w, const char *real)
{
    struct stat st;
    const char *why = folder_path_objection(w->arena, real);
    if (why) {
        return why;
    }
    int fd = open(real, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        return arena_printf(w->arena, "%s: %s", real, strerror(errno));
    }
    // A sticky folder keeps its files, and lets others put their own beside them.
    why = st.st_mode & (S_IWGRP | S_IWOTH) ? writers_objection(w, fd, &st) : NULL;
    if (why) {
        (void)close(fd); // a folder: nothing can be lost
        return arena_printf(w->arena, "%s: %s", real, why);
    }
    w->within = real;
    return folder_files_objection(w, fd, real, DEPTH_MAX);
}

/* A folder of sys.path, or a file there. What is not there imports nothing. */
static const char *tree_objection(struct imports *w, const char *path)
{
    struct stat st;
    if (stat(path, &st) < 0) {
        return errno == ENOENT || errno == ENOTDIR
                   ? NULL
                   : arena_printf(w->arena, "%s: %s", path, strerror(errno));
    }
    if (!S_ISDIR(st.st_mode)) {
        return folder_program_objection(w->arena, path);
    }
    char *real = realpath(path, NULL);
    const char *why = real ? folder_tree_objection(w, arena_strdup(w->arena, real))
                           : arena_printf(w->arena, "%s: %s", path, strerror(errno));
    free(real);
    return why;
}

int apply_start_check(struct arena *a, const struct py_env *env, struct gm_err *err)
{
    struct imports w = {.arena = a};
    if (folder_safe_program(a, env->executable, err) < 0) {
        return GM_ERR_UNSUPPORTED;
    }
    const char *why = env->config ? tree_objection(&w, env->config) : NULL;
    for (size_t i = 0; !why && i < env->n_paths; i++) {
        why = tree_objection(&w, env->paths[i].dir);
    }
    return why ? gm_err_set(err, GM_ERR_UNSUPPORTED,
                            "%s is not started: another user could change what it imports (%s)",
                            env->executable, why)
               : 0;
}

static const char *safe_folders(struct arena *a, const char *name, const char *value)
{
    struct str rest = str_of(value);
    const char *kept = "";
    while (rest.s) {
        const char *folder = folder_safe_search(a, str_dup(a, str_cut(&rest, ':')));
        kept = folder ? arena_printf(a, "%s%s%s", kept, *kept ? ":" : "", folder) : kept;
    }
    return arena_printf(a, "%s=%s", name, kept);
}

const char *const *apply_start_env(struct arena *a, const char *const *env, size_t n_env)
{
    static const char *const searched[] = {"PATH", "PYTHONPATH"};
    const char **kept = arena_array(a, n_env + 1, sizeof *kept);
    for (size_t i = 0; i < n_env; i++) {
        kept[i] = env[i];
        for (size_t k = 0; k < sizeof searched / sizeof *searched; k++) {
            const char *value = env_value_of(env[i], searched[k]);
            kept[i] = value ? safe_folders(a, searched[k], value) : kept[i];
        }
    }
    return kept;
}
