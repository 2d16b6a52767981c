/* From a path to the node it names, links and ".." included, in what was recorded. */
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "base/root.h"
#include "base/snap.h"
#include "base/snap_internal.h"

enum { LINKS_MAX = 40 };

int snap_miss(struct snap *s, const char *path, const char *what)
{
    s->n_misses++;
    for (size_t i = 0; i < s->misses.n; i++) {
        if (starts_with(s->misses.items[i], path) && s->misses.items[i][strlen(path)] == ':') {
            return -SNAP_NOT_HELD;
        }
    }
    if (s->misses.n < SNAP_MISSES_MAX) {
        VEC_PUSH(s->arena, &s->misses, arena_printf(s->arena, "%s: %s", path, what));
    }
    return -SNAP_NOT_HELD;
}

static enum snap_type mode_type(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFDIR: return SNAP_DIR;
    case S_IFREG: return SNAP_FILE;
    case S_IFLNK: return SNAP_LINK;
    case S_IFCHR: return SNAP_CHAR;
    case S_IFBLK: return SNAP_BLOCK;
    default: return SNAP_OTHER;
    }
}

static void take_stat(struct snap_node *n, const struct stat *st)
{
    n->type = mode_type(st->st_mode);
    n->error = 0;
    n->mode = st->st_mode & 07777;
    n->uid = st->st_uid;
    n->gid = st->st_gid;
    n->size = st->st_size > 0 ? (uint64_t)st->st_size : 0;
    n->major = major(st->st_rdev);
    n->minor = minor(st->st_rdev);
    n->dev = st->st_dev;
    n->ino = st->st_ino;
}

/* Links of /proc that lead to who asks. */
static bool is_own_link(const char *path)
{
    return strcmp(path, "/proc/self") == 0 || strcmp(path, "/proc/thread-self") == 0;
}

static struct snap_node *node_record(struct snap *s, const char *path)
{
    struct snap_node *n = snap_put(s, arena_strdup(s->arena, path));
    struct stat st;
    int rc = is_own_link(path) ? root_stat(s->from, path, &st) : root_lstat(s->from, path, &st);
    if (rc < 0) {
        n->error = rc;
    } else {
        take_stat(n, &st);
    }
    return n;
}

static int name_by_key(const void *key, const void *item)
{
    return strcmp(key, ((const struct snap_name *)item)->name);
}

static bool folder_names(const struct snap_node *dir, const char *name)
{
    return dir->names.n &&
           bsearch(name, dir->names.items, dir->names.n, sizeof *dir->names.items, name_by_key);
}

/* The node of a name in a folder that was looked up; a negative errno where it has none. */
static int snap_enter(struct snap *s, const struct snap_node *dir, const char *path,
                      struct snap_node **ret)
{
    struct snap_node *n = snap_find(s, path);
    if (!n && s->from) {
        n = node_record(s, path);
    }
    if (!n && s->source.fill && s->source.fill(s->source.arg, s, path)) {
        n = snap_find(s, path);
    }
    if (!n) {
        bool listed = dir && dir->list_rc == 0 && !dir->partly;
        return listed && !folder_names(dir, path_base(path)) ? -ENOENT : snap_miss(s, path, "stat");
    }
    *ret = n;
    return n->type == SNAP_ERROR ? n->error : 0;
}

/* What is left of the path, and where the walk stands. */
struct way {
    struct snap *snap;
    struct arena *scratch;
    struct snap_node *at;
    char *rest;
    int links;
    bool follow_last;
};

static int step_up(struct way *w)
{
    const char *up = path_dir(w->scratch, w->at->path);
    return snap_enter(w->snap, NULL, up, &w->at);
}

static int step_link(struct way *w, struct snap_node *link)
{
    if (link->link_rc == SNAP_UNASKED && w->snap->from) {
        char *target = NULL;
        link->link_rc = root_readlink(w->snap->from, w->snap->arena, link->path, &target);
        link->link = target;
    }
    if (link->link_rc == SNAP_UNASKED) {
        return snap_miss(w->snap, link->path, "readlink");
    }
    if (link->link_rc < 0 || ++w->links > LINKS_MAX) {
        return link->link_rc < 0 ? link->link_rc : -ELOOP;
    }
    if (strlen(link->link) + strlen(w->rest) >= 2 * SNAP_PATH_MAX) {
        return -ENAMETOOLONG;
    }
    w->rest = arena_printf(w->scratch, "%s%s", link->link, w->rest);
    return link->link[0] == '/' ? snap_enter(w->snap, NULL, "/", &w->at) : 0;
}

static int step_into(struct way *w, const char *name, bool last, bool wants_dir)
{
    if (w->at->type != SNAP_DIR) {
        return -ENOTDIR;
    }
    const char *slash = w->at->path[1] ? "/" : "";
    char *path = arena_printf(w->scratch, "%s%s%s", w->at->path, slash, name);
    struct snap_node *next = NULL;
    int rc = snap_enter(w->snap, w->at, path, &next);
    if (rc < 0) {
        return rc;
    }
    if (next->type == SNAP_LINK && (!last || wants_dir || w->follow_last)) {
        return step_link(w, next);
    }
    w->at = next;
    return (!last || wants_dir) && next->type != SNAP_DIR ? -ENOTDIR : 0;
}

int snap_walk(struct snap *s, const char *path, bool follow_last, struct snap_node **ret)
{
    if (!path[0]) {
        return -ENOENT;
    }
    if (strlen(path) >= SNAP_PATH_MAX) {
        return -ENAMETOOLONG;
    }
    struct arena scratch;
    arena_init(&scratch, 0, NULL, NULL);
    struct way w = {.snap = s, .scratch = &scratch, .follow_last = follow_last};
    w.rest = arena_strdup(&scratch, path);
    int rc = snap_enter(s, NULL, "/", &w.at);
    while (rc == 0) {
        w.rest += strspn(w.rest, "/");
        if (!*w.rest) {
            break;
        }
        size_t n = strcspn(w.rest, "/");
        bool wants_dir = w.rest[n] == '/';
        bool last = w.rest[n + strspn(w.rest + n, "/")] == '\0';
        const char *name = arena_strndup(&scratch, w.rest, n);
        w.rest += n;
        if (strcmp(name, "..") == 0) {
            rc = step_up(&w);
        } else if (strcmp(name, ".") != 0) {
            rc = step_into(&w, name, last, wants_dir);
        }
    }
    *ret = w.at;
    arena_release(&scratch);
    return rc;
}
