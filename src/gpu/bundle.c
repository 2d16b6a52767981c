/*
 * HIP code: offload bundles, plain and compressed, and bare code objects. Clang aligns each bundle
 * in .hip_fatbin to the page size, so that the runtime can map it.
 *
 *   plain       0  "__CLANG_OFFLOAD_BUNDLE__"   24  u64 number of entries
 *              32  each: u64 offset, u64 size, u64 length of the id, id
 *                  id: "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-", "host-x86_64-unknown-linux--"
 *   compressed  0  "CCOB"   4  u16 version   6  u16 method (0 zlib, 1 zstd)
 *       1       8  u32 inflated size                              12  u64 hash   20 data
 *       2       8  u32 size of all this   12  u32 inflated size   16  u64 hash   24 data
 *       3       8  u64 size of all this   16  u64 inflated size   24  u64 hash   32 data
 *
 * Sources: Clang documentation, "Clang Offload Bundler" (bundled code object layout, compression
 * and decompression); llvm-project, clang/lib/Driver/OffloadBundler.cpp (CompressedOffloadBundle)
 * and clang/lib/Driver/ToolChains/HIPUtility.cpp (the alignment). Versions 2 and 3 also read off
 * bitsandbytes 0.50.2, built with ROCm 6.4 to 7.15.
 */
#include "gpu/internal.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

enum { PAGE = 4096, ENTRIES_MAX = 1024, ID_MAX = 256, INFLATIONS_MAX = 1 << 14 };
enum { TABLE_START = 32, BLOCK_MAX = 128 << 10, BLOCKS_MAX = 8 };
enum { METHOD_ZLIB = 0, METHOD_ZSTD = 1 };

static const char plain_magic[] = "__CLANG_OFFLOAD_BUNDLE__";
static const char packed_magic[] = "CCOB";

static bool magic_at(const struct gpu_span *s, uint64_t offset, const char *magic, size_t n)
{
    const unsigned char *p = gpu_bytes(s, offset, n);
    return p && memcmp(p, magic, n) == 0;
}

static bool span_is_plain(const struct gpu_span *s, uint64_t offset)
{
    return magic_at(s, offset, plain_magic, sizeof plain_magic - 1);
}

static bool is_packed(const struct gpu_span *s, uint64_t offset)
{
    return magic_at(s, offset, packed_magic, sizeof packed_magic - 1);
}

bool gpu_bundle_starts(const struct gpu_span *s, uint64_t offset)
{
    return span_is_plain(s, offset) || is_packed(s, offset);
}

/* ------------------------------------------------------------------ the table */

/* What stands behind the triple: "gfx90a:xnack-" or "amdgcnspirv". */
static bool target_of_id(struct str id, struct str *ret)
{
    static const char *const starts[] = {"-gfx", "-amdgcnspirv"};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        size_t at = str_find(id, starts[i]);
        if (at < id.n) {
            *ret = (struct str){id.s + at + 1, id.n - at - 1};
            return true;
        }
    }
    return false;
}

enum table { TABLE_READ, TABLE_SHORT, TABLE_BROKEN };

/* Reads the table at the start of `s`; with `b` it also takes the targets. *ret_end is the end of
 * the last entry's payload. SHORT: the table goes on behind the end of `s`. */
static enum table read_table(struct gpu_builder *b, const struct gpu_span *s, uint64_t start,
                             uint64_t *ret_end)
{
    const unsigned char *p = gpu_bytes(s, start, TABLE_START);
    if (!p) {
        return TABLE_SHORT;
    }
    uint64_t n = gpu_u64(p + 24), at = start + TABLE_START, end = 0;
    if (!span_is_plain(s, start) || n > ENTRIES_MAX) {
        return TABLE_BROKEN;
    }
    for (uint64_t i = 0; i < n; i++) {
        p = gpu_bytes(s, at, 24);
        if (!p) {
            return TABLE_SHORT;
        }
        uint64_t offset = gpu_u64(p), size = gpu_u64(p + 8), id_size = gpu_u64(p + 16);
        if (id_size > ID_MAX || offset > UINT64_MAX - size) {
            return TABLE_BROKEN;
        }
        const unsigned char *id = gpu_bytes(s, at + 24, id_size);
        if (!id) {
            return TABLE_SHORT;
        }
        struct str target;
        if (b && size && target_of_id((struct str){(const char *)id, id_size}, &target)) {
            gpu_add_target(b, target);
        }
        end = offset + size > end ? offset + size : end;
        at += 24 + id_size;
    }
    *ret_end = end > at - start ? end : at - start;
    return TABLE_READ;
}

/* ------------------------------------------------------------------ compressed */

/*
 * The first blocks of a zstd frame, as a frame of their own: the header says a small window and
 * no content size, so that the decoder needs no more memory than the output has room for, however
 * large the frame is. The first block refers to nothing before it, and later ones only to those
 * that are here. RFC 8878, 3.1.1 (frame header, blocks).
 */
static size_t zstd_first_blocks(const unsigned char *p, size_t n, size_t blocks,
                                unsigned char **ret_frame)
{
    static const unsigned char header[] = {0x28, 0xb5, 0x2f, 0xfd, 0x00, 10 << 3}; // 1 MiB window
    static const unsigned char id_sizes[] = {0, 1, 2, 4}, content_sizes[] = {0, 2, 4, 8};
    if (n < 6 || gpu_u32(p) != ZSTD_MAGICNUMBER) {
        return 0;
    }
    bool single = p[4] & 0x20;
    size_t from =
        5 + !single + id_sizes[p[4] & 3] + content_sizes[p[4] >> 6] + (single && p[4] >> 6 == 0);
    size_t at = from, last = 0;
    for (size_t i = 0; i < blocks; i++) {
        if (at > n || n - at < 3) {
            return 0;
        }
        uint32_t block = (uint32_t)p[at] | (uint32_t)p[at + 1] << 8 | (uint32_t)p[at + 2] << 16;
        size_t size = (block >> 1 & 3) == 1 ? 1 : block >> 3; // 1: one byte, repeated
        if (size > BLOCK_MAX || block >> 3 > BLOCK_MAX || n - at - 3 < size) {
            return 0;
        }
        last = at;
        at += 3 + size;
        if (block & 1) {
            break;
        }
    }
    unsigned char *frame = malloc(sizeof header + at - from);
    if (!frame) {
        return 0;
    }
    memcpy(frame, header, sizeof header);
    memcpy(frame + sizeof header, p + from, at - from);
    frame[sizeof header + last - from] |= 1; // the last block of this frame
    *ret_frame = frame;
    return sizeof header + at - from;
}

static size_t inflate_zstd(const unsigned char *p, size_t n, size_t blocks, unsigned char *out,
                           size_t room)
{
    unsigned char *frame = NULL;
    size_t size = zstd_first_blocks(p, n, blocks, &frame);
    size_t got = size ? ZSTD_decompress(out, room, frame, size) : 0;
    free(frame);
    return ZSTD_isError(got) ? 0 : got;
}

static size_t inflate_zlib(const unsigned char *p, size_t n, unsigned char *out, size_t room)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)p, // zlib does not write there
                  .avail_in = (uInt)(n < UINT32_MAX ? n : UINT32_MAX),
                  .next_out = out,
                  .avail_out = (uInt)room};
    if (inflateInit(&z) != Z_OK) {
        return 0;
    }
    int rc = inflate(&z, Z_SYNC_FLUSH);
    size_t got = rc == Z_OK || rc == Z_STREAM_END || rc == Z_BUF_ERROR ? room - z.avail_out : 0;
    (void)inflateEnd(&z);
    return got;
}

struct packed {
    unsigned version, method;
    size_t header_size;
    uint64_t size, inflated_size; // size 0: version 1 does not say it
};

/* Sizes that cannot be are refused: "CCOB" is only four bytes of magic. */
static bool packed_header(const struct gpu_span *s, uint64_t at, uint64_t to, struct packed *ret)
{
    static const size_t header_sizes[] = {0, 20, 24, 32};
    const unsigned char *p = gpu_bytes(s, at, 8);
    unsigned version = p ? gpu_u16(p + 4) : 0;
    if (version < 1 || version > 3 || !(p = gpu_bytes(s, at, header_sizes[version]))) {
        return false;
    }
    ret->version = version;
    ret->method = gpu_u16(p + 6);
    ret->header_size = header_sizes[version];
    ret->size = version == 1 ? 0 : version == 2 ? gpu_u32(p + 8) : gpu_u64(p + 8);
    ret->inflated_size = version == 1   ? gpu_u32(p + 8)
                         : version == 2 ? gpu_u32(p + 12)
                                        : gpu_u64(p + 16);
    return ret->method <= METHOD_ZSTD && to - at >= ret->header_size &&
           (version == 1 || (ret->size >= ret->header_size && ret->size <= to - at));
}

static enum table read_inflated(struct gpu_builder *b, const unsigned char *p, size_t n,
                                unsigned method, size_t blocks)
{
    size_t room = blocks * BLOCK_MAX;
    unsigned char *out = malloc(room);
    if (!out) {
        return TABLE_BROKEN;
    }
    size_t got = method == METHOD_ZSTD ? inflate_zstd(p, n, blocks, out, room)
                                       : inflate_zlib(p, n, out, room);
    struct gpu_span table = {out, got};
    uint64_t end = 0;
    enum table state = got ? read_table(NULL, &table, 0, &end) : TABLE_BROKEN;
    if (state == TABLE_READ) {
        (void)read_table(b, &table, 0, &end); // the same again, now taking the targets
    }
    free(out);
    return state;
}

static void read_packed(struct gpu_builder *b, uint64_t at, uint64_t to, const struct packed *k)
{
    const unsigned char *p = b->file.data + at + k->header_size;
    size_t n = (size_t)((k->size ? k->size : to - at) - k->header_size);
    b->code->n_bundles++;
    if (++b->code->n_packed_bundles > INFLATIONS_MAX) {
        b->code->incomplete = true;
        gpu_note(b, "more than %d compressed bundles: the others were not read", INFLATIONS_MAX);
        return;
    }
    enum table state = read_inflated(b, p, n, k->method, 1);
    if (state == TABLE_SHORT) {
        state = read_inflated(b, p, n, k->method, BLOCKS_MAX);
    }
    if (state != TABLE_READ) {
        b->code->incomplete = true;
        gpu_note(b, "compressed bundle at offset 0x%llx: its table could not be read",
                 (unsigned long long)at);
    }
}

/* ------------------------------------------------------------------ the walk */

static uint64_t read_plain(struct gpu_builder *b, uint64_t at, uint64_t to)
{
    struct gpu_span span = {b->file.data, (size_t)to};
    uint64_t size = 0;
    b->code->n_bundles++;
    if (read_table(b, &span, at, &size) != TABLE_READ || size > to - at) {
        b->code->incomplete = true;
        gpu_note(b, "bundle at offset 0x%llx: its table does not fit what holds it",
                 (unsigned long long)at);
        return at;
    }
    return at + size;
}

/* What begins at `at`; returns where it ends, or `at` when that is not known. */
static uint64_t read_object(struct gpu_builder *b, uint64_t at, uint64_t to, bool searching)
{
    struct packed k;
    struct str target;
    if (span_is_plain(&b->file, at)) {
        return read_plain(b, at, to);
    }
    if (is_packed(&b->file, at)) {
        if (packed_header(&b->file, at, to, &k)) {
            read_packed(b, at, to, &k);
            return at + k.size;
        }
        if (!searching) {
            b->code->incomplete = true;
            gpu_note(b, "compressed bundle at offset 0x%llx: header of an unknown form",
                     (unsigned long long)at);
        }
    } else if (!searching && gpu_amdgpu_target(b, at, &target)) {
        gpu_add_target(b, target);
    }
    return at;
}

/* `first`: where a page begins in memory, as an offset in the file. */
static void walk_pages(struct gpu_builder *b, uint64_t first, uint64_t to, bool searching)
{
    uint64_t at = first;
    while (at < to) {
        uint64_t end = read_object(b, at, to, searching);
        at = end == at ? at + PAGE : first + (end - first + PAGE - 1) / PAGE * PAGE;
    }
}

void gpu_bundle_walk(struct gpu_builder *b, uint64_t from, uint64_t to, bool searching)
{
    /* A bundle by itself in a file begins at 0; in a section at the next multiple of the page. */
    walk_pages(b, (from + PAGE - 1) / PAGE * PAGE, to, searching);
}

void gpu_bundle_walk_section(struct gpu_builder *b, uint64_t from, uint64_t to)
{
    walk_pages(b, from, to, false);
}
