/* Words that are kept once, so that they compare by address; and the names of platforms. */
#include <string.h>

#include "log/internal.h"

static void intern_grow(struct log_rules *r)
{
    size_t cap = r->cap_interned ? 2 * r->cap_interned : 1024;
    const char **table = arena_array(r->arena, cap, sizeof *table);
    for (size_t i = 0; i < r->cap_interned; i++) {
        const char *text = r->interned[i];
        for (size_t at = text ? str_hash(text, strlen(text)) : 0; text; at++) {
            if (!table[at & (cap - 1)]) {
                table[at & (cap - 1)] = text;
                break;
            }
        }
    }
    r->interned = table;
    r->cap_interned = cap;
}

const char *rules_intern(struct log_rules *r, const char *text, size_t n)
{
    if (2 * (r->n_interned + 1) > r->cap_interned) {
        intern_grow(r);
    }
    for (size_t at = str_hash(text, n);; at++) {
        const char **slot = &r->interned[at & (r->cap_interned - 1)];
        if (!*slot) {
            r->n_interned++;
            return *slot = arena_strndup(r->arena, text, n);
        }
        if (strncmp(*slot, text, n) == 0 && (*slot)[n] == '\0') {
            return *slot;
        }
    }
}
