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

const char *folder_of_cache(struct arena *a, const char *xdg_cache_home, const char *home)
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

/* "group NAME (ID) may write to it", `does` being what comes after the group; NULL: no other user
 * is in the group, which is this user's own, as on systems with a group for each user (umask 002).
 * The two files decide: who is in a group that they do not name is unknown. */
static const char *group_objection(struct arena *a, gid_t gid, const char *before, const char *does)
{
    struct account one;
    struct str own = {0}, name = {0}, users = read_accounts(a, "/etc/passwd");
    const char *me = arena_printf(a, "%u", (unsigned)geteuid());
    const char *group = arena_printf(a, "%u", (unsigned)gid), *unknown = "";
    bool shared = false;
    for (struct str text = users; next_account(&text, &one);) {
        if (str_is(one.id, me)) {
            own = one.name;
        } else if (str_is(one.rest, group)) {
            shared = true;
        }
    }
    for (struct str text = read_accounts(a, "/etc/group"); next_account(&text, &one);) {
        if (str_is(one.id, group)) {
            name = one.name;
            shared = shared || (one.rest.n && !str_eq(one.rest, own));
        }
    }
    bool named = name.n && own.n;
    if (named && !shared && (str_eq(name, own) || gid == geteuid())) {
        return NULL;
    }
    if (!named && !shared) {
        unknown = name.n ? ", and /etc/passwd does not name this user, whose group it may be"
                         : ", and /etc/group does not say who is in it";
    }
    const char *who = name.n ? arena_printf(a, STR_FMT " (%s)", STR_ARG(name), group) : group;
    return arena_printf(a, "%sgroup %s %s%s", before, who, does, unknown);
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
        const char *why =
            writes && is_group
                ? group_objection(a, id, "its access control list lets ", "write to it")
                : NULL;
        if (why) {
            return why;
        }
    }
    return NULL;
}

const char *folder_other_writers(struct arena *a, int fd, const struct stat *st)
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
    if (n < 0 && errno != ENODATA && errno != ENOTSUP) {
        return errno == ERANGE ? "its access control list is too long to be judged"
                               : "its access control list cannot be read";
    }
    if (n > (ssize_t)sizeof(uint32_t)) {
        size_t bytes = (size_t)n - sizeof(uint32_t);
        memcpy(entries, list + sizeof(uint32_t), bytes);
        return list_objection(a, entries, bytes / sizeof *entries, st->st_gid);
    }
    return group_objection(a, st->st_gid, "", "may write to it");
}

/* Why another user could put something else where the folder, or what lies in it, is: they may
 * write to it, and it is not sticky, where what is this user's stays; NULL: nobody could. */
static const char *folder_objection(struct arena *a, const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    const char *why = NULL;
    if (fd >= 0 ? fstat(fd, &st) < 0 : lstat(path, &st) < 0) {
        why = strerror(errno);
    } else if (!S_ISDIR(st.st_mode)) {
        why = "it is not a folder";
    } else if (st.st_uid != 0 && st.st_uid != geteuid()) {
        why = arena_printf(a, "it belongs to user %u", (unsigned)st.st_uid);
    } else if (!(st.st_mode & S_ISVTX)) {
        why = folder_other_writers(a, fd, &st);
    }
    if (fd >= 0) {
        (void)close(fd); // a folder: nothing can be lost
    }
    return why;
}

/* From the root folder down, so that each one checked is in one that was: nobody can swap it behind
 * our back. */
const char *folder_path_objection(struct arena *a, const char *real)
{
    for (size_t i = 0; i == 0 || real[i - 1]; i++) {
        if (real[i] && real[i] != '/') {
            continue;
        }
        const char *folder = i ? arena_strndup(a, real, i) : "/";
        const char *why = folder_objection(a, folder);
        if (why) {
            return arena_printf(a, "%s: %s", folder, why);
        }
    }
    return NULL;
}

const char *folder_safe_search(struct arena *a, const char *path)
{
    struct stat st;
    char *real = path[0] == '/' ? realpath(path, NULL) : NULL;
    const char *folder = real ? arena_strdup(a, real) : NULL;
    free(real);
    if (!folder || folder_path_objection(a, folder)) {
        return NULL;
    }
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    bool safe = fd >= 0 && fstat(fd, &st) == 0 && !folder_other_writers(a, fd, &st);
    if (fd >= 0) {
        (void)close(fd); // a folder: nothing can be lost
    }
    return safe ? folder : NULL;
}

const char *folder_safe_path(struct arena *a, const char *path, struct gm_err *err)
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
    const char *why = folder_path_objection(a, real);
    free(real);
    if (why) {
        (void)gm_err_set(err, GM_ERR_UNSUPPORTED,
                         "%s is not used: another user could change what is there (%s)", path, why);
    }
    return why ? NULL : found;
}

/* ------------------------------------------------------------------ programs */

enum { LINKS_MAX = 40, LINK_BYTES_MAX = 4096 };

static const char *file_objection(struct arena *a, const char *path, const struct stat *st)
{
    const char *why = NULL;
    if (!S_ISREG(st->st_mode)) {
        return "it is not a file";
    }
    if (st->st_uid != 0 && st->st_uid != geteuid()) {
        return arena_printf(a, "it belongs to user %u", (unsigned)st->st_uid);
    }
    if (st->st_mode & (S_IWGRP | S_IWOTH)) {
        int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        why = folder_other_writers(a, fd, st);
        if (fd >= 0) {
            (void)close(fd); // only read
        }
    }
    return why;
}

/* A step of the walk below: where it leads from the folder `at`, and what is left then. */
static const char *step_objection(struct arena *a, const char **at, const char **rest,
                                  const char *name)
{
    struct stat st;
    char target[LINK_BYTES_MAX];
    const char *next = path_join(a, *at, name);
    if (lstat(next, &st) < 0) {
        return arena_printf(a, "%s: %s", next, strerror(errno));
    }
    if (!S_ISLNK(st.st_mode)) {
        bool file = !**rest && !S_ISDIR(st.st_mode);
        const char *why = file ? file_objection(a, next, &st) : folder_objection(a, next);
        *at = next;
        return why ? arena_printf(a, "%s: %s", next, why) : NULL;
    }
    ssize_t n = readlink(next, target, sizeof target);
    if (n <= 0 || n == sizeof target) {
        return arena_printf(a, "%s: the link cannot be read", next);
    }
    if (st.st_uid != 0 && st.st_uid != geteuid()) {
        return arena_printf(a, "%s: the link belongs to user %u", next, (unsigned)st.st_uid);
    }
    *at = target[0] == '/' ? "/" : *at;
    *rest = arena_printf(a, "%.*s/%s", (int)n, target, *rest);
    return NULL;
}

const char *folder_program_objection(struct arena *a, const char *path)
{
    const char *at = "/", *rest = path,
               *why = path[0] == '/' ? folder_objection(a, "/") : "its path is not absolute";
    unsigned links = 0;
    while (!why && *rest) {
        const char *name = arena_strndup(a, rest, strcspn(rest, "/")), *before = at;
        rest += strlen(name);
        rest += strspn(rest, "/");
        if (strcmp(name, "..") == 0) {
            at = path_dir(a, at);
        } else if (*name && strcmp(name, ".") != 0) {
            why = step_objection(a, &at, &rest, name);
            links += at == before || strcmp(at, "/") == 0;
            why = !why && links > LINKS_MAX ? "too many links" : why;
        }
    }
    return why;
}

int folder_safe_program(struct arena *a, const char *path, struct gm_err *err)
{
    const char *why = folder_program_objection(a, path);
    return why ? gm_err_set(err, GM_ERR_UNSUPPORTED,
                            "%s is not started: another user could put something else there (%s)",
                            path, why)
               : 0;
}

/* ------------------------------------------------------------------ our own folders */

/* Whether the folder is in a place of folder_safe_path(). */
static int check_place(const char *path, struct gm_err *err)
{
    struct arena scratch;
    arena_init(&scratch, 0, NULL, NULL);
    const char *above = path_dir(&scratch, path), *safe = folder_safe_path(&scratch, above, err);
    int rc = safe ? 0 : GM_ERR_LOOK;
    if (safe && strcmp(safe, above) != 0) {
        rc = gm_err_set(err, GM_ERR_LOOK, "%s is not used: a link leads from there to %s", path,
                        safe);
    }
    arena_release(&scratch);
    return rc;
}

int folder_own(const char *path, struct gm_err *err)
{
    int fd = check_place(path, err) < 0 ? GM_ERR_LOOK : open_own(path, err);
    /* Again, since what was missing above it may have been made by others meanwhile. */
    if (fd >= 0 && check_place(path, err) < 0) {
        (void)close(fd); // a folder: nothing can be lost
        fd = GM_ERR_LOOK;
    }
    return fd;
}
