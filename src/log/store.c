#include <string.h>

#include "log/internal.h"

enum { SLOTS = 4 * LOG_FACTS_MAX };

void store_init(struct log_store *s, struct arena *a, size_t n_signatures)
{
    *s = (struct log_store){.arena = a};
    s->per_signature = arena_array(a, n_signatures + 2, sizeof *s->per_signature);
    s->table = arena_array(a, SLOTS, sizeof *s->table);
}

static uint32_t hash_of(const struct log_said *said)
{
    uint64_t h = str_hash(said->kind, strlen(said->kind));
    for (size_t i = 0; i < said->n_fields; i++) {
        const struct log_field *f = &said->fields[i];
        h = h * 31 + str_hash(f->name, strlen(f->name));
        h = h * 31 + str_hash(f->value, strlen(f->value));
    }
    return (uint32_t)(h ^ h >> 32);
}

static bool is_same_fact(const struct log_fact *f, const struct log_said *said)
{
    if (f->kind != said->kind || f->n_fields != said->n_fields ||
        f->process != said->line->process) {
        return false;
    }
    for (size_t i = 0; i < said->n_fields; i++) {
        if (f->fields[i].name != said->fields[i].name ||
            strcmp(f->fields[i].value, said->fields[i].value) != 0) {
            return false;
        }
    }
    return true;
}

/* The line as evidence: several facts of one line share it. */
static const char *evidence_text(struct log_store *s, const struct log_line *line)
{
    if (s->text && s->text_line == line->place && s->text_from == line->text) {
        return s->text;
    }
    bool whole = line->n <= LOG_EVIDENCE_MAX;
    char *text = whole ? arena_strndup(s->arena, line->text, line->n)
                       : arena_printf(s->arena, "%.*s...", LOG_EVIDENCE_MAX, line->text);
    for (char *tab = text; (tab = strchr(tab, '\t')) != NULL;) {
        *tab = ' ';
    }
    s->text = text;
    s->text_line = line->place;
    s->text_from = line->text;
    return s->text;
}

static struct log_field *copy_fields(struct log_store *s, const struct log_field *fields, size_t n)
{
    struct log_field *copy = arena_array(s->arena, n + 1, sizeof *copy);
    for (size_t i = 0; i < n; i++) {
        copy[i] = (struct log_field){fields[i].name, arena_strdup(s->arena, fields[i].value)};
    }
    return copy;
}

/* Counts the facts that differ in nothing but their line, up to LOG_SAME_MAX; one of this very line
 * is enough. Its end is where another one belongs. */
static uint32_t count_same(const struct log_store *s, uint32_t hash, const struct log_said *said,
                           bool one_a_line, uint32_t *ret_slot)
{
    uint32_t same = 0, slot = hash & (SLOTS - 1);
    for (; s->table[slot] && same < LOG_SAME_MAX; slot = (slot + 1) & (SLOTS - 1)) {
        const struct log_fact *f = s->facts.items[s->table[slot] - 1];
        if (f->hash == hash && is_same_fact(f, said)) {
            same = one_a_line && f->line == said->line->number ? LOG_SAME_MAX : same + 1;
        }
    }
    *ret_slot = slot;
    return same;
}

bool store_has_enough(const struct log_store *s, const struct log_said *said, bool one_a_line)
{
    uint32_t slot;
    return count_same(s, hash_of(said), said, one_a_line, &slot) >= LOG_SAME_MAX;
}

bool store_is_full(const struct log_store *s)
{
    return s->dropped && s->facts.n >= LOG_FACTS_MAX;
}

bool store_add(struct log_store *s, size_t signature, const char *id, const struct log_said *said)
{
    const struct log_line *line = said->line;
    uint32_t hash = hash_of(said), slot;
    if (count_same(s, hash, said, true, &slot) >= LOG_SAME_MAX) {
        return false;
    }
    if (s->facts.n >= LOG_FACTS_MAX || s->per_signature[signature] >= LOG_PER_SIGNATURE_MAX) {
        s->dropped = true;
        return false;
    }
    struct log_fact *f = arena_alloc(s->arena, sizeof *f);
    *f = (struct log_fact){
        .kind = said->kind,
        .signature = id,
        .line = line->number,
        .place = line->place,
        .process = line->process,
        .text = evidence_text(s, line),
        .fields = copy_fields(s, said->fields, said->n_fields),
        .n_fields = said->n_fields,
        .hash = hash,
    };
    VEC_PUSH(s->arena, &s->facts, f);
    s->per_signature[signature]++;
    s->table[slot] = (uint32_t)s->facts.n;
    return true;
}

const char *log_fact_field(const struct log_fact *fact, const char *name)
{
    for (size_t i = 0; i < fact->n_fields; i++) {
        if (fact->fields[i].name == name || strcmp(fact->fields[i].name, name) == 0) {
            return fact->fields[i].value;
        }
    }
    return NULL;
}

void store_refute(struct log_store *s, size_t index, const char *kind)
{
    struct log_fact *fact = arena_alloc(s->arena, sizeof *fact);
    *fact = *s->facts.items[index];
    fact->kind = kind;
    s->facts.items[index] = fact;
}

void store_sort(struct log_store *s, size_t from)
{
    for (size_t i = from; i < s->facts.n; i++) {
        const struct log_fact *fact = s->facts.items[i];
        size_t at = i;
        for (; at > 0 && s->facts.items[at - 1]->place > fact->place; at--) {
            s->facts.items[at] = s->facts.items[at - 1];
        }
        s->facts.items[at] = fact;
    }
}
