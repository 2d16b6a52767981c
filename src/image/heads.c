#include "image/heads.h"

#include <string.h>
#include <zstd.h>

#include "gpu/bytes.h"
#include "gpu/fatbin.h"

enum { RECORD_HEAD = 16, RECORD_MAX = 4096, BATCH = 32, LEVEL = 1 };
static const unsigned char magic[4] = {FATBIN_MAGIC & 255, FATBIN_MAGIC >> 8 & 255,
                                       FATBIN_MAGIC >> 16 & 255, FATBIN_MAGIC >> 24};

static uint64_t aligned(uint64_t at)
{
    return at > UINT64_MAX - FATBIN_ALIGN ? UINT64_MAX
                                          : (at + FATBIN_ALIGN - 1) / FATBIN_ALIGN * FATBIN_ALIGN;
}

/* ------------------------------------------------------------------ records */

static void heads_pack(struct image_heads *h)
{
    unsigned char packed[IMAGE_HEADS_BLOCK + 1024]; // ZSTD_compressBound() of a block
    if (h->n_block == 0) {
        return;
    }
    size_t n = ZSTD_compressCCtx(h->packer, packed, sizeof packed, h->block, h->n_block, LEVEL);
    if (ZSTD_isError(n) || n + sizeof(struct image_heads_block) > *h->room) {
        h->lost = true;
    } else {
        unsigned char *copy = arena_alloc(h->arena, n);
        memcpy(copy, packed, n);
        *h->room -= n + sizeof(struct image_heads_block);
        VEC_PUSH(h->scratch, &h->blocks,
                 (struct image_heads_block){h->block_from, h->block_to, copy, (uint32_t)n,
                                            (uint32_t)h->n_block});
    }
    h->n_block = 0;
}

static void put_u64(unsigned char *p, uint64_t v)
{
    for (int i = 0; i < 8; i++) {
        p[i] = (unsigned char)(v >> 8 * i);
    }
}

/* At most RECORD_MAX bytes. */
static void heads_record(struct image_heads *h, uint64_t offset, const unsigned char *bytes,
                         size_t n)
{
    if (h->n_block + RECORD_HEAD + n > sizeof h->block) {
        heads_pack(h);
    }
    unsigned char *p = h->block + h->n_block;
    put_u64(p, offset);
    put_u64(p + 8, n);
    memcpy(p + RECORD_HEAD, bytes, n);
    h->block_from = h->n_block ? h->block_from : offset;
    h->block_to = h->n_block && h->block_to > offset + n ? h->block_to : offset + n;
    h->n_block += RECORD_HEAD + n;
}

void image_heads_copy(const unsigned char *records, size_t size, uint64_t offset, size_t n,
                      unsigned char *to)
{
    for (size_t at = 0; size - at >= RECORD_HEAD;) {
        uint64_t from = gpu_u64(records + at), length = gpu_u64(records + at + 8);
        const unsigned char *bytes = records + at + RECORD_HEAD;
        uint64_t start = from > offset ? from : offset;
        uint64_t end = from + length < offset + n ? from + length : offset + n;
        if (start < end) {
            memcpy(to + (start - offset), bytes + (start - from), (size_t)(end - start));
        }
        at += RECORD_HEAD + (size_t)length;
    }
}

/* ------------------------------------------------------------------ containers */

static void go(struct image_heads *h, enum image_heads_state state, uint64_t at)
{
    h->state = state;
    h->at = at;
    h->have = 0;
}

static bool entry_fits(const unsigned char *entry, uint64_t at, uint64_t end)
{
    uint64_t header = gpu_u32(entry + 4), payload = gpu_u64(entry + 8);
    return gpu_u16(entry + 2) == FATBIN_ENTRY_VERSION && header >= FATBIN_ENTRY &&
           header <= FATBIN_ENTRY_MAX && header <= end - at && payload <= end - at - header;
}

/* What a search accepts, and what the compiler writes. */
static bool heads_look_whole(const struct image_heads *h)
{
    const unsigned char *p = h->buffer, *entry = p + FATBIN_HEADER;
    uint64_t size = gpu_u64(p + 8), room = h->size - h->at;
    return memcmp(p, magic, sizeof magic) == 0 && p[4] == 1 && p[5] == 0 && p[6] == FATBIN_HEADER &&
           p[7] == 0 && room > FATBIN_HEADER && size <= room - FATBIN_HEADER &&
           gpu_u16(entry + 2) == FATBIN_ENTRY_VERSION && gpu_u32(entry + 4) >= FATBIN_ENTRY &&
           gpu_u32(entry + 4) <= FATBIN_ENTRY_MAX && gpu_u64(entry + 8) <= size &&
           gpu_u32(entry + 28) < FATBIN_ARCH_MAX;
}

/* No container begins at `at`: the search goes on in what is held already, and behind it. What
 * stands there is recorded, so that bytes which belong to no container are seen. */
static void search_on(struct image_heads *h)
{
    heads_record(h, h->at, h->buffer, h->have < FATBIN_HEADER ? h->have : FATBIN_HEADER);
    if (h->have == IMAGE_HEADS_NEED && memcmp(h->buffer, magic, sizeof magic) == 0) {
        heads_record(h, h->at + FATBIN_HEADER, h->buffer + FATBIN_HEADER, FATBIN_ENTRY);
    }
    for (size_t i = FATBIN_ALIGN; i + sizeof magic <= h->have; i += FATBIN_ALIGN) {
        if (memcmp(h->buffer + i, magic, sizeof magic) == 0) {
            memmove(h->buffer, h->buffer + i, h->have - i);
            h->at += i;
            h->have -= i;
            return;
        }
    }
    go(h, IMAGE_HEADS_SEARCH, h->at + h->have / FATBIN_ALIGN * FATBIN_ALIGN);
}

static void end_container(struct image_heads *h)
{
    go(h, IMAGE_HEADS_CONTAINER, aligned(h->end));
}

static void take_container(struct image_heads *h)
{
    if (!heads_look_whole(h)) {
        search_on(h);
        return;
    }
    unsigned char entry[FATBIN_ENTRY];
    heads_record(h, h->at, h->buffer, FATBIN_HEADER);
    memcpy(entry, h->buffer + FATBIN_HEADER, sizeof entry);
    h->end = h->at + FATBIN_HEADER + gpu_u64(h->buffer + 8);
    go(h, IMAGE_HEADS_ENTRY, h->at + FATBIN_HEADER);
    memcpy(h->buffer, entry, sizeof entry); // it has come already
    h->have = sizeof entry;
}

static void heads_take_entry(struct image_heads *h)
{
    const unsigned char *p = h->buffer;
    uint64_t header = gpu_u32(p + 4), payload = gpu_u64(p + 8);
    heads_record(h, h->at, p, FATBIN_ENTRY);
    if (!entry_fits(p, h->at, h->end)) {
        end_container(h); // the reader says so, and passes over the rest
        return;
    }
    uint64_t next = h->at + header + payload;
    if (gpu_u16(p) == FATBIN_LIST && header > FATBIN_ENTRY) {
        h->lost |= header > IMAGE_HEADS_LIST_MAX;
        h->list = header - FATBIN_ENTRY;
        go(h, IMAGE_HEADS_LIST, h->at + FATBIN_ENTRY);
        put_u64(h->buffer, next);
        return;
    }
    go(h, IMAGE_HEADS_ENTRY, next);
}

/* The bytes that the state needs at `at`; 0: there can be none. */
static size_t heads_need(struct image_heads *h)
{
    if (h->state == IMAGE_HEADS_ENTRY && h->end - h->at < FATBIN_ENTRY) {
        return 0;
    }
    return h->state == IMAGE_HEADS_ENTRY ? (size_t)FATBIN_ENTRY : (size_t)IMAGE_HEADS_NEED;
}

static void take_list(struct image_heads *h, const unsigned char *bytes, size_t n)
{
    size_t step = n < RECORD_MAX ? n : RECORD_MAX;
    step = h->list < step ? (size_t)h->list : step;
    heads_record(h, h->at, bytes, step);
    h->at += step;
    h->list -= step;
    if (h->list == 0) {
        go(h, IMAGE_HEADS_ENTRY, gpu_u64(h->buffer));
    }
}

/* Whether the magic stands at one of the next BATCH multiples of FATBIN_ALIGN; no branch in it. */
static bool in_batch(const unsigned char *p)
{
    uint32_t wanted, word;
    unsigned found = 0;
    memcpy(&wanted, magic, sizeof wanted);
    for (size_t i = 0; i < BATCH; i++) {
        memcpy(&word, p + i * FATBIN_ALIGN, sizeof word);
        found |= word == wanted;
    }
    return found;
}

static void heads_search(struct image_heads *h, const unsigned char *bytes, size_t n,
                         uint64_t offset)
{
    size_t i = (size_t)(h->at - offset);
    while (i + BATCH * FATBIN_ALIGN <= n && !in_batch(bytes + i)) {
        i += BATCH * FATBIN_ALIGN;
    }
    for (; i + sizeof magic <= n; i += FATBIN_ALIGN) {
        if (bytes[i] == magic[0] && memcmp(bytes + i, magic, sizeof magic) == 0) {
            break;
        }
    }
    go(h, i < n ? IMAGE_HEADS_CONTAINER : IMAGE_HEADS_SEARCH, offset + i);
}

static void heads_collect(struct image_heads *h, const unsigned char *bytes, size_t n,
                          uint64_t offset)
{
    size_t wanted = heads_need(h);
    if (wanted == 0) {
        end_container(h);
        return;
    }
    uint64_t next = h->at + h->have;
    size_t here = (size_t)(offset + n - next), left = wanted > h->have ? wanted - h->have : 0;
    here = here < left ? here : left;
    if (here) {
        memcpy(h->buffer + h->have, bytes + (next - offset), here);
        h->have += here;
    }
    if (h->have >= wanted) {
        if (h->state == IMAGE_HEADS_ENTRY) {
            heads_take_entry(h);
        } else {
            take_container(h);
        }
    }
}

/* Whether there is something to do with the bytes up to `end`. */
static bool heads_go_on(struct image_heads *h, uint64_t end)
{
    if (h->state == IMAGE_HEADS_SEARCH || h->state == IMAGE_HEADS_LIST) {
        return h->at < end;
    }
    size_t wanted = heads_need(h);
    return h->have >= wanted || h->at + h->have < end;
}

void image_heads_take(struct image_heads *h, const unsigned char *bytes, size_t n, uint64_t offset)
{
    while (heads_go_on(h, offset + n)) {
        if (h->state == IMAGE_HEADS_SEARCH) {
            heads_search(h, bytes, n, offset);
        } else if (h->state == IMAGE_HEADS_LIST) {
            take_list(h, bytes + (h->at - offset), (size_t)(offset + n - h->at));
        } else {
            heads_collect(h, bytes, n, offset);
        }
    }
}

void image_heads_end(struct image_heads *h)
{
    if (h->state != IMAGE_HEADS_SEARCH && h->state != IMAGE_HEADS_LIST && h->have) {
        heads_record(h, h->at, h->buffer, h->have); // the file ends in it
    }
    heads_pack(h);
}
