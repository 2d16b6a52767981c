/* ld.so.cache: ldso/cache.h. Formats, order, hwcaps, and files that are damaged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "ldso/cache.h"

static struct arena arena;

struct line {
    const char *name, *path;
    uint32_t flags;
    uint64_t hwcap;
};

enum { HERE = 0x0303, OTHER = 0x0003 };
enum { HWCAPS = 100 }; // names of folders; all but the last two are empty
#define NAMED(i)                                                                                   \
    ((uint64_t)1 << 62 | (HWCAPS - 2 + (i))) // entry of the hwcaps folder i of these two
enum shape { OLD, NEW, BOTH };

/* In the order of ldconfig: names descend, digits as numbers, named hwcaps before plain. */
static const struct line lines[] = {
    {"libz.so.10", "/lib/libz.so.10", HERE, 0},
    {"libz.so.9", "/lib/libz.so.9", HERE, 0},
    {"liby.so.1", "/v3/liby.so.1", HERE, NAMED(1)},
    {"liby.so.1", "/v2/liby.so.1", HERE, NAMED(0)},
    {"liby.so.1", "/lib/liby.so.1", HERE, 0},
    {"libx.so.09.1", "/lib/libx.so.09.1", HERE, 0}, // behind the name that it begins with
    {"libx.so.09", "/lib/libx.so.09", HERE, 0},
    {"libm.so.6.0.2", "/lib/libm.so.6.0.2", HERE, 0},
    {"libm.so.6.0.1", "/lib/libm.so.6.0.1", HERE, 0},
    {"libm.so.6.0", "/lib/libm.so.6.0", HERE, 0},
    {"libm.so.6", "/lib32/libm.so.6", OTHER, 0},
    {"libm.so.6", "/lib/libm.so.6", HERE, 0},
    {"libm.so.6", "/lib/second/libm.so.6", HERE, 0},
    {"liba.so.1", "/lib/haswell/liba.so.1", HERE, (uint64_t)4 << 48},
    {"liba.so.1", "/lib/liba.so.1", HERE, 0},
};
enum { LINES = sizeof lines / sizeof *lines };
static const char *const hwcaps_names[] = {"x86-64-v2", "x86-64-v3"};

struct bytes {
    unsigned char data[4096];
    size_t n;
};

static void put(struct bytes *b, const void *data, size_t n)
{
    assert_true(b->n + n <= sizeof b->data);
    memcpy(b->data + b->n, data, n);
    b->n += n;
}

static void put32(struct bytes *b, uint32_t value)
{
    put(b, &value, sizeof value);
}

static void set32(struct bytes *b, size_t at, uint32_t value)
{
    memcpy(b->data + at, &value, sizeof value);
}

static uint32_t put_text(struct bytes *b, const char *text, size_t base)
{
    put(b, text, strlen(text) + 1);
    return (uint32_t)(b->n - strlen(text) - 1 - base);
}

static void put_old(struct bytes *b)
{
    put(b, "ld.so-1.7.0\0", 12);
    put32(b, LINES);
    b->n += LINES * 12;
}

/* Strings behind all tables; entries of `size` bytes at `table` get offsets from `base`. */
static void put_strings(struct bytes *b, size_t table, size_t size, size_t base)
{
    for (size_t i = 0; i < LINES; i++) {
        size_t at = table + i * size;
        set32(b, at, lines[i].flags);
        set32(b, at + 4, put_text(b, lines[i].name, base));
        set32(b, at + 8, put_text(b, lines[i].path, base));
        if (size == 24) {
            memcpy(b->data + at + 16, &lines[i].hwcap, 8);
        }
    }
}

static void put_extension(struct bytes *b, size_t header)
{
    uint32_t names[HWCAPS] = {0};
    for (size_t i = 0; i < 2; i++) { // offsets from the start of the file
        names[HWCAPS - 2 + i] = put_text(b, hwcaps_names[i], 0);
    }
    b->n = (b->n + 3) & ~(size_t)3;
    set32(b, header + 32, (uint32_t)b->n);
    put32(b, 0xeaa42174), put32(b, 1);
    put32(b, 1), put32(b, 0), put32(b, (uint32_t)b->n + 8), put32(b, sizeof names);
    put(b, names, sizeof names);
}

static void build(enum shape shape, struct bytes *b)
{
    memset(b, 0, sizeof *b);
    size_t old_end = 0;
    if (shape != NEW) {
        put_old(b);
        old_end = b->n;
    }
    b->n = (b->n + 7) & ~(size_t)7;
    size_t header = b->n;
    if (shape != OLD) {
        put(b, "glibc-ld.so.cache1.1", 20);
        put32(b, LINES);
        b->data[header + 28] = 2; // little-endian, as this test's machine
        b->n = header + 48 + (size_t)LINES * 24;
        put_strings(b, header + 48, 24, header);
        put_extension(b, header);
    }
    if (shape != NEW) {
        put_strings(b, 16, 12, old_end);
    }
}

static const char *const v3_and_v2[] = {"x86-64-v3", "x86-64-v2"};

static struct ldso_cache_key key_of(int glibc_minor, size_t n_hwcaps, uint64_t platform)
{
    return (struct ldso_cache_key){.flags = {HERE},
                                   .n_flags = 1,
                                   .glibc_minor = glibc_minor,
                                   .hwcaps = v3_and_v2 + (2 - n_hwcaps),
                                   .n_hwcaps = n_hwcaps,
                                   .legacy_have = (uint64_t)1 << 63,
                                   .legacy_platform = platform};
}

/* The first entry of a name that fits wins; a named-hwcaps one by the CPU's order. */
static void finds(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int glibc_minor;
        size_t n_hwcaps;
        uint64_t platform;
        const char *path, *old_path; // in the new and in the old format
    } cases[] = {
        {"libz.so.10", 36, 2, 0, "/lib/libz.so.10", "/lib/libz.so.10"},
        {"libz.so.9", 36, 2, 0, "/lib/libz.so.9", "/lib/libz.so.9"},
        {"libx.so.9", 36, 2, 0, "/lib/libx.so.09", "/lib/libx.so.09"}, // digits are numbers
        {"libx.so.009", 36, 2, 0, "/lib/libx.so.09", "/lib/libx.so.09"},
        {"libm.so.6", 36, 2, 0, "/lib/libm.so.6", "/lib/libm.so.6"},
        {"libm.so.6.0", 36, 2, 0, "/lib/libm.so.6.0", "/lib/libm.so.6.0"},
        {"libm.so.6.0.2", 36, 2, 0, "/lib/libm.so.6.0.2", "/lib/libm.so.6.0.2"},
        {"libx.so.9.1", 36, 2, 0, "/lib/libx.so.09.1", "/lib/libx.so.09.1"},
        {"liby.so.1", 36, 2, 0, "/v3/liby.so.1", "/v3/liby.so.1"},
        {"liby.so.1", 36, 1, 0, "/v2/liby.so.1", "/v3/liby.so.1"},
        {"liby.so.1", 36, 0, 0, "/lib/liby.so.1", "/v3/liby.so.1"},
        {"liba.so.1", 36, 2, 0, "/lib/liba.so.1", "/lib/haswell/liba.so.1"},
        {"liba.so.1", 36, 2, (uint64_t)4 << 48, "/lib/haswell/liba.so.1", "/lib/haswell/liba.so.1"},
        {"liba.so.1", 41, 2, (uint64_t)4 << 48, "/lib/liba.so.1", "/lib/haswell/liba.so.1"},
        {"libz.so.1", 36, 2, 0, NULL, NULL},
        {"libz.so", 36, 2, 0, NULL, NULL},
        {"a", 36, 2, 0, NULL, NULL},
        {"zzz", 36, 2, 0, NULL, NULL},
        {"", 36, 2, 0, NULL, NULL},
    };
    for (enum shape shape = OLD; shape <= BOTH; shape++) {
        struct bytes b;
        build(shape, &b);
        struct ldso_cache cache;
        ldso_cache_parse(b.data, b.n, &cache);
        assert_null(cache.why_unused);
        assert_int_equal(cache.n, LINES);
        assert_int_equal(cache.is_new, shape != OLD);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            struct ldso_cache_key key =
                key_of(cases[i].glibc_minor, cases[i].n_hwcaps, cases[i].platform);
            const char *want = shape == OLD ? cases[i].old_path : cases[i].path;
            const char *got = ldso_cache_find(&cache, cases[i].name, &key);
            if ((want || got) && (!want || !got || strcmp(want, got) != 0)) {
                fail_msg("shape %d, %s with glibc 2.%d: %s instead of %s", shape, cases[i].name,
                         cases[i].glibc_minor, got ? got : "nothing", want ? want : "nothing");
            }
        }
    }
}

static void lists_entries(void **state)
{
    (void)state;
    for (enum shape shape = OLD; shape <= BOTH; shape++) {
        struct bytes b;
        build(shape, &b);
        struct ldso_cache cache;
        ldso_cache_parse(b.data, b.n, &cache);
        const char *name, *path;
        for (uint32_t i = 0; i < LINES; i++) {
            assert_true(ldso_cache_entry(&cache, i, &name, &path));
            assert_string_equal(name, lines[i].name);
            assert_string_equal(path, lines[i].path);
        }
        assert_false(ldso_cache_entry(&cache, LINES, &name, &path));
    }
}

/* What the loader ignores, in words. */
static void unused_caches(void **state)
{
    (void)state;
    static const struct {
        enum shape shape;
        size_t at; // a byte that is changed
        unsigned char value;
        const char *why;
    } cases[] = {
        {NEW, 28, 3, "byte order"},           {NEW, 28, 1, "byte order"},
        {NEW, 22, 0xff, "shorter"},           {OLD, 14, 0xff, "shorter"},
        {NEW, 18, '2', "no known signature"}, {OLD, 0, 'L', "no known signature"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bytes b;
        build(cases[i].shape, &b);
        b.data[cases[i].at] = cases[i].value;
        struct ldso_cache cache;
        ldso_cache_parse(b.data, b.n, &cache);
        assert_non_null(cache.why_unused);
        assert_int_equal(cache.n, 0);
        if (!strstr(cache.why_unused, cases[i].why)) {
            fail_msg("case %zu: %s", i, cache.why_unused);
        }
        struct ldso_cache_key key = key_of(36, 2, 0);
        assert_null(ldso_cache_find(&cache, "libm.so.6", &key));
    }
}

/* Reads a copy that ends where nothing can be read, so that a read behind it is a crash. */
static void use_copy(const struct bytes *b, size_t n)
{
    enum { ROOM = 1 << 16 };
    static unsigned char *room;
    if (!room) {
        room = mmap(NULL, 2 * ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(room != MAP_FAILED && mprotect(room + ROOM, ROOM, PROT_NONE) == 0);
    }
    unsigned char *copy = room + ROOM - n;
    memcpy(copy, b->data, n);
    struct ldso_cache cache;
    ldso_cache_parse(copy, n, &cache);
    struct ldso_cache_key key = key_of(36, 2, 0);
    for (uint32_t i = 0; i < cache.n; i++) {
        const char *name, *path;
        if (ldso_cache_entry(&cache, i, &name, &path)) {
            (void)ldso_cache_find(&cache, name, &key); // only that it ends matters here
        }
    }
    for (size_t i = 0; i < LINES; i++) {
        const char *path = ldso_cache_find(&cache, lines[i].name, &key);
        assert_true(!path || strlen(path) < n);
    }
}

static void damaged_at_every_byte(void **state)
{
    (void)state;
    static const unsigned char values[] = {0x00, 0x7f, 0x80, 0xff};
    for (enum shape shape = OLD; shape <= BOTH; shape++) {
        struct bytes b;
        build(shape, &b);
        for (size_t n = 0; n < b.n; n++) {
            use_copy(&b, n);
        }
        for (size_t at = 0; at < b.n; at++) {
            unsigned char old = b.data[at];
            for (size_t k = 0; k < sizeof values; k++) {
                b.data[at] = values[k];
                use_copy(&b, b.n);
            }
            b.data[at] = old;
        }
    }
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds),
        cmocka_unit_test(lists_entries),
        cmocka_unit_test(unused_caches),
        cmocka_unit_test(damaged_at_every_byte),
    };
    return cmocka_run_group_tests(tests, start, finish);
}
