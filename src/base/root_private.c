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

/* What the walk to the open file says; `found`: it came to its end. */
static bool is_hidden(const struct walker *w, bool found, int fd, bool shown, const char *path)
{
    if (shown) {
        return w->of_other && !(found && is_open_to_all(w->r, w->done));
    }
    return w->of_other || !found ||
           (strcmp(path_base(path), path_base(w->done)) != 0 && !is_script(fd, path, w->done));
}

bool root_is_private(struct root *r, int fd, const struct stat *st, const char *path)
{
    char text[PATH_BYTES], *real = path_of_open(r, fd, text);
    bool shown = st->st_mode & S_IROTH;
    if ((real && (strcmp(real, path) == 0 || (shown && is_open_to_all(r, real)))) ||
        is_binary(fd)) {
        return false;
    }
    uid_t me = geteuid();
    struct arena scratch;
    jmp_buf out_of_memory;
    arena_init(&scratch, 0, root_no_memory, &out_of_memory);
    struct walker w = {.r = r,
                       .a = &scratch,
                       .dir = -1,
                       .asks_owners = me == 0 || st->st_uid == me,
                       .trusted = {0, me, st->st_uid}};
    bool found = root_walk_safely(&w, &out_of_memory, path) == 0;
    bool hidden = is_hidden(&w, found, fd, shown, path);
    root_close_path(w.dir);
    arena_release(&scratch);
    return hidden;
}
