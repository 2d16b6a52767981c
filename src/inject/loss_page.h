/*
 * The page of memory in which the helper libraries of one `run --trace` count what they could not
 * write (a full disk, a limit on the size of files): a memfd of the supervisor, which the helpers
 * map by the path in GPUMEND_TRACE_LOSS. Plain integers, changed by the __atomic functions.
 *
 * Freestanding: the helpers include it.
 */
#ifndef GPUMEND_INJECT_LOSS_PAGE_H
#define GPUMEND_INJECT_LOSS_PAGE_H

#include <stdint.h>

#define LOSS_VARIABLE "GPUMEND_TRACE_LOSS"

enum { LOSS_MAGIC = 0x676d6c31 };

struct loss_page {
    uint32_t magic;
    uint32_t torn;  // 1: the file ends in the middle of a line
    uint64_t lines; // lost, in all processes
    int32_t error;  // errno of the first loss; 0: none
};

#endif
