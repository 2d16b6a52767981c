/*
 * Mappings of which it is known which pages were read.
 *
 * A page is not accessible until it is read for the first time; a handler of SIGSEGV then makes it
 * readable. While recording it is a page of the file, and marked. While replaying it is filled from
 * the bytes that were recorded; a page of which not all was recorded reads as zeros where nothing
 * is known, and `missing` says so.
 *
 * The kernel does not take the handler's way: a system call that is handed a pointer into such a
 * mapping fails with EFAULT. A fault elsewhere goes to the handler that stood before. For one
 * thread.
 */
#ifndef GPUMEND_BASE_PAGES_H
#define GPUMEND_BASE_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Known bytes of a file. */
struct pages_range {
    uint64_t offset;
    size_t n;
    const unsigned char *bytes;
};

struct pages {
    size_t size;                      // of the file, bytes; not 0
    unsigned char *touched;           // a bit for each page
    const struct pages_range *ranges; // when replaying: sorted, none overlaps another
    size_t n_ranges;
    /* When replaying, may be NULL: copies the bytes of a page that are in no range; false: they are
     * not known. Is called by the handler. */
    bool (*more)(const void *arg, uint64_t offset, size_t n, unsigned char *to);
    const void *more_arg;
    bool rest_is_zero; // what is neither is not missing: it reads as zeros
    bool missing;      // a page was read that is not among the ranges
    bool failed;       // there were too many single pages: which ones were read is not known
};

/* Bytes of a page, which `touched` counts in. */
size_t pages_unit(void);

/* Bytes that `touched` must have for a file of this size. */
size_t pages_bitmap_bytes(size_t size);

/* Maps a file of p->size bytes, by `fd` when recording, -1 when replaying; 0 or a negative errno.
 * To be unmapped with munmap(). p and its arrays must outlive the mapping. */
int pages_map(struct pages *p, int fd, const void **ret) GM_CHECK;

/* Takes the pages of a mapping, of this file or not, out of memory; they come back when they are
 * read again. For [from, from + n) of read-only mappings of files. */
void pages_give_back(const void *from, size_t n);

/* Forgets all mappings and puts the former handler of SIGSEGV back. */
void pages_stop(void);

#endif
