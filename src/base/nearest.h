/*
 * The name that a person most likely meant: "chekc" is near "check", "torhc" near "torch".
 *
 *   nearest_init()  the word as it was written
 *   nearest_try()   each name that would have been valid
 *   nearest_best()  the nearest of these, or NULL
 *
 * A name is near if it takes at most one edit for each three letters of the word, and at most three
 * (an edit inserts, removes or replaces a letter, or swaps two neighbours: optimal string
 * alignment). Letters of either case are equal. Of names that are equally near, the first one tried
 * wins. Nothing is allocated; the names must outlive the struct.
 */
#ifndef GPUMEND_BASE_NEAREST_H
#define GPUMEND_BASE_NEAREST_H

#include <stddef.h>

struct nearest {
    const char *word;
    const char *best; // NULL: none is near
    size_t distance;  // of the best, in edits
};

void nearest_init(struct nearest *n, const char *word);
void nearest_try(struct nearest *n, const char *name);
const char *nearest_best(const struct nearest *n);

#endif
