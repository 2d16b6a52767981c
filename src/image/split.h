/*
 * The digest of a layer in an engine's storage. Engines unpack a layer and keep beside it what the
 * archive had between the files' contents (vbatts/tar-split, tar/storage: one JSON object a line,
 * compressed by gzip: {"type": 2, "payload": BASE64} is a piece of the archive, {"type": 1, "name",
 * "size"} the content of a file). Both together are the archive again, whose digest the image's
 * configuration names (rootfs.diff_ids).
 *
 * What this finds is a file whose content is not the archive's. It does not find what was added to
 * the folder, what became of links and of empty files, or a record that was written to deceive.
 */
#ifndef GPUMEND_IMAGE_SPLIT_H
#define GPUMEND_IMAGE_SPLIT_H

#include "base/err.h"
#include "base/root.h"

/* A layer: its files, what the engine keeps of its archive (compressed), and the archive's digest
 * ("sha256:HEX"). */
struct split_layer {
    const char *folder, *record, *digest;
};

#define SPLIT_BYTES_MAX ((uint64_t)64 << 30) // of all layers of an image

/* `left`: how many bytes may still be read, which is lessened. *ret_why: why the layer could not be
 * checked, or NULL. GM_ERR_FORMAT: its files do not come to the digest, or one is missing or of
 * another size. */
int split_check(struct root *r, const struct split_layer *layer, uint64_t *left,
                const char **ret_why, struct gm_err *err) GM_CHECK;

#endif
