#include "pemake.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "pe/image.h"

enum {
    HEADERS = 0x400,
    TABLES = 0x3000,
    TABLES_RVA = 0x1000,
    APISET_RVA = 0x10000,
    APISET = 0x1000,
    PAYLOAD_RVA = 0x20000
};

struct maker {
    unsigned char *s; // of the section
    size_t at, room;
};

static void put16(unsigned char *p, uint32_t v)
{
    p[0] = (unsigned char)v;
    p[1] = (unsigned char)(v >> 8);
}

static void put32(unsigned char *p, uint32_t v)
{
    put16(p, v);
    put16(p + 2, v >> 16);
}

/* Room for n bytes; returns its offset in the section. */
static uint32_t take_room(struct maker *m, size_t n)
{
    m->at = (m->at + 3) & ~(size_t)3;
    uint32_t at = (uint32_t)m->at;
    m->at += n;
    assert(m->at <= m->room);
    return at;
}

static uint32_t put_text(struct maker *m, const char *text)
{
    uint32_t at = take_room(m, strlen(text) + 1);
    memcpy(m->s + at, text, strlen(text) + 1);
    return TABLES_RVA + at;
}

static uint32_t put_wide(struct maker *m, const char *text, bool terminated)
{
    uint32_t at = take_room(m, 2 * (strlen(text) + terminated));
    for (size_t i = 0; text[i]; i++) {
        put16(m->s + at + 2 * i, (unsigned char)text[i]);
    }
    return at;
}

static uint32_t put_thunks(struct maker *m, const struct pemake *spec,
                           const struct pemake_import *import)
{
    size_t n = 0, step = spec->is32 ? 4 : 8;
    while (n < PEMAKE_LIST && import->symbols[n]) {
        n++;
    }
    uint32_t at = take_room(m, (n + 1) * step);
    for (size_t i = 0; i < n; i++) {
        unsigned char *p = m->s + at + i * step;
        if (import->symbols[i][0] == '#') {
            put32(p, (uint32_t)atoi(import->symbols[i] + 1));
            p[step - 1] = 0x80;
        } else {
            uint32_t hint = take_room(m, 2 + strlen(import->symbols[i]) + 1);
            memcpy(m->s + hint + 2, import->symbols[i], strlen(import->symbols[i]));
            put32(p, TABLES_RVA + hint);
        }
    }
    return TABLES_RVA + at;
}

static uint32_t put_imports(struct maker *m, const struct pemake *spec, bool delayed)
{
    size_t n = 0, row = delayed ? 32 : 20;
    for (size_t i = 0; i < PEMAKE_LIST; i++) {
        n += spec->imports[i].dll && spec->imports[i].delayed == delayed;
    }
    if (!n) {
        return 0;
    }
    uint32_t table = take_room(m, (n + 1) * row), at = table;
    for (size_t i = 0; i < PEMAKE_LIST; i++) {
        const struct pemake_import *import = &spec->imports[i];
        if (!import->dll || import->delayed != delayed) {
            continue;
        }
        uint32_t dll = put_text(m, import->dll), names = put_thunks(m, spec, import);
        uint32_t functions = put_thunks(m, spec, import);
        put32(m->s + at, delayed ? 1 : names);
        put32(m->s + at + (delayed ? 4 : 12), dll);
        put32(m->s + at + (delayed ? 12 : 16), functions);
        if (delayed) {
            put32(m->s + at + 16, names);
        }
        at += (uint32_t)row;
    }
    return TABLES_RVA + table;
}

static uint32_t put_exports(struct maker *m, const struct pemake *spec, uint32_t *ret_size)
{
    uint32_t n = 0;
    while (n < PEMAKE_LIST && spec->exports[n].name) {
        n++;
    }
    if (!n) {
        return 0;
    }
    uint32_t at = take_room(m, 40), functions = take_room(m, 4 * n), names = take_room(m, 4 * n),
             places = take_room(m, 2 * n);
    put32(m->s + at + 16, 1);
    put32(m->s + at + 20, n);
    put32(m->s + at + 24, n);
    put32(m->s + at + 28, TABLES_RVA + functions);
    put32(m->s + at + 32, TABLES_RVA + names);
    put32(m->s + at + 36, TABLES_RVA + places);
    for (uint32_t i = 0; i < n; i++) {
        const struct pemake_export *x = &spec->exports[i];
        put32(m->s + names + 4 * i, put_text(m, x->name));
        put16(m->s + places + 2 * i, i);
        put32(m->s + functions + 4 * i, x->forwarder ? put_text(m, x->forwarder) : 0x800000);
    }
    *ret_size = (uint32_t)m->at - at;
    return TABLES_RVA + at;
}

static uint32_t put_load_config(struct maker *m, const struct pemake *spec)
{
    uint32_t size = spec->is_arm64x ? 208 : 112;
    uint32_t at = take_room(m, size);
    put32(m->s + at, size);
    if (spec->is_arm64x) {
        put32(m->s + at + 200, 0x80001000); // CHPEMetadataPointer: some address
    }
    put16(m->s + at + (spec->is32 ? 54 : 78), spec->dependent_load_flags);
    return TABLES_RVA + at;
}

/* One block of version information; `inside` puts what lies in it. */
static void put_block(struct maker *m, const char *key, uint32_t value_length, bool is_text,
                      uint32_t at, uint32_t length)
{
    put16(m->s + at, length);
    put16(m->s + at + 2, value_length);
    put16(m->s + at + 4, is_text);
    for (size_t i = 0; key[i]; i++) {
        put16(m->s + at + 6 + 2 * i, (unsigned char)key[i]);
    }
}

static uint32_t put_version(struct maker *m, const struct pemake *spec, uint32_t *ret_size)
{
    /* 6 + 2 * 16 = 38, rounded 40: the fixed part; 92: StringFileInfo (6 + 2 * 15 = 36); 128: the
     * language (6 + 2 * 9 = 24); 152: the text (6 + 2 * 15 = 36, its value at 36). */
    const char *text = spec->product_version ? spec->product_version : "";
    uint32_t n = (uint32_t)strlen(text) + 1, end = 152 + 36 + 2 * n, at = take_room(m, end);
    put_block(m, "VS_VERSION_INFO", 52, false, at, end);
    put32(m->s + at + 40, 0xFEEF04BD);
    for (size_t i = 0; i < 4; i++) {
        size_t place = at + 48 + (i / 2) * 4 + (i % 2 ? 0 : 2);
        put16(m->s + place, spec->file_version[i]);
        put16(m->s + place + 8, spec->file_version[i]);
    }
    put_block(m, "StringFileInfo", 0, true, at + 92, end - 92);
    put_block(m, "040904b0", 0, true, at + 128, end - 128);
    put_block(m, "ProductVersion", n, true, at + 152, end - 152);
    for (size_t i = 0; text[i]; i++) {
        put16(m->s + at + 152 + 36 + 2 * i, (unsigned char)text[i]);
    }
    *ret_size = end;
    return TABLES_RVA + at;
}

/* Two types, each with one name, one language and one leaf. */
static uint32_t put_resources(struct maker *m, const struct pemake *spec)
{
    uint32_t base = take_room(m, 32), version_size = 0;
    uint32_t data[2] = {0, 0}, size[2] = {0, 0};
    data[0] = put_version(m, spec, &version_size);
    size[0] = version_size;
    data[1] = put_text(m, spec->manifest ? spec->manifest : "");
    size[1] = spec->manifest ? (uint32_t)strlen(spec->manifest) : 0;
    put16(m->s + base + 14, 2);
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t name = take_room(m, 24), language = take_room(m, 24), leaf = take_room(m, 16);
        put32(m->s + base + 16 + 8 * i, i ? 24 : 16);
        put32(m->s + base + 20 + 8 * i, 0x80000000u | (name - base));
        put16(m->s + name + 14, 1);
        put32(m->s + name + 16, 1);
        put32(m->s + name + 20, 0x80000000u | (language - base));
        put16(m->s + language + 14, 1);
        put32(m->s + language + 16, 1033);
        put32(m->s + language + 20, leaf - base);
        put32(m->s + leaf, data[i]);
        put32(m->s + leaf + 4, size[i]);
    }
    return TABLES_RVA + base;
}

static void put_apisets(struct maker *m, const struct pemake *spec)
{
    uint32_t n = 0;
    while (n < PEMAKE_LIST && spec->apisets[n].contract) {
        n++;
    }
    uint32_t head = take_room(m, 28), entries = take_room(m, 24 * (size_t)n);
    put32(m->s + head, spec->apiset_version ? spec->apiset_version : 6);
    put32(m->s + head + 12, n);
    put32(m->s + head + 16, entries);
    for (uint32_t i = 0; i < n; i++) {
        const char *name = spec->apisets[i].contract, *host = spec->apisets[i].host;
        uint32_t at = entries + 24 * i, value = take_room(m, 20);
        put32(m->s + at + 4, put_wide(m, name, false));
        put32(m->s + at + 8, 2 * (uint32_t)strlen(name));
        put32(m->s + at + 12, 2 * (uint32_t)(strrchr(name, '-') - name));
        put32(m->s + at + 16, value);
        put32(m->s + at + 20, 1);
        put32(m->s + value + 12, put_wide(m, host, false));
        put32(m->s + value + 16, 2 * (uint32_t)strlen(host));
    }
    put32(m->s + head + 4, (uint32_t)m->at);
}

static void put_section(unsigned char *p, const char *name, uint32_t rva, uint32_t offset,
                        uint32_t size)
{
    memcpy(p, name, strnlen(name, 8));
    put32(p + 8, size);
    put32(p + 12, rva);
    put32(p + 16, size);
    put32(p + 20, offset);
    put32(p + 36, 0x40000040);
}

struct str pemake(struct arena *a, const struct pemake *spec)
{
    bool schema = spec->apisets[0].contract || spec->apiset_version;
    size_t size = HEADERS + TABLES + (schema ? APISET : 0) + spec->payload.n;
    unsigned char *file = arena_alloc(a, size), *pe = file + 0x80, *optional = pe + 24;
    struct maker m = {.s = file + HEADERS, .room = TABLES};
    memcpy(file, "MZ", 2);
    put32(file + 60, 0x80);
    memcpy(pe, "PE\0\0", 4);
    put16(pe + 4, spec->machine ? spec->machine : spec->is32 ? PE_MACHINE_I386 : PE_MACHINE_AMD64);
    uint32_t first = spec->is32 ? 96 : 112, n_sections = 1;
    put16(pe + 20, first + 8 * 16);
    put16(pe + 22, 0x2022);
    put16(optional, spec->is32 ? 0x10b : 0x20b);
    put32(optional + 32, 0x1000); // section alignment
    put32(optional + 36, 0x200);  // file alignment
    put32(optional + 56, PAYLOAD_RVA + 0x1000);
    put32(optional + 60, HEADERS);
    put16(optional + 68, 2);
    put32(optional + first - 4, 16);
    unsigned char *dirs = optional + first, *sections = dirs + 8 * 16;
    uint32_t export_size = 0;
    take_room(&m, 4);
    put32(dirs + 8 * PE_DIR_IMPORT, put_imports(&m, spec, false));
    put32(dirs + 8 * PE_DIR_IMPORT + 4, 20);
    put32(dirs + 8 * PE_DIR_DELAY_IMPORT, put_imports(&m, spec, true));
    put32(dirs + 8 * PE_DIR_EXPORT, put_exports(&m, spec, &export_size));
    put32(dirs + 8 * PE_DIR_EXPORT + 4, export_size);
    if (spec->dependent_load_flags || spec->is_arm64x) {
        put32(dirs + 8 * PE_DIR_LOAD_CONFIG, put_load_config(&m, spec));
        put32(dirs + 8 * PE_DIR_LOAD_CONFIG + 4, 112);
    }
    if (spec->file_version[0] || spec->manifest) {
        put32(dirs + 8 * PE_DIR_RESOURCE, put_resources(&m, spec));
    }
    put_section(sections, ".rdata", TABLES_RVA, HEADERS, TABLES);
    uint32_t end = HEADERS + TABLES;
    if (schema) {
        struct maker more = {.s = file + end, .room = APISET};
        put_apisets(&more, spec);
        put_section(sections + 40 * n_sections++, ".apiset", APISET_RVA, end, APISET);
        end += APISET;
    }
    if (spec->section) {
        memcpy(file + end, spec->payload.s, spec->payload.n);
        put_section(sections + 40 * n_sections++, spec->section, PAYLOAD_RVA, end,
                    (uint32_t)spec->payload.n);
    }
    put16(pe + 6, n_sections);
    return (struct str){(const char *)file, size};
}
