/*
 * The digest of a layer in an engine's storage. Engines unpack a layer and keep beside it what the
 * archive had between the files' contents (vbatts/tar-split, tar/storage: one JSON object a line,
 * compressed by gzip: {"type": 2, "payload": BASE64} is a piece of the archive, {"type": 1, "name",
 * "size"} the content of a file). Both together are the archive again, whose digest the image's
 * configuration names (rootfs.diff_ids).
 *
 * A record is not trusted: whoever can write to the storage can write one that gives the archive's
 * bytes itself and leaves a changed file out. So the archive is read as one while it is put
 * together, and what it comes to is compared with the folder: the same names, each of its kind,
 * links with their target, and the content of every file out of the file of that name. Modes,
 * owners and times are not compared; engines without the right to set them change them.
 */
#ifndef GPUMEND_IMAGE_SPLIT_H
#define GPUMEND_IMAGE_SPLIT_H

#include "base/err.h"
#include "base/root.h"

/* A layer: its files, what the engine keeps of its archive (compressed), and the archive's digest
 * ("sha256:HEX"). */
struct image_split_layer {
    const char *folder, *record, *digest;
};

#define IMAGE_SPLIT_BYTES_MAX ((uint64_t)64 << 30) // of all layers of an image

/* `left`: how many bytes may still be read, which is lessened. *ret_why: why the layer could not be
 * checked, or NULL; it lives in `a`. GM_ERR_FORMAT: its files do not come to the digest, one is
 * missing or of another size, or it has a file or link that the archive does not have. */
int image_split_check(struct root *r, struct arena *a, const struct image_split_layer *layer,
                      uint64_t *left, const char **ret_why, struct gm_err *err) GM_CHECK;

#endif
