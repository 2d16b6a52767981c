#include "base/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/root.h"
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

/* ------------------------------------------------------------------ who may write */

enum { ACL_BYTES_MAX = 8192, USERS_BYTES_MAX = 4 << 20 };

/* A line of /etc/passwd or /etc/group: its name, its third and its fourth field. */
struct account {
    struct str name, id, rest;
};

static bool next_account(struct str *text, struct account *ret)
{
    struct str line;
    if (!str_line(text, &line)) {
        return false;
    }
    ret->name = str_cut(&line, ':');
    (void)str_cut(&line, ':'); // the password
    ret->id = str_cut(&line, ':');
    ret->rest = str_cut(&line, ':');
    return true;
}

static struct str read_accounts(struct arena *a, const char *path)
{
    struct str text = {0};
    struct root host;
    if (root_open(&host, "/", NULL) < 0) {
        return text;
    }
    if (root_read(&host, a, path, USERS_BYTES_MAX, &text) < 0) {
        text = (struct str){0};
    }
    root_close(&host);
    return text;
}

/* Whether no other user has the group, as far as the two files say, and it is named or numbered like
 * this user: what systems with a group for each user have (umask 002). */
static bool is_private_group(struct arena *a, gid_t gid)
{
    struct account one;
    struct str own = {0}, users = read_accounts(a, "/etc/passwd");
    const char *me = arena_printf(a, "%u", (unsigned)geteuid());
    const char *group = arena_printf(a, "%u", (unsigned)gid);
    for (struct str text = users; next_account(&text, &one);) {
        if (str_is(one.id, me)) {
            own = one.name;
        } else if (str_is(one.rest, group)) {
            return false;
        }
    }
    bool ours = gid == geteuid();
    for (struct str text = read_accounts(a, "/etc/group"); next_account(&text, &one);) {
        if (!str_is(one.id, group)) {
            continue;
        }
        if (one.rest.n && !str_eq(one.rest, own)) {
            return false;
        }
        ours = ours || str_eq(one.name, own);
    }
    return ours;
}

/* linux/posix_acl_xattr.h: a version and then entries. */
struct acl_entry {
    uint16_t tag, perm;
    uint32_t id;
};

enum { ACL_USER = 2, ACL_GROUP_OBJ = 4, ACL_GROUP = 8, ACL_MASK = 16, ACL_WRITE = 2 };

static const char *list_objection(struct arena *a, const struct acl_entry *e, size_t n, gid_t gid)
{
    unsigned mask = ACL_WRITE;
    for (size_t i = 0; i < n; i++) {
        mask = e[i].tag == ACL_MASK ? e[i].perm : mask;
    }
    for (size_t i = 0; i < n; i++) {
        bool writes = e[i].perm & mask & ACL_WRITE;
        unsigned id = e[i].tag == ACL_GROUP_OBJ ? gid : e[i].id;
        bool is_group = e[i].tag == ACL_GROUP_OBJ || e[i].tag == ACL_GROUP;
        if (writes && e[i].tag == ACL_USER && id != 0 && id != geteuid()) {
            return arena_printf(a, "its access control list lets user %u write to it", id);
        }
        if (writes && is_group && !is_private_group(a, id)) {
            return arena_printf(a, "its access control list lets group %u write to it", id);
        }
    }
    return NULL;
}

const char *mend_other_writers(struct arena *a, int fd, const struct stat *st)
{
    unsigned char list[ACL_BYTES_MAX];
    struct acl_entry entries[ACL_BYTES_MAX / sizeof(struct acl_entry)];
    if (st->st_mode & S_IWOTH) {
        return "anyone may write to it";
    }
    if (!(st->st_mode & S_IWGRP)) {
        return NULL; // with a list this bit is its mask
    }
    ssize_t n = fgetxattr(fd, "system.posix_acl_access", list, sizeof list);
    if (n < 0 && errno == ERANGE) {
        return "its access control list is too long to be judged";
    }
    if (n > (ssize_t)sizeof(uint32_t)) {
        size_t bytes = (size_t)n - sizeof(uint32_t);
        memcpy(entries, list + sizeof(uint32_t), bytes);
        return list_objection(a, entries, bytes / sizeof *entries, st->st_gid);
    }
    return is_private_group(a, st->st_gid)
               ? NULL
               : arena_printf(a, "group %u may write to it", (unsigned)st->st_gid);
}

/* Whether other users can neither write to the folder nor, where it is sticky, take away what is this
 * user's in it. */
static bool is_guarded(struct arena *a, const char *path)
{
    struct stat st = {.st_mode = 0};
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    bool readable = fd >= 0;
    if (readable ? fstat(fd, &st) < 0 : lstat(path, &st) < 0) {
        st.st_uid = (uid_t)-1; // nobody's
    }
    bool owned = st.st_uid == 0 || st.st_uid == geteuid();
    bool closed = !(st.st_mode & (S_IWGRP | S_IWOTH)) || st.st_mode & S_ISVTX;
    bool guarded = owned && (closed || (readable && !mend_other_writers(a, fd, &st)));
    if (readable) {
        (void)close(fd); // a folder: nothing can be lost
    }
    return guarded && S_ISDIR(st.st_mode);
}

/* From the root folder down, so that each one checked is in one that was: nobody can swap it behind
 * our back. `real` has no links. */
static bool all_guarded(struct arena *a, const char *real, const char **ret_folder)
{
    for (size_t i = 0; i == 0 || real[i - 1]; i++) {
        if (real[i] && real[i] != '/') {
            continue;
        }
        *ret_folder = i ? arena_strndup(a, real, i) : "/";
        if (!is_guarded(a, *ret_folder)) {
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
