/*
 * Whether an expression may match anywhere in a text, in one pass over its bytes.
 *
 * An expression becomes a finite automaton whose states are worked out when a text first needs
 * them. It matches whatever the expression matches, and more: what looks around further than one
 * character counts for nothing, what a group matched may be any text, and long repeats have no
 * upper bound. "No" is therefore sure, and after "yes" PCRE2 is asked. Each (?=...) that must hold
 * is an automaton of its own, which must find a place as well.
 *
 * The analysis knows the parts of PCRE2's language that the knowledge base uses; with anything else
 * there is no automaton. A text with one of the two letters outside ASCII that PCRE2 takes for k
 * and s is left to PCRE2.
 */
#ifndef GPUMEND_LOG_AUTOMATON_H
#define GPUMEND_LOG_AUTOMATON_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"

struct automaton;

/* For an expression as regex_search() takes it: PCRE2_CASELESS, PCRE2_UTF. NULL: it uses something
 * that is not known, or is too large. It lives in `a`, as do the states that it gets later. */
struct automaton *automaton_of(struct arena *a, const char *expression);

/* False: the expression does not match text[0, n), which is UTF-8. True: it may, at *ret_from or
 * behind it; that may lie within a character. `budget` are bytes that states may still take, of all
 * automata together; without it, or where states serve for too little text, the answer is true. */
bool automaton_may_match(struct automaton *m, const char *text, size_t n, size_t *budget,
                         size_t *ret_from);

/* Whether the end of a text may match where the whole does not, if a blank or one of ":])" is in
 * front of it, as behind what line_prefix() measures. */
bool automaton_looks_back(const struct automaton *m);

#endif
