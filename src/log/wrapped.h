/*
 * Texts whose long lines were broken at a width, as terminals, mail programs and Python's rich do.
 */
#ifndef GPUMEND_LOG_WRAPPED_H
#define GPUMEND_LOG_WRAPPED_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/str.h"

enum wrapped { WRAPPED_AT_BLANKS, WRAPPED_ANYWHERE, WRAPPED_KINDS };

/* The text with such lines in one piece again, in `a`: each is where its first part was, with empty
 * lines for the others, so that lines keep their numbers. False if no line was broken that way, or
 * if the longest is narrower or wider than screens are. */
bool wrapped_join(struct arena *a, struct str text, enum wrapped kind, struct str *ret);

#endif
