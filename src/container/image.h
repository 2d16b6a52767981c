/*
 * Images of containers as files: what `docker save` and `podman save` write (docker/moby
 * image/spec/v1.2.md), and OCI archives and layouts (OCI image specification, image-layout.md,
 * manifest.md, config.md). No engine is needed and nothing is unpacked.
 */
#ifndef GPUMEND_CONTAINER_IMAGE_H
#define GPUMEND_CONTAINER_IMAGE_H

#include <jansson.h>

#include "container/layers.h"

typedef VEC(const char *) image_texts;

struct image {
    struct arena *arena;
    int fd;             // of the archive or layout, or -1
    bool layout;        // a folder
    struct outer outer; // of an archive that is compressed as a whole
    VEC(int) blobs;     // open files of a layout
    struct layers layers;
    const char *name;         // its first tag, or NULL
    const char *engine;       // whose storage it lies in: "podman", "docker"; NULL: a file or folder
    bool oci;                 // of an archive: the OCI's, else what docker save writes
    const char *architecture; // "amd64"
    image_texts env;          // "K=V", as the configuration sets it
    image_texts entrypoint, command;
    const char *user;   // or NULL
    const char *folder; // in which it starts, or NULL: /
};

#define IMAGE_EMPTY ((struct image){.fd = -1})

/* The image of this name ("localhost/app:1", "app", or the beginning of an id of 12 digits or more)
 * in the storage of podman or docker below the root: the system's, or in the folder `home` the
 * user's. No engine is asked. GM_ERR_LOOK: there is none of this name, or the storage cannot be
 * read. `r` must outlive the image. */
int image_open_stored(struct image *im, struct arena *a, struct root *r, const char *home,
                      const char *name, struct gm_err *err) GM_CHECK;

/* Whether a path is no root file system but an image: an archive, a folder with an oci-layout, or an
 * unpacked archive of docker save.
 */
bool image_is(const char *path);

/* Whether what a user names is an image or a root file system, and no program and no environment of
 * Python: what exists nowhere, an archive, a layout, a folder with a system in it. */
bool image_is_meant(const char *path);

/* Reads the configuration and the index of all layers. `progress` is told how many bytes of the
 * archives have been read, of how many, in each pass from the start. GM_ERR_LOOK, GM_ERR_FORMAT,
 * GM_ERR_LIMIT, GM_ERR_UNSUPPORTED. */
int image_open(struct image *im, struct arena *a, const char *path,
               void (*progress)(void *arg, uint64_t done, uint64_t size), void *progress_arg,
               struct gm_err *err) GM_CHECK;
void image_close(struct image *im);

/* Takes the configuration document of an image; NULL is none. */
void image_take_config(struct image *im, const json_t *document);

#endif
