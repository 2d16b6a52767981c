#include "snapshot/snapshot.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <dirent.h>
#include <unistd.h>

#include "base/root.h"

/*
 * Nodes come sorted, so that a folder is there before what it holds, and their paths hold no link:
 * nothing is ever written through one. All is made exclusively, from the top down folder by folder.
 */
struct tree {
    const struct snapshot *s;
    struct arena *arena;
    int top;
    const char *dir; // as the user named it
    struct gm_err *err;
    char *nodes; // text of /.gpumend-nodes
};

static int tree_failed(const struct tree *t, const char *path)
{
    return gm_err_set(t->err, GM_ERR_LOOK, "%s%s: %s", t->dir, path, strerror(errno));
}

/* The folder that holds the path, folder by folder and through no link: where others may write,
 * they can put one in the place of what was just made. -1 with errno. */
static int tree_open_parent(const struct tree *t, const char *path)
{
    int fd = dup(t->top);
    struct str rest = str_of(path + 1);
    size_t name = strlen(path_base(path));
    rest.n -= rest.n > name ? name + 1 : rest.n;
    while (fd >= 0 && rest.n) {
        const char *part = str_dup(t->arena, str_cut(&rest, '/'));
        int next = openat(fd, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        int why = errno;
        (void)close(fd); // a folder
        fd = next;
        errno = why;
    }
    return fd;
}

/* What `make` returns for the folder that holds the path, and its name there; < 0 with errno. */
static int in_parent(const struct tree *t, const struct snap_node *n, const char *path,
                     int (*make)(int folder, const char *name, const struct snap_node *n))
{
    int folder = tree_open_parent(t, path);
    int rc = folder < 0 ? -1 : make(folder, path_base(path), n), why = errno;
    if (folder >= 0) {
        (void)close(folder); // a folder
    }
    errno = why;
    return rc;
}

static int tree_make_file(int folder, const char *name, const struct snap_node *n)
{
    (void)n;
    return openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

static int make_empty(int folder, const char *name, const struct snap_node *n)
{
    (void)n;
    return openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
}

static int tree_make_folder(int folder, const char *name, const struct snap_node *n)
{
    (void)n;
    return mkdirat(folder, name, 0700);
}

static int tree_make_link(int folder, const char *name, const struct snap_node *n)
{
    return symlinkat(n->link, folder, name);
}

static int make_fifo(int folder, const char *name, const struct snap_node *n)
{
    return mkfifoat(folder, name, n->mode & 0777);
}

/* ------------------------------------------------------------------ files */

static int tree_write_all(int fd, uint64_t offset, const void *bytes, size_t n)
{
    const char *p = bytes;
    for (size_t done = 0; done < n;) {
        ssize_t put = pwrite(fd, p + done, n - done, (off_t)(offset + done));
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put <= 0) {
            return -1;
        }
        done += (size_t)put;
    }
    return 0;
}

static bool keeps_size(const struct snap_node *n)
{
    return !(n->whole && n->pages == NULL); // a file of /proc states none, an edited one another
}

static int fill_file(int fd, const struct snap_node *n)
{
    int rc = tree_write_all(fd, 0, n->data.s, n->has_data ? n->data.n : 0);
    for (size_t i = 0; rc == 0 && n->pages && i < n->pages->n_ranges; i++) {
        const struct pages_range *r = &n->pages->ranges[i];
        rc = tree_write_all(fd, r->offset, r->bytes, r->n);
    }
    if (rc == 0 && keeps_size(n)) {
        rc = ftruncate(fd, (off_t)n->size);
    }
    // Never a right that the file would give away: no setuid, no setgid. What could not be read is
    // not to be read here either.
    return rc == 0 ? fchmod(fd, n->mode & (n->open_rc == -EACCES ? 0333 : 0777)) : rc;
}

static int write_file(struct tree *t, const struct snap_node *n)
{
    int fd = in_parent(t, n, n->path, tree_make_file);
    if (fd < 0) {
        return tree_failed(t, n->path);
    }
    int rc = fill_file(fd, n) < 0 ? tree_failed(t, n->path) : 0;
    return close(fd) != 0 && rc == 0 ? tree_failed(t, n->path) : rc;
}

/* ------------------------------------------------------------------ folders, links, nodes */

/* A name that was listed and not looked at is an empty file. */
static int write_name(struct tree *t, const struct snap_node *dir, const char *name)
{
    const char *slash = dir->path[1] ? "/" : "";
    const char *path = arena_printf(t->arena, "%s%s%s", dir->path, slash, name);
    if (snap_find(&t->s->files, path)) {
        return 0; // written by itself, or said to be absent meanwhile
    }
    int fd = in_parent(t, NULL, path, make_empty);
    if (fd < 0 || close(fd) != 0) {
        return tree_failed(t, path);
    }
    return 0;
}

static int write_folder(struct tree *t, const struct snap_node *n)
{
    if (n->path[1] && in_parent(t, n, n->path, tree_make_folder) != 0) {
        return tree_failed(t, n->path);
    }
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n->names.n; i++) {
        rc = n->names.items[i].kept ? write_name(t, n, n->names.items[i].name) : 0;
    }
    return rc;
}

static const char *access_word(const struct snap_node *n)
{
    for (int mode = R_OK; mode <= (R_OK | W_OK); mode += W_OK) {
        int rc = n->access[mode];
        if (rc != SNAP_UNASKED) {
            return rc == 0 ? "ok" : rc == -EPERM ? "EPERM" : rc == -EACCES ? "EACCES" : "-";
        }
    }
    return "-";
}

/* The variables that the program would have started with: who checks the tree has others. */
static int write_environ(struct tree *t, const struct snap_node *n)
{
    struct snap_node file = *n;
    size_t size = 0;
    for (size_t i = 0; i < t->s->env.n; i++) {
        size += strlen(t->s->env.items[i]) + 1;
    }
    char *text = arena_alloc(t->arena, size + 1), *at = text;
    for (size_t i = 0; i < t->s->env.n; i++) {
        at = stpcpy(at, t->s->env.items[i]) + 1;
    }
    file.data = (struct str){text, size};
    return write_file(t, &file);
}

static int write_node(struct tree *t, const struct snap_node *n)
{
    if (strcmp(n->path, "/proc/self/environ") == 0 && n->whole && !t->s->root) {
        return write_environ(t, n);
    }
    switch (n->type) {
    case SNAP_DIR: return write_folder(t, n);
    case SNAP_FILE:
        // A list of nodes that was recorded is written with those that are added to it.
        return strcmp(n->path, "/.gpumend-nodes") == 0 ? 0 : write_file(t, n);
    case SNAP_LINK:
        return n->link && in_parent(t, n, n->path, tree_make_link) != 0 ? tree_failed(t, n->path)
                                                                        : 0;
    case SNAP_CHAR:
    case SNAP_BLOCK:
        t->nodes = arena_printf(t->arena, "%s%s %c %u %u %o %u %u %s\n", t->nodes, n->path,
                                n->type == SNAP_CHAR ? 'c' : 'b', n->major, n->minor, n->mode,
                                n->uid, n->gid, access_word(n));
        return 0;
    case SNAP_OTHER: return in_parent(t, n, n->path, make_fifo) != 0 ? tree_failed(t, n->path) : 0;
    case SNAP_ERROR: break;
    }
    return 0;
}

static int write_nodes_list(struct tree *t)
{
    struct snap_node list = {
        .path = "/.gpumend-nodes", .mode = 0644, .whole = true, .has_data = true};
    const struct snap_node *old = snap_find(&t->s->files, list.path);
    struct str before = old && old->has_data ? old->data : (struct str){0};
    const char *text =
        arena_printf(t->arena, "%.*s%s", (int)before.n, before.s ? before.s : "", t->nodes);
    list.data = str_of(text);
    return *text ? write_file(t, &list) : 0;
}

/* A folder that could not be listed is not to be listed here either. */
static mode_t folder_mode(const struct snap_node *n)
{
    return ((n->mode & 0777) | 0700) & (n->list_rc == -EACCES ? 0333 : 0777);
}

/* By a descriptor: fchmodat() follows a link. */
static int set_folder_mode(const struct tree *t, const char *path, mode_t mode)
{
    int parent = tree_open_parent(t, path);
    int fd = parent < 0
                 ? -1
                 : openat(parent, path_base(path), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int rc = fd < 0 ? -1 : fchmod(fd, mode), why = errno;
    if (parent >= 0) {
        (void)close(parent); // a folder
    }
    if (fd >= 0) {
        (void)close(fd); // a folder
    }
    errno = why;
    return rc < 0 ? tree_failed(t, path) : 0;
}

/* Whether nothing could be looked up in the folder: it is closed in the tree as well. */
static bool is_closed(const struct tree *t, const struct snap_node *dir,
                      struct snap_node *const *all, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (all[i]->type == SNAP_ERROR && all[i]->error == -EACCES &&
            snap_find(&t->s->files, path_dir(t->arena, all[i]->path)) == dir) {
            return true;
        }
    }
    return false;
}

/* Modes of folders come last, those of the deepest first: one that may not be written or entered
 * could not be filled. */
static int set_folder_modes(struct tree *t, struct snap_node *const *all, size_t n)
{
    int rc = 0;
    for (size_t i = n; rc == 0 && i-- > 0;) {
        if (all[i]->type == SNAP_DIR && all[i]->path[1]) {
            mode_t may = is_closed(t, all[i], all, n) ? 0666 : 0777;
            rc = set_folder_mode(t, all[i]->path, folder_mode(all[i]) & may);
        }
    }
    return rc;
}

/* `path` becomes another name of the file at `first`; < 0 with errno. */
static int link_again(const struct tree *t, const char *first, const char *path)
{
    int from = tree_open_parent(t, first), to = tree_open_parent(t, path), rc = -1;
    if (from >= 0 && to >= 0 && unlinkat(to, path_base(path), 0) == 0) {
        rc = linkat(from, path_base(first), to, path_base(path), 0);
    }
    int why = errno;
    if (from >= 0) {
        (void)close(from); // a folder
    }
    if (to >= 0) {
        (void)close(to); // a folder
    }
    errno = why;
    return rc;
}

/* Two paths of one file are made one again. */
static int link_same(struct tree *t, struct snap_node *const *all, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < i && all[i]->type == SNAP_FILE; k++) {
            if (all[k]->type != SNAP_FILE || all[k]->dev != all[i]->dev ||
                all[k]->ino != all[i]->ino) {
                continue;
            }
            if (link_again(t, all[k]->path, all[i]->path) != 0) {
                return tree_failed(t, all[i]->path);
            }
            break;
        }
    }
    return 0;
}

/* ------------------------------------------------------------------ the top */

static int tree_open_top(struct tree *t)
{
    if (mkdir(t->dir, 0755) != 0 && errno != EEXIST) {
        return tree_failed(t, "");
    }
    t->top = open(t->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (t->top < 0) {
        return tree_failed(t, "");
    }
    int copy = dup(t->top);
    DIR *list = copy < 0 ? NULL : fdopendir(copy);
    if (!list) {
        int rc = tree_failed(t, "");
        if (copy >= 0) {
            (void)close(copy); // a folder
        }
        return rc;
    }
    bool empty = true;
    for (struct dirent *e; empty && (e = readdir(list));) {
        empty = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0;
    }
    (void)closedir(list); // was only read
    return empty ? 0 : gm_err_set(t->err, GM_ERR_LOOK, "%s: the folder is not empty", t->dir);
}

int snapshot_write_tree(const struct snapshot *s, const char *dir, struct gm_err *err)
{
    struct tree t = {.s = s,
                     .arena = s->arena,
                     .top = -1,
                     .dir = dir,
                     .err = err,
                     .nodes = arena_strdup(s->arena, "")};
    int rc = tree_open_top(&t);
    struct snap_node **all = snap_sorted(&s->files, t.arena);
    for (size_t i = 0; rc == 0 && i < s->files.n; i++) {
        rc = write_node(&t, all[i]);
    }
    rc = rc < 0 ? rc : write_nodes_list(&t);
    rc = rc < 0 ? rc : link_same(&t, all, s->files.n);
    rc = rc < 0 ? rc : set_folder_modes(&t, all, s->files.n);
    if (t.top >= 0) {
        (void)close(t.top); // a folder
    }
    return rc;
}
