#include "base/root.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/snap.h"

enum { LINKS_MAX = 40, PATH_BYTES_MAX = 64 << 10, READ_FLAGS = O_RDONLY | O_NONBLOCK | O_NOCTTY };

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

void root_record(struct root *r, struct snap *s)
{
    struct root *from = arena_alloc(s->arena, sizeof *from);
    *from = *r;
    from->folder = NULL; // it stays with `r`, which closes it
    s->from = from;
    r->snap = s;
}

void root_replay(struct root *r, struct snap *s, const char *path)
{
    *r = ROOT_EMPTY;
    r->path = path;
    r->is_host = strcmp(path, "/") == 0;
    r->snap = s;
    s->from = NULL;
}

bool root_is_here(const struct root *r)
{
    return r->is_host && (!r->snap || r->snap->from);
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

/*
 * The path without links, found component by component. With follow_last false a link at the
 * end stays. The last component need not exist when must_exist is false.
 */
static int walk(struct root *r, struct arena *a, const char *path, bool follow_last, char **ret)
{
    if (!*path || strlen(path) > PATH_BYTES_MAX) {
        return *path ? -ENAMETOOLONG : -ENOENT;
    }
    char *rest = arena_strdup(a, path);
    char *done = arena_strdup(a, "");
    int links = 0;
    for (;;) {
        while (*rest == '/') {
            rest++;
        }
        if (!*rest) {
            break;
        }
        size_t n = strcspn(rest, "/");
        bool last = rest[n + strspn(rest + n, "/")] == '\0';
        bool wants_dir = rest[n] == '/';
        char *part = arena_strndup(a, rest, n);
        rest += n;
        if (strcmp(part, ".") == 0) {
            continue;
        }
        if (strcmp(part, "..") == 0) {
            char *slash = strrchr(done, '/');
            if (slash) {
                *slash = '\0';
            }
            continue;
        }
        char *next = arena_printf(a, "%s/%s", done, part);
        struct stat st;
        int fd = openat(r->fd, next + 1, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0) {
            return -errno;
        }
        int rc = fstat(fd, &st) ? -errno : 0;
        if (rc == 0 && S_ISLNK(st.st_mode) && (!last || wants_dir || follow_last)) {
            char target[4096];
            ssize_t got = readlinkat(fd, "", target, sizeof target - 1);
            rc = got < 0 ? -errno : ++links > LINKS_MAX ? -ELOOP : 0;
            if (rc == 0) {
                target[got] = '\0';
                if (target[0] == '/') {
                    done = arena_strdup(a, "");
                }
                rest = arena_printf(a, "%s%s", target, rest);
                rc = strlen(rest) > PATH_BYTES_MAX ? -ENAMETOOLONG : 0;
            }
        } else if (rc == 0) {
            rc = (!last || wants_dir) && !S_ISDIR(st.st_mode) ? -ENOTDIR : 0;
            done = next;
        }
        (void)close(fd);
        if (rc < 0) {
            return rc;
        }
    }
    *ret = *done ? done : arena_strdup(a, "/");
    return 0;
}

static void tell(const struct root *r, const char *path)
{
    if (r->on_look) {
        r->on_look(r->on_look_arg, path);
    }
}

enum { OFTEN = 3 }; // a single file is asked about twice: stat(), open()

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

static int open_any(struct root *r, const char *path, int flags)
{
    tell(r, path);
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
        r->no_openat2 = true;
    }
    struct arena scratch;
    arena_init(&scratch, 0, NULL, NULL);
    char *plain = NULL;
    int rc = walk(r, &scratch, path, !(flags & O_NOFOLLOW), &plain);
    if (rc == 0) {
        const char *relative = strcmp(plain, "/") == 0 ? "." : plain + 1;
        int fd = openat(r->fd, relative, flags | O_NOFOLLOW | O_CLOEXEC);
        rc = fd < 0 ? -errno : fd;
    }
    arena_release(&scratch);
    return rc;
}

static int stat_any(struct root *r, const char *path, bool follow, struct stat *ret)
{
    if (r->is_host) {
        tell(r, path);
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

int root_stat(struct root *r, const char *path, struct stat *ret)
{
    if (r->snap) {
        return snap_stat(r->snap, path, true, ret);
    }
    return stat_any(r, path, true, ret);
}

int root_lstat(struct root *r, const char *path, struct stat *ret)
{
    if (r->snap) {
        return snap_stat(r->snap, path, false, ret);
    }
    return stat_any(r, path, false, ret);
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

int root_open_file(struct root *r, const char *path, struct stat *ret_st)
{
    if (r->snap) {
        return -ENOTSUP;
    }
    struct stat st;
    int rc = root_stat(r, path, &st);
    if (rc < 0) {
        return rc;
    }
    if (S_ISDIR(st.st_mode)) {
        return -EISDIR;
    }
    return S_ISREG(st.st_mode) ? open_regular(r, path, ret_st) : -ENOTSUP;
}

int root_read(struct root *r, struct arena *a, const char *path, size_t max_bytes, struct str *ret)
{
    if (r->snap) {
        return snap_read(r->snap, a, path, max_bytes, ret);
    }
    struct stat st;
    int fd = root_open_file(r, path, &st);
    if (fd < 0) {
        return fd;
    }
    if ((uintmax_t)st.st_size > max_bytes) {
        (void)close(fd);
        return -EFBIG;
    }
    size_t cap = st.st_size ? (size_t)st.st_size + 1 : 16384;
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
    (void)close(fd);
    if (rc == 0) {
        data[n] = '\0';
        *ret = (struct str){data, n};
    }
    return rc;
}

int root_read_head(struct root *r, struct arena *a, const char *path, size_t max_bytes,
                   struct str *ret, bool *ret_all)
{
    if (r->snap) {
        return snap_read_head(r->snap, a, path, max_bytes, ret, ret_all);
    }
    struct stat st;
    int fd = root_open_file(r, path, &st);
    if (fd < 0) {
        return fd;
    }
    size_t want = (uintmax_t)st.st_size < max_bytes ? (size_t)st.st_size : max_bytes;
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
    (void)close(fd);
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

int root_map(struct root *r, const char *path, const void **ret_data, size_t *ret_size,
             struct stat *ret_st)
{
    if (r->snap) {
        return snap_map(r->snap, path, SNAP_ALL, ret_data, ret_size, ret_st);
    }
    int fd = root_open_file(r, path, ret_st);
    if (fd < 0) {
        return fd;
    }
    int rc = map_whole(fd, ret_st, ret_data, ret_size);
    (void)close(fd);
    return rc;
}

int root_map_gpu_code(struct root *r, const char *path, const void **ret_data, size_t *ret_size,
                      struct stat *ret_st)
{
    return r->snap ? snap_map(r->snap, path, SNAP_GPU_CODE, ret_data, ret_size, ret_st)
                   : root_map(r, path, ret_data, ret_size, ret_st);
}

int root_open_seen(struct root *r, const char *path)
{
    return r->snap ? -ENOTSUP : open_any(r, path, READ_FLAGS);
}

static int by_name(const void *x, const void *y)
{
    return strcmp(*(char *const *)x, *(char *const *)y);
}

int root_list(struct root *r, struct arena *a, const char *path, size_t max_entries,
              bool (*keep)(const char *name, void *arg), void *arg, struct root_dir *ret)
{
    if (r->snap) {
        return snap_list(r->snap, a, path, max_entries, keep, arg, ret);
    }
    int fd = open_any(r, path, O_RDONLY | O_DIRECTORY | O_NONBLOCK);
    if (fd < 0) {
        return fd;
    }
    DIR *dir = fdopendir(fd);
    if (!dir) {
        int rc = -errno;
        (void)close(fd);
        return rc;
    }
    VEC(char *) names = {0};
    bool truncated = false;
    errno = 0;
    for (struct dirent *e; (e = readdir(dir)); errno = 0) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) {
            continue;
        }
        if (keep && !keep(e->d_name, arg)) {
            continue;
        }
        if (names.n == max_entries) {
            truncated = true;
            break;
        }
        VEC_PUSH(a, &names, arena_strdup(a, e->d_name));
    }
    int rc = truncated ? 0 : -errno;
    (void)closedir(dir);
    if (rc < 0) {
        return rc;
    }
    if (names.n) {
        qsort(names.items, names.n, sizeof *names.items, by_name);
    }
    *ret = (struct root_dir){names.items, names.n, truncated};
    return 0;
}

int root_readlink(struct root *r, struct arena *a, const char *path, char **ret)
{
    if (r->snap) {
        return snap_readlink(r->snap, a, path, ret);
    }
    char target[4096];
    ssize_t n;
    if (r->is_host) {
        tell(r, path);
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

int root_realpath(struct root *r, struct arena *a, const char *path, char **ret)
{
    if (r->snap) {
        return snap_realpath(r->snap, a, path, ret);
    }
    tell(r, path);
    return walk(r, a, path, true, ret);
}

int root_has_capabilities(struct root *r, const char *path)
{
    if (r->snap) {
        return snap_has_capabilities(r->snap, path);
    }
    struct stat st;
    int fd = root_open_file(r, path, &st);
    if (fd < 0) {
        return fd;
    }
    ssize_t n = fgetxattr(fd, "security.capability", NULL, 0);
    int rc = n > 0 ? 1 : n == 0 || errno == ENODATA || errno == ENOTSUP ? 0 : -errno;
    (void)close(fd);
    return rc;
}

int root_access(struct root *r, const char *path, int mode)
{
    if (r->snap) {
        return snap_access(r->snap, path, mode);
    }
    if (r->is_host) {
        tell(r, path);
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
