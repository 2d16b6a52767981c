/*
 * A snapshot being decoded: shared by its values (decode_values.c), its files (decode_files.c), and
 * the document around them (decode.c).
 */
#ifndef GPUMEND_SNAPSHOT_DECODER_H
#define GPUMEND_SNAPSHOT_DECODER_H

#include <jansson.h>

#include "base/snap.h"
#include "snapshot/snapshot.h"

#define FILE_BYTES_MAX ((json_int_t)1 << 34)

struct decoder {
    struct snapshot *s;
    struct arena *arena;
    struct gm_err *err;
    const unsigned char *content;
    size_t n_content;
    struct str given; // in the place of the document's chunks; NULL: these
};

/* The error for a value that is not as it must be. */
int snapshot_decoder_bad(struct decoder *d, const char *where, const char *what);

/* False: it is not base64. */
bool snapshot_base64_bytes(struct arena *a, const char *s, size_t n, struct str *ret);

/* A text without NUL; *ret NULL for null or nothing. */
bool snapshot_decode_text(struct decoder *d, const json_t *value, const char **ret);

/* A list of texts; false: it is something else. */
bool snapshot_texts_of(struct decoder *d, const json_t *list, snapshot_texts *ret);

/* An integer within bounds; false: it is something else. */
bool snapshot_integer_in(const json_t *o, const char *key, json_int_t min, json_int_t max,
                         json_int_t *ret);

/* 0 or a negative errno; untouched where it is not there. */
bool snapshot_rc_of(const json_t *o, const char *key, json_int_t max, int *ret);

/* Absolute, without empty parts, "." and "..". */
bool snapshot_is_plain_path(const char *path);

/* Whether a text can be the name of a file in a folder. */
bool snapshot_node_is_name(const char *name);

/* The nodes, then what refers from one to another. */
int snapshot_read_files(struct decoder *d, const json_t *list);

/* The bytes of the files: the document's chunks, or those that came beside it. */
int snapshot_read_content(struct decoder *d, const json_t *o);

#endif
