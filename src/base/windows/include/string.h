/* What the C runtime's string.h lacks. */
#ifndef GPUMEND_BASE_WINDOWS_INCLUDE_STRING_H
#define GPUMEND_BASE_WINDOWS_INCLUDE_STRING_H

#include_next <string.h>

void *memmem(const void *in, size_t n, const void *what, size_t n_what);
char *strcasestr(const char *in, const char *what); // ASCII only
void *memrchr(const void *in, int c, size_t n);

#endif
