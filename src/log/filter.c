#include "log/filter.h"

#include <string.h>

#include "log/grams.h"

enum { GRAM = 4, ROW = GRAM + 1, AT_ONCE = 4, WORDS_LOG2 = 14 };

/* How a literal is found: by four bytes of it, and by four others, which are compared next. */
struct piece {
    uint32_t gram, near; // folded
    uint32_t literal;
    uint8_t gram_at, near_at; // in the literal
    uint8_t length;           // of the literal
};

struct filter {
    const char *const *literals;
    uint32_t bits[1u << WORDS_LOG2]; // by gram: see bit_of()
    struct piece *pieces;            // those of one slot side by side
    uint32_t *slots;                 // by hash: where its pieces begin, up to the next one's
    uint32_t n_slots, slots_log2;
};

/* ------------------------------------------------------------------ hashing */

static inline uint32_t gram_at(const char *at)
{
    uint32_t v;
    memcpy(&v, at, sizeof v);
    return v | 0x20202020u; // more than letters become alike, which the comparison sorts out
}

static inline uint32_t hash(uint32_t gram)
{
    return gram * 0x9E3779B1u;
}

static inline uint32_t gram_word(uint32_t gram)
{
    return hash(gram) >> (32 - WORDS_LOG2);
}

/* In its lowest bit; the others are of no meaning. A byte is the place in the word: processors take
 * the low bits of what they shift by, so that it costs nothing to find. */
static inline uint32_t bit_of(const struct filter *f, uint32_t gram)
{
    return f->bits[gram_word(gram)] >> (gram % 32);
}

/* ------------------------------------------------------------------ building */

/* A byte of the table of grams: letters in either case, and digits, are one. */
static unsigned char common_form(char c)
{
    return c >= '0' && c <= '9' ? '0' : (unsigned char)c | 0x20;
}

/* These digits among all that the table has as one; in dates and times some are more frequent. */
static double digits_share(const char *text, size_t n)
{
    double share = 1;
    for (size_t i = 0; i < n; i++) {
        share *= common_form(text[i]) == '0' ? 0.25 : 1;
    }
    return share;
}

/* In the order of the rows. Written out, it is one load and one swap of bytes. */
static uint32_t row_key(const char *row)
{
    const unsigned char *byte = (const unsigned char *)row;
    return (uint32_t)byte[0] << 24 | (uint32_t)byte[1] << 16 | (uint32_t)byte[2] << 8 | byte[3];
}

static double row_frequency(const char *row)
{
    return (double)(1u << (row[GRAM] - 'A'));
}

/* How often four bytes may be expected in a MiB of ordinary text. */
static double gram_frequency(const char *gram)
{
    const double unseen = 32; // fewer than any row has
    const char form[GRAM] = {(char)common_form(gram[0]), (char)common_form(gram[1]),
                             (char)common_form(gram[2]), (char)common_form(gram[3])};
    uint32_t key = row_key(form);
    size_t low = 0, n = sizeof grams / ROW;
    while (n > 1) { // without a branch that cannot be foreseen
        size_t half = n / 2;
        low = key < row_key(grams + (low + half) * ROW) ? low : low + half;
        n -= half;
    }
    const char *row = grams + low * ROW;
    double frequency = row_key(row) == key ? row_frequency(row) : unseen;
    return digits_share(gram, GRAM) * frequency;
}

void filter_pairs_each(void (*take)(void *arg, const char *pair, double frequency), void *arg)
{
    for (size_t at = 0; at + ROW < sizeof grams; at += ROW) {
        take(arg, grams + at, row_frequency(grams + at));
    }
}

/* The longer of two literals that are alike in this is rarer still, if only a little. */
double filter_frequency(const char *literal)
{
    const double frequent = 65536; // what is too short to be told
    size_t n = strlen(literal);
    if (n < GRAM) {
        return frequent * digits_share(literal, n);
    }
    double least = gram_frequency(literal);
    for (size_t i = 1; i + GRAM <= n; i++) {
        double one = gram_frequency(literal + i);
        least = one < least ? one : least;
    }
    return least / (1 + 0.05 * (double)n);
}

/* One that another literal is found by already costs little more. */
static size_t rarest_gram(const struct filter *f, const char *literal, size_t n)
{
    const double shared = 0.3;
    size_t best = 0;
    double lowest = 0;
    for (size_t i = 0; i + GRAM <= n; i++) {
        double weight = gram_frequency(literal + i);
        weight *= bit_of(f, gram_at(literal + i)) & 1 ? shared : 1;
        if (i == 0 || weight < lowest) {
            lowest = weight;
            best = i;
        }
    }
    return best;
}

/* `near` are the last four bytes, or the first ones where the last are the gram. */
static struct piece piece_of(struct filter *f, size_t literal)
{
    const char *text = f->literals[literal];
    size_t n = strlen(text), at = rarest_gram(f, text, n), near = at + GRAM < n ? n - GRAM : 0;
    uint32_t gram = gram_at(text + at);
    f->bits[gram_word(gram)] |= 1u << (gram % 32);
    return (struct piece){gram,        gram_at(text + near), (uint32_t)literal,
                          (uint8_t)at, (uint8_t)near,        (uint8_t)n};
}

/* The highest bits: lower ones do not depend on the last byte. */
static uint32_t gram_slot(const struct filter *f, uint32_t gram)
{
    return hash(gram) >> (32 - f->slots_log2);
}

/* By counting: a slot's end is moved to its beginning as its pieces come. */
static void sort_pieces(struct filter *f, const struct piece *pieces, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        f->slots[gram_slot(f, pieces[i].gram)]++;
    }
    for (uint32_t i = 1; i <= f->n_slots; i++) {
        f->slots[i] += f->slots[i - 1];
    }
    for (size_t i = 0; i < n; i++) {
        f->pieces[--f->slots[gram_slot(f, pieces[i].gram)]] = pieces[i];
    }
}

struct filter *filter_build(struct arena *a, const char *const *literals, size_t n)
{
    struct filter *f = arena_alloc(a, sizeof *f);
    struct piece *pieces = arena_array(a, n + 1, sizeof *pieces);
    f->literals = literals;
    f->slots_log2 = 10;
    while (1u << f->slots_log2 < 2 * n && f->slots_log2 < 16) {
        f->slots_log2++;
    }
    f->n_slots = 1u << f->slots_log2;
    f->slots = arena_array(a, (size_t)f->n_slots + 1, sizeof *f->slots);
    f->pieces = arena_array(a, n + 1, sizeof *f->pieces);
    for (size_t i = 0; i < n; i++) {
        pieces[i] = piece_of(f, i);
    }
    sort_pieces(f, pieces, n);
    return f;
}

/* ------------------------------------------------------------------ searching */

static unsigned char filter_lower(char c)
{
    unsigned char u = (unsigned char)c;
    return u >= 'A' && u <= 'Z' ? (unsigned char)(u | 0x20) : u;
}

static bool literal_is_at(const char *text, const char *literal, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (filter_lower(text[i]) != filter_lower(literal[i])) {
            return false;
        }
    }
    return true;
}

/* A text in which literals are looked for. */
struct part {
    const char *text;
    size_t from, end;
};

/* Whether the literal of this piece stands where its gram does, at `at`. */
static inline bool part_stands(const struct filter *f, const struct piece *p,
                               const struct part *part, size_t at)
{
    if (at - part->from < p->gram_at || part->end - at < (size_t)(p->length - p->gram_at)) {
        return false;
    }
    const char *start = part->text + at - p->gram_at;
    return gram_at(start + p->near_at) == p->near &&
           literal_is_at(start, f->literals[p->literal], p->length);
}

/* Of the pieces from `i` on that have this gram: one whose literal stands at `at`, or `last`. */
static uint32_t standing(const struct filter *f, uint32_t i, uint32_t last, const struct part *part,
                         size_t at)
{
    uint32_t gram = gram_at(part->text + at);
    while (i < last && !(f->pieces[i].gram == gram && part_stands(f, &f->pieces[i], part, at))) {
        i++;
    }
    return i;
}

/* The next place at or after `at` where a bit is set; four places are asked about at once. */
static inline size_t next_candidate(const struct filter *f, const char *text, size_t at, size_t end)
{
    for (; at + AT_ONCE + GRAM <= end; at += AT_ONCE) {
        uint32_t found = 0;
        uint64_t bytes;
        memcpy(&bytes, text + at, sizeof bytes);
        bytes |= 0x2020202020202020u;
        for (size_t i = 0; i < AT_ONCE; i++) {
            found |= bit_of(f, (uint32_t)(bytes >> 8 * i));
        }
        if (found & 1) {
            break;
        }
    }
    while (at + GRAM <= end && !(bit_of(f, gram_at(text + at)) & 1)) {
        at++;
    }
    return at + GRAM <= end ? at : end;
}

size_t filter_find(const struct filter *f, const char *text, size_t from, size_t end,
                   bool (*passes)(void *arg, size_t literal, size_t at), void *arg)
{
    const struct part part = {text, from, end};
    for (size_t at = from; (at = next_candidate(f, text, at, end)) < end; at++) {
        uint32_t slot = gram_slot(f, gram_at(text + at)), last = f->slots[slot + 1];
        for (uint32_t i = f->slots[slot]; (i = standing(f, i, last, &part, at)) < last; i++) {
            if (!passes || !passes(arg, f->pieces[i].literal, at)) {
                return at;
            }
        }
    }
    return end;
}

void filter_all(const struct filter *f, const char *text, size_t n,
                void (*on_hit)(void *arg, size_t literal, size_t at), void *arg)
{
    const struct part part = {text, 0, n};
    for (size_t at = 0; (at = next_candidate(f, text, at, n)) < n; at++) {
        uint32_t slot = gram_slot(f, gram_at(text + at)), last = f->slots[slot + 1];
        for (uint32_t i = f->slots[slot]; (i = standing(f, i, last, &part, at)) < last; i++) {
            on_hit(arg, f->pieces[i].literal, at - f->pieces[i].gram_at);
        }
    }
}
