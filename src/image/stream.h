/*
 * A file that passes by once: shared by what is wanted of it (keep_wants.c) and what is kept
 * (keep.c).
 */
#ifndef GPUMEND_IMAGE_STREAM_H
#define GPUMEND_IMAGE_STREAM_H

#include "image/keep.h"

enum {
    HEAD_MAX = 24 << 20, // the tables before the dynamic section end before it: 16.5 MB at most in
                         // torch 2.5 to 2.15 and the CUDA libraries beside it
    TABLE_MAX = 32 << 20,
    RANGES_MAX = 96,
};

struct wanted {
    uint64_t from, to;
    bool more; // counts as IMAGE_KEEP_MORE_MAX
};

struct stream {
    struct image_keep *k;
    VEC(struct image_keep_piece) pieces;
    struct arena scratch;
    uint64_t size;
    size_t head; // bytes in k->head
    struct wanted wanted[RANGES_MAX];
    size_t n_wanted;
    bool is_elf, dynamic_done;
    bool dropped; // something that is wanted found no room
    struct image_heads heads;
    unsigned search;
    struct elf_image image; // of the beginning; its segments
    uint64_t dynamic_at;
    size_t dynamic_size, n_dynamic; // n_dynamic: so many bytes of it have come
    unsigned char *dynamic;
    unsigned char piece[IMAGE_KEEP_PIECE]; // behind the beginning: the piece that comes
};

/* Asks for n bytes from an offset; `more`: it counts as IMAGE_KEEP_MORE_MAX. */
void image_stream_want(struct stream *s, uint64_t from, uint64_t n, bool more);

/*
 * What nearly every check reads.
 */
bool image_is_text_name(const char *path);

/* What is wanted as soon as the ELF header is known. */
void image_want_headers(struct stream *s, const char *path);

/* What is wanted as soon as the dynamic section is known. */
void image_want_tables(struct stream *s);

#endif
