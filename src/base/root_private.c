/*
 * Which files of the real root a link may not show: what is quoted belongs to the target, and not
 * to whom its maker would like to read.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/root.h"
#include "base/root_internal.h"
#include "base/str.h"

enum { PATH_BYTES = 4096 };

/* The kernel's own word for the path of an open file, below the root: without links. NULL if it has
 * none. */
static char *path_of_open(struct root *r, int fd, char ret[PATH_BYTES])
{
    char self[64], top[PATH_BYTES];
    ssize_t above = 0;
    if (!r->is_host) {
        (void)snprintf(self, sizeof self, "/proc/self/fd/%d", r->fd);
        above = readlink(self, top, sizeof top);
        above = above == 1 ? 0 : above; // "/"
    }
    (void)snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(self, ret, PATH_BYTES - 1);
    if (above < 0 || n <= above || n == PATH_BYTES - 1 || memcmp(ret, top, (size_t)above) != 0) {
        return NULL;
    }
    ret[n] = '\0';
    return ret[above] == '/' ? ret + above : NULL;
}

/* Whether everybody may enter each folder on the way to a path without links. */
static bool is_open_to_all(struct root *r, char *real)
{
    struct stat st;
    bool open = true;
    for (char *slash = strchr(real + 1, '/'); slash && open; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        open = fstatat(r->fd, real + 1, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_mode & S_IXOTH;
        *slash = '/';
    }
    return open;
}

static bool begins_as(int fd, const char *head)
{
    char bytes[8];
    size_t n = strlen(head);
    return pread(fd, bytes, n, 0) == (ssize_t)n && memcmp(bytes, head, n) == 0;
}

static bool is_binary(int fd)
{
    return begins_as(fd, "\177ELF") || begins_as(fd, "MZ") || begins_as(fd, "!<arch>\n");
}

static bool is_script(int fd, const char *path, const char *real)
{
    return begins_as(fd, "#!") || (ends_with(path, ".py") && ends_with(real, ".py"));
}

/* How a path led to a file. */
struct way {
    bool found;    // it came to its end
    bool of_other; // by a link of another user
    char real[PATH_BYTES];
};

static struct way walk_way(struct root *r, const char *path, uid_t owner, uid_t me)
{
    struct arena scratch;
    jmp_buf out_of_memory;
    struct way way = {.found = false};
    arena_init(&scratch, 0, root_no_memory, &out_of_memory);
    struct walker w = {.r = r,
                       .a = &scratch,
                       .dir = -1,
                       .asks_owners = me == 0 || owner == me,
                       .trusted = {0, me, owner}};
    way.found = root_walk_safely(&w, &out_of_memory, path) == 0 && strlen(w.done) < PATH_BYTES;
    way.of_other = w.of_other;
    if (way.found) {
        memcpy(way.real, w.done, strlen(w.done) + 1);
    }
    root_close_path(w.dir);
    arena_release(&scratch);
    return way;
}

/* How many bytes from a slash on two paths have in common at their end. */
static size_t common_end(const char *path, const char *real)
{
    size_t n = strlen(path), m = strlen(real), same = 0, k = 0;
    while (k < n && k < m && path[n - 1 - k] == real[m - 1 - k]) {
        k++;
        same = path[n - k] == '/' ? k : same;
    }
    return same;
}

/* Folders are reached by the same links again and again: where `path` and `real` begin to be alike,
 * the folder's way is asked for once. False if that folder is not where `real` is. */
static bool folder_way(struct root *r, const char *path, const char *real, uid_t owner, uid_t me,
                       bool *ret_of_other)
{
    struct root_link *l = &r->link;
    size_t same = common_end(path, real), n = strlen(path) - same, m = strlen(real) - same;
    if (n == 0 || n >= sizeof l->from || m >= sizeof l->to) {
        return false;
    }
    bool known = l->n == n && memcmp(l->from, path, n) == 0 && strlen(l->to) == m &&
                 memcmp(l->to, real, m) == 0 && l->owner == owner && l->user == me;
    if (!known) {
        *l = (struct root_link){.n = n, .owner = owner, .user = me};
        memcpy(l->from, path, n);
        memcpy(l->to, real, m);
        struct way way = walk_way(r, l->from, owner, me);
        l->leads = way.found && strcmp(way.real, l->to) == 0;
        l->of_other = way.of_other;
    }
    *ret_of_other = l->of_other;
    return l->leads;
}

static bool is_hidden(struct root *r, struct way *way, int fd, bool shown, const char *path)
{
    if (shown) {
        return way->of_other && !(way->found && is_open_to_all(r, way->real));
    }
    return way->of_other || !way->found ||
           (strcmp(path_base(path), path_base(way->real)) != 0 && !is_script(fd, path, way->real));
}

bool root_is_private(struct root *r, int fd, const struct stat *st, const char *path)
{
    char text[PATH_BYTES], *real = path_of_open(r, fd, text);
    bool shown = st->st_mode & S_IROTH, of_other = false;
    if ((real && (strcmp(real, path) == 0 || (shown && is_open_to_all(r, real)))) ||
        is_binary(fd)) {
        return false;
    }
    uid_t me = geteuid();
    if (real && shown && folder_way(r, path, real, st->st_uid, me, &of_other)) {
        return of_other; // a folder closes it
    }
    struct way way = walk_way(r, path, st->st_uid, me);
    return is_hidden(r, &way, fd, shown, path);
}
