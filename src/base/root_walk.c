/*
 * A path below the root, folder by folder, where the kernel has no openat2 with RESOLVE_IN_ROOT.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <setjmp.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/root.h"
#include "base/root_internal.h"
#include "base/str.h"

enum {
    LINKS_MAX = 40,
    PATH_BYTES_MAX = 64 << 10,
};

void root_close_path(int fd)
{
    if (fd >= 0) {
        (void)close(fd); // opened O_PATH: nothing can be lost
    }
}

/* The folder of a path without links. */
static int real_descend(struct root *r, struct arena *a, const char *path)
{
    struct str rest = str_of(path);
    int fd = openat(r->fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    while (fd >= 0 && rest.s) {
        const char *part = str_dup(a, str_cut(&rest, '/'));
        if (*part) {
            int next = openat(fd, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            int error = errno;
            root_close_path(fd);
            fd = next;
            errno = error;
        }
    }
    return fd < 0 ? -errno : fd;
}

/* The folder that `done` names now. */
static void move_to(struct walker *w, char *done)
{
    root_close_path(w->dir);
    w->dir = -1;
    w->name = NULL;
    w->done = done;
}

static bool is_of_other(const struct walker *w, uid_t owner)
{
    const uid_t *t = w->trusted;
    return w->asks_owners && owner != t[0] && owner != t[1] && owner != t[2];
}

static int walker_follow(struct walker *w, int link, uid_t owner)
{
    char target[4096];
    w->of_other = w->of_other || is_of_other(w, owner);
    ssize_t got = readlinkat(link, "", target, sizeof target - 1);
    if (got < 0 || ++w->links > LINKS_MAX) {
        return got < 0 ? -errno : -ELOOP;
    }
    target[got] = '\0';
    if (target[0] == '/') {
        move_to(w, arena_strdup(w->a, ""));
    }
    w->rest = arena_printf(w->a, "%s%s", target, w->rest);
    return strlen(w->rest) > PATH_BYTES_MAX ? -ENAMETOOLONG : 0;
}

/* One component that is neither "." nor "..". */
static int walker_enter(struct walker *w, const char *part, bool follow_last)
{
    bool last = w->rest[strspn(w->rest, "/")] == '\0', wants_dir = w->rest[0] == '/';
    struct stat st;
    w->dir = w->dir < 0 ? real_descend(w->r, w->a, w->done) : w->dir;
    int fd = w->dir < 0 ? w->dir : openat(w->dir, part, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return w->dir < 0 ? w->dir : -errno;
    }
    int rc = fstat(fd, &st) ? -errno : 0;
    if (rc == 0 && S_ISLNK(st.st_mode) && (!last || wants_dir || follow_last)) {
        rc = walker_follow(w, fd, st.st_uid);
    } else if (rc == 0 && (!last || wants_dir) && !S_ISDIR(st.st_mode)) {
        rc = -ENOTDIR;
    } else if (rc == 0) {
        w->done = arena_printf(w->a, "%s/%s", w->done, part);
        w->name = last && !wants_dir ? part : NULL;
        if (!w->name) {
            root_close_path(w->dir);
            w->dir = fd;
            return 0;
        }
    }
    root_close_path(fd);
    return rc;
}

/* With follow_last false a link at the end stays. On success w->done is the path without links and
 * w->name what to open in w->dir; w->dir is to be closed in any case. */
static int walker_walk(struct walker *w, const char *path, bool follow_last)
{
    int rc = !*path ? -ENOENT : strlen(path) > PATH_BYTES_MAX ? -ENAMETOOLONG : 0;
    w->done = arena_strdup(w->a, "");
    w->rest = path;
    w->dir = -1;
    while (rc == 0 && *(w->rest += strspn(w->rest, "/"))) {
        size_t n = strcspn(w->rest, "/");
        char *part = arena_strndup(w->a, w->rest, n);
        w->rest += n;
        if (strcmp(part, "..") == 0) {
            char *slash = strrchr(w->done, '/');
            move_to(w, slash ? arena_strndup(w->a, w->done, (size_t)(slash - w->done)) : w->done);
        } else if (strcmp(part, ".") != 0) {
            rc = walker_enter(w, part, follow_last);
        }
    }
    if (rc == 0 && !w->name) {
        w->dir = w->dir < 0 ? real_descend(w->r, w->a, w->done) : w->dir;
        rc = w->dir < 0 ? w->dir : 0;
        w->name = ".";
    }
    return rc;
}

void root_no_memory(void *arg)
{
    longjmp(*(jmp_buf *)arg, 1);
}

/* w->a's arena calls root_no_memory() with `out_of_memory`. */
static int open_walked(struct walker *w, jmp_buf *out_of_memory, const char *path, int flags)
{
    if (setjmp(*out_of_memory)) {
        return -ENOMEM;
    }
    int rc = walker_walk(w, path, !(flags & O_NOFOLLOW));
    if (rc < 0) {
        return rc;
    }
    int fd = openat(w->dir, w->name, flags | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int root_walk_safely(struct walker *w, jmp_buf *out_of_memory, const char *path)
{
    return setjmp(*out_of_memory) ? -ENOMEM : walker_walk(w, path, true);
}

int root_open_by_walk(struct root *r, const char *path, int flags)
{
    struct arena scratch;
    jmp_buf out_of_memory;
    arena_init(&scratch, 0, root_no_memory, &out_of_memory);
    struct walker w = {.r = r, .a = &scratch, .dir = -1};
    int rc = open_walked(&w, &out_of_memory, path, flags);
    root_close_path(w.dir);
    arena_release(&scratch);
    return rc;
}
