#include "ldso/cache.h"

#include <string.h>

enum { OLD_HEADER = 16, OLD_ENTRY = 12, NEW_HEADER = 48, NEW_ENTRY = 24 };

/* The cache is written in the byte order of its machine, and read only on that one. */
static uint32_t u32(const unsigned char *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static uint64_t u64(const unsigned char *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static const char *string_at(const struct ldso_cache *c, uint32_t offset)
{
    if (offset >= c->n_strings) {
        return NULL;
    }
    const char *s = (const char *)c->data + c->strings + offset;
    return memchr(s, 0, c->n_strings - offset) ? s : NULL;
}

/* Extension area: magic 0xeaa42174, count, then { tag, flags, offset, size } each; tag 1 is the
 * array of hwcaps names. Offsets count from the start of the file, even behind an old header. */
static void read_extension(struct ldso_cache *c, uint32_t offset)
{
    size_t base = offset;
    if (offset == 0 || (offset & 3) || base > c->size || c->size - base < 8 ||
        u32(c->data + base) != 0xeaa42174) {
        return;
    }
    uint32_t count = u32(c->data + base + 4);
    for (uint32_t i = 0; i < count && i < 64; i++) {
        size_t at = base + 8 + (size_t)i * 16;
        if (at > c->size || c->size - at < 16) {
            return;
        }
        uint32_t tag = u32(c->data + at), where = u32(c->data + at + 8),
                 size = u32(c->data + at + 12);
        if (tag != 1 || where > c->size || size > c->size - where) {
            continue;
        }
        c->hwcaps = c->data + where;
        c->n_hwcaps = size / 4;
    }
}

static bool parse_new(struct ldso_cache *c, size_t at)
{
    static const char magic[] = "glibc-ld.so.cache1.1";
    if (at > c->size || c->size - at < NEW_HEADER ||
        memcmp(c->data + at, magic, sizeof magic - 1) != 0) {
        return false;
    }
    uint32_t n = u32(c->data + at + 20);
    unsigned char order = c->data[at + 28] & 3;
    bool little = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
    if (order != 0 && order != (little ? 2 : 3)) {
        c->why_unused = "it was written for the other byte order";
        return true;
    }
    if (n > (c->size - at - NEW_HEADER) / NEW_ENTRY) {
        c->why_unused = "it is shorter than its own table";
        return true;
    }
    c->is_new = true;
    c->entries = at + NEW_HEADER;
    c->n = n;
    c->strings = at;
    c->n_strings = c->size - at;
    read_extension(c, u32(c->data + at + 32));
    return true;
}

void ldso_cache_parse(const void *data, size_t size, struct ldso_cache *ret)
{
    static const char old_magic[] = "ld.so-1.7.0";
    struct ldso_cache *c = ret;
    *c = (struct ldso_cache){.data = data, .size = size};
    if (size > UINT32_MAX) {
        c->why_unused = "it is larger than 4 GiB";
        return;
    }
    if (parse_new(c, 0)) {
        return;
    }
    if (size < OLD_HEADER || memcmp(data, old_magic, sizeof old_magic - 1) != 0) {
        c->why_unused = size < OLD_HEADER ? "it is too short" : "it has no known signature";
        return;
    }
    uint32_t n = u32(c->data + 12);
    if (n > (size - OLD_HEADER) / OLD_ENTRY) {
        c->why_unused = "it is shorter than its own table";
        return;
    }
    size_t end = OLD_HEADER + (size_t)n * OLD_ENTRY;
    if (parse_new(c, (end + 7) & ~(size_t)7)) {
        return;
    }
    c->entries = OLD_HEADER;
    c->n = n;
    c->strings = end;
    c->n_strings = size - end;
}

/* glibc's _dl_cache_libcmp: runs of digits compare as numbers. Overflow wraps, as there. */
static int cache_compare(const char *a, const char *b)
{
    while (*a) {
        bool digit_a = *a >= '0' && *a <= '9', digit_b = *b >= '0' && *b <= '9';
        if (*a == *b && !digit_a) {
            a++, b++;
        } else if (digit_a && digit_b) {
            uint32_t x = 0, y = 0;
            for (; *a >= '0' && *a <= '9'; a++) {
                x = x * 10 + (uint32_t)(*a - '0');
            }
            for (; *b >= '0' && *b <= '9'; b++) {
                y = y * 10 + (uint32_t)(*b - '0');
            }
            if (x != y) {
                return (int32_t)(x - y) < 0 ? -1 : 1;
            }
        } else if (digit_a || digit_b) {
            return digit_a ? 1 : -1;
        } else {
            return *a - *b;
        }
    }
    return *a - *b;
}

static const unsigned char *entry_at(const struct ldso_cache *c, uint32_t i)
{
    return c->data + c->entries + (size_t)i * (c->is_new ? NEW_ENTRY : OLD_ENTRY);
}

bool ldso_cache_entry(const struct ldso_cache *c, uint32_t i, const char **ret_name,
                      const char **ret_path)
{
    if (i >= c->n) {
        return false;
    }
    const char *name = string_at(c, u32(entry_at(c, i) + 4));
    const char *path = string_at(c, u32(entry_at(c, i) + 8));
    if (!name || !path) {
        return false;
    }
    *ret_name = name;
    *ret_path = path;
    return true;
}

static bool key_matches(const struct ldso_cache *c, uint32_t i, const char *name)
{
    const char *k = string_at(c, u32(entry_at(c, i) + 4));
    return k && cache_compare(name, k) == 0;
}

static bool flags_fit(const struct ldso_cache_key *key, uint32_t flags)
{
    for (uint32_t i = 0; i < key->n_flags; i++) {
        if (key->flags[i] == flags) {
            return true;
        }
    }
    return false;
}

/* Priority of a named-hwcaps entry: 1 is best, 0 is "not on this CPU". */
static size_t hwcaps_priority(const struct ldso_cache *c, const struct ldso_cache_key *key,
                              uint32_t index)
{
    uint32_t at = index < c->n_hwcaps ? u32(c->hwcaps + (size_t)index * 4) : 0;
    const char *name = at && at < c->size && memchr(c->data + at, 0, c->size - at)
                           ? (const char *)c->data + at
                           : NULL;
    for (size_t i = 0; name && i < key->n_hwcaps; i++) {
        if (strcmp(key->hwcaps[i], name) == 0) {
            return i + 1;
        }
    }
    return 0;
}

/* Whether an entry with these legacy hwcap bits serves. The folders of these names are not searched
 * any more since 2.37, but entries of the cache still served in 2.39; in 2.41 only entries without
 * such bits do (search_cache in elf/dl-cache.c). */
static bool legacy_fits(const struct ldso_cache_key *key, uint64_t hwcap)
{
    const uint64_t platforms = (uint64_t)15 << 48;
    if (key->glibc_minor >= 40) {
        return hwcap == 0;
    }
    return !(hwcap & ~(key->legacy_have | platforms)) &&
           (!(hwcap & platforms) || (hwcap & platforms) == key->legacy_platform);
}

/* What a named-hwcaps entry says of the file itself: the bit of the x86-64 level that it needs
 * (sysdeps/x86/dl-isa-level.h). */
static bool level_fits(const struct ldso_cache_key *key, uint64_t hwcap)
{
    return (hwcap >> 32 & 0x3ff) <= key->n_hwcaps;
}

/* The best of the entries with one key, which start at `i`. */
static const char *choose_entry(const struct ldso_cache *c, uint32_t i, const char *name,
                                const struct ldso_cache_key *key)
{
    const char *best = NULL;
    size_t best_priority = 0; // of a named-hwcaps entry
    for (; i < c->n && key_matches(c, i, name); i++) {
        const unsigned char *e = entry_at(c, i);
        const char *path = string_at(c, u32(e + 8));
        uint64_t hwcap = c->is_new ? u64(e + 16) : 0;
        if (!path || !flags_fit(key, u32(e))) {
            continue;
        }
        bool named = key->glibc_minor >= 33 && (hwcap >> 32 & 0xfffffc00u) == 1u << 30;
        if (named) {
            size_t priority = level_fits(key, hwcap) ? hwcaps_priority(c, key, (uint32_t)hwcap) : 0;
            if (priority && (best_priority == 0 || priority < best_priority)) {
                best = path;
                best_priority = priority;
            }
        } else if (legacy_fits(key, hwcap)) {
            if (!best) {
                best = path;
            }
            if (u32(e) == key->flags[0]) {
                break;
            }
        }
    }
    return best;
}

const char *ldso_cache_find(const struct ldso_cache *c, const char *name,
                            const struct ldso_cache_key *key)
{
    int64_t left = 0, right = (int64_t)c->n - 1;
    while (left <= right) { // the table descends
        int64_t middle = (left + right) / 2;
        const char *k = string_at(c, u32(entry_at(c, (uint32_t)middle) + 4));
        if (!k) {
            return NULL;
        }
        int order = cache_compare(name, k);
        if (order == 0) {
            while (middle > 0 && key_matches(c, (uint32_t)middle - 1, name)) {
                middle--;
            }
            return choose_entry(c, (uint32_t)middle, name, key);
        }
        if (order < 0) {
            left = middle + 1;
        } else {
            right = middle - 1;
        }
    }
    return NULL;
}
