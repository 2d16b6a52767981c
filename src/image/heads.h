/*
 * The headers of GPU code in a file that streams by, as src/gpu/fatbin.c reads them: of each
 * container its header, of each entry its header, and no payload. A mapping in which only these and
 * what else is kept of the file (image/keep.h) are as in the file, and all else is zeros, gives
 * gpu_code_read() the same answer: it looks for a container where one can begin, at multiples of 8,
 * and so does this.
 */
#ifndef GPUMEND_IMAGE_HEADS_H
#define GPUMEND_IMAGE_HEADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

enum {
    IMAGE_HEADS_NEED = 80,        // a container's header and the first entry's
    IMAGE_HEADS_BLOCK = 16 << 10, // records are packed so many bytes at a time
    IMAGE_HEADS_LIST_MAX = 64 << 10,
};

/* Records behind each other: u64 offset, u64 size, bytes. */
struct image_heads_block {
    uint64_t from, to; // what of the file they lie in
    const unsigned char *packed;
    uint32_t n, size; // packed and unpacked
};

enum image_heads_state {
    IMAGE_HEADS_SEARCH,
    IMAGE_HEADS_CONTAINER,
    IMAGE_HEADS_ENTRY,
    IMAGE_HEADS_LIST
};

struct image_heads {
    uint64_t size; // of the file
    uint64_t at;   // the next byte of interest
    uint64_t end;  // of the container that `at` is in
    uint64_t list; // bytes of a list's members that are still to come
    enum image_heads_state state;
    size_t have; // bytes of `buffer`, which begins at `at`
    unsigned char buffer[IMAGE_HEADS_NEED];
    unsigned char block[IMAGE_HEADS_BLOCK]; // records that are not packed yet
    size_t n_block;
    uint64_t block_from, block_to;
    bool lost; // not everything that is read could be taken
    void *packer;
    struct arena *arena;   // takes the packed blocks ...
    struct arena *scratch; // ... and their list
    uint64_t *room;        // bytes that they may still take
    VEC(struct image_heads_block) blocks;
};

/* The next bytes, without a gap. */
void image_heads_take(struct image_heads *h, const unsigned char *bytes, size_t n, uint64_t offset);

/* After the last: packs what is left. */
void image_heads_end(struct image_heads *h);

/* Copies what of a block's records, unpacked, lies in [offset, offset + n) to its place in `to`. */
void image_heads_copy(const unsigned char *records, size_t size, uint64_t offset, size_t n,
                      unsigned char *to);

#endif
