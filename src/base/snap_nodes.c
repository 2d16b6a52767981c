/* The nodes of a snapshot by their path: a hash table that keeps the order of first use. */
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/root.h"
#include "base/snap.h"

void snap_init(struct snap *s, struct arena *a)
{
    *s = (struct snap){.arena = a};
}

static size_t path_slot(struct snap_node *const *table, size_t cap, const char *path)
{
    size_t at = str_hash(path, strlen(path)) & (cap - 1);
    while (table[at] && strcmp(table[at]->path, path) != 0) {
        at = (at + 1) & (cap - 1);
    }
    return at;
}

static void snap_grow(struct snap *s)
{
    size_t cap = s->cap ? s->cap * 2 : 1024;
    struct snap_node **fresh = arena_array(s->arena, cap, sizeof(struct snap_node *));
    for (size_t i = 0; i < s->cap; i++) {
        if (s->table[i]) {
            fresh[path_slot(fresh, cap, s->table[i]->path)] = s->table[i];
        }
    }
    s->table = fresh;
    s->cap = cap;
}

struct snap_node *snap_find(const struct snap *s, const char *path)
{
    return s->cap ? s->table[path_slot(s->table, s->cap, path)] : NULL;
}

struct snap_node *snap_put(struct snap *s, const char *path)
{
    if (s->n * 2 >= s->cap) {
        snap_grow(s);
    }
    size_t at = path_slot(s->table, s->cap, path);
    if (s->table[at]) {
        return NULL;
    }
    struct snap_node *n = arena_alloc(s->arena, sizeof *n);
    *n = (struct snap_node){.path = path,
                            .error = -SNAP_NOT_HELD,
                            .link_rc = SNAP_UNASKED,
                            .list_rc = SNAP_UNASKED,
                            .open_rc = SNAP_UNASKED,
                            .read_rc = SNAP_UNASKED,
                            .capabilities = SNAP_UNASKED};
    for (size_t i = 0; i < sizeof n->access / sizeof *n->access; i++) {
        n->access[i] = SNAP_UNASKED;
    }
    s->table[at] = n;
    s->n++;
    return n;
}

void snap_hold(struct snap *s, const char *folder, const char *path, struct str data)
{
    struct snap_node *dir = snap_put(s, folder), *n = snap_put(s, path);
    if (dir) {
        dir->type = SNAP_DIR;
        dir->mode = 0755;
    }
    if (n) {
        n->type = SNAP_FILE;
        n->mode = 0644;
        n->size = data.n;
        n->open_rc = n->read_rc = 0;
        n->data = data;
        n->has_data = n->whole = true;
    }
}

static int nodes_by_path(const void *x, const void *y)
{
    const struct snap_node *const *a = x, *const *b = y;
    return strcmp((*a)->path, (*b)->path);
}

struct snap_node **snap_sorted(const struct snap *s, struct arena *a)
{
    struct snap_node **all = arena_array(a, s->n + 1, sizeof(struct snap_node *));
    size_t n = 0;
    for (size_t i = 0; i < s->cap; i++) {
        if (s->table[i]) {
            all[n++] = s->table[i];
        }
    }
    qsort(all, n, sizeof *all, nodes_by_path);
    return all;
}
