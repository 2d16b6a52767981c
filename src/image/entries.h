/* Inside this room: entries of a layer, of an archive or a folder, and their way into the index. */
#ifndef GPUMEND_IMAGE_ENTRIES_H
#define GPUMEND_IMAGE_ENTRIES_H

#include <limits.h>

#include "image/layers.h"

/* Of an image, and how deep one may lie. */
enum { ENTRIES_MAX = 500000, ENTRY_DEPTH_MAX = PATH_MAX / 2 };

struct archive_entry;

/* One entry's way through the layer that is read. */
struct walk {
    struct image_layers *l;
    struct arena scratch; // of one entry
    struct image_layer_node *top;
    uint16_t layer;
    int links;      // that were followed
    bool dangling;  // one led nowhere
    uint64_t *seen; // the names of the entries so far, a hash of each; 0: free
    size_t n_seen, seen_cap;
    VEC(const char *) moved; // folders with an entry, which may be elsewhere now or gone
};

enum snap_type walk_entry_type(const struct archive_entry *e);

void walk_take_entry(struct walk *w, struct archive_entry *e, struct image_layer_file *file);

/* At a layer's end: what engines refuse then. They set the times of all of its folders
 * (containers/storage, Unpack()). */
void walk_check_moved(struct walk *w);

#endif
