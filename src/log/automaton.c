#include "log/automaton.h"

#include <stdint.h>
#include <string.h>

#include "base/str.h"

/* An expression becomes a tree, the tree a program of nodes, and of these sets of nodes are the
 * states: those that a text may be at behind the bytes that were read. What is at the next byte
 * decides on boundaries, so that edges and looks are followed when it is known. */
enum {
    BYTES = 256,
    DEPTH_MAX = 24,
    NODES_MAX = 4000,
    PROGRAMS_MAX = 6,
    POOL_FIRST = 8 << 10, // bytes for states of a program at first, and at most
    POOL_LAST = 128 << 10,
    WORTH = 10, // bytes of text that each state must serve for, or the automaton is not worth it
    COPIES_MAX = 40, // nodes of what is repeated; beyond these a repeat has no upper bound
    MANY = 1000,     // from here on: any number
};

struct set {
    uint64_t bits[BYTES / 64];
    bool some; // of the characters outside ASCII it may have some, and has all their bytes
};

/* ------------------------------------------------------------------ the tree */

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

struct reader {
    struct arena *arena;
    const char *at;
    unsigned depth;
    bool failed;
};

static struct tree *tree_new(struct reader *p, enum kind kind)
{
    struct tree *t = arena_alloc(p->arena, sizeof *t);
    *t = (struct tree){.kind = kind};
    return t;
}

static void tree_append(struct reader *p, struct tree *to, struct tree *item)
{
    VEC_PUSH(p->arena, &to->parts, item);
}

static struct tree *tree_repeat(struct reader *p, struct tree *item, unsigned min, unsigned max)
{
    struct tree *t = tree_new(p, TREE_REPEAT);
    t->min = min;
    t->max = max;
    tree_append(p, t, item);
    return t;
}

/* ------------------------------------------------------------------ sets */

static bool set_has(const struct set *s, unsigned byte)
{
    return s->bits[byte / 64] >> (byte % 64) & 1;
}

static void set_add(struct set *s, unsigned byte)
{
    s->bits[byte / 64] |= (uint64_t)1 << (byte % 64);
}

static void set_add_range(struct set *s, unsigned first, unsigned last)
{
    for (unsigned c = first; c <= last; c++) {
        set_add(s, c);
    }
}

static void set_add_high(struct set *s)
{
    set_add_range(s, 0x80, BYTES - 1);
}

/* Adds a character in either case. */
static void set_add_char(struct set *s, unsigned c)
{
    if (c >= 0x80) {
        s->some = true;
        set_add_high(s);
        return;
    }
    set_add(s, c);
    if (str_is_letter((char)c)) {
        set_add(s, c ^ 0x20);
    }
}

static void set_unite(struct set *to, const struct set *more)
{
    for (size_t i = 0; i < BYTES / 64; i++) {
        to->bits[i] |= more->bits[i];
    }
    to->some = to->some || more->some;
}

/* All the characters that are not in it: of those outside ASCII some, if it has some. */
static struct set set_inverse(const struct set *s)
{
    struct set inverse = {.some = s->some};
    for (size_t i = 0; i < BYTES / 64; i++) {
        inverse.bits[i] = ~s->bits[i];
    }
    if (s->some) {
        set_add_high(&inverse);
    }
    return inverse;
}

static struct set set_words(void)
{
    struct set s = {.some = false};
    set_add_range(&s, '0', '9');
    set_add_range(&s, 'a', 'z');
    set_add_range(&s, 'A', 'Z');
    set_add(&s, '_');
    return s;
}

/* \d, \w, \s and what is none of them; false: it is something else. */
static bool set_of_class(char c, struct set *ret)
{
    struct set s = {.some = false};
    switch (c | 0x20) {
    case 'd': set_add_range(&s, '0', '9'); break;
    case 'w': s = set_words(); break;
    case 's':
        set_add_range(&s, '\t', '\r');
        set_add(&s, ' ');
        break;
    default: return false;
    }
    *ret = c & 0x20 ? s : set_inverse(&s);
    return true;
}

/* One character of the set: the bytes behind the first of a longer one come with it. */
static struct tree *tree_of_set(struct reader *p, const struct set *set)
{
    struct tree *t = tree_new(p, TREE_SET);
    t->set = *set;
    if (!set_has(set, BYTES - 1)) {
        return t;
    }
    struct tree *all = tree_new(p, TREE_SEQUENCE), *more = tree_new(p, TREE_SET);
    set_add_range(&more->set, 0x80, 0xbf);
    tree_append(p, all, t);
    tree_append(p, all, tree_repeat(p, more, 0, MANY));
    return all;
}

static struct tree *tree_of_any(struct reader *p)
{
    struct set newline = {.some = false};
    set_add(&newline, '\n');
    struct set any = set_inverse(&newline);
    return tree_of_set(p, &any);
}

/* ------------------------------------------------------------------ characters */

static bool bytes_have(char c, const char *bytes)
{
    return c && strchr(bytes, c);
}

static unsigned hex_value(struct reader *p, size_t digits)
{
    static const char names[] = "0123456789abcdef";
    unsigned code = 0;
    for (; digits; digits--) {
        char c = *p->at;
        const char *digit = c ? strchr(names, c >= 'A' && c <= 'F' ? c | 0x20 : c) : NULL;
        if (!digit) {
            p->failed = true;
            return 0;
        }
        code = code * 16 + (unsigned)(digit - names);
        p->at++;
    }
    return code;
}

/* The character that an escape stands for, which p->at is at. */
static unsigned escaped_char(struct reader *p)
{
    char c = *p->at;
    p->at += c != '\0';
    if (bytes_have(c, "tnrfe")) {
        static const char names[] = "tnrfe", bytes[] = "\t\n\r\f\033";
        return (unsigned char)bytes[strchr(names, c) - names];
    }
    if (bytes_have(c, "xu")) {
        return hex_value(p, c == 'x' ? 2 : 4);
    }
    p->failed = p->failed || !c || str_is_letter(c) || str_is_digit(c);
    return (unsigned char)c;
}

/* Over a character outside ASCII as a whole. */
static unsigned plain_char(struct reader *p)
{
    unsigned c = (unsigned char)*p->at++;
    while (c >= 0x80 && ((unsigned char)*p->at & 0xc0) == 0x80) {
        p->at++;
    }
    return c;
}

/* One member of a class, or the first of a range; false: it was more than one character, and is in
 * the set. */
static bool read_member(struct reader *p, struct set *to, unsigned *ret)
{
    struct set several;
    if (*p->at != '\\') {
        p->failed = p->failed || (*p->at == '[' && bytes_have(p->at[1], ":.="));
        *ret = plain_char(p);
        return true;
    }
    p->at++;
    if (set_of_class(*p->at, &several)) {
        set_unite(to, &several);
        p->at++;
        return false;
    }
    *ret = escaped_char(p);
    return true;
}

static void read_range(struct reader *p, struct set *to, unsigned first)
{
    unsigned last = 0;
    p->at++;
    if (!read_member(p, to, &last) || (last < 0x80 && last < first)) {
        p->failed = true;
    }
    for (unsigned c = first; c <= last && c < 0x80; c++) {
        set_add_char(to, c);
    }
    if (last >= 0x80) {
        set_add_char(to, last);
    }
}

/* Behind its bracket. */
static struct tree *read_class(struct reader *p)
{
    struct set set = {.some = false};
    bool negated = *p->at == '^';
    p->at += negated;
    for (bool first = true; !p->failed && *p->at && (first || *p->at != ']'); first = false) {
        unsigned c;
        if (!read_member(p, &set, &c)) {
            continue;
        }
        if (*p->at == '-' && p->at[1] && p->at[1] != ']') {
            read_range(p, &set, c);
        } else {
            set_add_char(&set, c);
        }
    }
    p->failed = p->failed || !*p->at;
    p->at += *p->at != '\0';
    set = negated ? set_inverse(&set) : set;
    return tree_of_set(p, &set);
}

/* Behind a backslash. */
static struct tree *read_escape(struct reader *p)
{
    struct set set = {.some = false};
    char c = *p->at;
    if (bytes_have(c, "bBAzZK")) {
        p->at++;
        struct tree *t = tree_new(p, bytes_have(c, "bB") ? TREE_BOUNDARY
                                     : c == 'A'          ? TREE_BEGIN
                                     : c == 'K'          ? TREE_SEQUENCE
                                                         : TREE_END);
        t->negated = c == 'B';
        return t;
    }
    if (bytes_have(c, "123456789")) {
        p->at += strspn(p->at, "0123456789");
        return tree_repeat(p, tree_of_any(p), 0, MANY);
    }
    if (set_of_class(c, &set)) {
        p->at++;
    } else {
        set_add_char(&set, escaped_char(p));
    }
    return tree_of_set(p, &set);
}

/* ------------------------------------------------------------------ groups */

static struct tree *read_either(struct reader *p);

/* The set of one character that a tree matches, or NULL. */
static const struct set *single_set(const struct tree *t)
{
    while (t->kind == TREE_SEQUENCE && t->parts.n) {
        bool tail = t->parts.n == 2 && t->parts.items[0]->kind == TREE_SET &&
                    t->parts.items[1]->kind == TREE_REPEAT &&
                    set_has(&t->parts.items[0]->set, BYTES - 1);
        if (t->parts.n > 1 && !tail) {
            return NULL;
        }
        t = t->parts.items[0];
    }
    return t->kind == TREE_SET ? &t->set : NULL;
}

/* What is looked at counts where it is one character, and (?=...) by itself. */
static struct tree *tree_of_look(struct reader *p, struct tree *inner, bool behind, bool negated)
{
    const struct set *set = single_set(inner);
    struct tree *t = tree_new(p, set ? TREE_LOOK : TREE_SEQUENCE);
    t->behind = behind;
    t->negated = negated;
    if (set) {
        t->set = *set;
        for (unsigned c = 0x80; set->some && negated && c < BYTES; c++) {
            t->set.bits[c / 64] &= ~((uint64_t)1 << (c % 64)); // it may be another character
        }
    } else if (!behind && !negated) {
        t->kind = TREE_AHEAD;
        tree_append(p, t, inner);
    }
    return t;
}

/* What a group begins with behind "(?"; p->at is behind it then. */
enum group { GROUP_PLAIN, GROUP_LOOK, GROUP_AGAIN };

static bool takes(struct reader *p, const char *text)
{
    bool here = str_starts(str_of(p->at), text);
    p->at += here ? strlen(text) : 0;
    return here;
}

static enum group read_group_head(struct reader *p, bool *ret_behind, bool *ret_negated)
{
    *ret_behind = str_starts(str_of(p->at), "<=") || str_starts(str_of(p->at), "<!");
    const char *sign = p->at + *ret_behind;
    *ret_negated = *sign == '!';
    if (bytes_have(*sign, "=!")) {
        p->at = sign + 1;
        return GROUP_LOOK;
    }
    if (takes(p, "P=")) {
        p->at += strcspn(p->at, ")");
        return GROUP_AGAIN;
    }
    if (takes(p, "P<") || takes(p, "<")) {
        p->at += strcspn(p->at, ">");
        p->failed = p->failed || !takes(p, ">");
    } else if (!takes(p, ">")) {
        p->at += strspn(p->at, "i-"); // either case is matched anyway
        p->failed = p->failed || !(*p->at == ')' || takes(p, ":"));
    }
    return GROUP_PLAIN;
}

/* Behind a parenthesis. */
static struct tree *read_group(struct reader *p)
{
    bool behind = false, negated = false;
    p->failed = p->failed || *p->at == '*' || ++p->depth > DEPTH_MAX;
    enum group group = takes(p, "?") ? read_group_head(p, &behind, &negated) : GROUP_PLAIN;
    struct tree *inner = p->failed ? tree_new(p, TREE_SEQUENCE) : read_either(p);
    p->depth--;
    p->failed = p->failed || !takes(p, ")");
    return group == GROUP_LOOK    ? tree_of_look(p, inner, behind, negated)
           : group == GROUP_AGAIN ? tree_repeat(p, tree_of_any(p), 0, MANY)
                                  : inner;
}

/* ------------------------------------------------------------------ sequences */

static unsigned read_number(struct reader *p)
{
    unsigned n = 0;
    for (; str_is_digit(*p->at); p->at++) {
        n = n < MANY ? n * 10 + (unsigned)(*p->at - '0') : n;
    }
    return n;
}

/* "{2}", "{2,}", "{2,5}"; other braces are characters. */
static bool read_braces(struct reader *p, unsigned *ret_min, unsigned *ret_max)
{
    const char *before = p->at++;
    if (str_is_digit(*p->at)) {
        *ret_max = *ret_min = read_number(p);
        if (takes(p, ",")) {
            *ret_max = *p->at == '}' ? MANY : read_number(p);
        }
        if (takes(p, "}")) {
            return true;
        }
    }
    p->at = before;
    return false;
}

static struct tree *read_times(struct reader *p, struct tree *one)
{
    unsigned min = 1, max = 1;
    if (bytes_have(*p->at, "?*+")) {
        min = *p->at == '+';
        max = *p->at++ == '?' ? 1 : MANY;
    } else if (*p->at != '{' || !read_braces(p, &min, &max)) {
        return one;
    }
    p->at += bytes_have(*p->at, "?+"); // how eagerly
    p->failed = p->failed || max < min;
    return tree_repeat(p, one, min, max);
}

static struct tree *read_one(struct reader *p)
{
    char c = *p->at;
    if (bytes_have(c, "\\[(.^$")) {
        p->at++;
        return c == '\\'  ? read_escape(p)
               : c == '[' ? read_class(p)
               : c == '(' ? read_group(p)
               : c == '.' ? tree_of_any(p)
                          : tree_new(p, c == '^' ? TREE_BEGIN : TREE_END);
    }
    struct set set = {.some = false};
    set_add_char(&set, plain_char(p));
    return tree_of_set(p, &set);
}

static struct tree *read_sequence(struct reader *p)
{
    struct tree *all = tree_new(p, TREE_SEQUENCE);
    while (!p->failed && *p->at && !bytes_have(*p->at, "|)")) {
        struct tree *one = read_one(p);
        tree_append(p, all, read_times(p, one));
    }
    return all;
}

static struct tree *read_either(struct reader *p)
{
    struct tree *first = read_sequence(p);
    if (*p->at != '|') {
        return first;
    }
    struct tree *all = tree_new(p, TREE_EITHER);
    tree_append(p, all, first);
    while (!p->failed && takes(p, "|")) {
        tree_append(p, all, read_sequence(p));
    }
    return all;
}

/* ------------------------------------------------------------------ the program */

enum { NODE_MATCH, NODE_FIRST }; // the first nodes; 0 as a node ends a chain of alternatives

struct node {
    const struct tree *what; // NULL: goes to both of the next
    uint16_t next, other;
};

struct state {
    struct state *chain;      // of those with this hash
    uint16_t *nodes;          // in ascending order
    uint16_t n_nodes, before; // before: what the last byte was, as looks behind tell bytes apart
    struct state *next[];     // by what the byte is, then at the end of the text; NULL: not known
};

enum { STATE_SLOTS = 256 };

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
    struct state *slots[STATE_SLOTS], *begin;
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

static uint16_t node_add(struct reader *p, struct program *to, const struct tree *what,
                         uint16_t next, uint16_t other)
{
    if (to->n_nodes == NODES_MAX) {
        p->failed = true;
        return NODE_MATCH;
    }
    if (to->n_nodes == to->cap_nodes) {
        size_t cap = to->cap_nodes ? 2 * to->cap_nodes : 64;
        struct node *nodes = arena_array(p->arena, cap, sizeof *nodes);
        if (to->n_nodes) {
            memcpy(nodes, to->nodes, to->n_nodes * sizeof *nodes);
        }
        to->nodes = nodes;
        to->cap_nodes = cap;
    }
    to->nodes[to->n_nodes] = (struct node){what, next, other};
    return (uint16_t)to->n_nodes++;
}

static uint16_t program_add(struct reader *p, struct program *to, const struct tree *t,
                            uint16_t next);

static size_t tree_size(const struct tree *t)
{
    size_t size = 1;
    for (size_t i = 0; i < t->parts.n; i++) {
        size += tree_size(t->parts.items[i]) * (t->kind == TREE_REPEAT && t->min > 1 ? t->min : 1);
    }
    return size < NODES_MAX ? size : NODES_MAX;
}

static uint16_t program_add_repeat(struct reader *p, struct program *to, const struct tree *t,
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
        at = node_add(p, to, NULL, next, next);
        uint16_t body = program_add(p, to, t->parts.items[0], at);
        to->nodes[at].other = body;
    }
    for (unsigned i = min; max < MANY && i < max && !p->failed; i++) {
        at = node_add(p, to, NULL, program_add(p, to, t->parts.items[0], at), next);
    }
    for (unsigned i = 0; i < min && !p->failed; i++) {
        at = program_add(p, to, t->parts.items[0], at);
    }
    return at;
}

/* Adds what matches the tree and goes to `next` then; returns where it begins. */
static uint16_t program_add(struct reader *p, struct program *to, const struct tree *t,
                            uint16_t next)
{
    uint16_t at = next;
    switch (t->kind) {
    case TREE_SEQUENCE:
        for (size_t i = t->parts.n; i-- > 0 && !p->failed;) {
            at = program_add(p, to, t->parts.items[i], at);
        }
        return at;
    case TREE_EITHER:
        at = program_add(p, to, t->parts.items[t->parts.n - 1], next);
        for (size_t i = t->parts.n - 1; i-- > 0 && !p->failed;) {
            at = node_add(p, to, NULL, program_add(p, to, t->parts.items[i], next), at);
        }
        return at;
    case TREE_REPEAT: return program_add_repeat(p, to, t, next);
    case TREE_AHEAD: return next;
    case TREE_SET:
    case TREE_LOOK:
    case TREE_BOUNDARY:
    case TREE_BEGIN:
    case TREE_END: break;
    }
    return node_add(p, to, t, next, next);
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

/* Follows the nodes of a state to those that take a byte; true if one is the match. */
static bool nodes_reach(struct program *p, const struct state *s, const struct gap *gap,
                        size_t *ret_n)
{
    size_t n_stack = 0, n = 0;
    bool match = false;
    memset(p->seen, 0, (p->n_nodes / 64 + 1) * sizeof *p->seen);
    for (size_t i = s->n_nodes; i-- > 0;) {
        if (node_see(p, s->nodes[i])) {
            p->stack[n_stack++] = s->nodes[i];
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
    p->begin = NULL;
    pool->used = pool->n_states = pool->n_read = 0;
    pool->times++;
    return true;
}

/* A new state; all others are forgotten where there is no room. NULL: see pool_empty(). */
static struct state *state_new(struct arena *a, struct program *p, size_t n_nodes, size_t *budget)
{
    size_t row = sizeof(struct state) + (p->n_alike + 1) * sizeof(struct state *);
    size_t size = (row + n_nodes * sizeof(uint16_t) + 7) / 8 * 8;
    while (p->pool.size - p->pool.used < size) {
        if (size > POOL_LAST || !pool_empty(a, p, budget)) {
            return NULL;
        }
    }
    struct state *s = (struct state *)(void *)(p->pool.bytes + p->pool.used);
    memset(s, 0, row);
    s->nodes = (uint16_t *)(void *)((char *)s + row);
    p->pool.used += size;
    p->pool.n_states++;
    return s;
}

/* The state of these nodes: one that is known, or a new one; NULL: there is no room. */
static struct state *state_of(struct arena *a, struct program *p, uint16_t before,
                              const uint16_t *nodes, size_t n, size_t *budget)
{
    uint64_t hash = str_hash((const char *)nodes, n * sizeof *nodes) + before * 31u;
    size_t slot = (hash ^ hash >> 32) % STATE_SLOTS;
    for (struct state *s = p->slots[slot]; s; s = s->chain) {
        if (s->before == before && s->n_nodes == n &&
            memcmp(s->nodes, nodes, n * sizeof *nodes) == 0) {
            return s;
        }
    }
    struct state *s = state_new(a, p, n, budget);
    if (s) {
        memcpy(s->nodes, nodes, n * sizeof *nodes);
        s->n_nodes = (uint16_t)n;
        s->before = before;
        s->chain = p->slots[slot];
        p->slots[slot] = s;
    }
    return s;
}

/* Where the expression matched; it has no next ones. */
static struct state matched;

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

/* From a state by what the next byte is, n_alike at the end of the text; NULL: there is no room. */
static struct state *state_next(struct arena *a, struct program *p, struct state *s, unsigned alike,
                                size_t *budget)
{
    bool end = alike == p->n_alike;
    struct gap gap = {byte_before(p, s), end ? EDGE : p->sample[alike]};
    size_t n;
    if (nodes_reach(p, s, &gap, &n)) {
        return s->next[alike] = &matched;
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
    struct state *next = state_of(a, p, before, p->stack, n, budget);
    if (p->pool.times == times) { // s is still there
        s->next[alike] = next;
    }
    return next;
}

/* ------------------------------------------------------------------ the automaton */

static void program_build(struct reader *p, struct automaton *m, const struct tree *t)
{
    struct program *to = &m->programs[m->n++];
    (void)node_add(p, to, NULL, NODE_MATCH, NODE_MATCH);
    to->start = program_add(p, to, t, NODE_MATCH);
    if (p->failed) {
        return;
    }
    program_tell_bytes(to);
    to->stack = arena_array(p->arena, to->n_nodes + 1, sizeof *to->stack);
    to->reached = arena_array(p->arena, to->n_nodes + 1, sizeof *to->reached);
    to->seen = arena_array(p->arena, to->n_nodes / 64 + 1, sizeof *to->seen);
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
static void aheads_build(struct reader *p, struct automaton *m, const struct tree *t)
{
    bool holds =
        t->kind == TREE_SEQUENCE || t->kind == TREE_AHEAD || (t->kind == TREE_REPEAT && t->min > 0);
    for (size_t i = 0; holds && i < t->parts.n; i++) {
        aheads_build(p, m, t->parts.items[i]);
    }
    if (t->kind == TREE_AHEAD && m->n < PROGRAMS_MAX && !p->failed) {
        program_build(p, m, t->parts.items[0]);
    }
}

struct automaton *automaton_of(struct arena *a, const char *expression)
{
    struct reader p = {.arena = a, .at = expression};
    struct automaton *m = arena_alloc(a, sizeof *m);
    *m = (struct automaton){.arena = a};
    const struct tree *t = read_either(&p);
    if (p.failed || *p.at) {
        return NULL;
    }
    program_build(&p, m, t);
    aheads_build(&p, m, t);
    for (size_t i = 0; i < m->n; i++) {
        m->looks_back = m->looks_back || program_looks_back(&m->programs[i]);
    }
    return p.failed ? NULL : m;
}

bool automaton_looks_back(const struct automaton *m)
{
    return m->looks_back;
}

static bool program_may_match(struct automaton *m, struct program *p, const char *text, size_t n,
                              size_t *budget)
{
    p->begin = p->begin ? p->begin : state_of(m->arena, p, 0, &p->start, 1, budget);
    struct state *s = p->begin;
    p->pool.n_read += n;
    for (size_t i = 0; i <= n && s && s != &matched; i++) {
        unsigned alike = i < n ? p->alike[(unsigned char)text[i]] : p->n_alike;
        struct state *next = s->next[alike];
        s = next ? next : state_next(m->arena, p, s, alike, budget);
    }
    m->failed = !s;
    return !s || s == &matched;
}

/* U+017F and U+212A, which PCRE2 takes for s and k in another case. The sets do not have them. */
static bool has_other_case(const char *text, size_t n)
{
    const char *s = memchr(text, 0xc5, n), *k = memchr(text, 0xe2, n);
    return (s && memmem(s, n - (size_t)(s - text), "\xc5\xbf", 2)) ||
           (k && memmem(k, n - (size_t)(k - text), "\xe2\x84\xaa", 3));
}

bool automaton_may_match(struct automaton *m, const char *text, size_t n, size_t *budget)
{
    if (has_other_case(text, n)) {
        return true;
    }
    for (size_t i = 0; i < m->n && !m->failed; i++) {
        if (!program_may_match(m, &m->programs[i], text, n, budget)) {
            return false;
        }
    }
    return true;
}
