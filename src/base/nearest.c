#include "base/nearest.h"

#include <string.h>

#include "base/str.h"

enum { WORD_MAX = 64, EDITS_MAX = 3, LETTERS_PER_EDIT = 3 };

static size_t smaller_of(size_t a, size_t b)
{
    return a < b ? a : b;
}

static bool letters_are_same(char a, char b)
{
    return str_lower(a) == str_lower(b);
}

/* Optimal string alignment by three rows of its table; both words have at most WORD_MAX letters. */
static size_t edits(const char *a, size_t n_a, const char *b, size_t n_b)
{
    size_t rows[3][WORD_MAX + 1];
    size_t *before = rows[0], *last = rows[1], *now = rows[2];
    for (size_t k = 0; k <= n_b; k++) {
        last[k] = k;
    }
    for (size_t i = 1; i <= n_a; i++) {
        now[0] = i;
        for (size_t k = 1; k <= n_b; k++) {
            size_t changed = last[k - 1] + !letters_are_same(a[i - 1], b[k - 1]);
            now[k] = smaller_of(changed, smaller_of(last[k], now[k - 1]) + 1);
            if (i > 1 && k > 1 && letters_are_same(a[i - 1], b[k - 2]) &&
                letters_are_same(a[i - 2], b[k - 1])) {
                now[k] = smaller_of(now[k], before[k - 2] + 1);
            }
        }
        size_t *free_row = before;
        before = last, last = now, now = free_row;
    }
    return last[n_b];
}

void nearest_init(struct nearest *n, const char *word)
{
    *n = (struct nearest){.word = word};
}

void nearest_try(struct nearest *n, const char *name)
{
    size_t n_word = strlen(n->word), n_name = strlen(name);
    if (n_word == 0 || n_word > WORD_MAX || n_name == 0 || n_name > WORD_MAX) {
        return;
    }
    size_t distance = edits(n->word, n_word, name, n_name);
    size_t allowed = smaller_of(EDITS_MAX, (n_word + LETTERS_PER_EDIT - 1) / LETTERS_PER_EDIT);
    if (distance <= allowed && distance < n_name && (!n->best || distance < n->distance)) {
        n->best = name;
        n->distance = distance;
    }
}

const char *nearest_best(const struct nearest *n)
{
    return n->best;
}
