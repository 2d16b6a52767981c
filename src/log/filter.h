/*
 * Which of many literals stand in a text, as fast as memory is read where none does.
 *
 * A literal of n bytes, n >= 4, holds a run of STRIDE + 3 bytes, so that wherever it stands, four of
 * these bytes in a row begin at a multiple of STRIDE. At each multiple the four bytes are hashed into
 * a small table of bits; only where the bit is set are the literals compared. The run of each literal
 * is the one whose bytes are rarest in logs. ASCII letters match in either case.
 */
#ifndef GPUMEND_LOG_FILTER_H
#define GPUMEND_LOG_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

enum { FILTER_LITERAL_MIN = 4, FILTER_LITERAL_MAX = 200, FILTER_STRIDE_MAX = 4 };

struct filter;

/* A filter for n literals of 4 to 200 bytes; they are not copied. */
struct filter *filter_build(struct arena *a, const char *const *literals, size_t n);

/* The first place at or after `from` where a literal begins before `end`; `end` if there is none.
 * Nothing behind `end` is read. */
size_t filter_find(const struct filter *f, const char *text, size_t from, size_t end);

/* Calls on_hit(arg, i) for the literals i that stand in the text, at least once for each. */
void filter_all(const struct filter *f, const char *text, size_t n,
                void (*on_hit)(void *arg, size_t literal), void *arg);

#endif
