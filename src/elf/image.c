#include "elf/image.h"

#include <endian.h>
#include <limits.h>
#include <string.h>

#include "elf/names.h"
#include "elf/tables.h"

/* Entries between a table's beginning and the end of so many bytes. */
static uint32_t entries_to(uint64_t end, uint64_t begin, size_t entry)
{
    uint64_t n = begin && begin < end ? (end - begin) / entry : 0;
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

static struct elf_table table_at(const struct elf_image *e, uint64_t offset, size_t entry)
{
    struct elf_table t = {.n_near = entries_to(e->near, offset, entry),
                          .n = entries_to(e->size, offset, entry)};
    t.near = t.n_near ? e->data + offset : NULL;
    return t;
}

static struct elf_segment segment_at(const struct elf_image *e, const unsigned char *p)
{
    if (e->is64) {
        return (struct elf_segment){elf_u32(e, p),      elf_u32(e, p + 4),  elf_u64(e, p + 8),
                                    elf_u64(e, p + 16), elf_u64(e, p + 32), elf_u64(e, p + 40),
                                    elf_u64(e, p + 48)};
    }
    return (struct elf_segment){elf_u32(e, p),     elf_u32(e, p + 24), elf_u32(e, p + 4),
                                elf_u32(e, p + 8), elf_u32(e, p + 16), elf_u32(e, p + 20),
                                elf_u32(e, p + 28)};
}

static void read_segments(struct arena *a, struct elf_image *e, uint64_t phoff, uint16_t phnum)
{
    uint16_t size = e->is64 ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr);
    if (phnum == 0) {
        return;
    }
    if (e->phentsize != size) {
        e->state = ELF_STATE_BAD;
        e->defect = "program headers of an unexpected size";
        return;
    }
    const unsigned char *p = elf_bytes(e, phoff, (uint64_t)size * phnum);
    if (!p) {
        e->segments_cut = true;
        e->state = ELF_STATE_BAD;
        e->defect = "the program headers lie behind the end of the file";
        return;
    }
    struct elf_segment *segments = arena_array(a, phnum, sizeof *segments);
    for (uint16_t i = 0; i < phnum; i++) {
        segments[i] = segment_at(e, p + (size_t)size * i);
    }
    e->segments = segments;
    e->n_segments = phnum;
}

/* GNU_PROPERTY_X86_ISA_1_NEEDED inside a NT_GNU_PROPERTY_TYPE_0 note; layout: Linux Extensions to
 * gABI, "Program Property". */
static void read_property_note(const struct elf_note *note, void *arg)
{
    struct elf_image *e = arg;
    if (note->type != NT_GNU_PROPERTY_TYPE_0 || !str_is(note->owner, "GNU")) {
        return;
    }
    size_t align = e->is64 ? 8 : 4;
    for (size_t at = 0; note->desc.n - at >= 8;) {
        const unsigned char *p = (const unsigned char *)note->desc.s + at;
        uint32_t type = elf_u32(e, p), size = elf_u32(e, p + 4);
        if (size > note->desc.n - at - 8) {
            return;
        }
        if (type == GNU_PROPERTY_X86_ISA_1_NEEDED && size == 4) {
            e->x86_isa_needed = elf_u32(e, p + 8);
        }
        size_t step = 8 + ((size + align - 1) & ~(align - 1));
        if (step > note->desc.n - at) {
            return;
        }
        at += step;
    }
}

static void read_tls(struct elf_image *e, const struct elf_segment *s)
{
    if (s->memsz) {
        e->tls.size = s->memsz;
        e->tls.align = s->align ? s->align : 1;
        e->tls.first = s->vaddr & (e->tls.align - 1);
    }
}

static void read_segment_facts(struct elf_image *e)
{
    bool loads = false;
    for (size_t i = 0; i < e->n_segments; i++) {
        const struct elf_segment *s = &e->segments[i];
        loads |= s->type == PT_LOAD;
        if (s->type == PT_GNU_STACK) {
            e->stack_known = true;
            e->stack_exec = (s->flags & PF_X) != 0;
        } else if (s->type == PT_TLS) {
            read_tls(e, s); // the last one counts
        } else if (s->type == PT_LOAD && s->filesz && !elf_inside(e, s->offset, s->filesz)) {
            e->cut = true;
        }
    }
    if (!e->stack_known) {
        e->stack_exec = true;
    }
    if (!loads && e->state == ELF_STATE_OK && (e->type == ET_EXEC || e->type == ET_DYN)) {
        e->state = ELF_STATE_BAD;
        e->defect = "no segment of the file is to be loaded (PT_LOAD)";
    }
    if (e->machine == EM_X86_64 || e->machine == EM_386) {
        e->notes_cut = !elf_notes(e, read_property_note, e);
    }
}

/* What the dynamic section says, still as addresses and string offsets. */
struct dynamic {
    uint64_t strtab, strsz, symtab, hash, gnu_hash, versym, verneed, n_verneed, verdef, n_verdef;
    uint64_t rela, rela_size, rel, rel_size, jmprel, jmprel_size, relacount, relcount;
    uint64_t soname, rpath, runpath;
    bool has_soname, has_rpath, has_runpath, jmprel_is_rela;
};

static void read_dynamic_tag(struct elf_image *e, struct dynamic *d, int64_t tag, uint64_t value)
{
    switch (tag) {
    case DT_STRTAB: d->strtab = value; break;
    case DT_STRSZ: d->strsz = value; break;
    case DT_SYMTAB: d->symtab = value; break;
    case DT_HASH: d->hash = value; break;
    case DT_GNU_HASH: d->gnu_hash = value; break;
    case DT_VERSYM: d->versym = value; break;
    case DT_VERNEED: d->verneed = value; break;
    case DT_VERNEEDNUM: d->n_verneed = value; break;
    case DT_VERDEF: d->verdef = value; break;
    case DT_VERDEFNUM: d->n_verdef = value; break;
    case DT_RELA: d->rela = value; break;
    case DT_RELASZ: d->rela_size = value; break;
    case DT_REL: d->rel = value; break;
    case DT_RELSZ: d->rel_size = value; break;
    case DT_JMPREL: d->jmprel = value; break;
    case DT_PLTRELSZ: d->jmprel_size = value; break;
    case DT_PLTREL: d->jmprel_is_rela = value == DT_RELA; break;
    case DT_RELACOUNT: d->relacount = value; break;
    case DT_RELCOUNT: d->relcount = value; break;
    case DT_SONAME: d->soname = value, d->has_soname = true; break;
    case DT_RPATH: d->rpath = value, d->has_rpath = true; break;
    case DT_RUNPATH: d->runpath = value, d->has_runpath = true; break;
    case DT_FLAGS: e->flags = value; break;
    case DT_FLAGS_1: e->flags_1 = value; break;
    case DT_BIND_NOW: e->bind_now = true; break;
    case DT_SYMBOLIC: e->symbolic = true; break;
    case 36: e->has_relr = true; break; // DT_RELR (gABI 2022), absent from older <elf.h>
    default: break;
    }
}

static uint64_t table(const struct elf_image *e, uint64_t vaddr)
{
    uint64_t offset = 0;
    return vaddr && elf_offset_of(e, vaddr, &offset) ? offset : 0;
}

/*
 * DT_GNU_HASH: nbuckets, symoffset, bloom_size, bloom_shift (4 bytes each), then bloom_size
 * words of the class, nbuckets bucket heads, and one chain word for each hashed symbol whose low
 * bit ends the chain.
 */
static void read_gnu_hash(struct elf_image *e)
{
    const unsigned char *h = e->gnu_hash ? elf_bytes(e, e->gnu_hash, 16) : NULL;
    if (!h) {
        return;
    }
    uint32_t nbuckets = elf_u32(e, h), bloom_size = elf_u32(e, h + 8);
    uint64_t word_size = e->is64 ? 8 : 4, bloom_at = e->gnu_hash + 16;
    uint64_t buckets_at = bloom_at + bloom_size * word_size;
    const unsigned char *bloom = elf_bytes(e, bloom_at, bloom_size * word_size);
    const unsigned char *buckets = elf_bytes(e, buckets_at, (uint64_t)nbuckets * 4);
    if (!bloom || !buckets || nbuckets == 0 || bloom_size == 0 || (bloom_size & (bloom_size - 1))) {
        return;
    }
    e->gnu.bloom = bloom;
    e->gnu.buckets = buckets;
    e->gnu.chains_at = buckets_at + (uint64_t)nbuckets * 4;
    e->gnu.chains = table_at(e, e->gnu.chains_at, 4);
    e->gnu.nbuckets = nbuckets;
    e->gnu.symoffset = elf_u32(e, h + 4);
    e->gnu.bloom_mask = bloom_size - 1;
    uint32_t shift = elf_u32(e, h + 12);
    e->gnu.shift = shift < 32 ? shift : 32;
}

static void place_tables(struct elf_image *e, const struct dynamic *d)
{
    e->strtab = table(e, d->strtab);
    e->strtab_size = d->strsz;
    if (e->strtab && e->strtab < e->size && d->strsz > e->size - e->strtab) {
        e->strtab_size = e->size - e->strtab;
    }
    e->symtab = table(e, d->symtab);
    e->hash = table(e, d->hash);
    e->gnu_hash = table(e, d->gnu_hash);
    e->versym = table(e, d->versym);
    e->verneed = table(e, d->verneed);
    e->n_verneed = d->n_verneed;
    e->verdef = table(e, d->verdef);
    e->n_verdef = d->n_verdef;
    e->rel_is_rela = d->rela != 0;
    e->rel = table(e, d->rela ? d->rela : d->rel);
    e->rel_size = d->rela ? d->rela_size : d->rel_size;
    e->n_rel_relative = d->rela ? d->relacount : d->relcount;
    e->jmprel = table(e, d->jmprel);
    e->jmprel_size = d->jmprel_size;
    e->jmprel_is_rela = d->jmprel_is_rela;
    e->bind_now |= (e->flags & DF_BIND_NOW) || (e->flags_1 & DF_1_NOW);
    e->symbolic |= (e->flags & DF_SYMBOLIC) != 0;
}

enum { FIRST_READ = 4096, VERSIONS_ROOM = 512, MAP_ROOM = 2048 };

static bool read_first(struct elf_image *e)
{
    struct elf_source *s = e->source;
    size_t n = e->size < FIRST_READ ? e->size : FIRST_READ;
    if (n > s->room || !s->read(s, 0, s->head, n)) {
        return false;
    }
    e->data = s->head;
    e->near = n;
    return true;
}

/* Where the tables of symbols end, as linkers lay them out: the versions, small, come last. */
static uint64_t tables_end(const struct elf_image *e)
{
    const uint64_t begins[] = {e->symtab, e->gnu_hash, e->hash, e->versym, e->verneed, e->verdef};
    uint64_t end = e->strtab + e->strtab_size;
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
        end = begins[i] > end ? begins[i] : end;
    }
    return end + VERSIONS_ROOM < e->size ? end + VERSIONS_ROOM : e->size;
}

/* Brings the tables of symbols near: reads on if they stand in the first bytes, else everything is
 * looked at in the mapping. */
static void fetch_tables(struct elf_image *e)
{
    struct elf_source *s = e->source;
    uint64_t end = tables_end(e);
    if (!s || end <= e->near) {
        return;
    }
    if (e->data == s->head && end <= s->room &&
        s->read(s, e->near, s->head + e->near, (size_t)end - e->near)) {
        e->near = (size_t)end;
        return;
    }
    end += MAP_ROOM; // costs nothing there
    const unsigned char *p =
        end < e->size && !s->asked ? s->map(s, (size_t)end) : elf_far_bytes(e, 0);
    if (p) {
        e->data = p;
        e->near = p == s->whole ? e->size : (size_t)end;
    }
}

static void look_into_tables(struct elf_image *e)
{
    fetch_tables(e);
    const unsigned char *p =
        e->strtab && e->strtab_size ? elf_bytes(e, e->strtab, e->strtab_size) : NULL;
    e->strings = p && p[e->strtab_size - 1] == '\0' ? (const char *)p : NULL;
    e->symbols = table_at(e, e->symtab, symbol_size(e));
    e->versyms = table_at(e, e->versym, 2);
    read_gnu_hash(e);
}

static bool is_need_tag(int64_t tag)
{
    return tag == DT_NEEDED || tag == DT_AUXILIARY || tag == DT_FILTER;
}

static int64_t dynamic_tag(const struct elf_image *e, const unsigned char *p)
{
    return e->is64 ? (int64_t)elf_u64(e, p) : (int64_t)(int32_t)elf_u32(e, p);
}

enum { READ_MAX = 2048, FAR = 32 << 10 };

/* Bytes that are looked at once and stand far behind all else that is, in a file of some size: read
 * if that can be done, since the kernel maps and unmaps a dozen pages for a single touch. */
static const unsigned char *bytes_for_once(const struct elf_image *e, uint64_t offset,
                                           uint64_t size, unsigned char buffer[READ_MAX])
{
    bool is_far = e->source && (offset >= e->near || offset > FAR) && elf_inside(e, offset, size) &&
                  size <= READ_MAX;
    return is_far && e->source->read(e->source, offset, buffer, (size_t)size)
               ? buffer
               : elf_bytes(e, offset, size);
}

static void read_interp(struct arena *a, struct elf_image *e)
{
    unsigned char buffer[READ_MAX];
    for (size_t i = 0; i < e->n_segments && !e->interp; i++) {
        const struct elf_segment *s = &e->segments[i];
        uint64_t size = s->filesz < PATH_MAX ? s->filesz : PATH_MAX;
        const unsigned char *p =
            s->type == PT_INTERP ? bytes_for_once(e, s->offset, size, buffer) : NULL;
        if (p && memchr(p, 0, size)) {
            const char *text = (const char *)p;
            e->interp = p == buffer ? arena_strdup(a, text) : text;
        }
    }
}

static void read_dynamic(struct arena *a, struct elf_image *e, const struct elf_segment *s)
{
    unsigned char buffer[READ_MAX];
    size_t entry = e->is64 ? 16 : 8;
    uint64_t offset = s->offset;
    /* The loader reads through the mapped address; p_offset of PT_DYNAMIC itself is not used. */
    (void)elf_offset_of(e, s->vaddr, &offset);
    uint64_t room = offset < e->size ? e->size - offset : 0;
    size_t count = (size_t)((s->memsz < room ? s->memsz : room) / entry);
    const unsigned char *p = bytes_for_once(e, offset, (uint64_t)count * entry, buffer);
    struct dynamic d = {0};
    size_t n = 0, n_needs = 0;
    for (; p && n < count; n++) {
        int64_t tag = dynamic_tag(e, p + n * entry);
        if (tag == DT_NULL) {
            break;
        }
        n_needs += is_need_tag(tag);
        read_dynamic_tag(e, &d, tag, image_word(e, p + n * entry + entry / 2));
    }
    if (!p || n == 0) {
        e->dynamic_bad = true;
        e->defect = "the dynamic section lies behind the end of the file";
        return;
    }
    place_tables(e, &d);
    if (e->hash || e->gnu_hash) {
        e->names = arena_alloc(a, sizeof *e->names);
        e->names->arena = a;
    }
    look_into_tables(e);
    struct elf_need *needs = arena_array(a, n_needs, sizeof *needs);
    for (size_t i = 0; i < n; i++) {
        int64_t tag = dynamic_tag(e, p + i * entry);
        const char *name =
            is_need_tag(tag) ? elf_string(e, image_word(e, p + i * entry + entry / 2)) : NULL;
        if (name) {
            needs[e->n_needs++] = (struct elf_need){tag, name};
        } else if (is_need_tag(tag)) {
            e->dynamic_bad = true;
        }
    }
    e->needs = needs;
    e->soname = d.has_soname ? elf_string(e, d.soname) : NULL;
    e->rpath = d.has_rpath ? elf_string(e, d.rpath) : NULL;
    e->runpath = d.has_runpath ? elf_string(e, d.runpath) : NULL;
    e->dynamic_bad |= (d.has_soname && !e->soname) || (d.has_rpath && !e->rpath) ||
                      (d.has_runpath && !e->runpath);
    if (e->dynamic_bad) {
        e->defect = "strings of the dynamic section lie outside the file";
    }
}

static void image_parse(struct arena *a, struct elf_image *e)
{
    const unsigned char *p = elf_bytes(e, 0, EI_NIDENT);
    if (!p) {
        p = elf_bytes(e, 0, SELFMAG);
        e->state = p && memcmp(p, ELFMAG, SELFMAG) != 0 ? ELF_STATE_NOT_ELF : ELF_STATE_TOO_SHORT;
        return;
    }
    memcpy(e->ident, p, EI_NIDENT);
    if (memcmp(p, ELFMAG, SELFMAG) != 0) {
        e->state = ELF_STATE_NOT_ELF;
        return;
    }
    e->is64 = p[EI_CLASS] == ELFCLASS64;
    e->big_endian = p[EI_DATA] == ELFDATA2MSB;
    e->native = e->is64 && e->big_endian == (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
    p = elf_bytes(e, 0, e->is64 ? sizeof(Elf64_Ehdr) : sizeof(Elf32_Ehdr));
    if (!p) {
        e->state = ELF_STATE_TOO_SHORT;
        return;
    }
    e->type = elf_u16(e, p + 16);
    e->machine = elf_u16(e, p + 18);
    e->version = elf_u32(e, p + 20);
    e->phentsize = elf_u16(e, p + (e->is64 ? 54 : 42));
    read_segments(a, e, e->is64 ? elf_u64(e, p + 32) : elf_u32(e, p + 28),
                  elf_u16(e, p + (e->is64 ? 56 : 44)));
    read_segment_facts(e);
    const struct elf_segment *dynamic = NULL;
    for (size_t i = 0; i < e->n_segments; i++) {
        dynamic = e->segments[i].type == PT_DYNAMIC ? &e->segments[i] : dynamic;
    }
    e->has_dynamic = dynamic != NULL;
    if (dynamic) {
        read_dynamic(a, e, dynamic); // the last one counts, as in the loader
    }
    read_interp(a, e); // last: the bytes may come from elsewhere now
}

void elf_image_parse(struct arena *a, const void *data, size_t size, struct elf_image *ret)
{
    *ret = (struct elf_image){.data = data, .near = size, .size = size};
    image_parse(a, ret);
}

void elf_image_parse_source(struct arena *a, struct elf_source *source, size_t size,
                            struct elf_image *ret)
{
    *ret = (struct elf_image){.size = size, .source = source};
    if (!read_first(ret) && elf_far_bytes(ret, 0)) {
        ret->data = source->whole;
        ret->near = size;
    }
    image_parse(a, ret);
}

const char *elf_machine_name(struct arena *a, uint16_t machine)
{
    static const struct {
        uint16_t machine;
        const char *name;
    } names[] = {
        {EM_386, "i386"},        {EM_X86_64, "x86-64"}, {EM_ARM, "ARM"},
        {EM_AARCH64, "aarch64"}, {EM_PPC64, "ppc64"},   {EM_S390, "s390x"},
        {EM_RISCV, "RISC-V"},    {EM_MIPS, "MIPS"},     {EM_SPARCV9, "sparc64"},
        {EM_PPC, "ppc"},         {258, "LoongArch"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (names[i].machine == machine) {
            return names[i].name;
        }
    }
    return arena_printf(a, "machine %u", machine);
}
