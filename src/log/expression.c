/* From the text of an expression to its tree. */
#include "log/expression.h"

#include <string.h>

#include "base/str.h"

enum { DEPTH_MAX = 24 };

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

bool set_has(const struct set *s, unsigned byte)
{
    return s->bits[byte / 64] >> (byte % 64) & 1;
}

void set_add(struct set *s, unsigned byte)
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

struct set set_words(void)
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

static struct tree *tree_of_look(struct reader *p, struct tree *inner, bool behind, bool negated);

/* Where none of several may stand, each may not: (?!a|bc) is (?!a)(?!bc). */
static struct tree *tree_of_looks(struct reader *p, const struct tree *either, bool behind)
{
    struct tree *all = tree_new(p, TREE_SEQUENCE);
    for (size_t i = 0; i < either->parts.n; i++) {
        tree_append(p, all, tree_of_look(p, either->parts.items[i], behind, true));
    }
    return all;
}

/* What is looked at counts where it is one character, and (?=...) by itself. */
static struct tree *tree_of_look(struct reader *p, struct tree *inner, bool behind, bool negated)
{
    if (negated && inner->kind == TREE_EITHER) {
        return tree_of_looks(p, inner, behind);
    }
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

/* "{2}", "{2,}", "{2,5}"; other braces are characters. For "{,5}" and braces with blanks that is so
 * before PCRE2 10.43; later releases read numbers there, and there is no automaton for either. */
static bool read_braces(struct reader *p, unsigned *ret_min, unsigned *ret_max)
{
    const char *before = p->at++;
    size_t inside = strspn(p->at, "0123456789, ");
    p->failed =
        p->failed || (p->at[inside] == '}' && (*p->at == ',' || memchr(p->at, ' ', inside)));
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

const struct tree *expression_read(struct arena *a, const char *expression)
{
    struct reader p = {.arena = a, .at = expression};
    const struct tree *t = read_either(&p);
    return p.failed || *p.at ? NULL : t;
}
