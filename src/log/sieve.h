/*
 * Which signatures, tables and screens ("owners") a line is worth trying, by the literals in it.
 *
 * An owner asks for one of its own literals (of the knowledge base), and for one of each clause
 * that its expression requires (log/required.h). Lines are found by the rarest of these clauses;
 * only those that have one are looked at further. A literal that stands in every second line, such
 * as "error", is therefore never looked for alone where an expression needs more than that.
 */
#ifndef GPUMEND_LOG_SIEVE_H
#define GPUMEND_LOG_SIEVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "log/filter.h"
#include "log/required.h"

struct sieve;

/* Of n_owners owners, of which owner i has the expression expressions[i] (NULL: none), and the
 * literal k belongs to owners[k], in ascending order. Lines with literal k are found whatever is
 * required if watched[k]. All of it must outlive the sieve. */
struct sieve_source {
    const char *const *expressions;
    size_t n_owners;
    const char *const *literals;
    const uint32_t *owners;
    const bool *watched;
    size_t n_literals;
};

struct sieve *sieve_build(struct arena *a, const struct sieve_source *source);

/* Finds lines that may be worth it; see filter_find(). */
const struct filter *sieve_lines(const struct sieve *s);

enum { SIEVE_PAIRS = 4096, SIEVE_MARKS = SIEVE_PAIRS + REQUIRED_DIGITS_MAX };

/* A line, and which two bytes in a row it has, and how many digits: of one in a row, of two ... All
 * zero before the first line. */
struct sieve_pairs {
    const char *text;
    size_t n;
    bool is_marked;             // the next two are of this line
    uint8_t turn;               // never 0 then
    uint8_t marks[SIEVE_MARKS]; // `turn`: the line has it; letters are alike in either case
};

/* Whose literal it is: *ret_n of them. SIEVE_WATCHED: it is watched. */
enum { SIEVE_WATCHED = UINT32_MAX };
const uint32_t *sieve_line_owners(const struct sieve *s, size_t literal, size_t *ret_n);

/* What one line has. */
struct sieve_line {
    struct sieve_pairs pairs;
    uint8_t *clauses;  // of each owner: a bit for each that was found
    uint32_t *touched; // owners with such a bit
    size_t n_touched;
};

void sieve_line_init(struct sieve_line *line, struct arena *a, size_t n_owners);

/* Begins a line. Sets hits[owner / 64] bit owner % 64 of each owner for which all is there that is
 * searched for; true if one of the watched literals begins a word. */
bool sieve_try(const struct sieve *s, struct sieve_line *line, const char *text, size_t n,
               uint64_t *hits);

/* Whether a line may be worth it by its length and its end. */
bool sieve_fits_ends(const struct sieve *s, size_t owner, const char *text, size_t n,
                     size_t shortest);

/* Begins a line for the next. */
void sieve_pairs_begin(struct sieve_pairs *pairs, const char *text, size_t n);

/* Whether a line with one of the literals that it is found by may have what else the expression of
 * an owner requires, by its pairs of bytes and its digits alone: "no" is sure, and is found many
 * times faster than by the expression. */
bool sieve_may_fit(const struct sieve *s, struct sieve_pairs *pairs, size_t owner);

/* Whether the line that was tried last has all the rest that an owner asks for. `shortest`: bytes
 * of the line, or of the part of it that is searched as well. */
bool sieve_fits(const struct sieve *s, struct sieve_line *line, size_t owner, size_t shortest);

#endif
