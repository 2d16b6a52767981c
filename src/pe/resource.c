#include <string.h>

#include "pe/image.h"

/* A resource is at the third level of directories: type, name, language. Each is a header of 16
 * bytes (12: entries with a name, 14: with a number) and entries of 8 (identifier; offset, whose
 * high bit stands for a directory), the data a record of 16 (RVA, size). */
enum { RT_VERSION = 16, RT_MANIFEST = 24, DIRECTORY = 16, ENTRY = 8, ENTRIES_MAX = 4096 };
enum { VERSION_BLOCKS_MAX = 4096, VERSION_DEPTH_MAX = 4, FIXED_INFO = 52 };

struct span {
    const unsigned char *s;
    size_t n;
};

/* The offset of the entry with this number, or of the first one (0); 0: there is none. */
static uint32_t resource_entry(const struct pe_image *e, uint32_t base, uint32_t directory,
                               uint32_t id)
{
    const unsigned char *p = pe_at(e, (uint64_t)base + directory, DIRECTORY);
    size_t n = p ? (size_t)pe_u16(p + 12) + pe_u16(p + 14) : 0;
    n = n < ENTRIES_MAX ? n : ENTRIES_MAX;
    for (size_t i = 0; i < n; i++) {
        const unsigned char *row =
            pe_at(e, (uint64_t)base + directory + DIRECTORY + i * ENTRY, ENTRY);
        if (!row) {
            return 0;
        }
        if (!id || pe_u32(row) == id) {
            return pe_u32(row + 4);
        }
    }
    return 0;
}

static struct span resource_numbered(const struct pe_image *e, uint32_t type, uint32_t id)
{
    const uint32_t folder = 0x80000000u;
    uint32_t base = e->state == PE_STATE_OK ? e->directories[PE_DIR_RESOURCE].rva : 0;
    uint32_t name = base ? resource_entry(e, base, 0, type) : 0;
    uint32_t language = name & folder ? resource_entry(e, base, name & ~folder, id) : 0;
    uint32_t leaf = language & folder ? resource_entry(e, base, language & ~folder, 0) : 0;
    const unsigned char *p = leaf && !(leaf & folder) ? pe_at(e, (uint64_t)base + leaf, 16) : NULL;
    const unsigned char *data = p ? pe_at(e, pe_u32(p), pe_u32(p + 4)) : NULL;
    return (struct span){data, data ? pe_u32(p + 4) : 0};
}

static struct span resource_of(const struct pe_image *e, uint32_t type)
{
    return resource_numbered(e, type, 0);
}

/* ------------------------------------------------------------------ version information */

/* One block: u16 its length, u16 length of the value, u16 1 for a text; a key in UTF-16 with its
 * NUL; the value and the blocks inside it, each from a multiple of four bytes. */
struct block {
    struct span key, value, inside;
    size_t length;
};

static size_t rounded(size_t n)
{
    return (n + 3) & ~(size_t)3;
}

static bool block_at(struct span all, size_t at, struct block *ret)
{
    if (at > all.n || all.n - at < 6) {
        return false;
    }
    const unsigned char *p = all.s + at;
    size_t length = pe_u16(p), key = 6;
    if (length < 6 || length > all.n - at) {
        return false;
    }
    while (key + 2 <= length && pe_u16(p + key)) {
        key += 2;
    }
    size_t value = rounded(key + 2);
    size_t n = (size_t)pe_u16(p + 2) * (pe_u16(p + 4) == 1 ? 2 : 1);
    value = value < length ? value : length;
    n = n < length - value ? n : length - value;
    size_t inside = rounded(value + n) < length ? rounded(value + n) : length;
    *ret = (struct block){{p + 6, key - 6}, {p + value, n}, {p + inside, length - inside}, length};
    return true;
}

struct pe_version pe_version_read(const struct pe_image *e)
{
    struct pe_version v = {0};
    struct block b;
    if (!block_at(resource_of(e, RT_VERSION), 0, &b) || b.value.n < FIXED_INFO ||
        pe_u32(b.value.s) != 0xFEEF04BDu) {
        return v;
    }
    v.found = true;
    for (int i = 0; i < 4; i++) { // the high half of each double word first
        size_t at = 8 + (size_t)(i / 2) * 4 + (i % 2 ? 0 : 2);
        v.file[i] = pe_u16(b.value.s + at);
        v.product[i] = pe_u16(b.value.s + at + 8);
    }
    return v;
}

static bool key_is(struct span key, const char *text)
{
    size_t n = strlen(text);
    if (key.n != 2 * n) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (pe_u16(key.s + 2 * i) != (unsigned char)text[i]) {
            return false;
        }
    }
    return true;
}

/* The value of the first block with this key, in the order of the file. */
static bool find_text(struct span all, const char *key, unsigned depth, size_t *budget,
                      struct span *ret)
{
    struct block b;
    for (size_t at = 0; *budget && block_at(all, at, &b); at += rounded(b.length)) {
        (*budget)--;
        if (depth == VERSION_DEPTH_MAX - 1 && key_is(b.key, key)) {
            *ret = b.value;
            return true;
        }
        if (depth + 1 < VERSION_DEPTH_MAX && find_text(b.inside, key, depth + 1, budget, ret)) {
            return true;
        }
    }
    return false;
}

const char *pe_version_text(struct arena *a, const struct pe_image *e, const char *key)
{
    struct span found;
    size_t budget = VERSION_BLOCKS_MAX;
    /* VS_VERSION_INFO, StringFileInfo, the language, the text. */
    if (!find_text(resource_of(e, RT_VERSION), key, 0, &budget, &found)) {
        return NULL;
    }
    size_t n = 0;
    while (n + 1 < found.n / 2 + 1 && pe_u16(found.s + 2 * n)) {
        n++;
    }
    return pe_utf8(a, found.s, n);
}

struct str pe_manifest(const struct pe_image *e)
{
    struct span s = resource_of(e, RT_MANIFEST);
    return (struct str){(const char *)s.s, s.n};
}

struct str pe_manifest_numbered(const struct pe_image *e, uint32_t id)
{
    struct span s = resource_numbered(e, RT_MANIFEST, id);
    return (struct str){(const char *)s.s, s.n};
}
