/*
 * Which parts of an ELF file are kept: headers, tables and sections that a reader may ask for,
 * before the rest has been seen.
 */
#include <elf.h>
#include <zstd.h>

#include "base/str.h"
#include "elf/image.h"
#include "image/stream.h"

enum {
    WHOLE_MAX = 4 << 20,      // of a library of which a version is read out of code or data
    CONSTANTS_MAX = 16 << 20, // ... out of data alone
    NUMBERS_MAX = 16,
    DYNAMIC_MAX = 64 << 10,
};

void image_stream_want(struct stream *s, uint64_t from, uint64_t n, bool more)
{
    if (n && from < s->size && s->n_wanted < RANGES_MAX) {
        uint64_t room = s->size - from;
        s->wanted[s->n_wanted++] = (struct wanted){from, from + (n < room ? n : room), more};
    }
}

bool image_is_text_name(const char *path)
{
    static const char *const globs[] = {
        "*.dist-info/METADATA",
        "*.dist-info/RECORD",
        "*.dist-info/WHEEL",
        "*.dist-info/INSTALLER",
        "*.dist-info/top_level.txt",
        "*.egg-info/PKG-INFO",
        "*.pth",
        "*/pyvenv.cfg",
        "*/site.py",
        "*/sitecustomize.py",
        "*/version.py",
        "*/os-release",
        "*etc/ld.so.c*",
        "*etc/passwd",
        "*etc/group",
    };
    for (size_t i = 0; i < sizeof globs / sizeof *globs; i++) {
        if (str_glob(globs[i], path)) {
            return true;
        }
    }
    return false;
}

/* Libraries and extension modules in whose data, or code, something is searched. */
enum {
    SEARCH_CONSTANTS = 1,
    SEARCH_NUMBERS = 2,
    SEARCH_ALL = 4,
    SEARCH_SELDOM = 8,
};

static const struct {
    const char *glob;
    unsigned what;
} searched[] = {
    {"ld-*.so*", SEARCH_ALL}, // the folders and the version it was built with: ldso/loader.c
    {"libnvrtc*.so*", SEARCH_CONSTANTS},                  // its version: kb/libver.c
    {"libcudnn*.so*", SEARCH_NUMBERS | SEARCH_ALL},       // the same
    {"*.cpython-*.so", SEARCH_CONSTANTS | SEARCH_SELDOM}, // numpy's: model/gpu.c
    {"*.abi3.so", SEARCH_CONSTANTS | SEARCH_SELDOM},
    {"libtorch_python.so", SEARCH_CONSTANTS | SEARCH_SELDOM},
};

static unsigned search_of(const char *path)
{
    unsigned what = 0;
    for (size_t i = 0; i < sizeof searched / sizeof *searched; i++) {
        what |= str_glob(searched[i].glob, path_base(path)) ? searched[i].what : 0;
    }
    return what;
}

/* Constant data end where the table for unwinding begins (GNU ld, gold and lld: .rodata,
 * .eh_frame_hdr), and begin with their segment or behind its code. */
static void want_constants(struct stream *s, const struct elf_segment *table)
{
    for (size_t i = 0; i < s->image.n_segments; i++) {
        const struct elf_segment *g = &s->image.segments[i];
        if (g->type == PT_LOAD && g->offset <= table->offset &&
            table->offset - g->offset < g->filesz) {
            uint64_t n = table->offset - g->offset;
            n = n < CONSTANTS_MAX ? n : CONSTANTS_MAX;
            image_stream_want(s, table->offset - n, n, s->search & SEARCH_SELDOM);
        }
    }
}

static void want_searched(struct stream *s)
{
    if (s->search & SEARCH_ALL && s->size <= WHOLE_MAX) {
        image_stream_want(s, 0, s->size, false);
    }
    for (size_t i = 0; s->search & SEARCH_CONSTANTS && i < s->image.n_segments; i++) {
        if (s->image.segments[i].type == PT_GNU_EH_FRAME) {
            want_constants(s, &s->image.segments[i]);
        }
    }
}

/* patchelf moves tables into segments that it appends, the dynamic section among them or not: they
 * lie behind the data that the linker made read-only. */
static void want_appended(struct stream *s)
{
    uint64_t linked = UINT64_MAX;
    for (size_t i = 0; i < s->image.n_segments; i++) {
        linked = s->image.segments[i].type == PT_GNU_RELRO ? s->image.segments[i].offset : linked;
    }
    for (size_t i = 0; i < s->image.n_segments; i++) {
        const struct elf_segment *g = &s->image.segments[i];
        if (g->type == PT_LOAD && g->offset > linked && g->filesz <= TABLE_MAX) {
            image_stream_want(s, g->offset, g->filesz, false);
        }
    }
}

/* The section headers and, before them where linkers put it, the table of their names. */
static void want_sections(struct stream *s)
{
    enum { NAMES = 4 << 10 };
    const struct elf_image *e = &s->image;
    const unsigned char *p = elf_bytes(e, 0, e->is64 ? sizeof(Elf64_Ehdr) : sizeof(Elf32_Ehdr));
    if (p) {
        uint64_t at = e->is64 ? elf_u64(e, p + 40) : elf_u32(e, p + 32);
        uint64_t before = at < NAMES ? at : NAMES;
        const unsigned char *tail = p + (e->is64 ? 58 : 46); // e_shentsize, e_shnum
        image_stream_want(s, at - before,
                          before + (uint64_t)elf_u16(e, tail) * elf_u16(e, tail + 2), false);
    }
}

/* The program headers, where they do not follow the file's own. */
static void want_segments(struct stream *s)
{
    const struct elf_image *e = &s->image;
    const unsigned char *p = elf_bytes(e, 0, e->is64 ? sizeof(Elf64_Ehdr) : sizeof(Elf32_Ehdr));
    if (p) {
        uint64_t at = e->is64 ? elf_u64(e, p + 32) : elf_u32(e, p + 28);
        image_stream_want(s, at, (uint64_t)e->phentsize * elf_u16(e, p + (e->is64 ? 56 : 44)),
                          false);
    }
}

void image_want_headers(struct stream *s, const char *path)
{
    image_stream_want(s, 0, 1, false);
    want_sections(s);
    want_segments(s);
    for (size_t i = 0; i < s->image.n_segments; i++) {
        const struct elf_segment *segment = &s->image.segments[i];
        uint64_t n = segment->filesz < DYNAMIC_MAX ? segment->filesz : DYNAMIC_MAX;
        if (segment->type == PT_DYNAMIC) {
            s->dynamic_at = segment->offset;
            (void)elf_offset_of(&s->image, segment->vaddr, &s->dynamic_at); // else as it says
            s->dynamic_size = (size_t)n;
            image_stream_want(s, s->dynamic_at, n, false);
        } else if (segment->type == PT_INTERP || segment->type == PT_NOTE) {
            image_stream_want(s, segment->offset, n, false);
        }
    }
    want_appended(s);
    s->search = search_of(path);
    want_searched(s);
}

/* A table of the dynamic linker, by the tag with its address. */
struct table {
    int64_t address, size; // tags; size 0: up to the next table
    uint64_t at, n;
};

static uint64_t tag_value(const struct stream *s, int64_t wanted)
{
    const struct elf_image *e = &s->image;
    size_t each = e->is64 ? 16 : 8;
    uint64_t value = 0;
    for (size_t at = 0; at + each <= s->n_dynamic; at += each) {
        const unsigned char *p = s->dynamic + at;
        int64_t tag = e->is64 ? (int64_t)elf_u64(e, p) : (int64_t)(int32_t)elf_u32(e, p);
        if (tag == DT_NULL) {
            break;
        }
        if (tag == wanted) {
            value = e->is64 ? elf_u64(e, p + 8) : elf_u32(e, p + 4); // the last one counts
        }
    }
    return value;
}

/* Where the next table begins. */
static uint64_t next_start(const struct table *tables, size_t n, uint64_t at)
{
    uint64_t next = at + TABLE_MAX;
    for (size_t i = 0; i < n; i++) {
        if (tables[i].at > at && tables[i].at < next) {
            next = tables[i].at;
        }
    }
    return next;
}

/* Numbers of 4 bytes that a library exports may say its version. Symbols: `n` bytes at `at`. */
static void want_numbers(struct stream *s, uint64_t at, uint64_t n)
{
    size_t each = s->image.is64 ? sizeof(Elf64_Sym) : sizeof(Elf32_Sym), found = 0;
    struct elf_image head = s->image;
    head.size = s->head;
    for (uint64_t i = 0; i < n / each && found < NUMBERS_MAX; i++) {
        const unsigned char *p = elf_bytes(&head, at + i * each, each);
        if (!p) {
            return;
        }
        unsigned type = p[head.is64 ? 4 : 12] & 15,
                 shndx = elf_u16(&head, p + (head.is64 ? 6 : 14));
        uint64_t value = head.is64 ? elf_u64(&head, p + 8) : elf_u32(&head, p + 4);
        uint64_t size = head.is64 ? elf_u64(&head, p + 16) : elf_u32(&head, p + 8);
        if (type == STT_OBJECT && shndx != SHN_UNDEF && size == 4 &&
            elf_offset_of(&head, value, &value)) {
            image_stream_want(s, value, size, false);
            found++;
        }
    }
}

void image_want_tables(struct stream *s)
{
    struct table tables[] = {
        {DT_STRTAB, DT_STRSZ, 0, 0},    {DT_SYMTAB, 0, 0, 0},       {DT_HASH, 0, 0, 0},
        {DT_GNU_HASH, 0, 0, 0},         {DT_VERSYM, 0, 0, 0},       {DT_VERNEED, 0, 0, 0},
        {DT_VERDEF, 0, 0, 0},           {DT_RELA, DT_RELASZ, 0, 0}, {DT_REL, DT_RELSZ, 0, 0},
        {DT_JMPREL, DT_PLTRELSZ, 0, 0},
    };
    enum { N = sizeof tables / sizeof *tables, UNSIZED = 4 << 20 };
    for (size_t i = 0; i < N; i++) {
        uint64_t address = tag_value(s, tables[i].address);
        if (!address || !elf_offset_of(&s->image, address, &tables[i].at)) {
            tables[i].at = 0;
        }
        tables[i].n = tables[i].size ? tag_value(s, tables[i].size) : 0;
    }
    uint64_t relative = tag_value(s, DT_RELACOUNT) * (s->image.is64 ? 24 : 12);
    for (size_t i = 0; i < N; i++) {
        struct table *t = &tables[i];
        uint64_t room = next_start(tables, N, t->at) - t->at;
        uint64_t n = t->size ? t->n : room < TABLE_MAX ? room : UNSIZED;
        uint64_t skip = t->address == DT_RELA && relative < n ? relative : 0; // without symbols
        if (t->at) {
            image_stream_want(s, t->at + skip, (n < TABLE_MAX ? n : TABLE_MAX) - skip, false);
        }
        if (t->at && t->address == DT_SYMTAB && s->search & SEARCH_NUMBERS) {
            want_numbers(s, t->at, n);
        }
    }
}
