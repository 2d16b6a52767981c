/*
 * The file system that the layers of an image come to, without unpacking: an index of names, made
 * in one pass over the archives. Each layer is put together by itself, as engines unpack it into a
 * folder of its own, and then laid over those before as an overlay file system does
 * (containers/storage, pkg/archive: Unpack() and the overlay whiteout converter; Linux,
 * Documentation/filesystems/overlayfs.rst; OCI image specification, layer.md). So a link of a lower
 * layer is never followed for a name of a later one: a folder that the name implies replaces it.
 * Links are never followed on this machine either, and names that climb out end at the top of the
 * image, as they do for engines, which unpack in a chroot.
 *
 * A layer that is not compressed is read in place afterwards; of a compressed one, what is wanted
 * is collected in further passes.
 */
#ifndef GPUMEND_IMAGE_LAYERS_H
#define GPUMEND_IMAGE_LAYERS_H

#include "base/err.h"
#include "base/root.h"
#include "base/snap.h"
#include "image/digest.h"
#include "image/keep.h"
#include "image/outer.h"

/* An archive that somebody puts together. `next` gives its next bytes, none at its end; they are
 * valid until the next call. False: there is no more, though the archive does not end there. */
struct layer_feed {
    bool (*next)(void *arg, const void **ret, size_t *ret_n);
    void *arg;
};

/* Where a layer lies: a part of a file, or a folder of an engine's storage. */
struct image_layer_place {
    struct root *root; // NULL: a part of the file `fd`; else `folder` below it
    const char *folder;
    int fd;
    struct image_outer *outer;     // the part is one of this archive's, and not of the file
    uint64_t offset, size;         // bytes
    const struct layer_feed *feed; // NULL, or where the bytes come from instead of `fd`
    ino_t ino;                     // of a file of its own, else 0
    const char *base;              // its mapping, once something in it was read
    const char *name;              // of the file that a wrong digest is reported of
    struct image_digest digest;    // checked in the first pass
};

struct image_layer_file;

/* One entry of a layer, or a folder that none names. Images have some hundred thousand. While a
 * layer is read its nodes hang on a top of their own. */
struct image_layer_node {
    struct image_layer_node *up, *down, *next; // first child, next sibling
    struct image_layer_node *chain;            // of the table of names
    const char *name;
    union {
        const char *link;              // SNAP_LINK
        struct image_layer_file *file; // SNAP_FILE; shared by hard links
        struct {
            unsigned major, minor; // SNAP_CHAR, SNAP_BLOCK
        };
    };
    uid_t uid;
    gid_t gid;
    uint16_t mode;
    uint8_t type;  // enum snap_type
    bool gone;     // removed by a later layer, or replaced
    bool named;    // it has an entry; else a longer name implies it
    bool whiteout; // it removes what earlier layers have there
    bool opaque;   // a folder that hides what earlier layers have in it
};

/* What is held of a file in a compressed layer. */
struct image_layer_held {
    bool read;       // `data` holds all of it
    bool all_wanted; // not only pages
    struct str data;
    struct image_kept *kept; // from the first pass, or NULL
    struct pages *pages;     // what was asked of it, and the parts that are held
};

/* The content of a regular file. */
struct image_layer_file {
    uint64_t size;
    union {
        uint64_t offset;  // of its content in the archive, in a layer that is not compressed
        const char *path; // in the layer's folder
    };
    struct image_layer_held *held;
    uint32_t number; // of its entry in the layer: how a further pass finds it
    uint16_t layer;
    bool in_place; // `offset` or `path` is known
    bool wanted;   // in a further pass
};

struct image_layer_map {
    const void *data;
    size_t size;
};

struct image_layers {
    struct arena *arena;
    struct image_layer_node *root;
    struct image_layer_node **table;
    size_t n, cap;
    VEC(struct image_layer_place) places;
    VEC(struct image_layer_file *) wanted; // in a further pass
    VEC(struct image_layer_file *) paged;  // of which parts are held
    VEC(struct image_layer_map) maps;      // of files of folders
    struct image_keep keep;                // of compressed layers
    size_t n_outside;                      // entries that name a place outside the file system ...
    size_t n_refused;                      // ... and those that engines cannot unpack
    size_t n_unnamed;                      // entries whose name cannot be read in this locale
    const char *refused;                   // what they say of the first, one sentence; or NULL
    uint64_t packed;                       // bytes of the archives
    uint64_t unpacked;                     // bytes that came out of them so far ...
    uint64_t pass_from;                    // ... and before this pass
    uint64_t done, to_read; // bytes of the archives in this pass; to_read 0: not known
    void (*progress)(void *arg, uint64_t done, uint64_t size);
    void *progress_arg;
    struct snap snap; // the file system as a root reads it
};

/* Both the index and what is held live in the arena. */
void image_layers_init(struct image_layers *l, struct arena *a);
void image_layers_release(struct image_layers *l);

/* Reads the next layer over those before. GM_ERR_FORMAT: it is no tar archive, or a damaged one, or
 * has another digest; GM_ERR_LIMIT: it has too many entries, or unpacks to more than any image
 * does. */
int image_layers_add(struct image_layers *l, const struct image_layer_place *place,
                     struct gm_err *err) GM_CHECK;

/* After the last layer: gives back what only reading them needs. */
void image_layers_added(struct image_layers *l);

/* The same of the folder with a layer's files, as overlay file systems keep it (Documentation/
 * filesystems/overlayfs.rst of the kernel: "whiteouts and opaque directories"). `r` and `folder`
 * must outlive the layers. GM_ERR_LOOK: it cannot be read. */
int image_layers_add_folder(struct image_layers *l, struct root *r, const char *folder,
                            struct gm_err *err) GM_CHECK;

/* The same two without the layers before: *ret_top becomes the top of what the layer alone comes
 * to, whiteouts included. It must not move while the layers are in use. */
int layers_read(struct image_layers *l, const struct image_layer_place *place,
                struct image_layer_node *ret_top, struct gm_err *err) GM_CHECK;
int layers_read_folder(struct image_layers *l, struct root *r, const char *folder,
                       struct image_layer_node *ret_top, struct gm_err *err) GM_CHECK;

/* A child of a node of such a top, or NULL. */
struct image_layer_node *layers_child(const struct image_layers *l,
                                      const struct image_layer_node *up, const char *name);

/* After something has read through `snap`: whether it lacked content, so that its answers do not
 * count. Then image_layers_fetch() reads the layers again in which it lies, and keeps it. */
bool image_layers_want_more(struct image_layers *l);
int image_layers_fetch(struct image_layers *l, struct gm_err *err) GM_CHECK;

/* The entry of a path, links in its folder part not followed; NULL: there is none. */
struct image_layer_node *image_layers_find(const struct image_layers *l, const char *path);

#endif
