#include "image/keep.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "base/str.h"
#include "elf/image.h"

enum {
    HEAD_MAX = 24 << 20, // the tables before the dynamic section end before it: 16.5 MB at most in
                         // torch 2.5 to 2.15 and the CUDA libraries beside it
    LOOK = 64 << 10,     // what a file is, is told by its beginning
    TEXT_MAX = 16 << 20,
    WHOLE_MAX = 4 << 20,      // of a library of which a version is read out of code or data
    CONSTANTS_MAX = 16 << 20, // ... out of data alone
    NUMBERS_MAX = 16,
    DYNAMIC_MAX = 64 << 10,
    TABLE_MAX = 32 << 20,
    RANGES_MAX = 96,
    LEVEL = 1,
};

/* ------------------------------------------------------------------ pieces */

void image_keep_init(struct image_keep *k, struct arena *a)
{
    *k = (struct image_keep){.arena = a, .image_heads_room = IMAGE_KEEP_HEADS_MAX};
}

static bool make_ready(struct image_keep *k)
{
    k->head = k->head ? k->head : malloc(HEAD_MAX);
    k->packer = k->packer ? k->packer : ZSTD_createCCtx();
    k->unpacker = k->unpacker ? k->unpacker : ZSTD_createDCtx();
    k->piece = k->piece ? k->piece : malloc(IMAGE_KEEP_PIECE);
    return k->head && k->packer && k->unpacker && k->piece;
}

void image_keep_end(struct image_keep *k)
{
    free(k->head);
    (void)ZSTD_freeCCtx(k->packer); // always 0
    k->head = NULL;
    k->packer = NULL;
}

void image_keep_release(struct image_keep *k)
{
    image_keep_end(k);
    (void)ZSTD_freeDCtx(k->unpacker); // always 0
    free(k->piece);
    k->unpacker = NULL;
    k->piece = NULL;
    k->last = NULL;
}

static bool bytes_are_zero(const unsigned char *p, size_t n)
{
    return n == 0 || (p[0] == 0 && memcmp(p, p + 1, n - 1) == 0);
}

/* ------------------------------------------------------------------ a file that streams by */

struct wanted {
    uint64_t from, to;
    bool more; // counts as IMAGE_KEEP_MORE_MAX
};

struct stream {
    struct image_keep *k;
    VEC(struct image_keep_piece) pieces;
    struct arena scratch;
    uint64_t size;
    size_t head; // bytes in k->head
    struct wanted wanted[RANGES_MAX];
    size_t n_wanted;
    bool is_elf, dynamic_done;
    bool dropped; // something that is wanted found no room
    struct image_heads heads;
    unsigned search;
    struct elf_image image; // of the beginning; its segments
    uint64_t dynamic_at;
    size_t dynamic_size, n_dynamic; // n_dynamic: so many bytes of it have come
    unsigned char *dynamic;
    unsigned char piece[IMAGE_KEEP_PIECE]; // behind the beginning: the piece that comes
};

static void stream_want(struct stream *s, uint64_t from, uint64_t n, bool more)
{
    if (n && from < s->size && s->n_wanted < RANGES_MAX) {
        uint64_t room = s->size - from;
        s->wanted[s->n_wanted++] = (struct wanted){from, from + (n < room ? n : room), more};
    }
}

static const struct wanted *wants(const struct stream *s, uint64_t from, uint64_t to)
{
    const struct wanted *found = NULL;
    for (size_t i = 0; i < s->n_wanted; i++) {
        const struct wanted *w = &s->wanted[i];
        if (w->from < to && w->to > from && (!found || !w->more)) {
            found = w;
        }
    }
    return found;
}

static void stream_store(struct stream *s, uint64_t number, const unsigned char *bytes, size_t n,
                         bool more)
{
    struct image_keep *k = s->k;
    unsigned char packed[IMAGE_KEEP_PIECE + 1024]; // ZSTD_compressBound() of a piece
    size_t size = 0;
    if (!bytes_are_zero(bytes, n)) {
        size = ZSTD_compressCCtx(k->packer, packed, sizeof packed, bytes, n, LEVEL);
    }
    uint64_t *held = more ? &k->more : &k->tables;
    uint64_t room =
        (more ? (uint64_t)IMAGE_KEEP_MORE_MAX : (uint64_t)IMAGE_KEEP_TABLES_MAX) - *held;
    if (ZSTD_isError(size) || size + sizeof(struct image_keep_piece) > room ||
        number > UINT32_MAX) {
        s->dropped = true; // it is then read again where it is wanted
        return;
    }
    *held += size + sizeof(struct image_keep_piece);
    unsigned char *copy = size ? arena_alloc(k->arena, size) : NULL;
    if (copy) {
        memcpy(copy, packed, size);
    }
    VEC_PUSH(&s->scratch, &s->pieces,
             (struct image_keep_piece){(uint32_t)number, (uint32_t)size, copy});
}

/* ------------------------------------------------------------------ what is wanted */

/*
 * What nearly every check reads.
 */
static bool is_text_name(const char *path)
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
enum { SEARCH_CONSTANTS = 1, SEARCH_NUMBERS = 2, SEARCH_ALL = 4, SEARCH_SELDOM = 8 };

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
            stream_want(s, table->offset - n, n, s->search & SEARCH_SELDOM);
        }
    }
}

static void want_searched(struct stream *s)
{
    if (s->search & SEARCH_ALL && s->size <= WHOLE_MAX) {
        stream_want(s, 0, s->size, false);
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
            stream_want(s, g->offset, g->filesz, false);
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
        stream_want(s, at - before, before + (uint64_t)elf_u16(e, tail) * elf_u16(e, tail + 2),
                    false);
    }
}

/* The program headers, where they do not follow the file's own. */
static void want_segments(struct stream *s)
{
    const struct elf_image *e = &s->image;
    const unsigned char *p = elf_bytes(e, 0, e->is64 ? sizeof(Elf64_Ehdr) : sizeof(Elf32_Ehdr));
    if (p) {
        uint64_t at = e->is64 ? elf_u64(e, p + 32) : elf_u32(e, p + 28);
        stream_want(s, at, (uint64_t)e->phentsize * elf_u16(e, p + (e->is64 ? 56 : 44)), false);
    }
}

static void want_headers(struct stream *s, const char *path)
{
    stream_want(s, 0, 1, false);
    want_sections(s);
    want_segments(s);
    for (size_t i = 0; i < s->image.n_segments; i++) {
        const struct elf_segment *segment = &s->image.segments[i];
        uint64_t n = segment->filesz < DYNAMIC_MAX ? segment->filesz : DYNAMIC_MAX;
        if (segment->type == PT_DYNAMIC) {
            s->dynamic_at = segment->offset;
            (void)elf_offset_of(&s->image, segment->vaddr, &s->dynamic_at); // else as it says
            s->dynamic_size = (size_t)n;
            stream_want(s, s->dynamic_at, n, false);
        } else if (segment->type == PT_INTERP || segment->type == PT_NOTE) {
            stream_want(s, segment->offset, n, false);
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
            stream_want(s, value, size, false);
            found++;
        }
    }
}

static void want_tables(struct stream *s)
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
            stream_want(s, t->at + skip, (n < TABLE_MAX ? n : TABLE_MAX) - skip, false);
        }
        if (t->at && t->address == DT_SYMTAB && s->search & SEARCH_NUMBERS) {
            want_numbers(s, t->at, n);
        }
    }
}

/* ------------------------------------------------------------------ the stream */

static void take_dynamic(struct stream *s, const unsigned char *bytes, size_t n, uint64_t offset)
{
    uint64_t next = s->dynamic_at + s->n_dynamic, end = offset + n;
    if (s->dynamic_done || s->n_dynamic >= s->dynamic_size || next < offset || next >= end) {
        return;
    }
    size_t left = s->dynamic_size - s->n_dynamic;
    size_t here = end - next < left ? (size_t)(end - next) : left;
    s->dynamic = s->dynamic ? s->dynamic : arena_alloc(&s->scratch, s->dynamic_size);
    memcpy(s->dynamic + s->n_dynamic, bytes + (next - offset), here);
    s->n_dynamic += here;
    if (s->n_dynamic == s->dynamic_size) {
        s->dynamic_done = true;
        want_tables(s);
    }
}

/* Bytes behind the beginning, which end with a piece at the latest. */
static void take_behind(struct stream *s, const unsigned char *bytes, size_t n, uint64_t offset)
{
    uint64_t start = offset / IMAGE_KEEP_PIECE * IMAGE_KEEP_PIECE;
    uint64_t end = start + IMAGE_KEEP_PIECE < s->size ? start + IMAGE_KEEP_PIECE : s->size;
    take_dynamic(s, bytes, n, offset);
    const struct wanted *w = wants(s, start, end);
    if (!w) {
        return;
    }
    memcpy(s->piece + (offset - start), bytes, n);
    if (offset + n == end) {
        stream_store(s, start / IMAGE_KEEP_PIECE, s->piece, (size_t)(end - start), w->more);
    }
}

/* What was found wanted of the beginning, once all of it that is known is known. */
static void store_head(struct stream *s)
{
    size_t end = s->head;
    for (size_t at = 0; at < end; at += IMAGE_KEEP_PIECE) {
        size_t n = end - at < IMAGE_KEEP_PIECE ? end - at : IMAGE_KEEP_PIECE;
        const struct wanted *w = wants(s, at, at + n);
        if (w) {
            stream_store(s, at / IMAGE_KEEP_PIECE, s->k->head + at, n, w->more);
        }
    }
}

static bool is_elf(const struct stream *s)
{
    return s->head >= SELFMAG && memcmp(s->k->head, ELFMAG, SELFMAG) == 0;
}

/* Decides by the beginning; false: nothing of the file is wanted. */
static bool stream_judge(struct stream *s, const char *path)
{
    s->is_elf = is_elf(s);
    if (s->is_elf) {
        elf_image_parse(&s->scratch, s->k->head, s->head, &s->image);
        want_headers(s, path);
        return true;
    }
    if (is_text_name(path) && s->size <= TEXT_MAX) {
        stream_want(s, 0, s->size, false);
        return true;
    }
    return false;
}

static size_t smaller_of(uint64_t a, uint64_t b)
{
    return (size_t)(a < b ? a : b);
}

/* Takes a block apart: into the beginning, then piece by piece. */
static bool take_block(struct stream *s, const unsigned char *bytes, size_t n, uint64_t offset,
                       const char *path)
{
    size_t look = smaller_of(s->size, LOOK), full = smaller_of(s->size, HEAD_MAX);
    while (n) {
        size_t step;
        if (offset < full) {
            step = smaller_of(n, (offset < look ? look : full) - offset);
            memcpy(s->k->head + offset, bytes, step);
            s->head = (size_t)offset + step;
            if (s->head == look && !stream_judge(s, path)) {
                return false;
            }
            if (s->is_elf && s->head >= look) {
                size_t from = s->head == look ? 0 : (size_t)offset; // what came before judging
                take_dynamic(s, s->k->head + from, s->head - from, from);
                image_heads_take(&s->heads, s->k->head + from, s->head - from, from);
            }
        } else {
            step = smaller_of(n, IMAGE_KEEP_PIECE - offset % IMAGE_KEEP_PIECE);
            take_behind(s, bytes, step, offset);
            image_heads_take(&s->heads, bytes, step, offset);
        }
        bytes += step;
        offset += step;
        n -= step;
    }
    return true;
}

/* 1: all of the file came; 0: it is not wanted. */
static int stream_read(struct stream *s, const char *path, const struct image_keep_source *from,
                       struct gm_err *err)
{
    const void *bytes;
    size_t n;
    uint64_t offset, at = 0;
    int rc = 0;
    while (at < s->size && (rc = from->next(from->arg, &bytes, &n, &offset, err)) > 0) {
        if (offset != at || n > s->size - at) {
            return 0; // a file with holes
        }
        if (!take_block(s, bytes, n, offset, path)) {
            return 0;
        }
        at += n;
    }
    return at == s->size ? 1 : rc < 0 ? rc : 0;
}

/* ------------------------------------------------------------------ reading what is held */

static const struct image_keep_piece *piece_at(const struct image_kept *f, uint64_t number)
{
    size_t low = 0, high = f->n_pieces;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (f->pieces[mid].number < number) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low < f->n_pieces && f->pieces[low].number == number ? &f->pieces[low] : NULL;
}

/* The bytes of a piece, in k->piece. */
static bool unpack(struct image_keep *k, const struct image_keep_piece *piece, size_t n)
{
    if (k->last == piece) {
        return true;
    }
    k->last = NULL;
    if (piece->n == 0) {
        memset(k->piece, 0, n);
    } else if (ZSTD_decompressDCtx(k->unpacker, k->piece, IMAGE_KEEP_PIECE, piece->packed,
                                   piece->n) != n) {
        return false;
    }
    k->last = piece;
    return true;
}

bool image_kept_read(const struct image_kept *f, uint64_t offset, size_t n, unsigned char *to)
{
    if (offset > f->size || n > f->size - offset) {
        return false;
    }
    for (size_t done = 0, step; done < n; done += step) {
        uint64_t at = offset + done, start = at / IMAGE_KEEP_PIECE * IMAGE_KEEP_PIECE;
        const struct image_keep_piece *piece = piece_at(f, at / IMAGE_KEEP_PIECE);
        size_t size = smaller_of(IMAGE_KEEP_PIECE, f->size - start);
        step = smaller_of(n - done, start + size - at);
        if (!piece || (to && !unpack(f->by, piece, size))) {
            return false;
        }
        if (to) {
            memcpy(to + done, f->by->piece + (at - start), step);
        }
    }
    return true;
}

/* Headers of GPU code, over zeros. */
static bool heads_of(const struct image_kept *f, uint64_t offset, size_t n, unsigned char *to)
{
    struct image_keep *k = f->by;
    bool any = false;
    for (size_t i = 0; i < f->n_heads; i++) {
        const struct image_heads_block *b = &f->heads[i];
        if (b->from >= offset + n || b->to <= offset) {
            continue;
        }
        if (!to) {
            return true;
        }
        if (!any) {
            memset(to, 0, n);
        }
        any = true;
        if (k->last != b) {
            k->last = b;
            if (ZSTD_decompressDCtx(k->unpacker, k->piece, IMAGE_KEEP_PIECE, b->packed, b->n) !=
                b->size) {
                k->last = NULL;
                return false;
            }
        }
        image_heads_copy(k->piece, b->size, offset, n, to);
    }
    return any;
}

bool image_kept_gpu_code(const struct image_kept *f, uint64_t offset, size_t n, unsigned char *to)
{
    bool any = false;
    for (size_t done = 0, step; done < n; done += step) {
        uint64_t at = offset + done, next = (at / IMAGE_KEEP_PIECE + 1) * IMAGE_KEEP_PIECE;
        step = smaller_of(n - done, next - at);
        any |= image_kept_read(f, at, step, to ? to + done : NULL) ||
               heads_of(f, at, step, to ? to + done : NULL);
    }
    return any;
}

/* ------------------------------------------------------------------ the end of a file */

static int by_number(const void *x, const void *y)
{
    const struct image_keep_piece *a = x, *b = y;
    return (a->number > b->number) - (a->number < b->number);
}

/* The bytes of a file that are held, NULL: not all of them. */
static const unsigned char *held(struct stream *s, const struct image_kept *f, uint64_t at,
                                 uint64_t n)
{
    unsigned char *copy = n <= TABLE_MAX ? arena_alloc(&s->scratch, (size_t)n + 1) : NULL;
    return copy && image_kept_read(f, at, (size_t)n, copy) ? copy : NULL;
}

/*
 * Whether the reader of GPU code finds the sections in what is held, and no offload bundles for
 * AMD's devices among them, of which nothing is taken.
 */
static bool tells_sections(struct stream *s, const struct image_kept *f)
{
    static const char bundles[] = ".hip_fatbin";
    const struct elf_image *e = &s->image;
    bool is64 = e->is64;
    size_t each = is64 ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr);
    const unsigned char *p = held(s, f, 0, is64 ? sizeof(Elf64_Ehdr) : sizeof(Elf32_Ehdr));
    if (!p || elf_u16(e, p + (is64 ? 58 : 46)) != each) {
        return false;
    }
    uint64_t at = is64 ? elf_u64(e, p + 40) : elf_u32(e, p + 32);
    uint64_t n = elf_u16(e, p + (is64 ? 60 : 48)), names = elf_u16(e, p + (is64 ? 62 : 50));
    const unsigned char *table = held(s, f, at, n * each);
    if (!table || names >= n) {
        return false;
    }
    p = table + names * each;
    uint64_t offset = is64 ? elf_u64(e, p + 24) : elf_u32(e, p + 16);
    uint64_t size = is64 ? elf_u64(e, p + 32) : elf_u32(e, p + 20);
    const unsigned char *text = held(s, f, offset, size);
    return text && !memmem(text, (size_t)size, bundles, sizeof bundles);
}

static void finish_heads(struct stream *s, struct image_kept *f)
{
    enum { CUDA = 190, AMDGPU = 224 }; // e_machine of code for devices
    image_heads_end(&s->heads);
    struct image_heads_block *blocks = arena_array(s->k->arena, s->heads.blocks.n, sizeof *blocks);
    if (s->heads.blocks.n) {
        memcpy(blocks, s->heads.blocks.items, s->heads.blocks.n * sizeof *blocks);
    }
    f->heads = blocks;
    f->n_heads = s->heads.blocks.n;
    f->gpu_code = !s->heads.lost && !s->dropped && s->image.machine != CUDA &&
                  s->image.machine != AMDGPU && tells_sections(s, f);
}

static struct image_kept *finished(struct stream *s)
{
    if (s->pieces.n == 0) {
        return NULL;
    }
    struct image_kept *f = arena_alloc(s->k->arena, sizeof *f);
    struct image_keep_piece *pieces = arena_array(s->k->arena, s->pieces.n, sizeof *pieces);
    memcpy(pieces, s->pieces.items, s->pieces.n * sizeof *pieces);
    qsort(pieces, s->pieces.n, sizeof *pieces, by_number);
    *f =
        (struct image_kept){.by = s->k, .size = s->size, .pieces = pieces, .n_pieces = s->pieces.n};
    if (s->is_elf) {
        finish_heads(s, f);
    }
    return f;
}

int image_keep_file(struct image_keep *k, const char *path, uint64_t size,
                    const struct image_keep_source *from, struct image_kept **ret,
                    struct gm_err *err)
{
    *ret = NULL;
    if (size == 0) {
        return 0;
    }
    struct stream *s = make_ready(k) ? malloc(sizeof *s) : NULL;
    if (!s) {
        return gm_err_set(err, GM_ERR_LIMIT, "out of memory");
    }
    *s = (struct stream){.k = k, .size = size};
    arena_init(&s->scratch, 0, NULL, NULL);
    s->heads = (struct image_heads){.size = size,
                                    .packer = k->packer,
                                    .arena = k->arena,
                                    .scratch = &s->scratch,
                                    .room = &k->image_heads_room};
    int rc = stream_read(s, path, from, err);
    if (rc > 0) {
        store_head(s);
        *ret = finished(s);
    }
    arena_release(&s->scratch);
    free(s);
    return rc < 0 ? rc : 0;
}
