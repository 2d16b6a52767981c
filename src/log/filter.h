/*
 * Which of many literals stand in a text, nearly as fast as it can be read where none does.
 *
 * Of each literal four bytes in a row are chosen that logs hold least (log/grams.h). The four bytes
 * at every place of the text are hashed into a small table of bits; only where the bit is set are
 * literals compared. ASCII letters match in either case.
 */
#ifndef GPUMEND_LOG_FILTER_H
#define GPUMEND_LOG_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

enum { FILTER_LITERAL_MIN = 4, FILTER_LITERAL_MAX = 200 };

struct filter;

/* How often a literal may be expected in a MiB of ordinary text, by the rarest four bytes in it. */
double filter_frequency(const char *literal);

/* The same of two bytes in a row, in small letters, for comparison with one another: calls
 * take(arg, two bytes, how often) for those that stand in ordinary text, some of them again. */
void filter_pairs_each(void (*take)(void *arg, const char *pair, double frequency), void *arg);

/* A filter for n literals of 4 to 200 bytes; they are not copied, and may stand there twice. */
struct filter *filter_build(struct arena *a, const char *const *literals, size_t n);

/* The first place in text[from, end) that is inside a literal; `end` if there is none. No earlier
 * line holds one. A literal with passes(arg, literal, place) does not count; NULL: all do. */
size_t filter_find(const struct filter *f, const char *text, size_t from, size_t end,
                   bool (*passes)(void *arg, size_t literal, size_t at), void *arg);

/* Calls on_hit(arg, i, at) wherever a literal i stands in the text, which it does from text[at] on.
 */
void filter_all(const struct filter *f, const char *text, size_t n,
                void (*on_hit)(void *arg, size_t literal, size_t at), void *arg);

#endif
