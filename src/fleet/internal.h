/*
 * What the files of a store share: names by SHA-256, files that are written whole, zstd; and the
 * files' contents of a snapshot as pieces.
 */
#ifndef GPUMEND_FLEET_INTERNAL_H
#define GPUMEND_FLEET_INTERNAL_H

#include <jansson.h>
#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

enum {
    STORE_HEX_N = 64, // digits of a SHA-256
    STORE_OBJECT_BYTES_MAX = 256 << 20,
};

const char *store_hex(struct arena *a, const void *data, size_t n);
bool store_is_hex(const char *text);

/* -1: it cannot be read, is no regular file, or too large. */
int store_read_file(struct arena *a, const char *path, struct str *ret) GM_CHECK;

/* Under a name of its own, whole and on the disk, and then under `path`. 1: there is one already.
 * GM_ERR_LOOK. */
int store_write_file(struct arena *a, const char *path, struct str data,
                     struct gm_err *err) GM_CHECK;

/* zstd; `base` ({0}: none) is what the text resembles. unpack: -1: it is damaged. */
int store_pack(struct arena *a, struct str text, struct str base, struct str *ret,
               struct gm_err *err) GM_CHECK;
int store_unpack(struct arena *a, struct str data, struct str base, struct str *ret) GM_CHECK;

/* STORE/chunks/HEX. GM_ERR_LOOK, GM_ERR_MEMORY; GM_ERR_FORMAT: it is missing or damaged. */
int store_put_object(struct arena *a, const char *store, const char *hex, struct str data,
                     struct gm_err *err) GM_CHECK;
int store_take_object(struct arena *a, const char *store, const char *hex, struct str *ret,
                      struct gm_err *err) GM_CHECK;

/* Puts the contents of a checked snapshot's files, and in the place of the chunks of its "content"
 * the name of their list, which is *ret_key; "": it has none. */
int store_put_content(struct arena *a, const char *store, json_t *content, const char **ret_key,
                      struct gm_err *err) GM_CHECK;

/* The bytes; *ret->s is NULL where the document has its chunks itself. */
int store_take_content(struct arena *a, const char *store, const json_t *content, struct str *ret,
                       struct gm_err *err) GM_CHECK;

#endif
