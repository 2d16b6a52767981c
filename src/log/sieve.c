#include "log/sieve.h"

#include <string.h>

#include "base/str.h"
#include "log/required.h"

/* A clause more than the first is searched for in every line where it is rare enough for that; the
 * others are looked for in lines that have all the rest. */
enum { CLAUSES_MAX = 4, FREQUENT = 4000 };

/* That a literal is one of a clause of an owner. */
struct need {
    uint32_t atom, owner;
    uint8_t bit;
};

struct sieve {
    struct filter *lines, *all;
    uint32_t *line_owners;  // of each literal in `lines`
    uint32_t *first;        // of each atom: its needs, up to those of the next
    struct need *needs;     // by atom
    uint8_t *full;          // of each owner: the bits of all its clauses
    struct required *rests; // of each owner: what is looked for last
    struct required *whole; // of each owner: all that its expression requires
    bool *watched;          // of each atom
};

/* Literals, each once, while the sieve is built. */
struct building {
    struct arena *arena;
    const struct sieve_source *source;
    VEC(const char *) atoms;
    VEC(bool) watched; // of each atom
    VEC(const char *) lines;
    VEC(uint32_t) line_owners;
    VEC(struct need) needs;
    uint32_t *table; // open addressing: atom + 1
    size_t cap;
    uint8_t *full;
    struct required *rests, *whole;
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
    return b->table[at] = (uint32_t)b->atoms.n, (uint32_t)b->atoms.n - 1;
}

static const char *small_letters(struct arena *a, const char *text)
{
    char *copy = arena_strdup(a, text);
    for (char *c = copy; *c; c++) {
        *c = (char)(*c >= 'A' && *c <= 'Z' ? *c | 0x20 : *c);
    }
    return copy;
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
    b->full[owner] |= bit;
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
           (c->frequency < frequency || c->frequency <= FREQUENT);
}

static void add_owner(struct building *b, const struct owner *o)
{
    const char *const *rarest = o->literals;
    size_t n = o->n_literals;
    double frequency = o->frequency;
    uint8_t bit = 1;
    struct required *rest = &b->rests[o->index];
    *rest = b->whole[o->index] = o->required;
    rest->n = 0;
    add_needs(b, o->index, o->literals, o->n_literals, bit);
    for (size_t i = 0; i < o->required.n; i++) {
        const struct required_clause *c = o->required.clauses[i];
        if (clause_is_implied(o, c)) {
            continue;
        }
        if (!is_searched(c, frequency, bit)) {
            rest->clauses[rest->n++] = c;
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
        VEC_PUSH(b->arena, &b->lines, rarest[i]);
        VEC_PUSH(b->arena, &b->line_owners, o->index);
    }
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
            VEC_PUSH(b->arena, &b->lines, literal);
            VEC_PUSH(b->arena, &b->line_owners, (uint32_t)SIEVE_WATCHED);
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

struct sieve *sieve_build(struct arena *a, const struct sieve_source *source)
{
    struct sieve *s = arena_alloc(a, sizeof *s);
    struct building b = {.arena = a, .source = source};
    b.full = arena_array(a, source->n_owners + 1, sizeof *b.full);
    b.rests = arena_array(a, source->n_owners + 1, sizeof *b.rests);
    b.whole = arena_array(a, source->n_owners + 1, sizeof *b.whole);
    add_owners(&b);
    add_watched(&b);
    s->line_owners = b.line_owners.items;
    sort_needs(s, &b);
    s->full = b.full;
    s->rests = b.rests;
    s->whole = b.whole;
    s->watched = b.watched.items;
    s->lines = filter_build(a, b.lines.items, b.lines.n);
    s->all = filter_build(a, b.atoms.items, b.atoms.n);
    return s;
}

const struct filter *sieve_lines(const struct sieve *s)
{
    return s->lines;
}

uint32_t sieve_line_owner(const struct sieve *s, size_t literal)
{
    return s->line_owners[literal];
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
        if (*clauses == s->full[need->owner]) {
            t->hits[need->owner / 64] |= (uint64_t)1 << (need->owner % 64);
        }
    }
}

bool sieve_try(const struct sieve *s, struct sieve_line *line, const char *text, size_t n,
               uint64_t *hits)
{
    sieve_pairs_init(&line->pairs, text, n);
    struct trying t = {s, line, hits, false};
    filter_all(s->all, text, n, take_atom, &t);
    forget_clauses(line);
    return t.watched;
}

/* ------------------------------------------------------------------ the rest */

/* Letters are alike in either case; other bytes may be, too. */
static size_t byte_pair(const char *at)
{
    size_t first = (unsigned char)at[0], second = (unsigned char)at[1];
    return ((first & 0x1f) | (first & 0x40) >> 1) << 6 | (second & 0x1f) | (second & 0x40) >> 1;
}

void sieve_pairs_init(struct sieve_pairs *pairs, const char *text, size_t n)
{
    pairs->text = text;
    pairs->n = n;
    pairs->has_bits = false;
}

static void find_pairs(struct sieve_pairs *line)
{
    memset(line->bits, 0, sizeof line->bits);
    for (size_t i = 0; i + 1 < line->n; i++) {
        size_t pair = byte_pair(line->text + i);
        line->bits[pair / 64] |= (uint64_t)1 << (pair % 64);
    }
    line->has_bits = true;
}

static bool has_literal(const struct sieve_pairs *line, const char *literal)
{
    for (const char *at = literal; at[1]; at++) {
        size_t pair = byte_pair(at);
        if (!(line->bits[pair / 64] >> (pair % 64) & 1)) {
            return false;
        }
    }
    return true;
}

static bool has_clause(const struct sieve_pairs *line, const struct required_clause *c)
{
    for (size_t i = 0; i < c->n; i++) {
        if (has_literal(line, c->literals[i])) {
            return true;
        }
    }
    return false;
}

/* Whether the line has all that is required, and of alternatives all that one of them requires. */
static bool has_required(const struct sieve_pairs *line, const struct required *r)
{
    for (size_t i = 0; i < r->n; i++) {
        if (!has_clause(line, r->clauses[i])) {
            return false;
        }
    }
    for (size_t i = 0; i < r->n_choices; i++) {
        const struct required_choice *choice = r->choices[i];
        size_t k = 0;
        while (k < choice->n && !has_required(line, &choice->items[k])) {
            k++;
        }
        if (k == choice->n) {
            return false;
        }
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
    const struct required *rest = &s->rests[owner];
    return shortest <= rest->length_max &&
           (!rest->ends || has_end((struct str){text, n}, rest->ends));
}

/* The pairs are found only where they are asked for. */
static bool pairs_fit(struct sieve_pairs *line, const struct required *r)
{
    if (!line->has_bits && (r->n || r->n_choices)) {
        find_pairs(line);
    }
    return has_required(line, r);
}

bool sieve_may_fit(const struct sieve *s, struct sieve_pairs *pairs, size_t owner)
{
    return pairs_fit(pairs, &s->whole[owner]);
}

bool sieve_fits(const struct sieve *s, struct sieve_line *line, size_t owner, size_t shortest)
{
    return sieve_fits_ends(s, owner, line->pairs.text, line->pairs.n, shortest) &&
           pairs_fit(&line->pairs, &s->rests[owner]);
}
