/*
 * What is held in memory of the files of a compressed layer from the one pass that reads all of it,
 * so that no further pass has to unpack the layer again: what packages say of themselves, settings
 * of the loader and of Python, and of ELF files the headers and the tables of the dynamic linker.
 *
 * A file is cut into pieces of IMAGE_KEEP_PIECE bytes; those that are wanted are compressed again
 * and lie in the arena. Which ones is decided while the file streams by: by its name, its first
 * bytes, its program headers, and its dynamic section once that has come. The tables before the
 * dynamic section are still in the buffer with the file's beginning by then.
 *
 * A file that streams by is told nothing of what it is: bytes that mean harm choose other pieces,
 * of which there are at most IMAGE_KEEP_TABLES_MAX and IMAGE_KEEP_MORE_MAX bytes, compressed, in
 * all layers.
 */
#ifndef GPUMEND_IMAGE_KEEP_H
#define GPUMEND_IMAGE_KEEP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "image/heads.h"

enum {
    IMAGE_KEEP_PIECE = 16 << 10,
    IMAGE_KEEP_TABLES_MAX = 36 << 20, // texts, headers and tables
    IMAGE_KEEP_MORE_MAX = 12 << 20,   // what only few checks read
    IMAGE_KEEP_HEADS_MAX = 8 << 20,   // headers of GPU code
};

struct image_keep_piece {
    uint32_t number, n; // n: its bytes in the arena; 0: all are zeros
    const unsigned char *packed;
};

/* Of one file. */
struct image_kept {
    struct image_keep *by;
    uint64_t size;
    const struct image_keep_piece *pieces; // by number
    size_t n_pieces;
    bool gpu_code; // all that gpu_code_read() looks at is held
    const struct image_heads_block *heads;
    size_t n_heads;
};

struct image_keep {
    struct arena *arena;
    uint64_t tables, more;     // bytes held
    uint64_t image_heads_room; // bytes that headers of GPU code may still take
    unsigned char *head;       // the beginning of the file that streams by
    void *packer, *unpacker;
    unsigned char *piece; // the last that was unpacked ...
    const void *last;     // ... its struct image_keep_piece or image_heads_block
};

/* Holds what it keeps in the arena. */
void image_keep_init(struct image_keep *k, struct arena *a);
/* After the last layer: the memory that only reading needs is given back. */
void image_keep_end(struct image_keep *k);
void image_keep_release(struct image_keep *k);

/* Gives the next bytes of a file: 1, and the bytes with their offset; 0 at its end; an error. */
struct image_keep_source {
    int (*next)(void *arg, const void **ret, size_t *ret_n, uint64_t *ret_offset,
                struct gm_err *err);
    void *arg;
};

/* Reads a file of `size` bytes, or its beginning, and keeps what is worth it. *ret: NULL: nothing.
 * GM_ERR_FORMAT: the source ends before the file. GM_ERR_LIMIT: no memory. */
int image_keep_file(struct image_keep *k, const char *path, uint64_t size,
                    const struct image_keep_source *from, struct image_kept **ret,
                    struct gm_err *err) GM_CHECK;

/* Copies [offset, offset + n) of the file; false: not all of it is held. `to` may be NULL. May be
 * called by a handler of signals. */
bool image_kept_read(const struct image_kept *f, uint64_t offset, size_t n, unsigned char *to);

/* The same of a file with gpu_code, for gpu_code_read(): false: all of it is zeros there. */
bool image_kept_gpu_code(const struct image_kept *f, uint64_t offset, size_t n, unsigned char *to);

#endif
