/*
 * The operations of the real root: each path is opened below it, by openat2 where the kernel has
 * it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/root.h"
#include "base/root_internal.h"
#include "base/str.h"

enum { READ_FLAGS = O_RDONLY | O_NONBLOCK | O_NOCTTY };

int root_open(struct root *r, const char *path, struct gm_err *err)
{
    *r = ROOT_EMPTY;
    int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return gm_err_set(err, GM_ERR_LOOK, "%s: %s", path, strerror(errno));
    }
    r->fd = fd;
    r->path = path;
    r->is_host = strcmp(path, "/") == 0;
    return 0;
}

void root_close(struct root *r)
{
    if (r->fd >= 0) {
        (void)close(r->fd); // opened O_PATH: nothing can be lost
    }
    r->fd = -1;
    if (r->listing) {
        (void)closedir(r->listing); // only read: nothing can be lost
        r->listing = NULL;
    }
    if (r->is_reading) {
        (void)close(r->reading);
        r->is_reading = false;
    }
    arena_release(&r->walked);
    if (r->folder && r->folder->fd >= 0) {
        (void)close(r->folder->fd);
    }
    r->folder = NULL;
}

void root_keep_folder(struct root *r, struct root_folder *folder)
{
    *folder = (struct root_folder){.fd = -1};
    r->folder = folder;
}

/* Opens inside the root by the kernel's own resolution. */
static int open_in_root(struct root *r, const char *path, int flags)
{
    struct open_how how = {.flags = (uint64_t)flags | O_CLOEXEC,
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    for (int tries = 0; tries < 16; tries++) {
        long fd = syscall(SYS_openat2, r->fd, path, &how, sizeof how);
        if (fd >= 0) {
            return (int)fd;
        }
        if (errno != EAGAIN && errno != EINTR) {
            return -errno;
        }
    }
    return -EAGAIN;
}

static void look_tell(const struct root *r, const char *path)
{
    if (r->on_look) {
        r->on_look(r->on_look_arg, path);
    }
}

enum { OFTEN = 3 };

/* Where to begin with *path, which loses its folder if that is the one kept open. */
static int begin_at(struct root *r, const char **path)
{
    struct root_folder *f = r->folder;
    const char *slash = f ? strrchr(*path, '/') : NULL;
    size_t n = slash ? (size_t)(slash - *path) : 0;
    if (n == 0 || n >= sizeof f->path || !slash[1]) {
        return AT_FDCWD;
    }
    if (n != f->n || memcmp(f->path, *path, n) != 0) {
        if (f->fd >= 0) {
            (void)close(f->fd);
        }
        *f = (struct root_folder){.n = n, .fd = -1};
        memcpy(f->path, *path, n);
    }
    if (f->times < OFTEN && ++f->times == OFTEN) {
        f->fd = open(f->path, O_PATH | O_DIRECTORY | O_CLOEXEC); // without it the path serves
    }
    if (f->fd < 0) {
        return AT_FDCWD;
    }
    *path = slash + 1;
    return f->fd;
}

static struct {
    const char *path; // or NULL
    int fd;
} early;

void root_open_early(const char *path)
{
    early.fd = open(path, READ_FLAGS | O_CLOEXEC);
    early.path = early.fd >= 0 ? path : NULL;
}

/* The file that was opened early, from its beginning. */
static int open_again(void)
{
    int fd = fcntl(early.fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    return fd < 0 || lseek(fd, 0, SEEK_SET) < 0 ? -errno : fd;
}

static int open_any(struct root *r, const char *path, int flags)
{
    look_tell(r, path);
    if (r->is_host && early.path && flags == READ_FLAGS && strcmp(path, early.path) == 0) {
        return open_again();
    }
    if (r->is_host) {
        int at = begin_at(r, &path);
        int fd = openat(at, path, flags | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
    }
    if (!r->no_openat2) {
        int fd = open_in_root(r, path, flags);
        if (fd != -ENOSYS && fd != -EPERM) {
            return fd;
        }
        r->no_openat2 = fd == -ENOSYS; // EPERM may be the sandbox's answer, or this very file's
    }
    return root_open_by_walk(r, path, flags);
}

static int real_stat(struct root *r, const char *path, bool follow, struct stat *ret)
{
    if (r->is_host) {
        look_tell(r, path);
        int at = begin_at(r, &path);
        return fstatat(at, path, ret, follow ? 0 : AT_SYMLINK_NOFOLLOW) ? -errno : 0;
    }
    int fd = open_any(r, path, O_PATH | (follow ? 0 : O_NOFOLLOW));
    if (fd < 0) {
        return fd;
    }
    int rc = fstat(fd, ret) ? -errno : 0;
    (void)close(fd);
    return rc;
}

/* Opens what has just been seen to be a regular file. */
static int open_regular(struct root *r, const char *path, struct stat *ret_st)
{
    struct stat st;
    int fd = open_any(r, path, READ_FLAGS);
    if (fd < 0) {
        return fd;
    }
    if (fstat(fd, &st) || !S_ISREG(st.st_mode)) { // exchanged under our hands
        (void)close(fd);
        return -ENOTSUP;
    }
    if (ret_st) {
        *ret_st = st;
    }
    return fd;
}

static int real_open_file(struct root *r, const char *path, struct stat *ret_st)
{
    struct stat st;
    int rc = real_stat(r, path, true, &st);
    if (rc < 0) {
        return rc;
    }
    if (!S_ISREG(st.st_mode)) {
        return S_ISDIR(st.st_mode) ? -EISDIR : -ENOTSUP;
    }
    int fd = open_regular(r, path, &st);
    if (fd >= 0 && root_is_private(r, fd, &st, path)) {
        (void)close(fd); // only its head was read
        return -EACCES;
    }
    if (fd >= 0 && ret_st) {
        *ret_st = st;
    }
    return fd;
}

static void begin_reading(struct root *r, int fd)
{
    r->reading = fd;
    r->is_reading = true;
}

static void end_reading(struct root *r)
{
    (void)close(r->reading); // only read: nothing can be lost
    r->is_reading = false;
}

static int real_read(struct root *r, struct arena *a, const char *path, size_t max_bytes,
                     struct str *ret)
{
    struct stat st;
    int fd = real_open_file(r, path, &st);
    if (fd < 0) {
        return fd;
    }
    if ((uintmax_t)st.st_size > max_bytes) {
        (void)close(fd);
        return -EFBIG;
    }
    size_t cap = st.st_size ? (size_t)st.st_size + 1 : 16384;
    begin_reading(r, fd);
    char *data = arena_alloc(a, cap + 1);
    size_t n = 0;
    int rc = 0;
    for (;;) {
        ssize_t got = read(fd, data + n, cap - n);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            rc = got < 0 ? -errno : 0;
            break;
        }
        n += (size_t)got;
        if (n > max_bytes) {
            rc = -EFBIG;
            break;
        }
        if (n == cap) {
            char *more = arena_alloc(a, cap * 2 + 1);
            memcpy(more, data, n);
            data = more, cap *= 2;
        }
    }
    end_reading(r);
    if (rc == 0) {
        data[n] = '\0';
        *ret = (struct str){data, n};
    }
    return rc;
}

static int real_read_head(struct root *r, struct arena *a, const char *path, size_t max_bytes,
                          struct str *ret, bool *ret_all)
{
    struct stat st;
    int fd = real_open_file(r, path, &st);
    if (fd < 0) {
        return fd;
    }
    size_t want = (uintmax_t)st.st_size < max_bytes ? (size_t)st.st_size : max_bytes;
    begin_reading(r, fd);
    char *data = arena_alloc(a, want + 1);
    size_t n = 0;
    int rc = 0;
    while (n < want) {
        ssize_t got = read(fd, data + n, want - n);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            rc = got < 0 ? -errno : 0;
            break;
        }
        n += (size_t)got;
    }
    end_reading(r);
    if (rc == 0) {
        *ret = (struct str){data, n};
        if (ret_all) {
            *ret_all = (uintmax_t)st.st_size <= n;
        }
    }
    return rc;
}

static int map_whole(int fd, const struct stat *st, const void **ret_data, size_t *ret_size)
{
    void *data = NULL;
    size_t size = (size_t)st->st_size;
    if (size) {
        data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    }
    if (data == MAP_FAILED) {
        return -errno;
    }
    *ret_data = data;
    *ret_size = size;
    return 0;
}

static int real_map(struct root *r, const char *path, bool gpu_code, const void **ret_data,
                    size_t *ret_size, struct stat *ret_st)
{
    (void)gpu_code; // all of it costs no more
    int fd = real_open_file(r, path, ret_st);
    if (fd < 0) {
        return fd;
    }
    int rc = map_whole(fd, ret_st, ret_data, ret_size);
    (void)close(fd);
    return rc;
}

static int real_open_seen(struct root *r, const char *path)
{
    return open_any(r, path, READ_FLAGS);
}

static int real_list(struct root *r, struct arena *a, const char *path, size_t max_entries,
                     const struct root_filter *filter, struct root_dir *ret)
{
    int fd = open_any(r, path, O_RDONLY | O_DIRECTORY | O_NONBLOCK);
    if (fd < 0) {
        return fd;
    }
    DIR *dir = fdopendir(fd);
    if (!dir) {
        int rc = -errno;
        (void)close(fd);
        if (rc == -ENOMEM) { // ours is missing: that says nothing about the folder
            arena_no_memory(a);
        }
        return rc;
    }
    VEC(char *) names = {0};
    bool truncated = false;
    r->listing = dir;
    errno = 0;
    for (struct dirent *e; (e = readdir(dir)); errno = 0) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) {
            continue;
        }
        if (filter && !filter->keep(e->d_name, filter->arg)) {
            continue;
        }
        if (names.n == max_entries) {
            truncated = true;
            break;
        }
        VEC_PUSH(a, &names, arena_strdup(a, e->d_name));
    }
    int rc = truncated ? 0 : -errno;
    r->listing = NULL;
    (void)closedir(dir);
    if (rc < 0) {
        return rc;
    }
    if (names.n) {
        qsort(names.items, names.n, sizeof *names.items, str_by_bytes);
    }
    *ret = (struct root_dir){names.items, names.n, truncated};
    return 0;
}

static int real_readlink(struct root *r, struct arena *a, const char *path, char **ret)
{
    char target[4096];
    ssize_t n;
    if (r->is_host) {
        look_tell(r, path);
        n = readlink(path, target, sizeof target - 1);
    } else {
        int fd = open_any(r, path, O_PATH | O_NOFOLLOW);
        if (fd < 0) {
            return fd;
        }
        n = readlinkat(fd, "", target, sizeof target - 1);
        int saved = errno;
        (void)close(fd);
        errno = saved == ENOENT ? EINVAL : saved; // an fd that is no link gives ENOENT
    }
    if (n < 0) {
        return -errno;
    }
    *ret = arena_strndup(a, target, (size_t)n);
    return 0;
}

static int real_realpath(struct root *r, struct arena *a, const char *path, char **ret)
{
    jmp_buf out_of_memory;
    look_tell(r, path);
    arena_init(&r->walked, 0, root_no_memory, &out_of_memory);
    struct walker w = {.r = r, .a = &r->walked, .dir = -1};
    int rc = root_walk_safely(&w, &out_of_memory, path);
    root_close_path(w.dir);
    if (rc == -ENOMEM) { // ours is missing: that says nothing about the path
        arena_no_memory(a);
    }
    *ret = rc == 0 ? arena_strdup(a, *w.done ? w.done : "/") : *ret;
    arena_release(&r->walked);
    return rc;
}

static int real_has_capabilities(struct root *r, const char *path)
{
    struct stat st;
    int fd = real_open_file(r, path, &st);
    if (fd < 0) {
        return fd;
    }
    ssize_t n = fgetxattr(fd, "security.capability", NULL, 0);
    int rc = n > 0 ? 1 : n == 0 || errno == ENODATA || errno == ENOTSUP ? 0 : -errno;
    (void)close(fd);
    return rc;
}

static int real_access(struct root *r, const char *path, int mode)
{
    if (r->is_host) {
        look_tell(r, path);
        return faccessat(AT_FDCWD, path, mode, AT_EACCESS) ? -errno : 0;
    }
    int fd = open_any(r, path, O_PATH);
    if (fd < 0) {
        return fd;
    }
    char self[64];
    (void)snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    int rc = faccessat(AT_FDCWD, self, mode, AT_EACCESS) ? -errno : 0;
    (void)close(fd);
    return rc;
}

int root_attribute(struct root *r, const char *path, const char *name, void *value, size_t size)
{
    ssize_t n = -1;
    if (r->is_host) {
        n = lgetxattr(path, name, value, size);
        return n < 0 ? -errno : (int)n;
    }
    int fd = open_any(r, path, O_PATH | O_NOFOLLOW);
    if (fd < 0) {
        return fd;
    }
    char self[64];
    (void)snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    n = getxattr(self, name, value, size); // a descriptor of O_PATH has none of its own
    int rc = n < 0 ? -errno : (int)n;
    (void)close(fd);
    return rc;
}

const struct root_operations root_files = {
    .is_here = true,
    .stat = real_stat,
    .open_file = real_open_file,
    .open_seen = real_open_seen,
    .read = real_read,
    .read_head = real_read_head,
    .map = real_map,
    .list = real_list,
    .readlink = real_readlink,
    .realpath = real_realpath,
    .has_capabilities = real_has_capabilities,
    .access = real_access,
};
