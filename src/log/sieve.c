#include "log/sieve.h"

#include <string.h>

#include "base/str.h"
#include "log/required.h"

/* A clause more than the first is searched for in every line where it is rare enough for that; the
 * others are looked for in lines that have all the rest. */
enum { CLAUSES_MAX = 4, FREQUENT = 4000 };

/* What a line must have, one item after the other: the number of a pair of bytes; from SIEVE_PAIRS
 * on, a number of digits in a row; or EITHER plus a number of alternatives. After EITHER comes the
 * length of all its alternatives, then for each one its length and its items. */
struct wanted {
    const uint16_t *pairs;
    size_t n;
};

enum { EITHER = 0x8000 };

/* What is asked of a line for an owner. */
struct owner_asks {
    uint8_t full;                       // the bits of all its clauses
    size_t length_max;                  // bytes of a line; SIZE_MAX: any
    const struct required_clause *ends; // the line ends with one of these; NULL: with anything
    struct wanted others; // all that its expression requires but what its lines are found by
};

/* That a literal is one of a clause of an owner. */
struct need {
    uint32_t atom, owner;
    uint8_t bit;
};

struct sieve {
    struct filter *lines, *all;
    uint32_t *first_owner; // of each literal in `lines`: its owners, up to those of the next
    uint32_t *line_owners;
    uint32_t *first;    // of each atom: its needs, up to those of the next
    struct need *needs; // by atom
    struct owner_asks *owners;
    bool *watched; // of each atom
};

/* Whose one of the literals is by which lines are found. */
struct line_owner {
    uint32_t line, owner;
};

/* What is wanted, while it is put together. */
struct pairs {
    struct arena *arena;
    VEC(uint16_t) items;
    double frequency[SIEVE_PAIRS]; // of each pair in ordinary text
};

/* Literals, each once, while the sieve is built. */
struct building {
    struct arena *arena;
    const struct sieve_source *source;
    VEC(const char *) atoms;
    VEC(bool) watched;     // of each atom
    VEC(uint32_t) line_of; // of each atom: its place in `lines` + 1, or 0
    VEC(const char *) lines;
    VEC(struct line_owner) line_owners;
    VEC(struct need) needs;
    uint32_t *table; // open addressing: atom + 1
    size_t cap;
    struct owner_asks *owners;
    struct pairs pairs; // those of one owner
};

/* ------------------------------------------------------------------ atoms */

static void table_grow(struct building *b)
{
    b->cap = b->cap ? 2 * b->cap : 16384;
    b->table = arena_array(b->arena, b->cap, sizeof *b->table);
    for (size_t i = 0; i < b->atoms.n; i++) {
        size_t at = str_hash(b->atoms.items[i], strlen(b->atoms.items[i]));
        while (b->table[at & (b->cap - 1)]) {
            at++;
        }
        b->table[at & (b->cap - 1)] = (uint32_t)i + 1;
    }
}

/* `text` is in small letters. */
static uint32_t atom_of(struct building *b, const char *text)
{
    if (2 * (b->atoms.n + 1) > b->cap) {
        table_grow(b);
    }
    size_t at = str_hash(text, strlen(text)) & (b->cap - 1);
    for (; b->table[at]; at = (at + 1) & (b->cap - 1)) {
        if (strcmp(b->atoms.items[b->table[at] - 1], text) == 0) {
            return b->table[at] - 1;
        }
    }
    VEC_PUSH(b->arena, &b->atoms, text);
    VEC_PUSH(b->arena, &b->watched, false);
    VEC_PUSH(b->arena, &b->line_of, 0);
    return b->table[at] = (uint32_t)b->atoms.n, (uint32_t)b->atoms.n - 1;
}

/* A literal by which lines are found. */
static void line_literal_add(struct building *b, const char *text, uint32_t owner)
{
    uint32_t *line = &b->line_of.items[atom_of(b, text)];
    if (!*line) {
        VEC_PUSH(b->arena, &b->lines, text);
        *line = (uint32_t)b->lines.n;
    }
    VEC_PUSH(b->arena, &b->line_owners, (struct line_owner){*line - 1, owner});
}

static const char *small_letters(struct arena *a, const char *text)
{
    char *copy = arena_strdup(a, text);
    for (char *c = copy; *c; c++) {
        *c = (char)(*c >= 'A' && *c <= 'Z' ? *c | 0x20 : *c);
    }
    return copy;
}

/* ------------------------------------------------------------------ pairs */

/* Letters are alike in either case; other bytes may be, too. */
static inline size_t byte_half(char c)
{
    size_t byte = (unsigned char)c;
    return (byte & 0x1f) | (byte & 0x40) >> 1;
}

static size_t byte_pair(const char *at)
{
    return byte_half(at[0]) << 6 | byte_half(at[1]);
}

static void take_frequency(void *arg, const char *pair, double frequency)
{
    struct pairs *to = arg;
    to->frequency[byte_pair(pair)] += frequency;
}

static void pairs_of_literal(struct pairs *to, const char *literal)
{
    for (const char *at = literal; at[1]; at++) {
        VEC_PUSH(to->arena, &to->items, (uint16_t)byte_pair(at));
    }
}

/* What is rarest says "no" soonest. */
static void sort_by_frequency(const struct pairs *to, size_t from)
{
    uint16_t *items = to->items.items;
    for (size_t i = from + 1; i < to->items.n; i++) {
        uint16_t item = items[i];
        size_t at = i;
        for (; at > from && to->frequency[items[at - 1]] > to->frequency[item]; at--) {
            items[at] = items[at - 1];
        }
        items[at] = item;
    }
}

/* Where a length goes, until what it is the length of is known. */
static size_t length_begin(struct pairs *to)
{
    VEC_PUSH(to->arena, &to->items, 0);
    return to->items.n;
}

/* False: it is too long for its number. */
static bool length_end(struct pairs *to, size_t from)
{
    size_t length = to->items.n - from;
    to->items.items[from - 1] = (uint16_t)length;
    return length <= UINT16_MAX;
}

static size_t either_begin(struct pairs *to, size_t n)
{
    VEC_PUSH(to->arena, &to->items, (uint16_t)(EITHER | n));
    return length_begin(to);
}

/* Alternatives that are too long want nothing. */
static void either_end(struct pairs *to, size_t from, bool fits)
{
    fits = length_end(to, from) && fits;
    to->items.n = fits ? to->items.n : from - 2;
}

static void pairs_of_clause(struct pairs *to, const struct required_clause *c)
{
    size_t from = either_begin(to, c->n);
    bool fits = true;
    for (size_t i = 0; i < c->n; i++) {
        size_t first = length_begin(to);
        pairs_of_literal(to, c->literals[i]);
        sort_by_frequency(to, first);
        fits = length_end(to, first) && fits;
    }
    either_end(to, from, fits);
}

static void pairs_of_required(struct pairs *to, const struct required *r);

static void pairs_of_choice(struct pairs *to, const struct required_choice *choice)
{
    size_t from = either_begin(to, choice->n);
    bool fits = true;
    for (size_t k = 0; k < choice->n; k++) {
        size_t first = length_begin(to);
        pairs_of_required(to, &choice->items[k]);
        fits = length_end(to, first) && fits;
    }
    either_end(to, from, fits);
}

/* What is told most quickly goes first. */
static void pairs_of_required(struct pairs *to, const struct required *r)
{
    size_t first = to->items.n;
    for (size_t i = 0; i < r->n; i++) {
        if (r->clauses[i]->n == 1) {
            pairs_of_literal(to, r->clauses[i]->literals[0]);
        }
    }
    sort_by_frequency(to, first);
    if (r->digits) {
        VEC_PUSH(to->arena, &to->items, (uint16_t)(SIEVE_PAIRS + r->digits - 1));
    }
    for (size_t i = 0; i < r->n; i++) {
        if (r->clauses[i]->n > 1) {
            pairs_of_clause(to, r->clauses[i]);
        }
    }
    for (size_t i = 0; i < r->n_choices && r->choices[i]->n < EITHER; i++) {
        pairs_of_choice(to, r->choices[i]);
    }
}

static struct wanted wanted_copy(struct arena *a, const uint16_t *pairs, size_t n)
{
    uint16_t *copy = arena_array(a, n + 1, sizeof *copy);
    memcpy(copy, pairs, n * sizeof *copy);
    return (struct wanted){copy, n};
}

static struct wanted pairs_of(struct building *b, const struct required *r)
{
    struct pairs *to = &b->pairs;
    to->arena = b->arena;
    to->items.n = 0;
    pairs_of_required(to, r);
    return to->items.n ? wanted_copy(b->arena, to->items.items, to->items.n)
                       : (struct wanted){.n = 0};
}

/* ------------------------------------------------------------------ owners */

/* One owner: its literals, and what its expression requires besides. */
struct owner {
    uint32_t index;
    const char *const *literals; // in small letters
    size_t n_literals;
    double frequency;
    struct required required;
};

static void add_needs(struct building *b, uint32_t owner, const char *const *literals, size_t n,
                      uint8_t bit)
{
    for (size_t i = 0; i < n; i++) {
        VEC_PUSH(b->arena, &b->needs, (struct need){atom_of(b, literals[i]), owner, bit});
    }
    b->owners[owner].full |= bit;
}

/* Whether all the owner's literals hold one of the clause, so that it asks for nothing more. */
static bool clause_is_implied(const struct owner *o, const struct required_clause *c)
{
    for (size_t i = 0; i < o->n_literals; i++) {
        bool holds = false;
        for (size_t k = 0; k < c->n && !holds; k++) {
            holds = strstr(o->literals[i], c->literals[k]) != NULL;
        }
        if (!holds) {
            return false;
        }
    }
    return true;
}

/* Whether a clause is searched for in every line, as long as there is a bit for it. */
static bool is_searched(const struct required_clause *c, double frequency, uint8_t bit)
{
    return c->shortest >= FILTER_LITERAL_MIN && bit < 1 << (CLAUSES_MAX - 1) &&
           (c->frequency < frequency || c->frequency <= (double)FREQUENT);
}

/* What is asked of lines that have one of the literals that they are found by. */
static void owner_ask(struct building *b, const struct owner *o, const char *const *found_by)
{
    struct owner_asks *asks = &b->owners[o->index];
    struct required others = o->required;
    others.n = 0;
    for (size_t i = 0; i < o->required.n; i++) {
        const struct required_clause *c = o->required.clauses[i];
        if (c->literals != found_by && !(found_by == o->literals && clause_is_implied(o, c))) {
            others.clauses[others.n++] = c;
        }
    }
    asks->length_max = o->required.length_max;
    asks->ends = o->required.ends;
    asks->others = pairs_of(b, &others);
}

static void add_owner(struct building *b, const struct owner *o)
{
    const char *const *rarest = o->literals;
    size_t n = o->n_literals;
    double frequency = o->frequency;
    uint8_t bit = 1;
    add_needs(b, o->index, o->literals, o->n_literals, bit);
    for (size_t i = 0; i < o->required.n; i++) {
        const struct required_clause *c = o->required.clauses[i];
        if (clause_is_implied(o, c) || !is_searched(c, frequency, bit)) {
            continue;
        }
        bit = (uint8_t)(bit << 1);
        add_needs(b, o->index, c->literals, c->n, bit);
        if (c->frequency < frequency) {
            rarest = c->literals;
            n = c->n;
            frequency = c->frequency;
        }
    }
    for (size_t i = 0; i < n; i++) {
        line_literal_add(b, rarest[i], o->index);
    }
    owner_ask(b, o, rarest);
}

static void add_owners(struct building *b)
{
    const struct sieve_source *from = b->source;
    for (size_t i = 0, next; i < from->n_literals; i = next) {
        struct owner o = {.index = from->owners[i], .required = {.length_max = SIZE_MAX}};
        for (next = i; next < from->n_literals && from->owners[next] == o.index; next++) {
        }
        const char **literals = arena_array(b->arena, next - i, sizeof *literals);
        o.literals = literals;
        for (size_t k = i; k < next; k++) {
            literals[o.n_literals] = small_letters(b->arena, from->literals[k]);
            o.frequency += filter_frequency(literals[o.n_literals++]);
        }
        if (from->expressions[o.index]) {
            required_of(b->arena, from->expressions[o.index], &o.required);
        }
        add_owner(b, &o);
    }
}

static void add_watched(struct building *b)
{
    for (size_t i = 0; i < b->source->n_literals; i++) {
        if (b->source->watched[i]) {
            const char *literal = small_letters(b->arena, b->source->literals[i]);
            b->watched.items[atom_of(b, literal)] = true;
            line_literal_add(b, literal, SIEVE_WATCHED);
        }
    }
}

/* ------------------------------------------------------------------ the sieve */

static void sort_needs(struct sieve *s, const struct building *b)
{
    size_t n = b->atoms.n;
    s->first = arena_array(b->arena, n + 2, sizeof *s->first);
    s->needs = arena_array(b->arena, b->needs.n + 1, sizeof *s->needs);
    for (size_t i = 0; i < b->needs.n; i++) {
        s->first[b->needs.items[i].atom + 1]++;
    }
    for (size_t i = 0; i < n; i++) {
        s->first[i + 1] += s->first[i];
    }
    uint32_t *next = arena_array(b->arena, n + 1, sizeof *next);
    memcpy(next, s->first, n * sizeof *next);
    for (size_t i = 0; i < b->needs.n; i++) {
        s->needs[next[b->needs.items[i].atom]++] = b->needs.items[i];
    }
}

static void sort_line_owners(struct sieve *s, const struct building *b)
{
    s->first_owner = arena_array(b->arena, b->lines.n + 1, sizeof *s->first_owner);
    s->line_owners = arena_array(b->arena, b->line_owners.n + 1, sizeof *s->line_owners);
    for (size_t i = 0; i < b->line_owners.n; i++) {
        s->first_owner[b->line_owners.items[i].line]++;
    }
    for (size_t i = 1; i <= b->lines.n; i++) {
        s->first_owner[i] += s->first_owner[i - 1];
    }
    for (size_t i = 0; i < b->line_owners.n; i++) { // an end is moved to its beginning
        const struct line_owner *from = &b->line_owners.items[i];
        s->line_owners[--s->first_owner[from->line]] = from->owner;
    }
}

struct sieve *sieve_build(struct arena *a, const struct sieve_source *source)
{
    struct sieve *s = arena_alloc(a, sizeof *s);
    struct building b = {.arena = a, .source = source};
    b.owners = arena_array(a, source->n_owners + 1, sizeof *b.owners);
    filter_pairs_each(take_frequency, &b.pairs);
    add_owners(&b);
    add_watched(&b);
    sort_line_owners(s, &b);
    sort_needs(s, &b);
    s->owners = b.owners;
    s->watched = b.watched.items;
    s->lines = filter_build(a, b.lines.items, b.lines.n);
    s->all = filter_build(a, b.atoms.items, b.atoms.n);
    return s;
}

const struct filter *sieve_lines(const struct sieve *s)
{
    return s->lines;
}

const uint32_t *sieve_line_owners(const struct sieve *s, size_t literal, size_t *ret_n)
{
    const uint32_t *first = s->first_owner + literal;
    *ret_n = first[1] - first[0];
    return s->line_owners + first[0];
}

void sieve_line_init(struct sieve_line *line, struct arena *a, size_t n_owners)
{
    line->clauses = arena_array(a, n_owners + 1, sizeof *line->clauses);
    line->touched = arena_array(a, n_owners + 1, sizeof *line->touched);
    line->n_touched = 0;
}

static void forget_clauses(struct sieve_line *line)
{
    for (size_t i = 0; i < line->n_touched; i++) {
        line->clauses[line->touched[i]] = 0;
    }
    line->n_touched = 0;
}

struct trying {
    const struct sieve *sieve;
    struct sieve_line *line;
    uint64_t *hits;
    bool watched;
};

static void take_atom(void *arg, size_t atom, size_t at)
{
    struct trying *t = arg;
    const struct sieve *s = t->sieve;
    struct sieve_line *line = t->line;
    const char *text = line->pairs.text;
    bool in_word = at && str_is_letter(text[at - 1]) && str_is_letter(text[at]);
    t->watched = t->watched || (s->watched[atom] && !in_word);
    for (uint32_t i = s->first[atom]; i < s->first[atom + 1]; i++) {
        const struct need *need = &s->needs[i];
        uint8_t *clauses = &line->clauses[need->owner];
        if (!*clauses) {
            line->touched[line->n_touched++] = need->owner;
        }
        *clauses |= need->bit;
        if (*clauses == s->owners[need->owner].full) {
            t->hits[need->owner / 64] |= (uint64_t)1 << (need->owner % 64);
        }
    }
}

bool sieve_try(const struct sieve *s, struct sieve_line *line, const char *text, size_t n,
               uint64_t *hits)
{
    sieve_pairs_begin(&line->pairs, text, n);
    struct trying t = {s, line, hits, false};
    filter_all(s->all, text, n, take_atom, &t);
    forget_clauses(line);
    return t.watched;
}

/* ------------------------------------------------------------------ the rest */

void sieve_pairs_begin(struct sieve_pairs *pairs, const char *text, size_t n)
{
    pairs->text = text;
    pairs->n = n;
    pairs->is_marked = false;
}

/* Whether one of eight bytes is a digit: where one is, the highest bit of its byte gets set. */
static bool has_digit(const char *at)
{
    const uint64_t each = 0x0101010101010101u;
    uint64_t bytes;
    memcpy(&bytes, at, sizeof bytes);
    uint64_t low = bytes & each * 0x7f;
    return (low + each * (0x80 - '0')) & ~(low + each * (0x80 - '9' - 1)) & ~bytes & each * 0x80;
}

/* How many of them stand in a row at most, up to REQUIRED_DIGITS_MAX. */
static size_t digits_in_row(const char *text, size_t n)
{
    enum { AT_ONCE = 8 };
    size_t most = 0, row = 0;
    for (size_t i = 0; i < n && most < REQUIRED_DIGITS_MAX; i++) {
        while (row == 0 && i + AT_ONCE <= n && !has_digit(text + i)) {
            i += AT_ONCE;
        }
        row = i < n && text[i] >= '0' && text[i] <= '9' ? row + 1 : 0;
        most = row > most ? row : most;
    }
    return most;
}

/* byte_half() of eight bytes. */
static uint64_t eight_halves(const char *at)
{
    const uint64_t each = 0x0101010101010101u;
    uint64_t bytes;
    memcpy(&bytes, at, sizeof bytes);
    return (bytes & each * 0x1f) | (bytes & each * 0x40) >> 1;
}

/* Marks the pairs that begin at every second of eight bytes, of which two numbers have the halves
 * of the first and of the second. */
static inline void mark_four(uint8_t *marks, uint64_t first, uint64_t second, uint8_t turn)
{
    const uint64_t low = 0x00ff00ff00ff00ffu;
    uint64_t pairs = (first & low) << 6 | (second & low);
    for (size_t i = 0; i < 64; i += 16) {
        marks[(uint16_t)(pairs >> i)] = turn;
    }
}

/* They are marked only where they are asked for. */
static void mark_pairs(struct sieve_pairs *line)
{
    enum { AT_ONCE = 8 };
    if (line->is_marked) {
        return;
    }
    if (++line->turn == 0) {
        memset(line->marks, 0, sizeof line->marks);
        line->turn = 1;
    }
    const uint8_t turn = line->turn; // not read again behind each mark
    size_t i = 0;
    for (; i + AT_ONCE < line->n; i += AT_ONCE) {
        uint64_t first = eight_halves(line->text + i), second = eight_halves(line->text + i + 1);
        mark_four(line->marks, first, second, turn);
        mark_four(line->marks, first >> 8, second >> 8, turn);
    }
    for (; i + 1 < line->n; i++) {
        line->marks[byte_pair(line->text + i)] = turn;
    }
    size_t digits = digits_in_row(line->text, line->n);
    memset(line->marks + SIEVE_PAIRS, turn, digits);
    line->is_marked = true;
}

/* Whether the line has all that is wanted, and of alternatives all that one of them wants. */
static bool has_wanted(const struct sieve_pairs *line, const uint16_t *at, const uint16_t *end)
{
    while (at < end) {
        uint16_t item = *at++;
        if (!(item & EITHER)) {
            if (line->marks[item] != line->turn) {
                return false;
            }
            continue;
        }
        const uint16_t *behind = at + 1 + *at;
        bool has_one = false;
        at++;
        for (size_t length = 0; at < behind && !has_one; at += length) {
            length = *at++;
            has_one = has_wanted(line, at, at + length);
        }
        if (!has_one) {
            return false;
        }
        at = behind;
    }
    return true;
}

static bool has_end(struct str line, const struct required_clause *c)
{
    for (size_t i = 0; i < c->n; i++) {
        size_t n = strlen(c->literals[i]);
        if (n <= line.n &&
            str_eq_nocase((struct str){line.s + line.n - n, n}, (struct str){c->literals[i], n})) {
            return true;
        }
    }
    return false;
}

bool sieve_fits_ends(const struct sieve *s, size_t owner, const char *text, size_t n,
                     size_t shortest)
{
    const struct owner_asks *asks = &s->owners[owner];
    return shortest <= asks->length_max &&
           (!asks->ends || has_end((struct str){text, n}, asks->ends));
}

static bool pairs_fit(struct sieve_pairs *line, const struct wanted *wanted)
{
    if (!wanted->n) {
        return true;
    }
    mark_pairs(line);
    return has_wanted(line, wanted->pairs, wanted->pairs + wanted->n);
}

bool sieve_may_fit(const struct sieve *s, struct sieve_pairs *pairs, size_t owner)
{
    return pairs_fit(pairs, &s->owners[owner].others);
}

bool sieve_fits(const struct sieve *s, struct sieve_line *line, size_t owner, size_t shortest)
{
    return sieve_fits_ends(s, owner, line->pairs.text, line->pairs.n, shortest) &&
           pairs_fit(&line->pairs, &s->owners[owner].others);
}
