#include "elf/image.h"

#include <endian.h>
#include <limits.h>
#include <string.h>

#include "elf/names.h"

enum { NOTES_MAX = 4096, VERSIONS_MAX = 1 << 16 };

/* A word of the file's class: 8 bytes or 4. */
static uint64_t image_word(const struct elf_image *e, const unsigned char *p)
{
    return e->is64 ? elf_u64(e, p) : elf_u32(e, p);
}

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

/* An entry of a table that begins at `offset`; NULL: it is not in the file. */
static inline const unsigned char *table_entry_at(const struct elf_image *e,
                                                  const struct elf_table *t, uint64_t offset,
                                                  uint32_t index, size_t entry)
{
    if (index < t->n_near) {
        return t->near + (size_t)index * entry;
    }
    return index < t->n ? elf_bytes(e, offset + (uint64_t)index * entry, entry) : NULL;
}

bool elf_offset_of(const struct elf_image *e, uint64_t vaddr, uint64_t *ret_offset)
{
    for (size_t i = 0; i < e->n_segments; i++) {
        const struct elf_segment *s = &e->segments[i];
        if (s->type == PT_LOAD && vaddr >= s->vaddr && vaddr - s->vaddr < s->filesz) {
            uint64_t delta = vaddr - s->vaddr;
            if (s->offset > UINT64_MAX - delta) {
                return false;
            }
            *ret_offset = s->offset + delta;
            return true;
        }
    }
    return false;
}

static const char *text_at(const struct elf_image *e, uint64_t offset, uint64_t size)
{
    const unsigned char *p = elf_bytes(e, offset, size);
    return p && size && memchr(p, 0, size) ? (const char *)p : NULL;
}

const char *elf_string_checked(const struct elf_image *e, uint64_t offset)
{
    if (!e->strtab || offset >= e->strtab_size) {
        return NULL;
    }
    return text_at(e, e->strtab + offset, e->strtab_size - offset);
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

static size_t symbol_size(const struct elf_image *e)
{
    return e->is64 ? sizeof(Elf64_Sym) : sizeof(Elf32_Sym);
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

static const unsigned char *whole_file(const struct elf_image *e)
{
    struct elf_source *s = e->source;
    if (!s->asked) {
        s->asked = true;
        s->whole = s->map(s, e->size);
    }
    return s->whole;
}

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

const unsigned char *elf_far_bytes(const struct elf_image *e, uint64_t offset)
{
    const unsigned char *whole = e->source ? whole_file(e) : NULL;
    return whole ? whole + offset : NULL;
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
    const unsigned char *p = end < e->size && !s->asked ? s->map(s, (size_t)end) : whole_file(e);
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
    if (!read_first(ret) && whole_file(ret)) {
        ret->data = source->whole;
        ret->near = size;
    }
    image_parse(a, ret);
}

/* ------------------------------------------------------------------ notes */

static size_t note_pad(size_t n, size_t align)
{
    return (n + align - 1) & ~(align - 1);
}

bool elf_notes(const struct elf_image *e, void (*visit)(const struct elf_note *, void *), void *arg)
{
    size_t budget = NOTES_MAX;
    for (size_t i = 0; i < e->n_segments; i++) {
        const struct elf_segment *s = &e->segments[i];
        const unsigned char *p = s->type == PT_NOTE ? elf_bytes(e, s->offset, s->filesz) : NULL;
        size_t align = s->align == 8 ? 8 : 4;
        for (size_t at = 0; p && s->filesz - at >= 12 && budget; budget--) {
            uint32_t namesz = elf_u32(e, p + at), descsz = elf_u32(e, p + at + 4);
            size_t room = (size_t)s->filesz - at - 12;
            size_t desc_at = note_pad(12 + (size_t)namesz, align) - 12;
            if (namesz > room || desc_at > room || descsz > room - desc_at) {
                break;
            }
            struct str owner = {(const char *)p + at + 12, namesz};
            if (owner.n && owner.s[owner.n - 1] == '\0') {
                owner.n--;
            }
            struct elf_note note = {
                owner, elf_u32(e, p + at + 8), {(const char *)p + at + 12 + desc_at, descsz}};
            visit(&note, arg);
            size_t step = note_pad(12 + desc_at + descsz, align);
            if (step > s->filesz - at) {
                break;
            }
            at += step;
        }
    }
    return budget > 0;
}

/* ------------------------------------------------------------------ versions */

/* How many Vernaux there are, for the memory they take: a damaged table may have fewer. */
static size_t count_version_needs(const struct elf_image *e)
{
    size_t n = 0;
    uint64_t at = e->verneed;
    for (uint64_t i = 0; at && i < e->n_verneed && n < VERSIONS_MAX; i++) {
        const unsigned char *p = elf_bytes(e, at, sizeof(Elf64_Verneed));
        uint32_t next = p ? elf_u32(e, p + 12) : 0;
        n += p ? elf_u16(e, p + 2) : 0;
        if (next == 0) {
            break;
        }
        at += next;
    }
    size_t most = e->size / sizeof(Elf64_Vernaux);
    return n < most ? n : most;
}

void elf_versions_read(struct arena *a, const struct elf_image *e, struct elf_versions *ret)
{
    VEC(struct elf_version_need) needs = {0};
    VEC(struct elf_version_def) defs = {0};
    bool damaged = false;
    uint64_t at = e->verneed;
    needs.cap = count_version_needs(e);
    needs.items = arena_array(a, needs.cap, sizeof *needs.items);
    for (uint64_t i = 0; at && i < e->n_verneed && needs.n < VERSIONS_MAX; i++) {
        const unsigned char *p = elf_bytes(e, at, sizeof(Elf64_Verneed));
        const char *file = p ? elf_string(e, elf_u32(e, p + 4)) : NULL;
        if (!p || !file) {
            damaged = true;
            break;
        }
        uint64_t aux = at + elf_u32(e, p + 8);
        for (uint16_t left = elf_u16(e, p + 2); left && needs.n < VERSIONS_MAX; left--) {
            const unsigned char *q = elf_bytes(e, aux, sizeof(Elf64_Vernaux));
            const char *name = q ? elf_string(e, elf_u32(e, q + 8)) : NULL;
            if (!q || !name) {
                damaged = true;
                break;
            }
            VEC_PUSH(a, &needs,
                     (struct elf_version_need){file, name, elf_u32(e, q), elf_u16(e, q + 4),
                                               elf_u16(e, q + 6) & 0x7fff});
            if (elf_u32(e, q + 12) == 0) {
                break;
            }
            aux += elf_u32(e, q + 12);
        }
        if (elf_u32(e, p + 12) == 0) {
            break;
        }
        at += elf_u32(e, p + 12);
    }
    at = e->verdef;
    for (uint64_t i = 0; at && i < e->n_verdef && defs.n < VERSIONS_MAX; i++) {
        const unsigned char *p = elf_bytes(e, at, sizeof(Elf64_Verdef));
        const unsigned char *q =
            p ? elf_bytes(e, at + elf_u32(e, p + 12), sizeof(Elf64_Verdaux)) : NULL;
        const char *name = q ? elf_string(e, elf_u32(e, q)) : NULL;
        if (!p || !name) {
            damaged = true;
            break;
        }
        VEC_PUSH(a, &defs,
                 (struct elf_version_def){name, elf_u32(e, p + 8), elf_u16(e, p + 2),
                                          elf_u16(e, p + 4) & 0x7fff});
        if (elf_u32(e, p + 16) == 0) {
            break;
        }
        at += elf_u32(e, p + 16);
    }
    bool cut = needs.n == VERSIONS_MAX || defs.n == VERSIONS_MAX;
    *ret = (struct elf_versions){needs.items, needs.n, defs.items, defs.n, damaged, cut};
}

/* ------------------------------------------------------------------ symbols */

/* NULL: there is no such symbol. */
static inline const unsigned char *symbol_bytes(const struct elf_image *e, uint32_t index)
{
    return e->is64 ? table_entry_at(e, &e->symbols, e->symtab, index, sizeof(Elf64_Sym))
                   : table_entry_at(e, &e->symbols, e->symtab, index, sizeof(Elf32_Sym));
}

/* NULL: there is no table, or it ends before. */
static inline const unsigned char *versym_bytes(const struct elf_image *e, uint32_t index)
{
    return table_entry_at(e, &e->versyms, e->versym, index, 2);
}

static Elf64_Sym converted_symbol(const struct elf_image *e, const unsigned char *p)
{
    if (e->is64) {
        return (Elf64_Sym){elf_u32(e, p),     p[4], p[5], elf_u16(e, p + 6), elf_u64(e, p + 8),
                           elf_u64(e, p + 16)};
    }
    return (Elf64_Sym){elf_u32(e, p),    p[12], p[13], elf_u16(e, p + 14), elf_u32(e, p + 4),
                       elf_u32(e, p + 8)};
}

/* A symbol of either class and byte order. */
static inline Elf64_Sym symbol_from(const struct elf_image *e, const unsigned char *p)
{
    Elf64_Sym sym;
    if (!e->native) {
        return converted_symbol(e, p);
    }
    memcpy(&sym, p, sizeof sym);
    return sym;
}

static inline const char *symbol_name(const struct elf_image *e, const unsigned char *p)
{
    return elf_string(e, elf_u32(e, p)); // st_name, the first in both classes
}

static inline __attribute__((always_inline)) struct elf_symbol
named_symbol(const struct elf_image *e, const unsigned char *p, uint32_t index, const char *name)
{
    const unsigned char *version = versym_bytes(e, index);
    Elf64_Sym sym = symbol_from(e, p);
    return (struct elf_symbol){
        .name = name,
        .value = sym.st_value,
        .size = sym.st_size,
        .shndx = sym.st_shndx,
        .type = ELF64_ST_TYPE(sym.st_info),
        .bind = ELF64_ST_BIND(sym.st_info),
        .visibility = ELF64_ST_VISIBILITY(sym.st_other),
        .versym = version ? elf_u16(e, version) : 0xffff,
    };
}

bool elf_symbol_at(const struct elf_image *e, uint32_t index, struct elf_symbol *ret)
{
    const unsigned char *p = symbol_bytes(e, index);
    const char *name = p ? symbol_name(e, p) : NULL;
    if (name) {
        *ret = named_symbol(e, p, index, name);
    }
    return name != NULL;
}

struct section_table {
    const unsigned char *first;
    uint16_t n, names; // number of headers, index of the one with the names
    size_t size;       // of a header
};

static struct section_table sections_of(const struct elf_image *e)
{
    struct section_table t = {.size = e->is64 ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr)};
    const unsigned char *p = elf_bytes(e, 0, e->is64 ? sizeof(Elf64_Ehdr) : sizeof(Elf32_Ehdr));
    if (!p) {
        return t;
    }
    t.n = elf_u16(e, p + (e->is64 ? 60 : 48));
    t.names = elf_u16(e, p + (e->is64 ? 62 : 50));
    t.first = elf_bytes(e, e->is64 ? elf_u64(e, p + 40) : elf_u32(e, p + 32), t.size * t.n);
    t.n = t.first ? t.n : 0;
    return t;
}

static void section_place(const struct elf_image *e, const unsigned char *header,
                          uint64_t *ret_offset, uint64_t *ret_size)
{
    *ret_offset = e->is64 ? elf_u64(e, header + 24) : elf_u32(e, header + 16);
    *ret_size = e->is64 ? elf_u64(e, header + 32) : elf_u32(e, header + 20);
}

bool elf_section(const struct elf_image *e, const char *name, uint64_t *ret_offset,
                 uint64_t *ret_size)
{
    struct section_table t = sections_of(e);
    uint64_t names_at = 0, names_size = 0;
    if (t.names >= t.n) {
        return false;
    }
    section_place(e, t.first + t.size * t.names, &names_at, &names_size);
    for (uint16_t i = 0; i < t.n; i++) {
        const unsigned char *header = t.first + t.size * i;
        uint32_t at = elf_u32(e, header);
        const char *text = at < names_size ? text_at(e, names_at + at, names_size - at) : NULL;
        uint64_t offset = 0, size = 0;
        section_place(e, header, &offset, &size);
        if (text && strcmp(text, name) == 0 && elf_inside(e, offset, size)) {
            *ret_offset = offset;
            *ret_size = size;
            return true;
        }
    }
    return false;
}

/* Symbols of an object without any hash table: only its section headers know. */
static uint32_t symbols_by_section(const struct elf_image *e)
{
    struct section_table t = sections_of(e);
    for (uint16_t i = 0; e->symtab && i < t.n; i++) {
        const unsigned char *header = t.first + t.size * i;
        if (elf_u32(e, header + 4) == SHT_DYNSYM) {
            uint64_t offset = 0, size = 0;
            section_place(e, header, &offset, &size);
            return (uint32_t)(size / symbol_size(e));
        }
    }
    return 0;
}

struct elf_lookup_key elf_lookup_key(const char *name)
{
    uint32_t hash = 5381;
    for (const char *p = name; *p; p++) {
        hash = hash * 33 + (unsigned char)*p;
    }
    return (struct elf_lookup_key){name, hash};
}

static inline bool visit_if_named(const struct elf_image *e, uint32_t index, const char *name,
                                  bool (*visit)(const struct elf_symbol *, void *), void *arg)
{
    const unsigned char *p = symbol_bytes(e, index);
    const char *own = p ? symbol_name(e, p) : NULL;
    if (!own || strcmp(own, name) != 0) {
        return false;
    }
    struct elf_symbol sym = named_symbol(e, p, index, own);
    return visit(&sym, arg);
}

static inline bool gnu_passes(const struct elf_image *e, uint32_t hash)
{
    uint64_t filter, second = (uint64_t)hash >> e->gnu.shift;
    if (e->native) {
        memcpy(&filter, e->gnu.bloom + (size_t)(hash / 64 & e->gnu.bloom_mask) * 8, sizeof filter);
        return filter >> (hash & 63) & filter >> (second & 63) & 1;
    }
    uint32_t bits = e->is64 ? 64 : 32;
    filter = image_word(e, e->gnu.bloom + (size_t)(hash / bits & e->gnu.bloom_mask) * (bits / 8));
    return filter >> (hash & (bits - 1)) & filter >> (second & (bits - 1)) & 1;
}

static inline const unsigned char *gnu_bucket(const struct elf_image *e, uint32_t hash)
{
    return e->gnu.buckets + (size_t)(hash % e->gnu.nbuckets) * 4;
}

/* Where the chain of a bucket begins; 0: no name is there. */
static inline uint32_t gnu_first(const struct elf_image *e, const unsigned char *bucket)
{
    uint32_t index = elf_u32(e, bucket);
    return index < e->gnu.symoffset ? 0 : index;
}

enum { CHAIN_LONG = 64 }; // symbols; in the chains that linkers make there are a few

static void note_walk(const struct elf_image *e, uint32_t n)
{
    if (e->names) {
        e->names->walked += n;
    }
}

/* The first symbol from *index on, in its chain, with this hash; 0: there is none. *index is where
 * the walk ended. */
static inline uint32_t walk_chain(const struct elf_image *e, uint32_t *at_index, uint32_t hash)
{
    const struct elf_table *chains = &e->gnu.chains;
    for (uint32_t index = *at_index; index; index++) { // to the chain's mark or the file's end
        *at_index = index;
        uint32_t at = index - e->gnu.symoffset, chain;
        if (e->native && at < chains->n_near) {
            memcpy(&chain, chains->near + (size_t)at * 4, sizeof chain);
        } else {
            const unsigned char *c = table_entry_at(e, chains, e->gnu.chains_at, at, 4);
            if (!c) {
                return 0;
            }
            chain = elf_u32(e, c);
        }
        if ((chain ^ hash) < 2) { // all but the mark
            return index;
        }
        if (chain & 1) {
            return 0;
        }
    }
    return 0;
}

static inline uint32_t next_in_chain(const struct elf_image *e, uint32_t index, uint32_t hash)
{
    uint32_t end = index, found = walk_chain(e, &end, hash);
    if (end - index > CHAIN_LONG) {
        note_walk(e, end - index);
    }
    return found;
}

static inline bool ends_chain(const struct elf_image *e, uint32_t index)
{
    const unsigned char *c =
        table_entry_at(e, &e->gnu.chains, e->gnu.chains_at, index - e->gnu.symoffset, 4);
    return !c || elf_u32(e, c) & 1;
}

/* The next symbol with the same hash; 0: there is none. */
static inline uint32_t next_same(const struct elf_image *e, uint32_t index, uint32_t hash)
{
    return ends_chain(e, index) ? 0 : next_in_chain(e, index + 1, hash);
}

/* `index`: a symbol with the key's hash, or 0. */
static bool find_from(const struct elf_image *e, const struct elf_lookup_key *key, uint32_t index,
                      bool (*visit)(const struct elf_symbol *, void *), void *arg)
{
    uint32_t n = 0;
    for (; index; index = next_same(e, index, key->gnu_hash)) {
        if (visit_if_named(e, index, key->name, visit, arg)) {
            return true;
        }
        if (++n > CHAIN_LONG) {
            note_walk(e, 1);
        }
    }
    return false;
}

static uint32_t gnu_hash_of(const char *name)
{
    return elf_lookup_key(name).gnu_hash;
}

/* The array of chains, as far as a bucket leads into it. */
static struct elf_names_chains gnu_chains(const struct elf_image *e)
{
    uint32_t last = 0;
    for (uint32_t i = 0; i < e->gnu.nbuckets; i++) {
        uint32_t index = elf_u32(e, e->gnu.buckets + (size_t)i * 4);
        last = index >= e->gnu.symoffset && index > last ? index : last;
    }
    uint64_t n = last ? (uint64_t)last - e->gnu.symoffset + 1 : 0;
    while (n && n < e->gnu.chains.n && !ends_chain(e, e->gnu.symoffset + (uint32_t)n - 1)) {
        n++;
    }
    n = n < e->gnu.chains.n ? n : e->gnu.chains.n;
    return (struct elf_names_chains){elf_bytes(e, e->gnu.chains_at, n * 4), (uint32_t)n,
                                     e->gnu.symoffset, gnu_hash_of};
}

static const char *name_at(const struct elf_image *e, uint32_t index)
{
    const unsigned char *p = symbol_bytes(e, index);
    return p ? symbol_name(e, p) : NULL;
}

/* Whether lookups in DT_GNU_HASH go by the index. */
static inline bool gnu_has_index(const struct elf_image *e)
{
    return e->names && e->names->walked && elf_names_chains_ready(e->names, e, gnu_chains, name_at);
}

static bool find_in_index(const struct elf_image *e, const struct elf_lookup_key *key,
                          bool (*visit)(const struct elf_symbol *, void *), void *arg)
{
    const struct elf_names *names = e->names;
    uint32_t first = gnu_first(e, gnu_bucket(e, key->gnu_hash));
    uint32_t start = first - e->gnu.symoffset + 1;
    if (!first || !start || start > names->n) {
        return false;
    }
    for (uint32_t i = elf_names_first(names, key->name); i; i = names->next[i]) {
        if (i >= start && i <= names->end[start] &&
            visit_if_named(e, e->gnu.symoffset + i - 1, key->name, visit, arg)) {
            return true;
        }
    }
    return false;
}

static bool find_gnu(const struct elf_image *e, const struct elf_lookup_key *key,
                     bool (*visit)(const struct elf_symbol *, void *), void *arg)
{
    uint32_t hash = key->gnu_hash;
    if (!e->gnu.bloom || !gnu_passes(e, hash)) {
        return false;
    }
    if (gnu_has_index(e)) {
        return find_in_index(e, key, visit, arg);
    }
    return find_from(e, key, next_in_chain(e, gnu_first(e, gnu_bucket(e, hash)), hash), visit, arg);
}

/* Whether somebody has to define the symbol whose bytes these are. */
static bool is_wanted(const struct elf_image *e, const unsigned char *p)
{
    unsigned bind = ELF64_ST_BIND(p[e->is64 ? 4 : 12]);
    return elf_u16(e, p + (e->is64 ? 6 : 14)) == SHN_UNDEF && bind != STB_WEAK && bind != STB_LOCAL;
}

bool elf_next_wanted(const struct elf_image *e, struct elf_wanted *w, struct elf_reference *ret)
{
    while (w->at < w->end) {
        uint32_t index = w->at++;
        const unsigned char *version = versym_bytes(e, index);
        uint16_t versym = version ? elf_u16(e, version) : 0xffff;
        if (version && (versym & 0x7fffu) < w->n_skip && w->skip[versym & 0x7fff]) {
            continue;
        }
        const unsigned char *p = symbol_bytes(e, index);
        const char *name = p && is_wanted(e, p) ? symbol_name(e, p) : NULL;
        if (name && *name) {
            *ret = (struct elf_reference){elf_lookup_key(name), index, versym};
            return true;
        }
    }
    return false;
}

static bool find_by_name(const struct elf_image *e, const char *name,
                         bool (*visit)(const struct elf_symbol *, void *), void *arg)
{
    for (uint32_t i = elf_names_first(e->names, name); i; i = e->names->next[i]) {
        if (visit_if_named(e, i, name, visit, arg)) {
            return true;
        }
    }
    return false;
}

/* DT_HASH: nbucket, nchain, buckets, chains. */
static bool find_sysv(const struct elf_image *e, const struct elf_lookup_key *key,
                      bool (*visit)(const struct elf_symbol *, void *), void *arg)
{
    const unsigned char *h = elf_bytes(e, e->hash, 8);
    uint32_t nbucket = h ? elf_u32(e, h) : 0, nchain = h ? elf_u32(e, h + 4) : 0;
    h = elf_bytes(e, e->hash + 8, ((uint64_t)nbucket + nchain) * 4);
    if (!h || nbucket == 0) {
        return false;
    }
    const struct elf_names_table table = {nbucket, nchain, h, h + (size_t)nbucket * 4};
    if (e->names && elf_names_ready(e->names, e, &table, name_at)) {
        return find_by_name(e, key->name, visit, arg);
    }
    uint32_t index = elf_u32(e, h + (size_t)(elf_sysv_hash(key->name) % nbucket) * 4);
    for (uint32_t left = nchain; index && index < nchain && left; left--) {
        if (e->names) {
            e->names->walked++;
        }
        if (visit_if_named(e, index, key->name, visit, arg)) {
            return true;
        }
        index = elf_u32(e, h + ((size_t)nbucket + index) * 4);
    }
    return false;
}

bool elf_symbol_find(const struct elf_image *e, const struct elf_lookup_key *key,
                     bool (*visit)(const struct elf_symbol *, void *), void *arg)
{
    if (e->gnu_hash) {
        return find_gnu(e, key, visit, arg);
    }
    return e->hash && find_sysv(e, key, visit, arg);
}

struct relocation_table {
    uint64_t at, size;
    bool rela, lazy;
    uint64_t skip;  // leading entries that are passed over
    uint64_t first; // number of its first entry
};

static bool relocations_of(const struct elf_image *e, const struct relocation_table *t,
                           const uint32_t *types,
                           void (*visit)(const struct elf_relocation *, void *), void *arg)
{
    size_t entry = (e->is64 ? 16u : 8u) + (t->rela ? (e->is64 ? 8u : 4u) : 0u);
    const unsigned char *p = elf_bytes(e, t->at, t->size);
    if (!p) {
        return false;
    }
    uint64_t n = t->size / entry;
    for (uint64_t i = t->skip < n ? t->skip : n; i < n; i++) {
        uint64_t info = image_word(e, p + i * entry + (e->is64 ? 8 : 4));
        uint32_t type = (uint32_t)(e->is64 ? info : info & 0xff);
        if (types && type != types[0] && type != types[1] && type != types[2]) {
            continue;
        }
        struct elf_relocation r = {(uint32_t)(e->is64 ? info >> 32 : info >> 8), type, t->lazy,
                                   t->first + i};
        visit(&r, arg);
    }
    return true;
}

bool elf_relocations(const struct elf_image *e, const uint32_t types[3],
                     void (*visit)(const struct elf_relocation *, void *), void *arg)
{
    bool ok = true;
    if (e->rel) {
        struct relocation_table t = {e->rel, e->rel_size,       e->rel_is_rela,
                                     false,  e->n_rel_relative, 0};
        ok &= relocations_of(e, &t, types, visit, arg);
    }
    if (e->jmprel) {
        struct relocation_table t = {e->jmprel, e->jmprel_size, e->jmprel_is_rela, true,
                                     0,         e->rel_size};
        ok &= relocations_of(e, &t, types, visit, arg);
    }
    return ok;
}

/* Linkers write 1 as the first hashed symbol where none is, however many are undefined. */
static bool exports_nothing(const struct elf_image *e)
{
    for (uint32_t i = 0; e->gnu.bloom && i < e->gnu.nbuckets; i++) {
        if (elf_u32(e, e->gnu.buckets + (size_t)i * 4)) {
            return false;
        }
    }
    return e->gnu.bloom != NULL;
}

static void note_last_symbol(const struct elf_relocation *r, void *arg)
{
    uint64_t *n = arg;
    *n = r->symbol >= *n ? (uint64_t)r->symbol + 1 : *n;
}

uint32_t elf_symbol_undef_count(const struct elf_image *e)
{
    const unsigned char *p = e->gnu_hash ? elf_bytes(e, e->gnu_hash, 16) : NULL;
    uint64_t n = 0;
    if (p && !exports_nothing(e)) {
        n = elf_u32(e, p + 4);
    } else if (p) {
        (void)elf_relocations(e, NULL, note_last_symbol, &n); // damaged tables name none
    } else if ((p = e->hash ? elf_bytes(e, e->hash, 8) : NULL)) {
        n = elf_u32(e, p + 4);
    } else {
        n = symbols_by_section(e);
    }
    return n < e->symbols.n ? (uint32_t)n : e->symbols.n;
}

bool elf_may_use_tls(const struct elf_image *e)
{
    if (e->flags & DF_STATIC_TLS || e->tls.size) {
        return true;
    }
    size_t size = symbol_size(e);
    uint32_t n = elf_symbol_undef_count(e);
    const unsigned char *p = e->symtab ? elf_bytes(e, e->symtab, n * size) : NULL;
    for (uint32_t i = 0; p && i < n; i++) {
        if (ELF64_ST_TYPE(p[i * size + (e->is64 ? 4 : 12)]) == STT_TLS) {
            return true;
        }
    }
    return false;
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
