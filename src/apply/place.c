/*
 * A folder that may be changed: paths that stay below it, files written, read, copied and
 * removed in it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "apply/place.h"
#include "apply/place_internal.h"
#include "base/folder.h"

enum {
    DEPTH_MAX = 128,
    NAMES_MAX = 100000,
    XATTR_BYTES_MAX = 64 << 10,
    COPY_BYTES = 256 << 10,
    LINK_BYTES_MAX = 4096,
};

static const char system_home[] = "var/lib";

int apply_place_said(struct gm_err *err, const char *what)
{
    return gm_err_set(err, GM_ERR_LOOK, "%s: %s", what, strerror(errno));
}

void apply_place_close_fd(int fd)
{
    if (fd >= 0) {
        (void)close(fd); // what was written is synced before
    }
}

/* ------------------------------------------------------------------ opening */

int apply_place_open(struct apply_place *p, struct arena *a, struct root *root, const char *prefix,
                     bool is_system, struct gm_err *err)
{
    char *real = NULL;
    int rc = root_realpath(root, a, is_system ? "/" : prefix, &real);
    *p = APPLY_PLACE_EMPTY;
    p->arena = a;
    p->is_system = is_system;
    p->top = is_system ? "gpumend" : ".gpumend";
    if (rc < 0) {
        return gm_err_set(err, GM_ERR_LOOK, "%s: %s", prefix, strerror(-rc));
    }
    p->base_path = root->is_host ? real : path_normal(a, path_join(a, root->path, real + 1));
    p->swap = folder_path_objection(a, path_dir(a, p->base_path));
    p->base = open(p->base_path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (p->base < 0) {
        return apply_place_said(err, p->base_path);
    }
    p->home =
        is_system ? apply_place_look(p, system_home, err) : fcntl(p->base, F_DUPFD_CLOEXEC, 3);
    return p->home >= 0 ? 0 : apply_place_said(err, is_system ? system_home : p->base_path);
}

void apply_place_close(struct apply_place *p)
{
    apply_place_close_fd(p->base);
    apply_place_close_fd(p->home);
    p->base = p->home = -1;
}

int apply_place_lock(struct apply_place *p, struct gm_err *err)
{
    if (flock(p->home, LOCK_EX | LOCK_NB) == 0) {
        return 0;
    }
    if (errno == EWOULDBLOCK) {
        return gm_err_set(err, GM_ERR_LOOK, "%s: another gpumend is changing it right now",
                          p->base_path);
    }
    return apply_place_said(err, p->base_path);
}

static char *inside(struct root *root, struct arena *a, const char *path)
{
    char *real = NULL;
    return root_realpath(root, a, path, &real) == 0 ? real : NULL;
}

/* The path without links in its folder part; folders at its end may be still to come. */
static const char *settled(struct root *root, struct arena *a, const char *path)
{
    const char *end = path_base(path);
    if (strcmp(path, "/") == 0) {
        return path;
    }
    const char *parent = path_dir(a, path);
    const char *real = inside(root, a, parent);
    if (!real) {
        struct stat st;
        bool absent = root_lstat(root, parent, &st) == -ENOENT;
        real = absent ? settled(root, a, parent) : NULL;
    }
    return real ? path_join(a, real, end) : NULL;
}

int apply_place_relative(struct apply_place *p, struct root *root, const char *path,
                         const char **ret, struct gm_err *err)
{
    const char *normal = path_normal(p->arena, path);
    const char *real = path[0] == '/' ? settled(root, p->arena, normal) : NULL;
    const char *full = real && !root->is_host
                           ? path_normal(p->arena, path_join(p->arena, root->path, real + 1))
                           : real;
    size_t n = strcmp(p->base_path, "/") == 0 ? 0 : strlen(p->base_path);
    if (!full || strncmp(full, p->base_path, n) != 0 || full[n] != '/' || !full[n + 1]) {
        return gm_err_set(err, GM_ERR_UNSUPPORTED, "%s is outside of %s%s%s", path, p->base_path,
                          real && strcmp(real, normal) != 0 ? ", where a link leads to: " : "",
                          real && strcmp(real, normal) != 0 ? real : "");
    }
    if (!p->is_system && starts_with(full + n + 1, ".gpumend")) {
        return gm_err_set(err, GM_ERR_UNSUPPORTED, "%s is a place of gpumend's own", path);
    }
    *ret = full + n + 1;
    return 0;
}

/* ------------------------------------------------------------------ the walk */

/* Why this user must not change anything in the folder; NULL if there is no reason. */
static const char *objection(const struct apply_place *p, int fd, const struct stat *st)
{
    const char *others = folder_other_writers(p->arena, fd, st);
    uid_t me = geteuid();
    if (p->swap) {
        return arena_printf(p->arena, "another user could put another folder in its place (%s)",
                            p->swap);
    }
    if (others) {
        return arena_printf(
            p->arena,
            "%s, so that others could change what programs load from it "
            "(chmod go-w or setfacl -b keeps them out; otherwise use an environment of your own)",
            others);
    }
    if (st->st_uid != me && !(p->is_system && st->st_uid == 0)) {
        return arena_printf(p->arena, "it belongs to user %u, and this is user %u", st->st_uid, me);
    }
    return NULL;
}

int apply_place_check_folder(const struct apply_place *p, int fd, const char *path,
                             struct gm_err *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0) {
        return apply_place_said(err, path);
    }
    const char *why = objection(p, fd, &st);
    return why ? gm_err_set(err, GM_ERR_UNSUPPORTED, "nothing is written into %s: %s",
                            strcmp(path, ".") == 0 ? p->base_path : path, why)
               : 0;
}

static int place_walk(const struct apply_place *p, const char *path, bool to_change,
                      struct gm_err *err)
{
    int fd = fcntl(p->base, F_DUPFD_CLOEXEC, 3);
    struct str rest = str_of(strcmp(path, ".") == 0 ? NULL : path);
    if (fd < 0) {
        return apply_place_said(err, path);
    }
    if (to_change && apply_place_check_folder(p, fd, ".", err) < 0) {
        apply_place_close_fd(fd);
        return GM_ERR_UNSUPPORTED;
    }
    while (rest.s) {
        const char *name = str_dup(p->arena, str_cut(&rest, '/'));
        int next = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        int why = errno;
        apply_place_close_fd(fd);
        fd = next;
        if (fd < 0) {
            bool is_link = why == ELOOP || why == ENOTDIR;
            int rc = gm_err_set(err, GM_ERR_LOOK, "%s: %s%s", path, name,
                                is_link ? " is a link, or not a folder" : "");
            if (!is_link) {
                rc = gm_err_set(err, GM_ERR_LOOK, "%s: %s", path, strerror(why));
            }
            errno = why;
            return rc;
        }
        if (to_change && apply_place_check_folder(p, fd, path, err) < 0) {
            apply_place_close_fd(fd);
            return GM_ERR_UNSUPPORTED;
        }
    }
    return fd;
}

int apply_place_folder(const struct apply_place *p, const char *path, struct gm_err *err)
{
    return place_walk(p, path, true, err);
}

int apply_place_may_change(const struct apply_place *p, const char *path, struct gm_err *err)
{
    struct gm_err why;
    int fd = place_walk(p, path, true, &why);
    if (fd >= 0) {
        apply_place_close_fd(fd);
        return 0;
    }
    return why.code == GM_ERR_LOOK && errno == ENOENT ? 0
                                                      : gm_err_set(err, why.code, "%s", why.text);
}

int apply_place_look(const struct apply_place *p, const char *path, struct gm_err *err)
{
    int fd = place_walk(p, path, false, err);
    if (fd < 0 && errno == ENOENT && err) {
        err->code = GM_ERR_NONE;
    }
    return fd;
}

const char *apply_place_parent(const struct apply_place *p, const char *path)
{
    return strchr(path, '/') ? path_dir(p->arena, path) : ".";
}

int apply_place_sig(const struct apply_place *p, int dir, const char *name,
                    struct apply_journal_sig *ret, struct gm_err *err)
{
    struct stat st;
    char target[LINK_BYTES_MAX];
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        *ret = (struct apply_journal_sig){.type = '-'};
        return errno == ENOENT ? 0 : apply_place_said(err, name);
    }
    ssize_t n = 0;
    if (S_ISLNK(st.st_mode) && (n = readlinkat(dir, name, target, sizeof target)) < 0) {
        return apply_place_said(err, name);
    }
    *ret = apply_journal_sig_of(&st, arena_strndup(p->arena, target, (size_t)n));
    return 0;
}

/* ------------------------------------------------------------------ files */

int apply_place_sync(int fd, const char *what, struct gm_err *err)
{
    return fsync(fd) == 0 ? 0 : apply_place_said(err, what);
}

static int content_write(int fd, struct str content)
{
    while (content.n) {
        ssize_t n = write(fd, content.s, content.n);
        if (n < 0 && errno != EINTR) {
            return -1;
        }
        if (n > 0) {
            content = (struct str){content.s + n, content.n - (size_t)n};
        }
    }
    return 0;
}

int apply_place_write(int dir, const char *name, mode_t mode, struct str content,
                      struct gm_err *err)
{
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        return apply_place_said(err, name);
    }
    int rc = content_write(fd, content) < 0 || fchmod(fd, mode) < 0 || fsync(fd) < 0
                 ? apply_place_said(err, name)
                 : 0;
    apply_place_close_fd(fd);
    return rc;
}

int apply_place_read(const struct apply_place *p, int dir, const char *name, size_t max_bytes,
                     struct str *ret, struct gm_err *err)
{
    struct stat st;
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        int rc = apply_place_said(err, name);
        apply_place_close_fd(fd);
        return rc;
    }
    if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > max_bytes) {
        apply_place_close_fd(fd);
        return gm_err_set(err, GM_ERR_FORMAT, "%s: not a file, or too large", name);
    }
    char *text = arena_alloc(p->arena, (size_t)st.st_size + 1);
    size_t n = 0;
    ssize_t got = 1;
    while (n < (size_t)st.st_size && got > 0) {
        got = read(fd, text + n, (size_t)st.st_size - n);
        n += got > 0 ? (size_t)got : 0;
    }
    int rc = got < 0 ? apply_place_said(err, name) : 0;
    apply_place_close_fd(fd);
    *ret = (struct str){text, n};
    return rc;
}

static int copy_attributes(int from, int to)
{
    char *names = malloc(XATTR_BYTES_MAX), *value = malloc(XATTR_BYTES_MAX);
    ssize_t n = names && value ? flistxattr(from, names, XATTR_BYTES_MAX) : -1;
    int rc = n < 0 && errno != ENOTSUP ? -1 : 0;
    for (const char *name = names; rc == 0 && n > 0 && name < names + n; name += strlen(name) + 1) {
        ssize_t size = fgetxattr(from, name, value, XATTR_BYTES_MAX);
        rc = size < 0 ? -1 : fsetxattr(to, name, value, (size_t)size, 0);
    }
    free(names);
    free(value);
    return rc;
}

static int copy_content(int from, int to)
{
    for (;;) {
        ssize_t n = copy_file_range(from, NULL, to, NULL, (size_t)1 << 30, 0);
        if (n == 0) {
            return 0;
        }
        if (n < 0 &&
            (errno == EXDEV || errno == ENOSYS || errno == EINVAL || errno == EOPNOTSUPP)) {
            break; // file systems that cannot: by hand, from where it stands
        }
        if (n < 0) {
            return -1;
        }
    }
    static char buffer[COPY_BYTES];
    ssize_t n;
    while ((n = read(from, buffer, sizeof buffer)) > 0) {
        if (content_write(to, (struct str){buffer, (size_t)n}) < 0) {
            return -1;
        }
    }
    return n < 0 ? -1 : 0;
}

static int copy_into(int from, int to)
{
    struct stat st, made;
    if (fstat(from, &st) < 0 || !S_ISREG(st.st_mode) || copy_content(from, to) < 0 ||
        fstat(to, &made) < 0) {
        return -1;
    }
    if ((st.st_uid != made.st_uid || st.st_gid != made.st_gid) &&
        fchown(to, st.st_uid, st.st_gid) < 0) {
        return -1;
    }
    const struct timespec times[2] = {st.st_atim, st.st_mtim};
    return fchmod(to, st.st_mode & 07777) < 0 || copy_attributes(from, to) < 0 ||
                   futimens(to, times) < 0 || fsync(to) < 0
               ? -1
               : 0;
}

int apply_place_copy(int from_dir, const char *from, int to_dir, const char *to, struct gm_err *err)
{
    int in = openat(from_dir, from, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (in < 0) {
        return apply_place_said(err, from);
    }
    int out = openat(to_dir, to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    int rc = out < 0 || copy_into(in, out) < 0 ? apply_place_said(err, from) : 0;
    apply_place_close_fd(in);
    apply_place_close_fd(out);
    return rc;
}

static int remove_below(int dir, dev_t device, unsigned depth);

static int remove_entry(int dir, const char *name, dev_t device, unsigned depth)
{
    if (unlinkat(dir, name, 0) == 0 || errno == ENOENT) {
        return 0;
    }
    if (errno != EISDIR && errno != EPERM) {
        return -1;
    }
    struct stat st;
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    int rc = fstat(fd, &st) < 0 ? -1 : 0;
    if (rc == 0 && ((device && st.st_dev != device) || depth == 0)) {
        errno = EXDEV;
        rc = -1;
    }
    rc = rc < 0 ? rc : remove_below(fd, st.st_dev, depth - 1);
    apply_place_close_fd(fd);
    return rc < 0 ? rc : unlinkat(dir, name, AT_REMOVEDIR);
}

static int remove_below(int dir, dev_t device, unsigned depth)
{
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        apply_place_close_fd(fd);
        return -1;
    }
    int rc = 0;
    struct dirent *e;
    while (rc == 0 && (errno = 0, e = readdir(d))) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) {
            rc = remove_entry(dir, e->d_name, device, depth);
        }
    }
    rc = rc == 0 && errno ? -1 : rc;
    int why = errno;
    (void)closedir(d); // only read from
    errno = why;
    return rc;
}

int apply_place_remove(int dir, const char *name, struct gm_err *err)
{
    return remove_entry(dir, name, 0, DEPTH_MAX) < 0 ? apply_place_said(err, name) : 0;
}

int apply_place_names_in(struct apply_place *p, int dir, const struct root_filter *filter,
                         struct root_dir *ret, struct gm_err *err)
{
    struct root here = {.fd = dir, .path = ".", .no_openat2 = false};
    int rc = root_list(&here, p->arena, "/", NAMES_MAX, filter, ret);
    if (rc == 0 && ret->truncated) {
        return gm_err_set(err, GM_ERR_LIMIT, "%s: a folder has more than %d files of one kind",
                          p->base_path, NAMES_MAX);
    }
    return rc == 0 ? 0 : gm_err_set(err, GM_ERR_LOOK, "%s: %s", p->base_path, strerror(-rc));
}

void apply_place_remove_bytecode(struct apply_place *p, int dir, const char *name)
{
    struct gm_err none;
    struct root_dir found;
    const char *glob =
        arena_printf(p->arena, "%.*s.*.pyc", (int)(strlen(name) - strlen(".py")), name);
    int cache = openat(dir, "__pycache__", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct root_filter filter = {root_fits_glob, (void *)(uintptr_t)glob};
    if (cache < 0) {
        return;
    }
    if (apply_place_check_folder(p, cache, "__pycache__", &none) == 0 &&
        apply_place_names_in(p, cache, &filter, &found, &none) == 0) {
        for (size_t i = 0; i < found.n; i++) {
            (void)unlinkat(cache, found.names[i], 0); // see the header
        }
        if (found.n) {
            (void)unlinkat(dir, "__pycache__", AT_REMOVEDIR); // others' files are in it
        }
    }
    apply_place_close_fd(cache);
}

int apply_place_times(int dir, const char *name, const struct apply_journal_sig *sig,
                      struct gm_err *err)
{
    const struct timespec times[2] = {sig->atime, sig->mtime};
    return utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW) < 0 ? apply_place_said(err, name) : 0;
}
