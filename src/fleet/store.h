/*
 * Snapshots of many nodes, each content once.
 *
 *   STORE/chunks/HEX             a piece of the contents of a snapshot's files, or a long text, by
 *                                its SHA-256
 *   STORE/contents/HEX           the names of the pieces of one environment's contents
 *   STORE/bases/HEX              one manifest of those with the same contents and texts
 *   STORE/nodes/NODE@TIME.manifest   the rest of a node's snapshot, as a difference from its base
 *
 * Each file is zstd's; it is written under another name and linked to its own, chunks first and the
 * manifest last: whatever interrupts an add, what is in the store is whole. Nothing is replaced.
 */
#ifndef GPUMEND_FLEET_STORE_H
#define GPUMEND_FLEET_STORE_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

#define FLEET_MANIFEST ".manifest"

/* Whether the folder is a store. */
bool fleet_store_is(struct arena *a, const char *path);

/* Makes the folders of a store that are missing. GM_ERR_LOOK. */
int fleet_store_make(struct arena *a, const char *path, struct gm_err *err) GM_CHECK;

/* Adds a document of snapshot_decode() that was checked by it; `made` is its time. *ret_new: false
 * if the same is there already. GM_ERR_FORMAT: another snapshot of this node and time is there, or
 * a text that looks like a chunk's name; GM_ERR_LOOK: it cannot be written. */
int fleet_store_add(struct arena *a, const char *store, const char *node, const char *made,
                    struct str text, bool *ret_new, struct gm_err *err) GM_CHECK;

/* The document of a manifest again, as JSON, and its content for snapshot_decode_with(); NULL: the
 * document has it. GM_ERR_FORMAT: something of it is damaged. */
int fleet_store_read(struct arena *a, const char *store, const char *manifest, struct str *ret,
                     struct str *ret_content, struct gm_err *err) GM_CHECK;

#endif
