/*
 * The digest of a layer in an engine's storage. Engines unpack a layer and keep beside it what the
 * archive had between the files' contents (vbatts/tar-split, tar/storage: one JSON object a line,
 * compressed by gzip: {"type": 2, "payload": BASE64} is a piece of the archive, {"type": 1, "name",
 * "size"} the content of a file). Both together are the archive again, whose digest the image's
 * configuration names (rootfs.diff_ids).
 *
 * Not checked: a layer without that record, one with a name that leads through a link, and one with
 * a file that this user may not read.
 */
#ifndef GPUMEND_CONTAINER_SPLIT_H
#define GPUMEND_CONTAINER_SPLIT_H

#include "base/err.h"
#include "base/root.h"

/* `record`: the path of the compressed record; `folder`: with the layer's files. GM_ERR_FORMAT: they
 * do not come to the digest `wanted` ("sha256:HEX"), or a file is missing or of another size.
 * GM_ERR_LIMIT: they come to more than any layer. */
int split_check(struct root *r, const char *record, const char *folder, const char *wanted,
                struct gm_err *err) GM_CHECK;

#endif
