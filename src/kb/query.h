/*
 * Questions to the knowledge base in words: "which driver does CUDA 12.4 need".
 *
 *   text  ->  words  ->  what they name (kb/question.h)  ->  the first form that fits  ->  rows
 *
 * Words that carry nothing are skipped, order hardly matters. A form is a row of a table: what the
 * question must name, words of which one must occur, and the function that looks the rows up. When
 * no form fits, or the rows do not say it, the answer is "not known"; nothing is inferred beyond
 * what docs/kb.md states for the form.
 */
#ifndef GPUMEND_KB_QUERY_H
#define GPUMEND_KB_QUERY_H

#include <stdbool.h>
#include <stddef.h>

#include "kb/kb.h"

struct kb_hit {
    enum kb_area area;
    const void *row;
    const struct kb_origin *origin;
};

struct kb_answer {
    bool known;
    const char *form;        // which form answered, as `gpumend kb --forms` shows it; NULL: none
    const char *text;        // one or more sentences; "not known" if !known
    VEC(struct kb_hit) hits; // the rows it rests on, the most important first
};

/* Answers `text`. Fails only if an area cannot be loaded (a replacement folder). Everything lives
 * in the knowledge base's arena. */
int kb_ask(struct kb *kb, const char *text, struct kb_answer *ret, struct gm_err *err) GM_CHECK;

/* The forms in the order they are tried: an example of each; NULL behind the last. */
const char *kb_form_example(size_t i);

#endif
