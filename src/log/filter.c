#include "log/filter.h"

#include <string.h>

enum { GRAM = 4, BITS_LOG2 = 17, SLOT_EMPTY = -1 };

/* One four-byte piece of a literal's run. */
struct piece {
    uint32_t gram; // folded
    uint32_t literal;
    uint16_t offset; // in the literal
    int next;        // with the same slot, or SLOT_EMPTY
};

struct filter {
    const char *const *literals;
    uint16_t *lengths;
    size_t stride;
    uint64_t bits[(1u << BITS_LOG2) / 64];
    struct piece *pieces;
    int *slots; // by hash: the first piece
    uint32_t slot_mask;
};

/* How often a byte stands in logs, roughly, 0 to 9: letters by English, digits and blanks often. */
static unsigned char_weight(unsigned char c)
{
    static const char often[] = " etaoinsr0.1/-2:dlcfpm_u3hgb4y5v6w78k9,)('x\"=|q[]jz";
    c = c >= 'A' && c <= 'Z' ? (unsigned char)(c | 0x20) : c;
    const char *at = c ? strchr(often, c) : NULL;
    return at ? 9 - (unsigned)((size_t)(at - often) * 9 / sizeof often) : 0;
}

static uint32_t load_folded(const char *at)
{
    uint32_t v;
    memcpy(&v, at, sizeof v);
    return v | 0x20202020u; // more than letters, which the comparison sorts out
}

static uint32_t hash(uint32_t gram)
{
    return gram * 0x9E3779B1u;
}

static bool bit_of(const struct filter *f, uint32_t h)
{
    uint32_t bit = h >> (32 - BITS_LOG2);
    return f->bits[bit / 64] >> (bit % 64) & 1;
}

/* Where the rarest run of `run` bytes begins. */
static size_t rarest_run(const char *literal, size_t n, size_t run)
{
    size_t best = 0;
    unsigned lowest = ~0u;
    for (size_t i = 0; i + run <= n; i++) {
        unsigned weight = 0;
        for (size_t k = 0; k < run; k++) {
            weight += char_weight((unsigned char)literal[i + k]);
        }
        if (weight < lowest) {
            lowest = weight;
            best = i;
        }
    }
    return best;
}

static void add_piece(struct filter *f, int index, size_t literal, size_t offset)
{
    struct piece *p = &f->pieces[index];
    uint32_t gram = load_folded(f->literals[literal] + offset), h = hash(gram);
    uint32_t bit = h >> (32 - BITS_LOG2);
    int *slot = &f->slots[h >> 8 & f->slot_mask];
    *p = (struct piece){gram, (uint32_t)literal, (uint16_t)offset, *slot};
    *slot = index;
    f->bits[bit / 64] |= (uint64_t)1 << (bit % 64);
}

struct filter *filter_build(struct arena *a, const char *const *literals, size_t n)
{
    struct filter *f = arena_alloc(a, sizeof *f);
    size_t shortest = FILTER_STRIDE_MAX + GRAM - 1, slots = 1024;
    f->literals = literals;
    f->lengths = arena_array(a, n + 1, sizeof *f->lengths);
    for (size_t i = 0; i < n; i++) {
        size_t length = strlen(literals[i]);
        f->lengths[i] = (uint16_t)length;
        shortest = length < shortest ? length : shortest;
    }
    f->stride = shortest - GRAM + 1;
    while (slots < 2 * n * f->stride && slots < 1 << 16) {
        slots *= 2;
    }
    f->slot_mask = (uint32_t)slots - 1;
    f->slots = arena_array(a, slots, sizeof *f->slots);
    memset(f->slots, 0xff, slots * sizeof *f->slots); // SLOT_EMPTY
    f->pieces = arena_array(a, n * f->stride + 1, sizeof *f->pieces);
    for (size_t i = 0; i < n; i++) {
        size_t run = rarest_run(literals[i], f->lengths[i], f->stride + GRAM - 1);
        for (size_t k = 0; k < f->stride; k++) {
            add_piece(f, (int)(i * f->stride + k), i, run + k);
        }
    }
    return f;
}

static unsigned char lower(char c)
{
    unsigned char u = (unsigned char)c;
    return u >= 'A' && u <= 'Z' ? (unsigned char)(u | 0x20) : u;
}

static bool same(const char *text, const char *literal, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (lower(text[i]) != lower(literal[i])) {
            return false;
        }
    }
    return true;
}

/* Whether the literal of this piece stands around text + at, inside [from, end). */
static bool stands(const struct filter *f, const struct piece *p, const char *text, size_t from,
                   size_t at, size_t end)
{
    size_t length = f->lengths[p->literal];
    return at - from >= p->offset && end - at >= length - p->offset &&
           same(text + at - p->offset, f->literals[p->literal], length);
}

size_t filter_find(const struct filter *f, const char *text, size_t from, size_t end)
{
    for (size_t at = from; at + GRAM <= end; at += f->stride) {
        uint32_t gram = load_folded(text + at), h = hash(gram);
        if (!bit_of(f, h)) {
            continue;
        }
        for (int i = f->slots[h >> 8 & f->slot_mask]; i != SLOT_EMPTY; i = f->pieces[i].next) {
            const struct piece *p = &f->pieces[i];
            if (p->gram == gram && stands(f, p, text, from, at, end)) {
                return at - p->offset;
            }
        }
    }
    return end;
}

void filter_all(const struct filter *f, const char *text, size_t n,
                void (*on_hit)(void *arg, size_t literal), void *arg)
{
    for (size_t at = 0; at + GRAM <= n; at += f->stride) {
        uint32_t gram = load_folded(text + at), h = hash(gram);
        if (!bit_of(f, h)) {
            continue;
        }
        for (int i = f->slots[h >> 8 & f->slot_mask]; i != SLOT_EMPTY; i = f->pieces[i].next) {
            const struct piece *p = &f->pieces[i];
            if (p->gram == gram && stands(f, p, text, 0, at, n)) {
                on_hit(arg, p->literal);
            }
        }
    }
}
