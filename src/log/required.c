#include "log/required.h"

#include <stdint.h>
#include <string.h>

#include "base/str.h"
#include "log/filter.h"

enum { DEPTH_MAX = 24, CLASS_MAX = 9, TEXT_MAX = 100, CHARACTER_MAX = 4 };

/* Texts of which one stands where a part of the expression matches. */
struct texts {
    const char *items[REQUIRED_LITERALS_MAX];
    size_t n;
};

/* What is known of a part of an expression: all the texts that it matches, if they are few;
 * clauses; how long they are; whether it matches at the beginning or the end of a line alone. */
struct part {
    bool exact;
    bool digit, blank; // it matches one of the characters of \d, of \s, and nothing else
    struct texts texts;
    struct required required;
    size_t length_max;
    bool begins, ends;
};

struct parser {
    struct arena *arena;
    const char *at;
    unsigned depth;
    bool failed; // something that is not known; nothing is required then
};

/* ------------------------------------------------------------------ clauses */

static char small_letter(char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
}

static const char *in_small_letters(struct arena *a, const char *text)
{
    char *copy = arena_strdup(a, text);
    for (char *c = copy; *c; c++) {
        *c = small_letter(*c);
    }
    return copy;
}

/* Adds a literal, unless part of it is one already; those that it is part of go. There is room. */
static void clause_add(struct required_clause *c, const char *literal)
{
    size_t kept = 0;
    for (size_t i = 0; i < c->n; i++) {
        if (strstr(literal, c->literals[i])) {
            return;
        }
    }
    for (size_t i = 0; i < c->n; i++) {
        if (!strstr(c->literals[i], literal)) {
            c->literals[kept++] = c->literals[i];
        }
    }
    c->n = kept;
    c->literals[c->n++] = literal;
}

/* One of these texts; NULL: too many, or one that is too short. */
static const struct required_clause *clause_of(struct arena *a, const char *const *texts, size_t n)
{
    struct required_clause c = {.shortest = SIZE_MAX};
    if (n == 0 || n > REQUIRED_LITERALS_MAX) {
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        size_t length = strlen(texts[i]);
        c.shortest = length < c.shortest ? length : c.shortest;
    }
    if (c.shortest < REQUIRED_LITERAL_MIN) {
        return NULL;
    }
    c.literals = arena_array(a, n, sizeof *c.literals);
    for (size_t i = 0; i < n; i++) {
        clause_add(&c, texts[i]);
    }
    for (size_t i = 0; i < c.n; i++) {
        c.frequency += filter_frequency(c.literals[i]);
    }
    struct required_clause *copy = arena_alloc(a, sizeof *copy);
    *copy = c;
    return copy;
}

/* Keeps the rarest ones, in their order. */
static void required_add(struct required *r, const struct required_clause *c)
{
    for (size_t i = 0; c && i < r->n; i++) {
        if (c->frequency < r->clauses[i]->frequency) {
            const struct required_clause *other = r->clauses[i];
            r->clauses[i] = c;
            c = other;
        }
    }
    if (c && r->n < REQUIRED_CLAUSES_MAX) {
        r->clauses[r->n++] = c;
    }
}

static void required_digits(struct required *r, unsigned digits)
{
    digits = digits < REQUIRED_DIGITS_MAX ? digits : REQUIRED_DIGITS_MAX;
    r->digits = digits > r->digits ? digits : r->digits;
}

static void required_add_all(struct required *to, const struct required *from)
{
    required_digits(to, from->digits);
    for (size_t i = 0; i < from->n; i++) {
        required_add(to, from->clauses[i]);
    }
    for (size_t i = 0; i < from->n_choices && to->n_choices < REQUIRED_CHOICES_MAX; i++) {
        to->choices[to->n_choices++] = from->choices[i];
    }
}

/* ------------------------------------------------------------------ texts */

static const struct part nothing = {.exact = true, .texts = {.items = {""}, .n = 1}};
static const struct part anything = {.exact = false, .length_max = SIZE_MAX};
static const struct part one_character = {.exact = false, .length_max = CHARACTER_MAX};
static const struct part one_digit = {.digit = true, .length_max = 1};
static const struct part one_blank = {.blank = true, .length_max = 1};

static bool texts_have(const struct texts *t, const char *text)
{
    for (size_t i = 0; i < t->n; i++) {
        if (strcmp(t->items[i], text) == 0) {
            return true;
        }
    }
    return false;
}

/* false: there is no room, and nothing is changed. */
static bool texts_unite(struct texts *to, const struct texts *more)
{
    struct texts all = *to;
    for (size_t i = 0; i < more->n; i++) {
        if (texts_have(&all, more->items[i])) {
            continue;
        }
        if (all.n == REQUIRED_LITERALS_MAX) {
            return false;
        }
        all.items[all.n++] = more->items[i];
    }
    *to = all;
    return true;
}

static const char *joined_atoms(struct arena *a, const char *first, const char *second)
{
    size_t n = strlen(first), more = strlen(second);
    if (!n || !more) {
        return n ? first : second;
    }
    char *text = arena_alloc(a, n + more + 1);
    memcpy(text, first, n);
    memcpy(text + n, second, more + 1);
    return text;
}

/* Each text followed by each of the others; false: they are too many or too long. */
static bool texts_follow(struct arena *a, struct texts *to, const struct texts *more)
{
    struct texts all = {.n = 0};
    if (to->n * more->n > REQUIRED_LITERALS_MAX) {
        return false;
    }
    for (size_t i = 0; i < to->n; i++) {
        for (size_t k = 0; k < more->n; k++) {
            if (strlen(to->items[i]) + strlen(more->items[k]) > TEXT_MAX) {
                return false;
            }
            all.items[all.n++] = joined_atoms(a, to->items[i], more->items[k]);
        }
    }
    *to = all;
    return true;
}

static bool char_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static struct part one_text(struct arena *a, const char *text, size_t n)
{
    struct part p = {.exact = true, .texts = {.n = 1}, .length_max = n};
    p.digit = n == 1 && char_is_digit(*text);
    p.blank = n == 1 && *text == ' ';
    p.texts.items[0] = in_small_letters(a, arena_strndup(a, text, n));
    return p;
}

/* What a part requires, also where its texts are known. */
static struct required part_required(struct arena *a, const struct part *p)
{
    struct required r = p->required;
    if (p->exact) {
        required_add(&r, clause_of(a, p->texts.items, p->texts.n));
    }
    return r;
}

/* ------------------------------------------------------------------ single characters */

static struct part parse_alternatives(struct parser *p);

static bool bytes_have(char c, const char *bytes)
{
    return c && strchr(bytes, c);
}

/* "\xhh" or "\uhhhh", whose first letter p->at is at (PCRE2_ALT_BSUX). */
static struct part parse_code(struct parser *p)
{
    int digits = *p->at == 'u' ? 4 : 2, code = 0;
    for (int i = 1; i <= digits; i++) {
        int digit = str_hex_digit(p->at[i]);
        if (digit < 0) {
            p->failed = true;
            return anything;
        }
        code = code * 16 + digit;
    }
    p->at += digits + 1;
    char c = (char)code;
    return code > 0 && code < 0x80 ? one_text(p->arena, &c, 1) : one_character;
}

/* Behind a backslash. */
static struct part parse_escape(struct parser *p)
{
    char c = *p->at;
    if (bytes_have(c, "xu")) {
        return parse_code(p);
    }
    p->at += c != '\0';
    if (bytes_have(c, "bBAzZGK")) {
        return nothing;
    }
    if (bytes_have(c, "RX123456789")) {
        return anything;
    }
    if (bytes_have(c, "ds")) {
        return c == 'd' ? one_digit : one_blank;
    }
    if (bytes_have(c, "DwWShHvVN")) {
        return one_character;
    }
    if (bytes_have(c, "pP") && *p->at == '{' && strchr(p->at, '}')) {
        p->at = strchr(p->at, '}') + 1;
        return one_character;
    }
    if (bytes_have(c, "tnrfe")) {
        static const char names[] = "tnrfe", bytes[] = "\t\n\r\f\033";
        return one_text(p->arena, bytes + (strchr(names, c) - names), 1);
    }
    if (!c || str_is_letter(c) || c == '0') {
        p->failed = true;
        return anything;
    }
    return one_text(p->arena, &c, 1);
}

static bool char_is_plain(char c)
{
    return str_is_letter(c) || char_is_digit(c);
}

/* From `first` to the letter or digit behind the hyphen that p->at is at; false: they are many. */
static bool parse_range(struct parser *p, char first, struct texts *to)
{
    char last = p->at[1];
    bool few =
        char_is_plain(first) && char_is_plain(last) && first <= last && last - first < CLASS_MAX;
    for (char c = first; few && c <= last; c++) {
        struct part one = one_text(p->arena, &c, 1);
        few = texts_unite(to, &one.texts);
    }
    p->at += few ? 2 : 1;
    return few;
}

/* One member of a class; false: it is more than a few characters. */
static bool parse_member(struct parser *p, struct texts *to)
{
    struct part member;
    if (*p->at == '\\') {
        bool boundary = p->at[1] == 'b'; // a backspace, in a class
        p->at++;
        member = parse_escape(p);
        member.exact = member.exact && !boundary;
    } else if ((unsigned char)*p->at >= 0x80 || (*p->at == '[' && bytes_have(p->at[1], ":.="))) {
        p->at++;
        return false;
    } else {
        member = one_text(p->arena, p->at++, 1);
    }
    if (*p->at == '-' && p->at[1] && p->at[1] != ']') {
        return member.exact && parse_range(p, member.texts.items[0][0], to);
    }
    return member.exact && texts_unite(to, &member.texts);
}

/* Whether all members of a class, text[0, n), are digits or ranges of them. */
static bool are_digits(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bool range = text[i] == '-' && i > 0 && i + 1 < n;
        if (!range && !char_is_digit(text[i])) {
            return false;
        }
    }
    return n > 0;
}

/* Behind its bracket. The names of POSIX in a class end with ":]". */
static struct part parse_class(struct parser *p)
{
    struct part members = {.exact = *p->at != '^'};
    const char *inside = p->at;
    p->at += *p->at == '^';
    for (bool first = true; *p->at && (first || *p->at != ']'); first = false) {
        if (*p->at == '[' && p->at[1] == ':' && strstr(p->at, ":]")) {
            p->at = strstr(p->at, ":]") + 2;
            members.exact = false;
            continue;
        }
        bool one = parse_member(p, &members.texts);
        members.exact = members.exact && one;
    }
    bool digits = are_digits(inside, (size_t)(p->at - inside));
    p->failed = p->failed || !*p->at;
    p->at += *p->at != '\0';
    members.length_max = 1;
    members.digit = digits;
    return members.exact && members.texts.n && members.texts.n <= CLASS_MAX ? members
           : digits                                                         ? one_digit
                                                                            : one_character;
}

/* ------------------------------------------------------------------ groups */

/* To the end of "(?P<name>" and "(?'name'"; false if it is none. */
static bool skip_name(struct parser *p)
{
    const char *at = p->at + (*p->at == 'P');
    char close = *at == '<' ? '>' : *at == '\'' ? '\'' : '\0';
    const char *end = close ? strchr(at + 1, close) : NULL;
    if (!end || bytes_have(at[1], "=!")) {
        return false;
    }
    p->at = end + 1;
    return true;
}

/* Letters of options; with x, blanks mean nothing, which is not known here. */
static void skip_options(struct parser *p)
{
    while (bytes_have(*p->at, "imsnJU-")) {
        p->at++;
    }
    p->failed = p->failed || !bytes_have(*p->at, ":)");
}

/* What a part that looks around requires, where it must hold; it is of no width itself. */
static struct part looked_at(struct arena *a, const struct part *inner, bool holds)
{
    struct part p = nothing;
    if (holds) {
        p.required = part_required(a, inner);
    }
    return p;
}

/* Behind a parenthesis. */
static struct part parse_group(struct parser *p)
{
    bool looks = false, holds = false, again = false;
    if (*p->at == '?') {
        p->at++;
        const char *sign = p->at + (*p->at == '<');
        looks = bytes_have(*sign, "=!");
        holds = *sign == '=';
        again = *p->at == 'P' && p->at[1] == '='; // what a group matched
        if (looks || again) {
            p->at = looks ? sign + 1 : p->at + strcspn(p->at, ")");
        } else if (bytes_have(*p->at, ">|")) {
            p->at++;
        } else if (!skip_name(p)) {
            skip_options(p);
            looks = *p->at == ')'; // of options alone, which are of no width either
            p->at += *p->at == ':';
        }
    } else if (*p->at == '*') {
        p->failed = true;
    }
    struct part inner = p->failed || ++p->depth > DEPTH_MAX ? anything : parse_alternatives(p);
    p->failed = p->failed || p->depth > DEPTH_MAX || *p->at != ')';
    p->depth--;
    p->at += *p->at == ')';
    return again ? anything : looks ? looked_at(p->arena, &inner, holds) : inner;
}

/* ------------------------------------------------------------------ how often */

enum { TIMES_MANY = 1000 };

struct times {
    unsigned min, max; // from TIMES_MANY on: any number
};

static unsigned parse_number(struct parser *p)
{
    unsigned n = 0;
    for (; *p->at >= '0' && *p->at <= '9'; p->at++) {
        n = n < TIMES_MANY ? n * 10 + (unsigned)(*p->at - '0') : n;
    }
    return n;
}

/* "{2}", "{2,}", "{2,5}"; other braces are characters. For "{,5}" and braces with blanks that is so
 * before PCRE2 10.43; later releases read numbers there, so that nothing is required. */
static bool parse_braces(struct parser *p, struct times *ret)
{
    const char *before = p->at++;
    size_t inside = strspn(p->at, "0123456789, ");
    if (p->at[inside] == '}' && (*p->at == ',' || memchr(p->at, ' ', inside))) {
        p->at += inside + 1;
        *ret = (struct times){0, TIMES_MANY};
        return true;
    }
    bool digits = *p->at >= '0' && *p->at <= '9';
    ret->min = parse_number(p);
    ret->max = ret->min;
    if (digits && *p->at == ',') {
        p->at++;
        ret->max = *p->at == '}' ? TIMES_MANY : parse_number(p);
    }
    if (digits && *p->at == '}') {
        p->at++;
        return true;
    }
    p->at = before;
    return false;
}

static struct times parse_times(struct parser *p)
{
    struct times t = {1, 1};
    char c = *p->at;
    if (bytes_have(c, "?*+")) {
        t = (struct times){c == '+', c == '?' ? 1 : TIMES_MANY};
        p->at++;
    } else if (c != '{' || !parse_braces(p, &t)) {
        return t;
    }
    p->at += bytes_have(*p->at, "?+"); // how eagerly
    return t;
}

/* ------------------------------------------------------------------ sequences */

/* A sequence as far as it was read: the texts that its end has, and what was in front of them. */
struct sequence {
    struct arena *arena;
    struct part part; // exact while nothing else was read
    struct texts end;
    unsigned digits; // in a row, at its end
    bool first;      // nothing was read
};

static void sequence_break(struct sequence *s)
{
    required_add(&s->part.required, clause_of(s->arena, s->end.items, s->end.n));
    s->part.exact = false;
    s->end = nothing.texts;
}

static void sequence_texts(struct sequence *s, const struct texts *texts)
{
    if (!texts_follow(s->arena, &s->end, texts)) {
        sequence_break(s);
        s->end = *texts;
    }
}

static size_t times_length(size_t length, unsigned times)
{
    return times >= TIMES_MANY && length    ? SIZE_MAX
           : length > SIZE_MAX / TIMES_MANY ? SIZE_MAX
                                            : length * times;
}

static void sequence_lengthen(struct sequence *s, const struct part *p, struct times t)
{
    size_t length = times_length(p->length_max, t.max);
    s->part.length_max =
        length > SIZE_MAX - s->part.length_max ? SIZE_MAX : s->part.length_max + length;
    s->part.begins = s->part.begins || (s->first && t.min && p->begins);
    s->part.ends = t.min && p->ends;
    s->first = false;
}

/* Where there may be no digit, there may be others beside one another. */
static void sequence_digits(struct sequence *s, const struct part *p, struct times t)
{
    s->digits = p->digit && s->digits < REQUIRED_DIGITS_MAX ? s->digits + t.min
                : p->digit                                  ? s->digits
                                                            : 0;
    required_digits(&s->part.required, s->digits);
}

static void sequence_add(struct sequence *s, struct part *p, struct times t)
{
    sequence_lengthen(s, p, t);
    sequence_digits(s, p, t);
    if (t.max == 0) {
        p->exact = false;
    }
    bool known =
        t.min ? p->exact : p->exact && t.max == 1 && texts_unite(&p->texts, &nothing.texts);
    if (known) {
        sequence_texts(s, &p->texts);
    } else {
        sequence_break(s);
    }
    if (t.min) {
        required_add_all(&s->part.required, &p->required);
    }
    if (known && t.max > 1) { // it stands behind what was before, and before what comes
        sequence_break(s);
        s->end = p->texts;
    }
}

static struct part parse_one(struct parser *p)
{
    char c = *p->at;
    if (c == '\\') {
        p->at++;
        return parse_escape(p);
    }
    if (c == '[' || c == '(') {
        p->at++;
        return c == '[' ? parse_class(p) : parse_group(p);
    }
    p->at++;
    if (c == '.') {
        return one_character;
    }
    if ((unsigned char)c >= 0x80) {
        while (((unsigned char)*p->at & 0xc0) == 0x80) {
            p->at++;
        }
        return one_character;
    }
    if (bytes_have(c, "^$")) {
        struct part edge = nothing;
        edge.begins = c == '^';
        edge.ends = c == '$';
        return edge;
    }
    return one_text(p->arena, &c, 1);
}

/* Blanks in front of the end of a line, which has none. */
static bool is_at_end(const struct parser *p, const struct part *one, struct times t)
{
    return one->blank && !t.min && *p->at == '$' && (!p->at[1] || bytes_have(p->at[1], "|)"));
}

static struct part parse_sequence(struct parser *p)
{
    struct sequence s = {
        .arena = p->arena, .part = {.exact = true}, .end = nothing.texts, .first = true};
    while (!p->failed && *p->at && !bytes_have(*p->at, "|)")) {
        struct part one = parse_one(p);
        struct times times = parse_times(p);
        if (!is_at_end(p, &one, times)) {
            sequence_add(&s, &one, times);
        }
    }
    if (s.part.ends) {
        s.part.required.ends = clause_of(p->arena, s.end.items, s.end.n);
    }
    if (s.part.exact) {
        s.part.texts = s.end;
    } else {
        sequence_break(&s);
    }
    return s.part;
}

/* ------------------------------------------------------------------ alternatives */

/* Whether a text that has one of the first's literals has one of the second's. */
static bool clause_implies(const struct required_clause *first,
                           const struct required_clause *second)
{
    for (size_t i = 0; i < first->n; i++) {
        bool has_one = false;
        for (size_t k = 0; k < second->n && !has_one; k++) {
            has_one = strstr(first->literals[i], second->literals[k]) != NULL;
        }
        if (!has_one) {
            return false;
        }
    }
    return true;
}

static bool required_implies(const struct required *r, const struct required_clause *c)
{
    for (size_t i = 0; i < r->n; i++) {
        if (clause_implies(r->clauses[i], c)) {
            return true;
        }
    }
    return false;
}

/* Adds the clauses of one alternative that hold in each of the others as well. */
static void add_common(struct required *to, const struct required *each, size_t n, size_t one)
{
    for (size_t k = 0; k < each[one].n; k++) {
        const struct required_clause *c = each[one].clauses[k];
        size_t i = 0;
        while (i < n && required_implies(&each[i], c)) {
            i++;
        }
        if (i == n && !required_implies(to, c)) {
            required_add(to, c);
        }
    }
}

/* What is required whichever of several alternatives holds: one clause of each, and those that they
 * have in common. */
static struct required either_required(struct arena *a, const struct required *each, size_t n)
{
    struct required r = {.digits = REQUIRED_DIGITS_MAX};
    bool all_have = true;
    for (size_t k = 0; k < REQUIRED_CLAUSES_MAX && all_have; k++) {
        struct texts all = {.n = 0};
        for (size_t i = 0; i < n && all_have; i++) {
            const struct required_clause *c = k < each[i].n ? each[i].clauses[k] : NULL;
            struct texts more = {.n = c ? c->n : 0};
            for (size_t t = 0; t < more.n; t++) {
                more.items[t] = c->literals[t];
            }
            all_have = c && texts_unite(&all, &more);
        }
        if (all_have) {
            required_add(&r, clause_of(a, all.items, all.n));
        }
    }
    for (size_t i = 0; i < n; i++) {
        r.digits = each[i].digits < r.digits ? each[i].digits : r.digits;
        add_common(&r, each, n, i);
    }
    return r;
}

/* Keeps what each of several alternatives requires by itself, if each requires anything. */
static void keep_choice(struct arena *a, struct required *to, const struct required *each, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!each[i].n && !each[i].n_choices && !each[i].digits) {
            return;
        }
    }
    struct required_choice *choice = arena_alloc(a, sizeof *choice);
    *choice = (struct required_choice){each, n};
    to->choices[to->n_choices++] = choice;
}

/* Unites what two alternatives match; their requirements are looked at when all are known. */
static void unite_parts(struct part *to, const struct part *more)
{
    to->exact = to->exact && more->exact && !to->required.n && !more->required.n &&
                texts_unite(&to->texts, &more->texts);
    to->length_max = to->length_max > more->length_max ? to->length_max : more->length_max;
    to->begins = to->begins && more->begins;
    to->ends = to->ends && more->ends;
}

static struct part parse_alternatives(struct parser *p)
{
    VEC(struct required) each = {0};
    struct part all = parse_sequence(p);
    if (*p->at != '|') {
        return all;
    }
    VEC_PUSH(p->arena, &each, part_required(p->arena, &all));
    while (!p->failed && *p->at == '|') {
        p->at++;
        struct part more = parse_sequence(p);
        VEC_PUSH(p->arena, &each, part_required(p->arena, &more));
        unite_parts(&all, &more);
    }
    all.required = (struct required){.n = 0};
    if (!all.exact) {
        all.required = either_required(p->arena, each.items, each.n);
        keep_choice(p->arena, &all.required, each.items, each.n);
    }
    return all;
}

void required_of(struct arena *a, const char *expression, struct required *ret)
{
    struct parser p = {.arena = a, .at = expression};
    struct part all = parse_alternatives(&p);
    *ret = (struct required){.length_max = SIZE_MAX};
    if (!p.failed && !*p.at) {
        *ret = part_required(a, &all);
        ret->length_max = all.begins && all.ends ? all.length_max : SIZE_MAX;
    }
}
