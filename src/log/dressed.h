/*
 * Texts whose every line somebody or something put a mark before, and texts in the characters of
 * another language: a list or a quotation of Markdown, the numbers of `grep -n` and `cat -n`, with
 * a file's name or without, HTML, and one line that is Python's repr() of lines. No program
 * prints them that way, so that what it printed is looked at without.
 */
#ifndef GPUMEND_LOG_DRESSED_H
#define GPUMEND_LOG_DRESSED_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/str.h"

struct dressed {
    struct str text;
    bool was_one_line; // otherwise lines keep their numbers
};

/* The text without its marks, in `a`. False if one line with text has none of the mark that the
 * first one has, and nothing is written as in HTML or by repr(). */
bool dressed_undo(struct arena *a, struct str text, struct dressed *ret);

#endif
