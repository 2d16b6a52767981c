#include "mend/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"

const char *mend_cache_folder(struct arena *a, const char *xdg_cache_home, const char *home)
{
    if (xdg_cache_home && xdg_cache_home[0] == '/') {
        return path_join(a, xdg_cache_home, "gpumend");
    }
    return home && home[0] == '/' ? path_join(a, home, ".cache/gpumend") : NULL;
}

static int make_all(const char *path)
{
    struct arena scratch;
    arena_init(&scratch, 0, NULL, NULL);
    int rc = mkdir(path, 0700) ? -errno : 0;
    if (rc == -ENOENT && strcmp(path_dir(&scratch, path), path) != 0) {
        rc = make_all(path_dir(&scratch, path));
        rc = rc < 0 ? rc : mkdir(path, 0700) ? -errno : 0;
    }
    arena_release(&scratch);
    return rc == -EEXIST ? 0 : rc;
}

static int open_own(const char *path, struct gm_err *err)
{
    struct stat st;
    int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    int fd = open(path, flags);
    if (fd < 0 && errno == ENOENT && make_all(path) == 0) {
        fd = open(path, flags);
    }
    if (fd < 0) {
        return gm_err_set(err, GM_ERR_LOOK, "%s: %s", path, strerror(errno));
    }
    if (fstat(fd, &st) < 0 || st.st_uid != geteuid() || st.st_mode & (S_IWGRP | S_IWOTH)) {
        (void)close(fd); // a folder: nothing can be lost
        return gm_err_set(err, GM_ERR_LOOK, "%s belongs to another user, or others may write it",
                          path);
    }
    return fd;
}

/* Whether other users can neither write to the folder nor, where it is sticky, take away what is this
 * user's in it. */
static bool is_guarded(const struct stat *st)
{
    bool owned = st->st_uid == 0 || st->st_uid == geteuid();
    return owned && (!(st->st_mode & (S_IWGRP | S_IWOTH)) || st->st_mode & S_ISVTX);
}

/* From the root folder down, so that each one checked is in one that was: nobody can swap it behind
 * our back. `real` has no links. */
static bool all_guarded(struct arena *a, const char *real, const char **ret_folder)
{
    struct stat st;
    for (size_t i = 0; i == 0 || real[i - 1]; i++) {
        if (real[i] && real[i] != '/') {
            continue;
        }
        *ret_folder = i ? arena_strndup(a, real, i) : "/";
        if (lstat(*ret_folder, &st) < 0 || !S_ISDIR(st.st_mode) || !is_guarded(&st)) {
            return false;
        }
    }
    return true;
}

const char *mend_safe_path(struct arena *a, const char *path, struct gm_err *err)
{
    const char *there = path;
    char *real = realpath(path, NULL);
    while (!real && errno == ENOENT && strcmp(there, "/") != 0) {
        there = path_dir(a, there);
        real = realpath(there, NULL);
    }
    if (!real) {
        (void)gm_err_set(err, GM_ERR_LOOK, "%s: %s", path, strerror(errno));
        return NULL;
    }
    const char *rest = path + strlen(there);
    const char *found = strcmp(there, path) == 0
                            ? arena_strdup(a, real)
                            : path_join(a, arena_strdup(a, real), rest + strspn(rest, "/"));
    const char *folder;
    bool safe = all_guarded(a, real, &folder);
    free(real);
    if (!safe) {
        (void)gm_err_set(err, GM_ERR_UNSUPPORTED, "%s is not used: another user could change what is in %s",
                         path, folder);
    }
    return safe ? found : NULL;
}

/* Whether the folder is in a place of mend_safe_path(). */
static int check_place(const char *path, struct gm_err *err)
{
    struct arena scratch;
    arena_init(&scratch, 0, NULL, NULL);
    const char *above = path_dir(&scratch, path), *safe = mend_safe_path(&scratch, above, err);
    int rc = safe ? 0 : GM_ERR_LOOK;
    if (safe && strcmp(safe, above) != 0) {
        rc = gm_err_set(err, GM_ERR_LOOK, "%s is not used: a link leads from there to %s", path, safe);
    }
    arena_release(&scratch);
    return rc;
}

int mend_own_folder(const char *path, struct gm_err *err)
{
    int fd = check_place(path, err) < 0 ? GM_ERR_LOOK : open_own(path, err);
    /* Again, since what was missing above it may have been made by others meanwhile. */
    if (fd >= 0 && check_place(path, err) < 0) {
        (void)close(fd); // a folder: nothing can be lost
        fd = GM_ERR_LOOK;
    }
    return fd;
}
