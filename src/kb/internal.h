/* Shared by the files of this room. */
#ifndef GPUMEND_KB_INTERNAL_H
#define GPUMEND_KB_INTERNAL_H

#include <stddef.h>

/* One embedded file, written by scripts/kb-embed. */
struct kb_blob {
    const char *area;
    const char *data;
    size_t size;
};

extern const struct kb_blob kb_blobs[];
extern const size_t kb_blobs_n;

#endif
