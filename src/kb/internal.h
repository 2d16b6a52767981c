/*
 * Shared by the files of this room: how JSON and the embedded rows become structs and structs
 * become JSON.
 *
 * A record lists its fields, a field says its key, its type and where it lies in the struct. Keys
 * that no field names are refused, so that a typo is not a fact lost.
 */
#ifndef GPUMEND_KB_INTERNAL_H
#define GPUMEND_KB_INTERNAL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "kb/kb.h"

/* One embedded file, written by scripts/kb-embed: rows (packed.c), or a document that is no area as
 * JSON. */
struct kb_blob {
    const char *area;
    const char *data;
    size_t size;
};

extern const struct kb_blob kb_blobs[];
extern const size_t kb_n_blobs;
extern const unsigned char kb_texts[]; // of the rows
extern const size_t kb_texts_size;

enum field_type {
    FIELD_TEXT,
    FIELD_TEXTS, // array of texts; at least one unless the field is optional
    FIELD_BOOL,
    FIELD_NUMBER, // integer or null (-1)
    FIELD_WORD,   // one of `words`, stored as an enum
    FIELD_FLAG,   // one of two words, stored as a bool: the second is true
    FIELD_LIST,   // array of records
    FIELD_INSIDE, // an object whose members go into the same struct
};

struct record;

struct field {
    const char *key;
    enum field_type type;
    bool optional;
    size_t offset, count_offset; // count_offset: FIELD_TEXTS and FIELD_LIST
    const char *const *words;    // ends with NULL
    const struct record *record; // FIELD_LIST, FIELD_INSIDE
    int preset;                  // FIELD_WORD when it is left out
};

struct record {
    size_t size;
    const struct field *fields;
    size_t n;
};

struct area {
    const char *name;
    const struct record *record;
    int (*check)(const void *row, struct gm_err *err); // or NULL
};

extern const struct area kb_areas[KB_AREAS];

/* Fills the struct at `to` from an object. What the object lacks is taken from `defaults` (may be
 * NULL). */
int kb_decode(struct arena *a, const struct record *r, const json_t *from, const json_t *defaults,
              char *to, struct gm_err *err) GM_CHECK;

/* The embedded rows of an area, as kb_decode() would make them. Texts are those of kb_texts. */
void *kb_unpack(struct arena *a, const struct kb_blob *blob, const struct record *r, size_t *ret_n);

/* Words that a row leaves out. */
void kb_preset(const struct record *r, char *to);

/* Stores one of the words of a field; false: `text` is none of them. */
bool kb_store_word(const struct field *f, const char *text, char *to);

/* The object that kb_decode() would make this struct from, without what is left out. A new
 * reference. */
json_t *kb_encode(const struct record *r, const char *from);

#endif
