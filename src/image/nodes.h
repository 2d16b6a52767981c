/* Inside this room: the index of names, which image_layers.root leads into. */
#ifndef GPUMEND_IMAGE_NODES_H
#define GPUMEND_IMAGE_NODES_H

#include "image/layers.h"

static inline bool layers_is_seen(const struct image_layer_node *n)
{
    return !n->gone && !n->whiteout;
}

/* Makes the first table, or a larger one. */
void layers_grow(struct image_layers *l);

/* The child of this name, a new folder if there is none; what was removed comes back empty. */
struct image_layer_node *layers_put(struct image_layers *l, struct image_layer_node *up,
                                    const char *name);

/* Lays the content of the folder `upper` over `lower`. Nodes that are new move; their children
 * stay theirs, and whiteouts among them are not seen (layers_is_seen()). */
void layers_lay_over(struct image_layers *l, struct image_layer_node *lower,
                     struct image_layer_node *upper);

/* What is seen at a path below a node, links not followed; NULL: nothing. */
struct image_layer_node *layers_find_below(const struct image_layers *l,
                                           struct image_layer_node *at, const char *path);

#endif
