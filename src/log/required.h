/*
 * What a line, without blanks at its end, must hold for an expression to match it: clauses, of each
 * of which at least one literal stands in every line that matches; digits in a row. An expression
 * is searched for only in lines that have all of it.
 *
 * The analysis knows the parts of PCRE2's language that the knowledge base uses. What it does not
 * know, or what holds no literal of REQUIRED_LITERAL_MIN bytes, requires nothing. Two letters
 * outside ASCII that PCRE2 takes for k and s in another case (U+212A, U+017F) are not: no log means
 * them.
 */
#ifndef GPUMEND_LOG_REQUIRED_H
#define GPUMEND_LOG_REQUIRED_H

#include <stddef.h>

#include "base/arena.h"

enum {
    REQUIRED_LITERAL_MIN = 2,
    REQUIRED_LITERALS_MAX = 64,
    REQUIRED_CLAUSES_MAX = 8,
    REQUIRED_CHOICES_MAX = 4,
    REQUIRED_DIGITS_MAX = 4,
};

struct required_clause {
    const char **literals; // in small letters; none is part of another
    size_t n;
    size_t shortest;  // bytes of the shortest one
    double frequency; // how often one of them may be expected in a MiB of ordinary text
};

struct required_choice;

struct required {
    const struct required_clause *clauses[REQUIRED_CLAUSES_MAX]; // the rarest first
    size_t n;
    const struct required_choice *choices[REQUIRED_CHOICES_MAX];
    size_t n_choices;
    unsigned digits;                    // that stand in a row, at least; up to REQUIRED_DIGITS_MAX
    size_t length_max;                  // bytes of a line that matches; SIZE_MAX: any
    const struct required_clause *ends; // the line ends with one of these; NULL: with anything
};

/* Alternatives, of which one must have all that it requires. */
struct required_choice {
    const struct required *items;
    size_t n;
};

/* The literals live in `a`. */
void required_of(struct arena *a, const char *expression, struct required *ret);

#endif
