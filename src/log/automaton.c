#include "log/automaton.h"

#include <stdint.h>
#include <string.h>

#include "base/str.h"
#include "log/expression.h"

/* An expression's tree becomes a program of nodes, and of these sets of nodes are the states: those
 * that a text may be at behind the bytes that were read. What is at the next byte decides on
 * boundaries, so that edges and looks are followed when it is known. */
enum {
    NODES_MAX = 4000,
    PROGRAMS_MAX = 6,
    POOL_FIRST = 8 << 10, // bytes for states of a program at first, and at most
    POOL_LAST = 128 << 10,
    WORTH = 10, // bytes of text that each state must serve for, or the automaton is not worth it
    COPIES_MAX = 40, // nodes of what is repeated; beyond these a repeat has no upper bound
};

/* ------------------------------------------------------------------ the program */

enum { NODE_MATCH, NODE_FIRST }; // the first nodes; 0 as a node ends a chain of alternatives

struct node {
    const struct tree *what; // NULL: goes to both of the next
    uint16_t next, other;
};

struct state {
    uint16_t chain;   // the next of those with this hash
    uint16_t before;  // what the last byte was, as looks behind tell bytes apart
    uint16_t n_nodes; // which stand behind the next states, in ascending order
    uint16_t next[];  // by what the byte is, then at the end of the text
};

/* The number of a state says where it is in its pool, by steps of so many bytes: a quarter of a
 * pointer, so that more automata have room for their states. The first numbers are of none. */
enum { STATE_STEP = 8, STATE_UNKNOWN = 0, STATE_MATCHED, STATE_FIRST, STATE_SLOTS = 256 };

/* Where states live. When it is full, all are forgotten, and it is used again or a larger one is.
 */
struct pool {
    char *bytes;
    size_t size, used;
    size_t n_states, n_read; // since it was empty: bytes of text
    unsigned times;          // that it was emptied
};

struct program {
    struct node *nodes;
    size_t n_nodes, cap_nodes;
    uint16_t start;
    uint8_t alike[BYTES];        // bytes that no set and no look tells apart are one
    uint8_t alike_before[BYTES]; // of each of these: those that no look behind tells apart
    unsigned char sample[BYTES]; // a byte of each
    unsigned n_alike;
    uint16_t slots[STATE_SLOTS], begin; // numbers of states
    struct pool pool;
    uint16_t *stack, *reached; // scratch: nodes
    uint64_t *seen;            // a bit for each node
    struct set words;
};

struct automaton {
    struct arena *arena;
    struct program programs[PROGRAMS_MAX];
    size_t n;
    bool looks_back; // see automaton_looks_back()
    bool failed;     // states serve for too little text
};

struct builder {
    struct arena *arena;
    bool failed; // it is too large
};

static uint16_t node_add(struct builder *b, struct program *to, const struct tree *what,
                         uint16_t next, uint16_t other)
{
    if (to->n_nodes == NODES_MAX) {
        b->failed = true;
        return NODE_MATCH;
    }
    if (to->n_nodes == to->cap_nodes) {
        size_t cap = to->cap_nodes ? 2 * to->cap_nodes : 64;
        struct node *nodes = arena_array(b->arena, cap, sizeof *nodes);
        if (to->n_nodes) {
            memcpy(nodes, to->nodes, to->n_nodes * sizeof *nodes);
        }
        to->nodes = nodes;
        to->cap_nodes = cap;
    }
    to->nodes[to->n_nodes] = (struct node){what, next, other};
    return (uint16_t)to->n_nodes++;
}

static uint16_t program_add(struct builder *b, struct program *to, const struct tree *t,
                            uint16_t next);

static size_t tree_size(const struct tree *t)
{
    size_t size = 1;
    for (size_t i = 0; i < t->parts.n; i++) {
        size += tree_size(t->parts.items[i]) * (t->kind == TREE_REPEAT && t->min > 1 ? t->min : 1);
    }
    return size < NODES_MAX ? size : NODES_MAX;
}

static uint16_t program_add_repeat(struct builder *b, struct program *to, const struct tree *t,
                                   uint16_t next)
{
    size_t size = tree_size(t->parts.items[0]), copies = COPIES_MAX / size + 1;
    unsigned min = t->min, max = t->max;
    if (max > copies) {
        min = min < copies ? min : (unsigned)copies;
        max = MANY;
    }
    uint16_t at = next;
    if (max >= MANY) {
        at = node_add(b, to, NULL, next, next);
        uint16_t body = program_add(b, to, t->parts.items[0], at);
        to->nodes[at].other = body;
    }
    for (unsigned i = min; max < MANY && i < max && !b->failed; i++) {
        at = node_add(b, to, NULL, program_add(b, to, t->parts.items[0], at), next);
    }
    for (unsigned i = 0; i < min && !b->failed; i++) {
        at = program_add(b, to, t->parts.items[0], at);
    }
    return at;
}

/* Adds what matches the tree and goes to `next` then; returns where it begins. */
static uint16_t program_add(struct builder *b, struct program *to, const struct tree *t,
                            uint16_t next)
{
    uint16_t at = next;
    switch (t->kind) {
    case TREE_SEQUENCE:
        for (size_t i = t->parts.n; i-- > 0 && !b->failed;) {
            at = program_add(b, to, t->parts.items[i], at);
        }
        return at;
    case TREE_EITHER:
        at = program_add(b, to, t->parts.items[t->parts.n - 1], next);
        for (size_t i = t->parts.n - 1; i-- > 0 && !b->failed;) {
            at = node_add(b, to, NULL, program_add(b, to, t->parts.items[i], next), at);
        }
        return at;
    case TREE_REPEAT: return program_add_repeat(b, to, t, next);
    case TREE_AHEAD: return next;
    case TREE_SET:
    case TREE_LOOK:
    case TREE_BOUNDARY:
    case TREE_BEGIN:
    case TREE_END: break;
    }
    return node_add(b, to, t, next, next);
}

/* ------------------------------------------------------------------ bytes that are alike */

/* Bytes that no set told apart so far have one number. */
struct classes {
    uint8_t *of; // of each byte
    uint16_t sizes[BYTES];
    unsigned n;
};

static struct classes classes_all(uint8_t of[BYTES])
{
    memset(of, 0, BYTES);
    return (struct classes){.of = of, .sizes = {BYTES}, .n = 1};
}

/* Tells bytes apart that a set does: those of a class that it has some of get a new number. */
static void classes_split(struct classes *classes, const struct set *s)
{
    uint16_t had[BYTES] = {0};
    uint8_t moved[BYTES] = {0}; // to which class; 0: to none
    for (size_t i = 0; i < BYTES / 64; i++) {
        for (uint64_t bits = s->bits[i]; bits; bits &= bits - 1) {
            had[classes->of[i * 64 + (size_t)__builtin_ctzll(bits)]]++;
        }
    }
    for (size_t i = 0; i < BYTES / 64; i++) {
        for (uint64_t bits = s->bits[i]; bits; bits &= bits - 1) {
            uint8_t *of = &classes->of[i * 64 + (size_t)__builtin_ctzll(bits)], from = *of;
            if (had[from] == classes->sizes[from]) {
                continue; // it has all of them
            }
            moved[from] = moved[from] ? moved[from] : (uint8_t)classes->n++;
            *of = moved[from];
            classes->sizes[*of]++;
            classes->sizes[from]--;
            had[from]--;
        }
    }
}

static void program_tell_bytes(struct program *to)
{
    struct set ends = {.some = false};
    uint8_t before_of[BYTES];
    struct classes alike = classes_all(to->alike), before = classes_all(before_of);
    set_add(&ends, '\n');
    set_add(&ends, '\r');
    to->words = set_words();
    for (size_t i = NODE_FIRST; i < to->n_nodes; i++) {
        const struct tree *t = to->nodes[i].what;
        if (!t || t->kind == TREE_BEGIN) {
            continue;
        }
        const struct set *set = t->kind == TREE_BOUNDARY ? &to->words
                                : t->kind == TREE_END    ? &ends
                                                         : &t->set;
        classes_split(&alike, set);
        if (t->kind == TREE_BOUNDARY || (t->kind == TREE_LOOK && t->behind)) {
            classes_split(&before, set);
        }
    }
    to->n_alike = alike.n;
    for (unsigned c = 0; c < BYTES; c++) {
        to->sample[to->alike[c]] = (unsigned char)c;
        to->alike_before[to->alike[c]] = before_of[c];
    }
}

/* ------------------------------------------------------------------ states */

/* Between two bytes: what is alike to them, or EDGE at an end of the text. */
enum { EDGE = BYTES };

struct gap {
    unsigned before, after; // a byte that stands for those alike
};

static bool gap_fits(const struct program *p, const struct tree *t, const struct gap *gap)
{
    bool before = gap->before != EDGE, after = gap->after != EDGE;
    if (t->kind == TREE_BEGIN) {
        return !before;
    }
    if (t->kind == TREE_END) {
        return !after || gap->after == '\n' || gap->after == '\r';
    }
    const struct set *set = t->kind == TREE_BOUNDARY ? &p->words : &t->set;
    before = before && set_has(set, gap->before);
    after = after && set_has(set, gap->after);
    bool holds = t->kind == TREE_BOUNDARY ? before != after : t->behind ? before : after;
    return holds != t->negated;
}

static bool node_see(struct program *p, uint16_t node)
{
    bool seen = p->seen[node / 64] >> (node % 64) & 1;
    p->seen[node / 64] |= (uint64_t)1 << (node % 64);
    return !seen;
}

static struct state *state_at(const struct program *p, uint16_t number)
{
    return (struct state *)(void *)(p->pool.bytes + (size_t)number * STATE_STEP);
}

static uint16_t *state_nodes(const struct program *p, const struct state *s)
{
    return (uint16_t *)s->next + p->n_alike + 1;
}

/* Follows the nodes of a state to those that take a byte; true if one is the match. */
static bool nodes_reach(struct program *p, const struct state *s, const struct gap *gap,
                        size_t *ret_n)
{
    const uint16_t *nodes = state_nodes(p, s);
    size_t n_stack = 0, n = 0;
    bool match = false;
    memset(p->seen, 0, (p->n_nodes / 64 + 1) * sizeof *p->seen);
    for (size_t i = s->n_nodes; i-- > 0;) {
        if (node_see(p, nodes[i])) {
            p->stack[n_stack++] = nodes[i];
        }
    }
    while (n_stack) {
        uint16_t at = p->stack[--n_stack];
        const struct node *node = &p->nodes[at];
        match = match || at == NODE_MATCH;
        if (at == NODE_MATCH) {
            continue;
        }
        if (node->what && node->what->kind == TREE_SET) {
            p->reached[n++] = at;
        } else if (!node->what || gap_fits(p, node->what, gap)) {
            if (node_see(p, node->next)) {
                p->stack[n_stack++] = node->next;
            }
            if (!node->what && node_see(p, node->other)) {
                p->stack[n_stack++] = node->other;
            }
        }
    }
    *ret_n = n;
    return match;
}

/* Forgets all states, for room; false: it is not worth it, or there is none. */
static bool pool_empty(struct arena *a, struct program *p, size_t *budget)
{
    struct pool *pool = &p->pool;
    size_t size = pool->size ? 2 * pool->size : POOL_FIRST;
    if (size <= POOL_LAST && size <= *budget) {
        *budget -= size;
        pool->bytes = arena_alloc(a, size);
        pool->size = size;
    } else if (!pool->size || pool->n_read < WORTH * pool->n_states) {
        return false;
    }
    memset(p->slots, 0, sizeof p->slots);
    p->begin = STATE_UNKNOWN;
    pool->used = STATE_FIRST * STATE_STEP;
    pool->n_states = pool->n_read = 0;
    pool->times++;
    return true;
}

/* A new state; all others are forgotten where there is no room. STATE_UNKNOWN: see pool_empty(). */
static uint16_t state_new(struct arena *a, struct program *p, size_t n_nodes, size_t *budget)
{
    size_t size = sizeof(struct state) + (p->n_alike + 1 + n_nodes) * sizeof(uint16_t);
    size = (size + STATE_STEP - 1) / STATE_STEP * STATE_STEP;
    while (p->pool.size - p->pool.used < size) {
        if (size > POOL_LAST - STATE_FIRST * STATE_STEP || !pool_empty(a, p, budget)) {
            return STATE_UNKNOWN;
        }
    }
    uint16_t number = (uint16_t)(p->pool.used / STATE_STEP);
    memset(state_at(p, number), 0, size);
    p->pool.used += size;
    p->pool.n_states++;
    return number;
}

/* The state of these nodes: one that is known, or a new one; STATE_UNKNOWN: there is no room. */
static uint16_t state_of(struct arena *a, struct program *p, uint16_t before, const uint16_t *nodes,
                         size_t n, size_t *budget)
{
    uint64_t hash = str_hash((const char *)nodes, n * sizeof *nodes) + before * 31u;
    size_t slot = (hash ^ hash >> 32) % STATE_SLOTS;
    for (uint16_t number = p->slots[slot]; number; number = state_at(p, number)->chain) {
        const struct state *s = state_at(p, number);
        if (s->before == before && s->n_nodes == n &&
            memcmp(state_nodes(p, s), nodes, n * sizeof *nodes) == 0) {
            return number;
        }
    }
    uint16_t number = state_new(a, p, n, budget);
    if (number) {
        struct state *s = state_at(p, number);
        memcpy(state_nodes(p, s), nodes, n * sizeof *nodes);
        s->n_nodes = (uint16_t)n;
        s->before = before;
        s->chain = p->slots[slot];
        p->slots[slot] = number;
    }
    return number;
}

/* Before `before` comes EDGE. */
static unsigned byte_before(const struct program *p, const struct state *s)
{
    for (unsigned i = 0; s->before && i < p->n_alike; i++) {
        if (p->alike_before[i] + 1u == s->before) {
            return p->sample[i];
        }
    }
    return EDGE;
}

/* From a state by what the next byte is, n_alike at the end of the text; STATE_UNKNOWN: there is no
 * room. */
static uint16_t state_next(struct arena *a, struct program *p, uint16_t number, unsigned alike,
                           size_t *budget)
{
    struct state *s = state_at(p, number);
    bool end = alike == p->n_alike;
    struct gap gap = {byte_before(p, s), end ? EDGE : p->sample[alike]};
    size_t n;
    if (nodes_reach(p, s, &gap, &n)) {
        return s->next[alike] = STATE_MATCHED;
    }
    memset(p->seen, 0, (p->n_nodes / 64 + 1) * sizeof *p->seen);
    for (size_t i = 0; i < n && !end; i++) {
        const struct node *node = &p->nodes[p->reached[i]];
        if (set_has(&node->what->set, p->sample[alike])) {
            p->seen[node->next / 64] |= (uint64_t)1 << (node->next % 64);
        }
    }
    p->seen[p->start / 64] |= (uint64_t)1 << (p->start % 64); // it may begin anywhere
    n = 0;
    for (size_t i = 0; i <= p->n_nodes / 64; i++) {
        for (uint64_t bits = p->seen[i]; bits; bits &= bits - 1) {
            p->stack[n++] = (uint16_t)(i * 64 + (size_t)__builtin_ctzll(bits));
        }
    }
    uint16_t before = end ? 0 : (uint16_t)(p->alike_before[alike] + 1);
    unsigned times = p->pool.times;
    uint16_t next = state_of(a, p, before, p->stack, n, budget);
    if (p->pool.times == times) { // s is still there
        s->next[alike] = next;
    }
    return next;
}

/* ------------------------------------------------------------------ the automaton */

static void program_build(struct builder *b, struct automaton *m, const struct tree *t)
{
    struct program *to = &m->programs[m->n++];
    (void)node_add(b, to, NULL, NODE_MATCH, NODE_MATCH);
    to->start = program_add(b, to, t, NODE_MATCH);
    if (b->failed) {
        return;
    }
    program_tell_bytes(to);
    to->stack = arena_array(b->arena, to->n_nodes + 1, sizeof *to->stack);
    to->reached = arena_array(b->arena, to->n_nodes + 1, sizeof *to->reached);
    to->seen = arena_array(b->arena, to->n_nodes / 64 + 1, sizeof *to->seen);
}

/* None of the bytes is part of a word, so that boundaries are where they are at the beginning. */
static bool program_looks_back(const struct program *p)
{
    for (size_t i = NODE_FIRST; i < p->n_nodes; i++) {
        const struct tree *t = p->nodes[i].what;
        bool not_behind = t && t->kind == TREE_LOOK && t->behind && t->negated;
        if (t && (t->kind == TREE_BEGIN ||
                  (not_behind && (set_has(&t->set, ' ') || set_has(&t->set, ':') ||
                                  set_has(&t->set, ']') || set_has(&t->set, ')'))))) {
            return true;
        }
    }
    return false;
}

/* Programs of what must be somewhere in front of what the tree matches. */
static void aheads_build(struct builder *b, struct automaton *m, const struct tree *t)
{
    bool holds =
        t->kind == TREE_SEQUENCE || t->kind == TREE_AHEAD || (t->kind == TREE_REPEAT && t->min > 0);
    for (size_t i = 0; holds && i < t->parts.n; i++) {
        aheads_build(b, m, t->parts.items[i]);
    }
    if (t->kind == TREE_AHEAD && m->n < PROGRAMS_MAX && !b->failed) {
        program_build(b, m, t->parts.items[0]);
    }
}

struct automaton *automaton_of(struct arena *a, const char *expression)
{
    struct builder b = {.arena = a};
    const struct tree *t = expression_read(a, expression);
    if (!t) {
        return NULL;
    }
    struct automaton *m = arena_alloc(a, sizeof *m);
    *m = (struct automaton){.arena = a};
    program_build(&b, m, t);
    aheads_build(&b, m, t);
    for (size_t i = 0; i < m->n; i++) {
        m->looks_back = m->looks_back || program_looks_back(&m->programs[i]);
    }
    return b.failed ? NULL : m;
}

bool automaton_looks_back(const struct automaton *m)
{
    return m->looks_back;
}

/* *ret_from: no match begins before it. Where a state has no node but the first, nothing that began
 * further in front is left. */
static bool program_may_match(struct automaton *m, struct program *p, const char *text, size_t n,
                              size_t *budget, size_t *ret_from)
{
    p->begin = p->begin ? p->begin : state_of(m->arena, p, 0, &p->start, 1, budget);
    uint16_t at = p->begin;
    size_t from = 0;
    p->pool.n_read += n;
    for (size_t i = 0; i <= n && at >= STATE_FIRST; i++) {
        const struct state *s = state_at(p, at);
        // Most bytes leave a state as it is, which a processor foresees: it need not wait for s.
        while (i < n && s->next[p->alike[(unsigned char)text[i]]] == at) {
            i++;
        }
        from = s->n_nodes == 1 ? i : from;
        unsigned alike = i < n ? p->alike[(unsigned char)text[i]] : p->n_alike;
        uint16_t next = s->next[alike];
        at = next ? next : state_next(m->arena, p, at, alike, budget);
    }
    m->failed = at == STATE_UNKNOWN;
    *ret_from = from;
    return at < STATE_FIRST;
}

/* U+017F and U+212A, which PCRE2 takes for s and k in another case. The sets do not have them. */
static bool has_other_case(const char *text, size_t n)
{
    const char *s = memchr(text, 0xc5, n), *k = memchr(text, 0xe2, n);
    return (s && memmem(s, n - (size_t)(s - text), "\xc5\xbf", 2)) ||
           (k && memmem(k, n - (size_t)(k - text), "\xe2\x84\xaa", 3));
}

bool automaton_may_match(struct automaton *m, const char *text, size_t n, size_t *budget,
                         size_t *ret_from)
{
    *ret_from = 0;
    if (has_other_case(text, n)) {
        return true;
    }
    for (size_t i = 0; i < m->n && !m->failed; i++) {
        size_t from;
        if (!program_may_match(m, &m->programs[i], text, n, budget, &from)) {
            return false;
        }
        *ret_from = i == 0 ? from : *ret_from; // the others are of what is in front of it
    }
    return true;
}
