/*
 * Images of containers as files: what `docker save` and `podman save` write (docker/moby
 * image/spec/v1.2.md), and OCI archives and layouts (OCI image specification, image-layout.md,
 * manifest.md, config.md). No engine is needed and nothing is unpacked.
 */
#ifndef GPUMEND_IMAGE_IMAGE_H
#define GPUMEND_IMAGE_IMAGE_H

#include <jansson.h>

#include "image/contents.h"
#include "image/layers.h"

/* A layer of a storage whose content was not compared with its digest. */
struct image_unverified {
    size_t number; // from 1, the lowest first
    const char *why;
};

struct image {
    struct arena *arena;
    int fd;                   // of the archive or layout, or -1
    bool layout;              // a folder
    struct image_outer outer; // of an archive that is compressed as a whole
    VEC(int) blobs;           // open files of a layout
    struct image_layers layers;
    const char *path;        // of the archive or layout
    size_t number, n_images; // which of how many in it
    size_t n_platforms;      // for how many there is a manifest, as far as it was asked
    const char *reference;   // of an OCI archive or layout: how it is chosen, or NULL
    const char *name;        // the tag that was chosen, else its first, or NULL
    VEC(struct image_unverified) unverified; // none where digests are not checked
    const char *engine; // whose storage it lies in: "podman", "docker"; NULL: a file or folder
    bool oci;           // of an archive: the OCI's, else what docker save writes
    const char *os, *architecture, *variant; // "linux", "amd64", NULL
    image_texts env;                         // "K=V", as the configuration sets it
    image_texts entrypoint, command;
    const char *user;   // or NULL
    const char *folder; // in which it starts, or NULL: /
};

#define IMAGE_EMPTY ((struct image){.fd = -1})

/* Whether a path is no root file system but an image: an archive, a folder with an oci-layout, or
 * an unpacked archive of docker save.
 */
bool image_is(const char *path);

/* Whether what a user names is an image or a root file system, and no program and no environment of
 * Python: what exists nowhere, an archive, a layout, a folder that has what stands at the
 * top of a file system and is not an environment. */
bool image_is_meant(const char *path);

/* Which image of a file is meant, and how it is read. */
struct image_wish {
    const char *path; // in a storage: its name there
    const char *name; // of several, as image_contents_choose() takes it; NULL: the only one
    struct image_platform platform; // of several
    bool platform_given;            // the user named it: an image for another one is refused
    bool no_verify;                 // digests are not checked
    void (*progress)(void *arg, uint64_t done, uint64_t size);
    void *progress_arg;
};

/* Takes "ARCHIVE:NAME" apart, and podman's "docker-archive:ARCHIVE:NAME"
 * (containers-transports(5)): *ret_name is NULL for a path alone. What exists as a whole is a path;
 * before the colon there is an archive or a layout, or else the text is returned as it is. */
const char *image_split(struct arena *a, const char *text, const char **ret_name);

/* Reads the configuration and the index of all layers. `progress` is told how many bytes of the
 * archives have been read, of how many, in each pass from the start. GM_ERR_LOOK, GM_ERR_FORMAT
 * (also a wrong digest), GM_ERR_LIMIT, GM_ERR_UNSUPPORTED; GM_ERR_USAGE: the wish names no image,
 * or more than one. The wish's texts must outlive the image. */
int image_open(struct image *im, struct arena *a, const struct image_wish *wish,
               struct gm_err *err) GM_CHECK;
void image_close(struct image *im);

/* The image that wish->path names ("localhost/app:1", "app", or the beginning of an id of 12 digits
 * or more) in the storage of podman or docker below the root: the system's, or in the folder `home`
 * the user's. No engine is asked. GM_ERR_LOOK: there is none of this name, or the storage cannot be
 * read. GM_ERR_FORMAT: its configuration or a layer has another digest. `r` must outlive the image.
 */
int image_open_stored(struct image *im, struct arena *a, struct root *r, const char *home,
                      const struct image_wish *wish, struct gm_err *err) GM_CHECK;

/* GM_ERR_USAGE: the user named a platform, and the image is for another one. image_open() asks it.
 */
int image_check_platform(const struct image *im, const struct image_wish *wish,
                         struct gm_err *err) GM_CHECK;

/* Takes the configuration document of an image; NULL is none. */
void image_take_config(struct image *im, const json_t *document);

#endif
