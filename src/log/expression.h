/* Inside this room: an expression as a tree, of what the analysis knows of PCRE2's language. */
#ifndef GPUMEND_LOG_EXPRESSION_H
#define GPUMEND_LOG_EXPRESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

enum {
    BYTES = 256,
    MANY = 1000, // repeats: from here on any number
};

struct set {
    uint64_t bits[BYTES / 64];
    bool some; // of the characters outside ASCII it may have some, and has all their bytes
};

enum kind {
    TREE_SET,      // one byte
    TREE_LOOK,     // the next byte or, `behind`, the last one is of the set, or `negated` is not
    TREE_BOUNDARY, // \b, or `negated` \B
    TREE_BEGIN,
    TREE_END,
    TREE_AHEAD, // (?=...): a program of its own where it must hold
    TREE_SEQUENCE,
    TREE_EITHER,
    TREE_REPEAT,
};

struct tree {
    enum kind kind;
    struct set set;
    bool behind, negated;
    unsigned min, max;
    VEC(struct tree *) parts;
};

bool set_has(const struct set *s, unsigned byte);
void set_add(struct set *s, unsigned byte);

/* What \b takes for words within ASCII: letters, digits, "_". */
struct set set_words(void);

/* An expression as regex_search() takes it, in `a`. NULL: it uses something that is not known. */
const struct tree *expression_read(struct arena *a, const char *expression);

#endif
