/* The index of names that the layers come to. */
#include "image/nodes.h"

#include <string.h>

static size_t node_slot(const struct image_layers *l, const struct image_layer_node *up,
                        const char *name)
{
    uint64_t h = str_hash(name, strlen(name)) ^ ((uint64_t)(uintptr_t)up * 0x9e3779b97f4a7c15u);
    return (h ^ h >> 29) & (l->cap - 1);
}

struct image_layer_node *layers_child(const struct image_layers *l,
                                      const struct image_layer_node *up, const char *name)
{
    struct image_layer_node *n = l->table[node_slot(l, up, name)];
    while (n && (n->up != up || strcmp(n->name, name) != 0)) {
        n = n->chain;
    }
    return n && !n->gone ? n : NULL;
}

void layers_grow(struct image_layers *l)
{
    struct image_layer_node **old = l->table;
    size_t n = l->cap;
    l->cap = n ? n * 2 : 4096;
    l->table = arena_array(l->arena, l->cap, sizeof(struct image_layer_node *));
    for (size_t i = 0; i < n; i++) {
        for (struct image_layer_node *k = old[i], *next; k; k = next) {
            size_t at = node_slot(l, k->up, k->name);
            next = k->chain;
            k->chain = l->table[at];
            l->table[at] = k;
        }
    }
}

/* Makes a node the first child of `up`. */
static void hang(struct image_layers *l, struct image_layer_node *up, struct image_layer_node *n)
{
    size_t at = node_slot(l, up, n->name);
    n->up = up;
    n->next = up->down;
    n->chain = l->table[at];
    up->down = n;
    l->table[at] = n;
}

struct image_layer_node *layers_put(struct image_layers *l, struct image_layer_node *up,
                                    const char *name)
{
    struct image_layer_node *n = layers_child(l, up, name);
    if (n) {
        return n;
    }
    if (l->n >= l->cap) {
        layers_grow(l);
    }
    n = arena_alloc(l->arena, sizeof *n);
    *n = (struct image_layer_node){
        .name = arena_strdup(l->arena, name), .type = SNAP_DIR, .mode = 0755};
    hang(l, up, n);
    l->n++;
    return n;
}

/* Takes a node out of the table of names; its parent's list is the caller's. */
static void unchain(struct image_layers *l, const struct image_layer_node *n)
{
    struct image_layer_node **at = &l->table[node_slot(l, n->up, n->name)];
    while (*at != n) {
        at = &(*at)->chain;
    }
    *at = n->chain;
}

/* ------------------------------------------------------------------ one layer over the others */

/* Two folders become one, with what the upper one says of itself. */
static void node_take_folder(struct image_layer_node *lower, const struct image_layer_node *upper)
{
    lower->mode = upper->mode;
    lower->uid = upper->uid;
    lower->gid = upper->gid;
}

void layers_lay_over(struct image_layers *l, struct image_layer_node *lower,
                     struct image_layer_node *upper)
{
    for (struct image_layer_node *n = upper->down, *next; n; n = next) {
        next = n->next;
        unchain(l, n);
        if (n->gone) {
            continue;
        }
        struct image_layer_node *old = layers_child(l, lower, n->name);
        if (old && old->type == SNAP_DIR && n->type == SNAP_DIR && !n->opaque) {
            l->n--;
            node_take_folder(old, n);
            layers_lay_over(l, old, n);
            continue;
        }
        if (old) {
            old->gone = true;
        }
        if (layers_is_seen(n)) {
            hang(l, lower, n);
        }
    }
}

/* ------------------------------------------------------------------ paths */

struct image_layer_node *layers_find_below(const struct image_layers *l,
                                           struct image_layer_node *at, const char *path)
{
    struct arena scratch;
    struct str rest = str_of(path);
    arena_init(&scratch, 0, NULL, NULL);
    while (at && rest.n) {
        struct str part = str_cut(&rest, '/');
        at = part.n ? (at->type == SNAP_DIR ? layers_child(l, at, str_dup(&scratch, part)) : NULL)
                    : at;
    }
    arena_release(&scratch);
    return at && layers_is_seen(at) ? at : NULL;
}

struct image_layer_node *image_layers_find(const struct image_layers *l, const char *path)
{
    return layers_find_below(l, l->root, path);
}
