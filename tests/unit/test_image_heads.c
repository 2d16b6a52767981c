/* The headers of GPU code in a file that streams by: image/heads.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zstd.h>

#include "gpu/fatbin.h"
#include "image/heads.h"

enum { FILE_SIZE = 0x1000, CONTAINER_AT = 0x108, ENTRIES = 3, PAYLOAD = 200 };
enum { LIST_AT = 0x500, LIST_SIZE = 24, CUT_AT = 0x800, FALSE_AT = 0xc00 };

static unsigned char file[FILE_SIZE];
static enum { ANY, HEADER, PAYLOAD_OF } kinds[FILE_SIZE]; // what each byte is of

static void put(size_t at, uint64_t value, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        file[at + i] = (unsigned char)(value >> 8 * i);
    }
}

static void mark(size_t at, size_t n, int kind)
{
    for (size_t i = at; i < at + n; i++) {
        kinds[i] = kind;
    }
}

static void put_entry(size_t at, uint64_t payload, uint64_t arch)
{
    memset(file + at, 0, FATBIN_ENTRY);
    put(at, 2, 2), put(at + 2, FATBIN_ENTRY_VERSION, 2), put(at + 4, FATBIN_ENTRY, 4);
    put(at + 8, payload, 8), put(at + 28, arch, 4);
    mark(at, FATBIN_ENTRY, HEADER);
}

/* A list is all header: what it says of the entries stands behind its own. */
static void put_list(size_t at)
{
    put(LIST_AT, FATBIN_MAGIC, 4), put(LIST_AT + 4, 1, 2);
    put(LIST_AT + 6, FATBIN_HEADER, 2);
    put(LIST_AT + 8, 2 * FATBIN_ENTRY + LIST_SIZE + PAYLOAD, 8);
    mark(LIST_AT, FATBIN_HEADER, HEADER);
    put_entry(at, 0, 0);
    put(at, FATBIN_LIST, 2), put(at + 4, FATBIN_ENTRY + LIST_SIZE, 4);
    mark(at + FATBIN_ENTRY, LIST_SIZE, HEADER);
    put_entry(at + FATBIN_ENTRY + LIST_SIZE, PAYLOAD, 80);
    mark(at + 2 * FATBIN_ENTRY + LIST_SIZE, PAYLOAD, PAYLOAD_OF);
}

/* A container of three entries among bytes that are not zero; one whose last entry claims to
 * be longer than it, up to behind what follows; and the magic alone. */
static void make(void)
{
    size_t each = FATBIN_ENTRY + PAYLOAD, at = CONTAINER_AT + FATBIN_HEADER;
    memset(file, 0xaa, sizeof file);
    put(CONTAINER_AT, FATBIN_MAGIC, 4), put(CONTAINER_AT + 4, 1, 2);
    put(CONTAINER_AT + 6, FATBIN_HEADER, 2), put(CONTAINER_AT + 8, ENTRIES * each, 8);
    mark(CONTAINER_AT, FATBIN_HEADER, HEADER);
    for (size_t i = 0; i < ENTRIES; i++, at += each) {
        put_entry(at, PAYLOAD, 80 + i);
        mark(at + FATBIN_ENTRY, PAYLOAD, PAYLOAD_OF);
    }
    put_list(LIST_AT + FATBIN_HEADER);
    put(CUT_AT, FATBIN_MAGIC, 4), put(CUT_AT + 4, 1, 2);
    put(CUT_AT + 6, FATBIN_HEADER, 2), put(CUT_AT + 8, 2 * each, 8);
    mark(CUT_AT, FATBIN_HEADER, HEADER);
    put_entry(CUT_AT + FATBIN_HEADER, PAYLOAD, 90);
    put_entry(CUT_AT + FATBIN_HEADER + each, 2 * (FALSE_AT - CUT_AT), 90);
    mark(CUT_AT + FATBIN_HEADER + FATBIN_ENTRY, PAYLOAD, PAYLOAD_OF);
    put(FALSE_AT, FATBIN_MAGIC, 4);
    mark(FALSE_AT, FATBIN_HEADER, HEADER); // a reader must see that no container begins there
}

/* Every header is kept and no payload, wherever the pieces of the stream end. */
static void headers(void **state)
{
    (void)state;
    static const size_t steps[] = {1, 7, 64, 1000, FILE_SIZE};
    make();
    for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
        struct arena arena;
        uint64_t room = 1 << 20;
        static struct image_heads heads;
        static unsigned char kept[FILE_SIZE], records[IMAGE_HEADS_BLOCK];
        arena_init(&arena, 0, NULL, NULL);
        heads = (struct image_heads){.size = FILE_SIZE,
                                     .packer = ZSTD_createCCtx(),
                                     .arena = &arena,
                                     .scratch = &arena,
                                     .room = &room};
        for (size_t at = 0; at < FILE_SIZE; at += steps[s]) {
            size_t n = FILE_SIZE - at < steps[s] ? FILE_SIZE - at : steps[s];
            image_heads_take(&heads, file + at, n, at);
        }
        image_heads_end(&heads);
        assert_false(heads.lost);
        memset(kept, 0, sizeof kept);
        for (size_t i = 0; i < heads.blocks.n; i++) {
            const struct image_heads_block *b = &heads.blocks.items[i];
            assert_int_equal(ZSTD_decompress(records, sizeof records, b->packed, b->n), b->size);
            image_heads_copy(records, b->size, 0, FILE_SIZE, kept);
        }
        for (size_t i = 0; i < FILE_SIZE; i++) {
            if (kinds[i] != PAYLOAD_OF && kept[i] == file[i]) {
                continue;
            }
            if (kinds[i] == HEADER || kept[i] != 0) {
                fail_msg("pieces of %zu bytes: byte %#zx is %#x", steps[s], i, kept[i]);
            }
        }
        ZSTD_freeCCtx(heads.packer);
        arena_release(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(headers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
