#include "elf/names.h"

#include <string.h>

#include "base/str.h"
#include "elf/image.h"

/* How often a table's symbols are walked over before they are put into an index, and of how many
 * there may be one. */
enum { WALKS = 8, FEW = 4096, CHAINED_FEW = 1 << 18, SYMBOLS_MAX = 1 << 22 };

uint32_t elf_sysv_hash(const char *name)
{
    uint32_t hash = 0;
    for (const unsigned char *p = (const unsigned char *)name; *p; p++) {
        hash = (hash << 4) + *p;
        hash ^= (hash >> 24) & 0xf0;
    }
    return hash & 0x0fffffff;
}

static uint32_t name_slot(const struct elf_names *names, const char *name)
{
    uint64_t hash = str_hash(name, strlen(name));
    return (uint32_t)(hash ^ hash >> 32) & names->mask;
}

static void names_add(struct elf_names *names, uint32_t symbol, const char *name)
{
    uint32_t slot = name_slot(names, name);
    if (names->first[slot]) {
        names->next[names->last[slot]] = symbol;
    } else {
        names->first[slot] = symbol;
    }
    names->last[slot] = symbol;
}

/* Adds the chain of a bucket; false: all chains together are longer than there are symbols. A
 * lookup sees only names that belong to the bucket. */
static bool chain_add(struct elf_names *names, const struct elf_image *e,
                      const struct elf_names_table *t, uint32_t bucket, uint32_t *left,
                      const char *(*name)(const struct elf_image *e, uint32_t symbol))
{
    uint32_t symbol = elf_u32(e, t->buckets + (size_t)bucket * 4);
    for (; symbol && symbol < t->n_chains; symbol = elf_u32(e, t->chains + (size_t)symbol * 4)) {
        if (!*left) {
            return false;
        }
        (*left)--;
        const char *own = name(e, symbol);
        if (own && elf_sysv_hash(own) % t->n_buckets == bucket) {
            names_add(names, symbol, own);
        }
    }
    return true;
}

static void names_begin(struct elf_names *names, uint32_t n)
{
    size_t slots = 1024;
    while (slots < n) {
        slots *= 2;
    }
    names->mask = (uint32_t)slots - 1;
    names->first = arena_array(names->arena, slots, sizeof *names->first);
    names->last = arena_array(names->arena, slots, sizeof *names->last);
    names->next = arena_array(names->arena, (size_t)n + 1, sizeof *names->next);
}

static bool names_fill(struct elf_names *names, const struct elf_image *e,
                       const struct elf_names_table *t,
                       const char *(*name)(const struct elf_image *e, uint32_t symbol))
{
    names_begin(names, t->n_chains);
    uint32_t left = t->n_chains;
    for (uint32_t i = 0; i < t->n_buckets; i++) {
        if (!chain_add(names, e, t, i, &left, name)) {
            return false;
        }
    }
    return true;
}

bool elf_names_ready(struct elf_names *names, const struct elf_image *e,
                     const struct elf_names_table *t,
                     const char *(*name)(const struct elf_image *e, uint32_t symbol))
{
    if (names->tried || names->walked < WALKS * (uint64_t)t->n_chains + FEW) {
        return names->first != NULL;
    }
    names->tried = true;
    if (t->n_chains > SYMBOLS_MAX || !names_fill(names, e, t, name)) {
        names->first = NULL;
    }
    return names->first != NULL;
}

/* A lookup sees only symbols whose hash in the chain is that of the name. */
static void names_fill_chains(struct elf_names *names, const struct elf_image *e,
                              const struct elf_names_chains *c,
                              const char *(*name)(const struct elf_image *e, uint32_t symbol))
{
    names_begin(names, c->n);
    names->end = arena_array(names->arena, (size_t)c->n + 1, sizeof *names->end);
    for (uint32_t place = 1; place <= c->n; place++) {
        uint32_t hash = elf_u32(e, c->words + (size_t)(place - 1) * 4);
        const char *own = name(e, c->symoffset + place - 1);
        if (own && (c->hash(own) ^ hash) < 2) { // all but the mark of the end
            names_add(names, place, own);
        }
    }
    for (uint32_t place = c->n, end = c->n; place; place--) {
        end = elf_u32(e, c->words + (size_t)(place - 1) * 4) & 1 ? place : end;
        names->end[place] = end;
    }
}

bool elf_names_chains_ready(struct elf_names *names, const struct elf_image *e,
                            struct elf_names_chains (*chains)(const struct elf_image *e),
                            const char *(*name)(const struct elf_image *e, uint32_t symbol))
{
    if (names->tried || names->walked < CHAINED_FEW ||
        (names->n && names->walked < WALKS * (uint64_t)names->n)) {
        return names->first != NULL;
    }
    struct elf_names_chains c = chains(e);
    names->n = c.n;
    if (names->walked < WALKS * (uint64_t)c.n) {
        return false;
    }
    names->tried = true;
    if (c.words && c.n <= SYMBOLS_MAX) {
        names_fill_chains(names, e, &c, name);
    }
    return names->first != NULL;
}

uint32_t elf_names_first(const struct elf_names *names, const char *name)
{
    return names->first[name_slot(names, name)];
}
