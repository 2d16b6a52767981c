/*
 * What the libraries in other processes have in place of <string.h>. Texts end with NUL and are the
 * caller's.
 */
#ifndef GPUMEND_INJECT_TEXT_H
#define GPUMEND_INJECT_TEXT_H

#include <stdbool.h>
#include <stddef.h>

size_t text_length(const char *text);
bool text_equal(const char *a, const char *b);
bool text_begins(const char *text, const char *with);

/* What follows the last slash of `path`: a part of it. */
const char *text_base(const char *path);

#endif
