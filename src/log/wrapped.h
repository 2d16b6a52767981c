/*
 * Texts whose long lines were wrapped by a terminal, a mail program or Python's rich.
 */
#ifndef GPUMEND_LOG_WRAPPED_H
#define GPUMEND_LOG_WRAPPED_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/str.h"

enum wrapped { WRAPPED_AT_BLANKS, WRAPPED_ANYWHERE, WRAPPED_KINDS };

/* The text with its wrapped lines joined, in `a`. A joined line is where its first part was, and
 * empty lines are where the others were, so that lines keep their numbers. False if no line was
 * wrapped that way, or if the longest line is narrower or wider than screens are. */
bool wrapped_join(struct arena *a, struct str text, enum wrapped kind, struct str *ret);

#endif
