/* One ELF image: elf/image.h, over files made in memory in both classes and byte orders. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "elf/image.h"
#include "elf/names.h"
#include "elfmake.h"

static struct arena arena;

static const struct elfmake full = {
    .interp = "/lib64/ld-linux-x86-64.so.2",
    .soname = "libfull.so.1",
    .rpath = "$ORIGIN/a",
    .runpath = "$ORIGIN/b:/c",
    .needs = {"libone.so.1", "libtwo.so.2"},
    .symbols = {{"wanted", "ONE_1.0", false},
                {"also_wanted", NULL, false},
                {"given", "FULL_1", true},
                {"given_too", "FULL_2", true},
                {"plain", NULL, true}},
    .version_file = "libone.so.1",
    .note = {"[{\"soname\":[\"libx.so.1\"]}]", 26},
};

/* The four kinds of file, with each kind of hash table. */
static struct elfmake variant(unsigned i)
{
    struct elfmake s = full;
    s.is32 = i & 1, s.big_endian = i & 2, s.sysv_hash = i & 4;
    s.machine = s.is32 ? (s.big_endian ? EM_PPC : EM_386) : s.big_endian ? EM_S390 : EM_X86_64;
    return s;
}
enum { VARIANTS = 8 };

static struct elf_image parse(struct str file)
{
    struct elf_image e;
    elf_image_parse(&arena, file.s, file.n, &e);
    return e;
}

static bool count_symbol(const struct elf_symbol *sym, void *arg)
{
    *(struct elf_symbol *)arg = *sym;
    return true;
}

static bool find(const struct elf_image *e, const char *name, struct elf_symbol *ret)
{
    struct elf_lookup_key key = elf_lookup_key(name);
    return elf_symbol_find(e, &key, count_symbol, ret);
}

static void see_note(const struct elf_note *note, void *arg)
{
    assert_int_equal(note->type, NOTE_DLOPEN);
    assert_true(str_is(note->owner, "FDO"));
    assert_true(str_eq(note->desc, full.note));
    ++*(size_t *)arg;
}

static void sum_relocation(const struct elf_relocation *r, void *arg)
{
    assert_false(r->lazy);
    *(uint32_t *)arg = *(uint32_t *)arg * 10 + r->symbol;
}

static void reads_one(const struct elf_image *e, const struct elfmake *s)
{
    assert_int_equal(e->state, ELF_STATE_OK);
    assert_null(e->defect);
    assert_int_equal(e->is64, !s->is32);
    assert_int_equal(e->big_endian, s->big_endian);
    assert_int_equal(e->machine, s->machine);
    assert_false(e->dynamic_bad || e->cut || e->segments_cut || e->stack_exec);
    assert_true(e->has_dynamic && e->stack_known);
    assert_string_equal(e->interp, s->interp);
    assert_string_equal(e->soname, s->soname);
    assert_string_equal(e->rpath, s->rpath);
    assert_string_equal(e->runpath, s->runpath);
    assert_int_equal(e->n_needs, 2);
    assert_string_equal(e->needs[0].name, "libone.so.1");
    assert_string_equal(e->needs[1].name, "libtwo.so.2");
    size_t notes = 0;
    elf_notes(e, see_note, &notes);
    assert_int_equal(notes, 1);
}

static void reads_versions(const struct elf_image *e)
{
    struct elf_versions v;
    elf_versions_read(&arena, e, &v);
    assert_false(v.damaged);
    assert_int_equal(v.n_needs, 1);
    assert_string_equal(v.needs[0].name, "ONE_1.0");
    assert_string_equal(v.needs[0].file, "libone.so.1");
    assert_int_equal(v.needs[0].hash, elf_sysv_hash("ONE_1.0"));
    assert_int_equal(v.n_defs, 2);
    assert_string_equal(v.defs[0].name, "FULL_1");
    assert_string_equal(v.defs[1].name, "FULL_2");
    struct elf_symbol given, wanted;
    assert_true(find(e, "given", &given));
    assert_int_equal(given.versym, v.defs[0].index);
    assert_true(elf_symbol_at(e, 1, &wanted));
    assert_int_equal(wanted.versym, v.needs[0].index);
}

static void reads_symbols(const struct elf_image *e, const struct elfmake *s)
{
    static const char *const defined[] = {"given", "given_too", "plain"};
    struct elf_symbol sym;
    for (size_t i = 0; i < 3; i++) {
        assert_true(find(e, defined[i], &sym));
        assert_string_equal(sym.name, defined[i]);
        assert_true(sym.value == 0x40 && sym.size == 8 && sym.shndx == 1);
        assert_true(sym.type == STT_FUNC && sym.bind == STB_GLOBAL);
    }
    assert_false(find(e, "given_", &sym));
    assert_false(find(e, "", &sym));
    /* DT_GNU_HASH holds what is defined; DT_HASH all symbols. */
    assert_int_equal(find(e, "wanted", &sym), s->sysv_hash);
    assert_int_equal(elf_symbol_undef_count(e), s->sysv_hash ? 6 : 3);
    assert_false(elf_symbol_at(e, UINT32_MAX, &sym));
    uint32_t relocations = 0;
    assert_true(elf_relocations(e, NULL, sum_relocation, &relocations));
    assert_int_equal(relocations, 12); // symbol 1, then symbol 2
}

static void reads_every_kind(void **state)
{
    (void)state;
    for (unsigned i = 0; i < VARIANTS; i++) {
        struct elfmake s = variant(i);
        struct elf_image e = parse(elfmake(&arena, &s));
        reads_one(&e, &s);
        reads_versions(&e);
        reads_symbols(&e, &s);
    }
}

/* ------------------------------------------------------------------ damage */

static void ignore_note(const struct elf_note *note, void *arg)
{
    *(size_t *)arg += note->desc.n;
}

static void ignore_relocation(const struct elf_relocation *r, void *arg)
{
    *(size_t *)arg += r->symbol + r->lazy;
}

/* Everything that can be asked of an image is asked. With AddressSanitizer or valgrind a read
 * behind the end of the copy is seen. */
static void ask_all(const struct elf_image *e)
{
    struct elf_versions v;
    elf_versions_read(&arena, e, &v);
    struct elf_symbol sym;
    size_t sum = 0;
    for (uint32_t i = 0; i < elf_symbol_undef_count(e) && i < 100; i++) {
        sum += elf_symbol_at(e, i, &sym);
    }
    sum += find(e, "given", &sym) + find(e, "malloc", &sym);
    sum += elf_relocations(e, NULL, ignore_relocation, &sum);
    elf_notes(e, ignore_note, &sum);
    for (size_t i = 0; i < e->n_needs; i++) {
        sum += strlen(e->needs[i].name);
    }
    assert_true(sum < SIZE_MAX);
}

/* Parses a copy of exactly n bytes. */
static enum elf_state parse_copy(const char *data, size_t n)
{
    unsigned char *copy = malloc(n ? n : 1);
    assert_non_null(copy);
    memcpy(copy, data, n);
    struct elf_image e;
    elf_image_parse(&arena, n ? copy : NULL, n, &e);
    ask_all(&e);
    free(copy);
    return e.state;
}

static void cut_at_every_byte(void **state)
{
    (void)state;
    for (unsigned i = 0; i < VARIANTS; i++) {
        struct elfmake s = variant(i);
        struct str file = elfmake(&arena, &s);
        size_t header = s.is32 ? sizeof(Elf32_Ehdr) : sizeof(Elf64_Ehdr);
        for (size_t n = 0; n < file.n; n++) {
            enum elf_state got = parse_copy(file.s, n);
            if (n < header) {
                assert_int_equal(got, ELF_STATE_TOO_SHORT);
            }
        }
        assert_int_equal(parse_copy(file.s, file.n), ELF_STATE_OK);
    }
}

/* A second PT_DYNAMIC in the place of another segment: only the last is read. */
static void two_dynamic_sections(void **state)
{
    (void)state;
    struct elfmake s = full;
    struct str file = elfmake(&arena, &s);
    Elf64_Ehdr head;
    memcpy(&head, file.s, sizeof head);
    char *table = (char *)(uintptr_t)file.s + head.e_phoff; // our own
    Elf64_Phdr dynamic = {0}, other;
    for (unsigned i = 0; i < head.e_phnum && dynamic.p_type != PT_DYNAMIC; i++) {
        memcpy(&dynamic, table + i * sizeof dynamic, sizeof dynamic);
    }
    unsigned replaced = 0;
    for (unsigned i = 0; i < head.e_phnum; i++) {
        memcpy(&other, table + i * sizeof other, sizeof other);
        if (other.p_type == PT_NOTE || other.p_type == PT_INTERP) {
            memcpy(table + i * sizeof dynamic, &dynamic, sizeof dynamic);
            replaced++;
        }
    }
    assert_true(replaced > 0);
    struct elf_image e = parse(file);
    assert_int_equal(e.state, ELF_STATE_OK);
    assert_int_equal(e.n_needs, 2);
    assert_string_equal(e.needs[0].name, "libone.so.1");
    assert_string_equal(e.needs[1].name, "libtwo.so.2");
}

struct held {
    struct elf_source source; // first
    struct str file;
    unsigned n_maps;
};

static bool read_held(struct elf_source *s, uint64_t offset, void *to, size_t n)
{
    const struct held *h = (const struct held *)s;
    assert_true(offset + n <= h->file.n);
    memcpy(to, h->file.s + offset, n);
    return true;
}

static const unsigned char *map_held(struct elf_source *s, size_t n)
{
    struct held *h = (struct held *)s;
    assert_true(n <= h->file.n);
    h->n_maps++;
    return (const unsigned char *)h->file.s;
}

/* Has the loader's name stand at the end of the file, as in libc.so.6. */
static void move_interp(struct str file, const char *interp)
{
    char *data = (char *)(uintptr_t)file.s; // our own
    Elf64_Ehdr header;
    memcpy(&header, data, sizeof header);
    for (size_t i = 0; i < header.e_phnum; i++) {
        char *at = data + header.e_phoff + i * sizeof(Elf64_Phdr);
        Elf64_Phdr segment;
        memcpy(&segment, at, sizeof segment);
        if (segment.p_type == PT_INTERP) {
            memset(data + segment.p_offset, 0, segment.p_filesz);
            segment.p_offset = file.n - segment.p_filesz;
            memcpy(data + segment.p_offset, interp, segment.p_filesz);
            memcpy(at, &segment, sizeof segment);
        }
    }
}

/* A file behind whose first bytes, read or mapped, much follows: mapped for who asks for it. */
static void by_its_first_bytes(void **state)
{
    (void)state;
    enum { BEHIND = 1 << 20, ROOM = 12288 };
    char long_text[3500];
    memset(long_text, 'x', sizeof long_text);
    long_text[sizeof long_text - 1] = '\0';
    for (unsigned i = 0; i < 2 * VARIANTS; i++) {
        bool is_small = i % 2; // the room
        struct elfmake s = variant(i / 2);
        s.runpath = long_text;
        struct str small = elfmake(&arena, &s);
        char *data = arena_alloc(&arena, small.n + BEHIND);
        memcpy(data, small.s, small.n);
        struct held h = {
            .source = {.read = read_held, .map = map_held, .room = is_small ? 4096 : ROOM},
            .file = {data, small.n + BEHIND}};
        h.source.head = arena_alloc(&arena, ROOM);
        if (parse(h.file).native) {
            move_interp(h.file, s.interp);
        }
        struct elf_image e, whole = parse(h.file);
        elf_image_parse_source(&arena, &h.source, h.file.n, &e);
        struct elf_symbol sym;
        assert_int_equal(e.state, ELF_STATE_OK);
        assert_string_equal(e.runpath, whole.runpath);
        assert_string_equal(e.interp, s.interp);
        assert_int_equal(e.n_needs, 2);
        assert_int_equal(elf_symbol_undef_count(&e), elf_symbol_undef_count(&whole));
        assert_true(find(&e, "given_too", &sym) && !find(&e, "malloc", &sym));
        assert_true(elf_inside(&e, h.file.n - 1, 1) && !elf_inside(&e, h.file.n, 1));
        assert_int_equal(h.n_maps, is_small);
        assert_true(e.near < h.file.n);
        assert_ptr_equal(elf_bytes(&e, h.file.n - 1, 1), data + h.file.n - 1);
        assert_int_equal(elf_whole(&e).n, h.file.n);
        assert_null(elf_bytes(&e, h.file.n, 1));
        assert_int_equal(h.n_maps, 1 + is_small);
    }
}

#define AT(is64, type, field)                                                                      \
    ((is64) ? offsetof(Elf64_##type, field) : offsetof(Elf32_##type, field))

static void put_number(unsigned char *at, uint64_t value, size_t n)
{
    memcpy(at, &value, n); // of a little-endian file
}

static void put_section(unsigned char *at, bool is64, uint32_t name, uint64_t offset, uint64_t size)
{
    put_number(at + AT(is64, Shdr, sh_name), name, 4);
    put_number(at + AT(is64, Shdr, sh_offset), offset, is64 ? 8 : 4);
    put_number(at + AT(is64, Shdr, sh_size), size, is64 ? 8 : 4);
}

/* Three headers behind that of the file: of no section, of a section, and of the names. */
static void sections_of_both_classes(void **state)
{
    (void)state;
    static const char names[] = "\0.sec\0.shstrtab";
    for (int is64 = 0; is64 < 2; is64++) {
        unsigned char file[512] = {0};
        size_t head = is64 ? sizeof(Elf64_Ehdr) : sizeof(Elf32_Ehdr);
        size_t each = is64 ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr), text = head + 3 * each;
        memcpy(file, ELFMAG, SELFMAG);
        file[EI_CLASS] = is64 ? ELFCLASS64 : ELFCLASS32;
        file[EI_DATA] = ELFDATA2LSB;
        file[EI_VERSION] = EV_CURRENT;
        put_number(file + AT(is64, Ehdr, e_type), ET_DYN, 2);
        put_number(file + AT(is64, Ehdr, e_machine), is64 ? EM_X86_64 : EM_386, 2);
        put_number(file + AT(is64, Ehdr, e_version), EV_CURRENT, 4);
        put_number(file + AT(is64, Ehdr, e_shoff), head, is64 ? 8 : 4);
        put_number(file + AT(is64, Ehdr, e_shentsize), each, 2);
        put_number(file + AT(is64, Ehdr, e_shnum), 3, 2);
        put_number(file + AT(is64, Ehdr, e_shstrndx), 2, 2);
        put_section(file + head + each, is64, 1, 7, 9);
        put_section(file + head + 2 * each, is64, 6, text, sizeof names);
        memcpy(file + text, names, sizeof names);

        struct elf_image e;
        uint64_t offset = 0, size = 0;
        elf_image_parse(&arena, file, sizeof file, &e);
        assert_true(elf_section(&e, ".sec", &offset, &size));
        assert_int_equal(offset, 7);
        assert_int_equal(size, 9);
        assert_false(elf_section(&e, ".other", &offset, &size));
    }
}

/* Each byte in turn becomes the values at which arithmetic goes wrong. */
static void spoilt_at_every_byte(void **state)
{
    (void)state;
    static const unsigned char values[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
    for (unsigned i = 0; i < VARIANTS; i++) {
        struct elfmake s = variant(i);
        struct str file = elfmake(&arena, &s);
        char *data = (char *)(uintptr_t)file.s; // our own
        for (size_t at = 0; at < file.n; at++) {
            char old = data[at];
            for (size_t k = 0; k < sizeof values; k++) {
                data[at] = (char)values[k];
                (void)parse_copy(data, file.n); // only that it ends matters here
            }
            data[at] = old;
        }
        arena_release(&arena);
        arena_init(&arena, 0, NULL, NULL);
    }
}

static void store(struct str file, size_t at, uint64_t value, size_t n)
{
    memcpy((char *)(uintptr_t)file.s + at, &value, n); // x86-64 files are little-endian
}

/* Offsets of fields of a 64-bit little-endian file, values that lie outside, and what is said. */
static void wild_headers(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t at, n;
        uint64_t value;
        enum elf_state state;
        bool cut, dynamic_bad;
    } cases[] = {
        {"e_phoff behind the end", 32, 8, 1 << 20, ELF_STATE_BAD, false, false},
        {"e_phoff that wraps", 32, 8, UINT64_MAX - 8, ELF_STATE_BAD, false, false},
        {"e_phnum", 56, 2, 0xffff, ELF_STATE_BAD, false, false},
        {"no program headers", 56, 2, 0, ELF_STATE_BAD, false, false},
        {"e_phentsize", 54, 2, 8, ELF_STATE_BAD, false, false},
        {"p_filesz of PT_LOAD", 64 + 32, 8, UINT64_MAX, ELF_STATE_OK, true, false},
        {"p_offset of PT_LOAD", 64 + 8, 8, UINT64_MAX - 4, ELF_STATE_OK, true, true},
        {"p_vaddr of PT_DYNAMIC", 64 + 56 + 16, 8, UINT64_MAX - 64, ELF_STATE_OK, false, false},
        {"PT_LOAD is none", 64, 4, PT_NULL, ELF_STATE_BAD, false, true},
        {"magic", 0, 4, 0x464c457e, ELF_STATE_NOT_ELF, false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct str file = elfmake(&arena, &full);
        store(file, cases[i].at, cases[i].value, cases[i].n);
        struct elf_image e = parse(file);
        ask_all(&e);
        if (e.state != cases[i].state || e.cut != cases[i].cut ||
            e.dynamic_bad != cases[i].dynamic_bad ||
            (e.state == ELF_STATE_BAD || e.dynamic_bad) != (e.defect != NULL)) {
            fail_msg("%s: state %d, cut %d, dynamic_bad %d (%s)", cases[i].name, e.state, e.cut,
                     e.dynamic_bad, e.defect ? e.defect : "no defect");
        }
    }
}

/* A dynamic tag whose value points outside is told, and the others are still read. */
static void wild_dynamic_tags(void **state)
{
    (void)state;
    static const struct {
        int64_t tag;
        bool dynamic_bad;
    } cases[] = {{DT_NEEDED, true}, {DT_SONAME, true},    {DT_RUNPATH, true},  {DT_SYMTAB, false},
                 {DT_STRTAB, true}, {DT_GNU_HASH, false}, {DT_VERNEED, false}, {DT_RELASZ, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct str file = elfmake(&arena, &full);
        struct elf_image before = parse(file);
        uint64_t offset = before.segments[1].offset, tag = UINT64_MAX;
        for (; tag != (uint64_t)cases[i].tag && tag; offset += 16) {
            memcpy(&tag, file.s + offset, sizeof tag);
        }
        assert_int_equal(tag, cases[i].tag);
        store(file, offset - 8, 0x7fffffffffff, 8);
        struct elf_image e = parse(file);
        ask_all(&e);
        if (e.dynamic_bad != cases[i].dynamic_bad) {
            fail_msg("tag %lld: dynamic_bad %d", (long long)cases[i].tag, e.dynamic_bad);
        }
    }
}

static void no_loadable_segment(void **state)
{
    (void)state;
    struct elfmake s = {.no_load = true};
    struct elf_image e = parse(elfmake(&arena, &s));
    assert_int_equal(e.state, ELF_STATE_BAD);
    assert_non_null(strstr(e.defect, "PT_LOAD"));
    s.type = ET_REL; // an object file has none
    e = parse(elfmake(&arena, &s));
    assert_int_equal(e.state, ELF_STATE_OK);
}

static void what_is_no_elf(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t n;
        enum elf_state state;
    } cases[] = {
        {"", 0, ELF_STATE_TOO_SHORT},
        {"\x7f"
         "EL",
         3, ELF_STATE_TOO_SHORT},
        {"\x7f"
         "ELF",
         4, ELF_STATE_TOO_SHORT},
        {"#!/b", 4, ELF_STATE_NOT_ELF},
        {"INPUT(libx.so.1)    \n", 21, ELF_STATE_NOT_ELF},
        {"\x7f"
         "ELF\2\1\1\0\0\0\0\0\0\0\0\0",
         16, ELF_STATE_TOO_SHORT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(parse_copy(cases[i].bytes, cases[i].n), cases[i].state);
    }
}

enum { LONG = 400, LONG_WALKS = 1000 };

/* A library all of whose symbols are in one chain of DT_GNU_HASH; their values are their numbers.
 */
static struct str one_chain(void)
{
    enum {
        DYNAMIC_AT = 0x100,
        STRINGS_AT = 0x200,
        NAME = 8,
        SYMBOLS_AT = 0x2000,
        HASH_AT = 0x6000
    };
    static unsigned char file[0x8000];
    const Elf64_Ehdr head = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                             .e_type = ET_DYN,
                             .e_machine = EM_X86_64,
                             .e_version = EV_CURRENT,
                             .e_phoff = sizeof head,
                             .e_ehsize = sizeof head,
                             .e_phentsize = sizeof(Elf64_Phdr),
                             .e_phnum = 2};
    const Elf64_Dyn dynamic[] = {
        {DT_STRTAB, {STRINGS_AT}}, {DT_STRSZ, {(LONG + 1) * NAME}},
        {DT_SYMTAB, {SYMBOLS_AT}}, {DT_SYMENT, {sizeof(Elf64_Sym)}},
        {DT_GNU_HASH, {HASH_AT}},  {DT_NULL, {0}},
    };
    const Elf64_Phdr segments[] = {
        {.p_type = PT_LOAD, .p_filesz = sizeof file, .p_memsz = sizeof file, .p_align = 0x1000},
        {.p_type = PT_DYNAMIC,
         .p_offset = DYNAMIC_AT,
         .p_vaddr = DYNAMIC_AT,
         .p_filesz = sizeof dynamic,
         .p_memsz = sizeof dynamic}};
    const uint32_t hash[] = {1, 1, 1, 6, 0xffffffff, 0xffffffff, 1}; // the filter lets all through
    memcpy(file, &head, sizeof head);
    memcpy(file + sizeof head, segments, sizeof segments);
    memcpy(file + DYNAMIC_AT, dynamic, sizeof dynamic);
    memcpy(file + HASH_AT, hash, sizeof hash);
    for (unsigned i = 1; i <= LONG; i++) {
        char *name = (char *)file + STRINGS_AT + (size_t)i * NAME;
        assert_true(snprintf(name, NAME, "f%u", i) < NAME);
        const Elf64_Sym symbol = {.st_name = i * NAME,
                                  .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                                  .st_shndx = 1,
                                  .st_value = i};
        uint32_t chain = (elf_lookup_key(name).gnu_hash & ~1u) | (i == LONG);
        memcpy(file + SYMBOLS_AT + i * sizeof symbol, &symbol, sizeof symbol);
        memcpy(file + HASH_AT + sizeof hash + (i - 1) * sizeof chain, &chain, sizeof chain);
    }
    return (struct str){(const char *)file, sizeof file};
}

/* A long chain that is walked again and again gets an index; it finds what the walk finds. */
static void long_chains(void **state)
{
    (void)state;
    struct elf_image e = parse(one_chain());
    for (unsigned walk = 0; walk < LONG_WALKS; walk++) {
        unsigned number = 1 + walk * 7 % LONG;
        struct elf_symbol found = {0};
        assert_true(find(&e, arena_printf(&arena, "f%u", number), &found));
        assert_int_equal(found.value, number);
        assert_false(find(&e, arena_printf(&arena, "g%u", number), &found));
    }
    assert_non_null(e.names->first); // the index was used
}

static void stack_and_machines(void **state)
{
    (void)state;
    struct elfmake s = {.exec_stack = true, .machine = EM_AARCH64};
    struct elf_image e = parse(elfmake(&arena, &s));
    assert_true(e.stack_known && e.stack_exec);
    assert_string_equal(elf_machine_name(&arena, e.machine), "aarch64");
    assert_string_equal(elf_machine_name(&arena, EM_X86_64), "x86-64");
    assert_string_equal(elf_machine_name(&arena, 60000), "machine 60000");
}

static int start(void **state)
{
    (void)state;
    arena_init(&arena, 0, NULL, NULL);
    return 0;
}

static int finish(void **state)
{
    (void)state;
    arena_release(&arena);
    return 0;
}

/* A property of an x86 note whose padding is cut off is the last one, whatever stands behind it. */
static void property_without_padding(void **state)
{
    (void)state;
    static const uint32_t properties[] = {GNU_PROPERTY_X86_ISA_1_NEEDED, 4, 3, 0,
                                          GNU_PROPERTY_STACK_SIZE,       4, 0, 0,
                                          GNU_PROPERTY_X86_ISA_1_NEEDED, 4, 8};
    const uint32_t type = NT_GNU_PROPERTY_TYPE_0, size = 7 * sizeof *properties;
    struct elfmake s = {.machine = EM_X86_64,
                        .note = {(const char *)properties, sizeof properties}};
    struct str file = elfmake(&arena, &s);
    char *owner = memmem((char *)file.s, file.n, "FDO", 4);
    assert_non_null(owner);
    memcpy(owner, "GNU", 4);
    memcpy(owner - 4, &type, sizeof type);
    memcpy(owner - 8, &size, sizeof size);
    assert_int_equal(parse(file).x86_isa_needed, 3);
}

/* A DT_HASH table that is walked often gets an index, which answers as the chains do. */
static void finds_by_the_index(void **state)
{
    (void)state;
    for (unsigned i = 0; i < VARIANTS / 2; i++) {
        struct elfmake s = variant(i | 4);
        struct str file = elfmake(&arena, &s);
        struct elf_image e = parse(file);
        struct elf_symbol sym;
        assert_non_null(e.names);
        for (uint32_t k = 0; k < 10 * LONG_WALKS && !e.names->first; k++) {
            assert_true(find(&e, "given_too", &sym));
        }
        assert_non_null(e.names->first);
        reads_symbols(&e, &s);
    }
}

/* A table with DT_HASH counts as undefined as a whole: a thread-local symbol in it may be used. */
static void thread_locals(void **state)
{
    (void)state;
    for (unsigned i = 0; i < VARIANTS; i++) {
        struct elfmake s = variant(i);
        struct elf_image plain = parse(elfmake(&arena, &s));
        s.info = ELF64_ST_INFO(STB_GLOBAL, STT_TLS);
        struct elf_image with = parse(elfmake(&arena, &s));
        assert_false(elf_may_use_tls(&plain));
        assert_int_equal(elf_may_use_tls(&with), s.sysv_hash);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thread_locals),
        cmocka_unit_test(reads_every_kind),
        cmocka_unit_test(cut_at_every_byte),
        cmocka_unit_test(by_its_first_bytes),
        cmocka_unit_test(two_dynamic_sections),
        cmocka_unit_test(spoilt_at_every_byte),
        cmocka_unit_test(wild_headers),
        cmocka_unit_test(wild_dynamic_tags),
        cmocka_unit_test(sections_of_both_classes),
        cmocka_unit_test(no_loadable_segment),
        cmocka_unit_test(what_is_no_elf),
        cmocka_unit_test(stack_and_machines),
        cmocka_unit_test(long_chains),
        cmocka_unit_test(finds_by_the_index),
        cmocka_unit_test(property_without_padding),
    };
    return cmocka_run_group_tests(tests, start, finish);
}
