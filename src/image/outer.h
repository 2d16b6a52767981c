/*
 * An archive that is compressed as a whole (`docker save | gzip`), read as the tar archive in it:
 * by offset, forwards. Reading before where it stands begins again from the start, so that layers
 * cost one decompression of the archive where they stand in it in their order, and one more for
 * each step back where they do not.
 */
#ifndef GPUMEND_IMAGE_OUTER_H
#define GPUMEND_IMAGE_OUTER_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct archive;

struct image_outer {
    int fd;             // of the archive; belongs to the caller
    uint64_t size;      // of the file
    struct archive *ar; // NULL: not begun
    const unsigned char *block;
    uint64_t at;       // where the block begins
    size_t n;          // its bytes
    uint64_t unpacked; // in all, with what was unpacked again
    void (*progress)(void *arg, uint64_t done, uint64_t size); // bytes of the file, each time
    void *progress_arg;
};

/* What unpacking may come to: GM_ERR_LIMIT for more than 256 GiB `in_all`, and for more than 4 GiB
 * and 50 times the `packed` bytes that `unpacked` came from. Programs and libraries come nowhere
 * near; zeros come to 1000 times their size from gzip, and to 30000 times from zstd. */
int image_outer_bound(uint64_t unpacked, uint64_t in_all, uint64_t packed,
                      struct gm_err *err) GM_CHECK;

/* The next bytes from `offset` on: *ret_n of them (0: the archive ends there), which are valid
 * until the next call. GM_ERR_FORMAT: it is damaged. GM_ERR_LIMIT: it unpacks to more than any
 * image. */
int image_outer_read(struct image_outer *o, uint64_t offset, const void **ret, size_t *ret_n,
                     struct gm_err *err) GM_CHECK;
void image_outer_release(struct image_outer *o);

#endif
