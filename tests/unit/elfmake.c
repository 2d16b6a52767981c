#include "elfmake.h"

#include <assert.h>
#include <elf.h>
#include <string.h>

#include "elf/image.h"

enum { ROOM = 1 << 15, PHDRS = 6 };

struct maker {
    const struct elfmake *spec;
    unsigned char *out;
    size_t n;
    size_t strtab, n_strings; // the string table grows in a buffer of its own
    char strings[4096];
};

static void put(struct maker *m, uint64_t value, size_t size)
{
    assert(m->n + size <= ROOM);
    for (size_t i = 0; i < size; i++) {
        size_t at = m->spec->big_endian ? size - 1 - i : i;
        m->out[m->n + at] = (unsigned char)(value >> (8 * i));
    }
    m->n += size;
}

static void word(struct maker *m, uint64_t value)
{
    put(m, value, m->spec->is32 ? 4 : 8);
}

static void bytes(struct maker *m, const void *data, size_t n)
{
    assert(m->n + n <= ROOM);
    if (n) {
        memcpy(m->out + m->n, data, n);
    }
    m->n += n;
}

static void align(struct maker *m, size_t to)
{
    while (m->n % to) {
        put(m, 0, 1);
    }
}

static uint32_t string(struct maker *m, const char *text)
{
    size_t n = strlen(text) + 1, at = m->n_strings;
    assert(at + n <= sizeof m->strings);
    memcpy(m->strings + at, text, n);
    m->n_strings += n;
    return (uint32_t)at;
}

static size_t count_symbols(const struct elfmake *s, bool undefined_only)
{
    size_t n = 0;
    while (n < ELFMAKE_LIST && s->symbols[n].name && !(undefined_only && s->symbols[n].defined)) {
        n++;
    }
    return n;
}

/* Version indices: 1 is the file itself, then one for each symbol that has a version. */
static uint16_t version_index(const struct elfmake *s, size_t symbol)
{
    return s->symbols[symbol].version ? (uint16_t)(2 + symbol) : 1;
}

struct tables {
    size_t symtab, hash, versym, verneed, n_verneed, verdef, n_verdef, rela, rela_size;
};

static void put_symbols(struct maker *m, struct tables *t)
{
    const struct elfmake *s = m->spec;
    align(m, 8);
    t->symtab = m->n;
    m->n += s->is32 ? sizeof(Elf32_Sym) : sizeof(Elf64_Sym);
    for (size_t i = 0; i < count_symbols(s, false); i++) {
        const struct elfmake_symbol *sym = &s->symbols[i];
        unsigned char info =
            sym->defined && s->info ? s->info : ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
        uint64_t value = sym->defined ? 0x40 : 0;
        put(m, string(m, sym->name), 4);
        if (s->is32) {
            put(m, value, 4), put(m, 8, 4), put(m, info, 1), put(m, 0, 1), put(m, sym->defined, 2);
        } else {
            put(m, info, 1), put(m, 0, 1), put(m, sym->defined, 2), put(m, value, 8), put(m, 8, 8);
        }
    }
    align(m, 2);
    t->versym = m->n;
    put(m, 0, 2);
    for (size_t i = 0; i < count_symbols(s, false); i++) {
        put(m, version_index(s, i), 2);
    }
}

/* One bucket holds all, so that a lookup has to walk its chain. */
static void put_hash(struct maker *m, struct tables *t)
{
    const struct elfmake *s = m->spec;
    size_t n = count_symbols(s, false) + 1, first = count_symbols(s, true) + 1;
    align(m, 8);
    t->hash = m->n;
    if (s->sysv_hash) {
        put(m, 1, 4), put(m, n, 4), put(m, n - 1, 4);
        for (size_t i = 0; i < n; i++) {
            put(m, i ? i - 1 : 0, 4);
        }
        return;
    }
    unsigned bits = s->is32 ? 32 : 64;
    uint64_t filter = 0;
    for (size_t i = first; i < n; i++) {
        uint32_t hash = elf_lookup_key(s->symbols[i - 1].name).gnu_hash;
        filter |= (uint64_t)1 << hash % bits | (uint64_t)1 << (hash >> 6) % bits;
    }
    put(m, 1, 4), put(m, first, 4), put(m, 1, 4), put(m, 6, 4);
    word(m, filter);
    put(m, first < n ? first : 0, 4);
    for (size_t i = first; i < n; i++) {
        uint32_t hash = elf_lookup_key(s->symbols[i - 1].name).gnu_hash;
        put(m, (hash & ~1u) | (i + 1 == n), 4);
    }
}

static void put_verneed(struct maker *m, struct tables *t)
{
    const struct elfmake *s = m->spec;
    size_t wanted = 0;
    for (size_t i = 0; i < count_symbols(s, true); i++) {
        wanted += s->symbols[i].version != NULL;
    }
    if (!wanted) {
        return;
    }
    align(m, 4);
    t->verneed = m->n, t->n_verneed = 1;
    put(m, 1, 2), put(m, wanted, 2), put(m, string(m, s->version_file), 4), put(m, 16, 4);
    put(m, 0, 4);
    for (size_t i = 0; i < count_symbols(s, true); i++) {
        const char *version = s->symbols[i].version;
        if (version) {
            put(m, elf_sysv_hash(version), 4), put(m, 0, 2);
            put(m, version_index(s, i), 2), put(m, string(m, version), 4);
            put(m, --wanted ? 16 : 0, 4);
        }
    }
}

static void put_verdef(struct maker *m, struct tables *t)
{
    const struct elfmake *s = m->spec;
    size_t left = 0;
    for (size_t i = count_symbols(s, true); i < count_symbols(s, false); i++) {
        left += s->symbols[i].version != NULL;
    }
    if (!left) {
        return;
    }
    align(m, 4);
    t->verdef = m->n, t->n_verdef = left;
    for (size_t i = count_symbols(s, true); i < count_symbols(s, false); i++) {
        const char *version = s->symbols[i].version;
        if (version) {
            put(m, 1, 2), put(m, 0, 2), put(m, version_index(s, i), 2), put(m, 1, 2);
            put(m, elf_sysv_hash(version), 4), put(m, 20, 4), put(m, --left ? 28 : 0, 4);
            put(m, string(m, version), 4), put(m, 0, 4);
        }
    }
}

/* One relocation for each undefined symbol. */
static void put_relocations(struct maker *m, struct tables *t)
{
    const struct elfmake *s = m->spec;
    align(m, 8);
    t->rela = m->n;
    for (size_t i = 0; i < count_symbols(s, true); i++) {
        word(m, 0x40);
        word(m, s->is32 ? (i + 1) << 8 | 6 : (uint64_t)(i + 1) << 32 | 6);
        word(m, 0);
    }
    t->rela_size = m->n - t->rela;
}

static void tag(struct maker *m, int64_t name, uint64_t value)
{
    word(m, (uint64_t)name), word(m, value);
}

static void put_dynamic(struct maker *m, const struct tables *t)
{
    const struct elfmake *s = m->spec;
    for (size_t i = 0; i < ELFMAKE_LIST && s->needs[i]; i++) {
        tag(m, DT_NEEDED, string(m, s->needs[i]));
    }
    const struct {
        int64_t tag;
        const char *text;
    } texts[] = {{DT_SONAME, s->soname}, {DT_RPATH, s->rpath}, {DT_RUNPATH, s->runpath}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (texts[i].text) {
            tag(m, texts[i].tag, string(m, texts[i].text));
        }
    }
    const struct {
        int64_t tag;
        uint64_t value;
    } numbers[] = {
        {DT_FLAGS_1, s->flags_1},
        {DT_SYMTAB, t->symtab},
        {DT_VERNEED, t->verneed},
        {DT_VERNEEDNUM, t->n_verneed},
        {DT_VERDEF, t->verdef},
        {DT_VERDEFNUM, t->n_verdef},
        {DT_RELA, t->rela_size ? t->rela : 0},
        {DT_RELASZ, t->rela_size},
        {s->sysv_hash ? DT_HASH : DT_GNU_HASH, t->hash},
        {DT_VERSYM, t->verneed || t->verdef ? t->versym : 0},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (numbers[i].value) {
            tag(m, numbers[i].tag, numbers[i].value);
        }
    }
    tag(m, DT_STRTAB, m->strtab);
    tag(m, DT_STRSZ, m->n_strings);
    tag(m, DT_NULL, 0);
}

static void segment(struct maker *m, uint32_t type, uint32_t flags, size_t offset, size_t size,
                    size_t alignment)
{
    put(m, type, 4);
    if (!m->spec->is32) {
        put(m, flags, 4);
    }
    word(m, offset), word(m, offset), word(m, offset), word(m, size), word(m, size);
    if (m->spec->is32) {
        put(m, flags, 4);
    }
    word(m, alignment);
}

struct span {
    size_t at, n;
};

static void put_headers(struct maker *m, struct span dynamic, struct span interp, struct span note)
{
    const struct elfmake *s = m->spec;
    size_t end = m->n;
    size_t ehsize = s->is32 ? sizeof(Elf32_Ehdr) : sizeof(Elf64_Ehdr);
    unsigned char ident[EI_NIDENT] = {0x7f,
                                      'E',
                                      'L',
                                      'F',
                                      s->is32 ? ELFCLASS32 : ELFCLASS64,
                                      s->big_endian ? ELFDATA2MSB : ELFDATA2LSB,
                                      EV_CURRENT};
    m->n = 0;
    bytes(m, ident, sizeof ident);
    put(m, s->type ? s->type : ET_DYN, 2), put(m, s->machine ? s->machine : EM_X86_64, 2);
    put(m, EV_CURRENT, 4), word(m, 0), word(m, ehsize), word(m, 0), put(m, 0, 4);
    put(m, ehsize, 2), put(m, s->is32 ? sizeof(Elf32_Phdr) : sizeof(Elf64_Phdr), 2);
    put(m, PHDRS, 2), put(m, 0, 6);
    segment(m, s->no_load ? PT_NULL : PT_LOAD, PF_R | PF_X, 0, end, 0x1000);
    segment(m, dynamic.n ? PT_DYNAMIC : PT_NULL, PF_R, dynamic.at, dynamic.n, 8);
    segment(m, s->interp ? PT_INTERP : PT_NULL, PF_R, interp.at, interp.n, 1);
    segment(m, s->note.s ? PT_NOTE : PT_NULL, PF_R, note.at, note.n, 4);
    segment(m, PT_GNU_STACK, PF_R | PF_W | (s->exec_stack ? PF_X : 0), 0, 0, 16);
    segment(m, PT_NULL, 0, 0, 0, 0);
    m->n = end;
}

struct str elfmake(struct arena *a, const struct elfmake *spec)
{
    struct maker *m = arena_alloc(a, sizeof *m);
    m->spec = spec;
    m->out = arena_alloc(a, ROOM);
    m->n_strings = 1;
    m->n = (spec->is32 ? sizeof(Elf32_Ehdr) + PHDRS * sizeof(Elf32_Phdr)
                       : sizeof(Elf64_Ehdr) + PHDRS * sizeof(Elf64_Phdr));
    struct span interp = {m->n, spec->interp ? strlen(spec->interp) + 1 : 0};
    bytes(m, spec->interp, interp.n);
    bytes(m, spec->constants.s, spec->constants.n);
    align(m, 8);
    struct span note = {m->n, 0};
    if (spec->note.s) {
        put(m, 4, 4), put(m, spec->note.n, 4), put(m, NOTE_DLOPEN, 4), bytes(m, "FDO", 4);
        bytes(m, spec->note.s, spec->note.n);
        align(m, 4);
        note.n = m->n - note.at;
    }
    struct tables t = {0};
    put_symbols(m, &t);
    put_hash(m, &t);
    put_verneed(m, &t);
    put_verdef(m, &t);
    put_relocations(m, &t);
    align(m, 8);
    struct span dynamic = {m->n, 0};
    put_dynamic(m, &t); // once for the strings and the size, then with the table's place
    dynamic.n = m->n - dynamic.at;
    m->strtab = m->n;
    size_t n_strings = m->n_strings;
    bytes(m, m->strings, n_strings);
    m->n = dynamic.at;
    m->n_strings = 1;
    struct tables again = {0};
    m->n = t.symtab; // the same bytes once more: strings are given out in the same order
    put_symbols(m, &again), put_hash(m, &again), put_verneed(m, &again), put_verdef(m, &again);
    put_relocations(m, &again);
    align(m, 8);
    put_dynamic(m, &again);
    m->n = m->strtab + n_strings;
    put_headers(m, dynamic, interp, note);
    return (struct str){(const char *)m->out, m->n};
}
