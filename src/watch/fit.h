/*
 * Whether the helper libraries can be loaded into a program: they are made for this machine's
 * architecture in 64 bits and for glibc. ld.so prints an error for each one that it cannot load.
 */
#ifndef GPUMEND_WATCH_FIT_H
#define GPUMEND_WATCH_FIT_H

#include "base/arena.h"
#include "base/root.h"

/* Why they cannot be loaded into the program in the file `path` (absolute), as what it is: "a
 * 32-bit program". NULL: they can be, or the file does not tell. */
const char *watch_unfit(struct root *r, struct arena *a, const char *path);

#endif
