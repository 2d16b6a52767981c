/* What is kept of a file of a layer that passes by once: packed pieces, read again later. */
#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "elf/image.h"
#include "image/keep.h"
#include "image/stream.h"

enum {
    LOOK = 64 << 10, // what a file is, is told by its beginning
    TEXT_MAX = 16 << 20,
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
        image_want_tables(s);
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
        image_want_headers(s, path);
        return true;
    }
    if (image_is_text_name(path) && s->size <= TEXT_MAX) {
        image_stream_want(s, 0, s->size, false);
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
