#include "mend/folder.h"

#include <errno.h>
#include <fcntl.h>
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

int mend_own_folder(const char *path, struct gm_err *err)
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
