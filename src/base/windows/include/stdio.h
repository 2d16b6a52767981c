/* The C runtime's stdio.h and a name that it has not. */
#ifndef GPUMEND_BASE_WINDOWS_INCLUDE_STDIO_H
#define GPUMEND_BASE_WINDOWS_INCLUDE_STDIO_H

#include_next <stdio.h>

#define getc_unlocked(file) getc(file)

#endif
