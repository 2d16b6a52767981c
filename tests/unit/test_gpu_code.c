/* Fat binaries, offload bundles and code objects made by hand, as src/gpu/fatbin.c, bundle.c and
 * amdgpu.c draw them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zlib.h>
#include <zstd.h>

#include "gpu/code.h"
#include "pemake.h"

struct bytes {
    unsigned char at[1 << 16];
    size_t n;
};

static void put(struct bytes *b, uint64_t value, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        b->at[b->n++] = (unsigned char)(value >> 8 * i);
    }
}

static void put_at(struct bytes *b, size_t offset, uint64_t value, size_t n)
{
    size_t end = b->n;
    b->n = offset;
    put(b, value, n);
    b->n = end;
}

static void put_text(struct bytes *b, const char *text, size_t n)
{
    memcpy(b->at + b->n, text, n);
    b->n += n;
}

static void pad(struct bytes *b, size_t to)
{
    while (b->n % to) {
        put(b, 0, 1);
    }
}

enum { PTX = 1, ELF = 2, LIST = 256, LZ4 = 1 << 13, ZSTD = 1 << 15, A = 1 << 20, F = 1 << 21 };

struct entry {
    unsigned kind, arch, isa_major, isa_minor;
    uint64_t flags;
    size_t payload, inflated;
};

static void put_entry(struct bytes *b, const struct entry *e, unsigned header, unsigned options)
{
    put(b, e->kind, 2);
    put(b, 0x0101, 2);
    put(b, header, 4);
    put(b, e->payload, 8);
    put(b, e->payload, 4);
    put(b, options, 4);
    put(b, e->isa_minor, 2);
    put(b, e->isa_major, 2);
    put(b, e->arch, 4);
    put(b, 0, 8);
    put(b, e->flags, 8);
    put(b, 0, 8);
    put(b, e->inflated, 8);
}

static size_t open_container(struct bytes *b)
{
    put(b, 0xBA55ED50, 4);
    put(b, 1, 2);
    put(b, 16, 2);
    put(b, 0, 8);
    return b->n;
}

static void close_container(struct bytes *b, size_t start)
{
    put_at(b, start - 8, b->n - start, 8);
}

static void put_container(struct bytes *b, const struct entry *entries, size_t n)
{
    size_t start = open_container(b);
    for (size_t i = 0; i < n; i++) {
        put_entry(b, &entries[i], 64, 0);
        for (size_t k = 0; k < entries[i].payload; k++) {
            put(b, 0xee, 1);
        }
    }
    close_container(b, start);
}

/* Reads a copy of exactly n bytes, so that a sanitizer sees any step behind them. */
static void read_copy(struct arena *a, const unsigned char *at, size_t n, struct gpu_code *ret)
{
    unsigned char *copy = malloc(n ? n : 1);
    assert_non_null(copy);
    memcpy(copy, at, n);
    gpu_code_read(a, copy, n, GPU_READ_ALL, ret);
    free(copy);
}

static void read_bytes(struct arena *a, const struct bytes *b, struct gpu_code *ret)
{
    read_copy(a, b->at, b->n, ret);
}

/* "sm_75:2 sm_90a:1 | compute_90:1" */
static const char *cuda_text(struct arena *a, const struct gpu_cuda *c)
{
    const char *s = "";
    for (size_t i = 0; i < c->n_native; i++) {
        s = arena_printf(a, "%s%s%s:%zu", s, i ? " " : "", c->native[i].name,
                         c->native[i].n_entries);
    }
    s = arena_printf(a, "%s |", s);
    for (size_t i = 0; i < c->n_ptx; i++) {
        s = arena_printf(a, "%s %s:%zu", s, c->ptx[i].name, c->ptx[i].n_entries);
    }
    return s;
}

static const char *targets_text(struct arena *a, const struct gpu_code *code)
{
    const char *s = "";
    for (size_t i = 0; i < code->n_targets; i++) {
        s = arena_printf(a, "%s%s%s:%zu", s, i ? " " : "", code->targets[i].name,
                         code->targets[i].n_entries);
    }
    return s;
}

static const struct entry two_forms[] = {
    {ELF, 90, 1, 8, A | ZSTD, 24, 100},
    {ELF, 75, 1, 8, ZSTD, 16, 100},
    {PTX, 90, 8, 3, LZ4, 8, 100},
};
static const struct entry other_forms[] = {
    {ELF, 120, 1, 8, F, 8, 0},
    {ELF, 75, 1, 8, 0, 8, 0},
    {PTX, 120, 9, 0, A, 8, 0},
    {PTX, 90, 9, 0, 0, 8, 0},
};

static int setup(void **state)
{
    static struct arena a;
    arena_init(&a, 0, NULL, NULL);
    *state = &a;
    return 0;
}

static int teardown(void **state)
{
    arena_release(*state);
    return 0;
}

static void test_containers(void **state)
{
    struct arena *a = *state;
    struct bytes b = {0};
    struct gpu_code code;
    put_container(&b, two_forms, 3);
    put(&b, 0, 8); // zeros between containers are padding
    put_container(&b, other_forms, 4);
    put_container(&b, other_forms, 4);
    read_bytes(a, &b, &code);
    assert_string_equal(cuda_text(a, &code.cuda),
                        "sm_75:3 sm_90a:1 sm_120f:2 | compute_90:3 compute_120a:2");
    assert_int_equal(code.cuda.n_containers, 3);
    assert_int_equal(code.cuda.n_groups, 2);
    assert_int_equal(code.cuda.ptx[0].isa_min, 83);
    assert_int_equal(code.cuda.ptx[0].isa_max, 90);
    assert_int_equal(code.n_zstd, 2);
    assert_int_equal(code.n_lz4, 1);
    assert_int_equal(code.n_plain, 8);
    assert_int_equal(code.n_notes, 0);
    assert_false(code.incomplete);
    /* Masks follow the sorted rows: {sm_75, sm_90a | compute_90} once, the other twice. */
    assert_int_equal(code.cuda.groups[0].native, 3);
    assert_int_equal(code.cuda.groups[0].ptx, 1);
    assert_int_equal(code.cuda.groups[0].n_containers, 1);
    assert_int_equal(code.cuda.groups[1].native, 5);
    assert_int_equal(code.cuda.groups[1].ptx, 3);
    assert_int_equal(code.cuda.groups[1].n_containers, 2);
}

/* Members of a list: one without options, one with options of 36 bytes (112 in all). */
static void test_list(void **state)
{
    struct arena *a = *state;
    struct bytes b = {0};
    struct gpu_code code;
    size_t start = open_container(&b);
    put_entry(&b, &(struct entry){LIST, 0, 0, 1, ZSTD, 16, 500}, 64 + 8 + 64 + 112, 64);
    put(&b, 2, 4);
    put(&b, 8 + 64 + 112, 4);
    put_entry(&b, &(struct entry){ELF, 80, 1, 8, 0, 200, 0}, 0, 0);
    put_entry(&b, &(struct entry){ELF, 103, 1, 8, A, 300, 0}, 200, 64);
    put(&b, 72, 4);
    put(&b, 36, 4);
    b.n += 40;
    b.n += 16; // the payload
    close_container(&b, start);
    read_bytes(a, &b, &code);
    assert_string_equal(cuda_text(a, &code.cuda), "sm_80:1 sm_103a:1 |");
    assert_int_equal(code.n_notes, 0);
    put_at(&b, start + 64, 3, 4); // one member more than there are
    read_bytes(a, &b, &code);
    assert_true(code.incomplete);
    assert_int_equal(code.n_notes, 1);
}

/* What else stands in the section is not passed over in silence. */
static void test_foreign_bytes(void **state)
{
    struct arena *a = *state;
    struct bytes b = {0};
    struct gpu_code code;
    put_container(&b, two_forms, 3);
    put(&b, 1, 8);
    put(&b, 0, 8);
    put_container(&b, other_forms, 4);
    read_bytes(a, &b, &code);
    assert_int_equal(code.cuda.n_containers, 2);
    assert_true(code.incomplete);
    assert_int_equal(code.n_notes, 1);
}

static void test_unknown_kind(void **state)
{
    struct arena *a = *state;
    struct bytes b = {0};
    struct gpu_code code;
    put_container(&b, (struct entry[]){{9, 80, 0, 0, 0, 8, 0}, {ELF, 80, 1, 8, 0, 8, 0}}, 2);
    read_bytes(a, &b, &code);
    assert_string_equal(cuda_text(a, &code.cuda), "sm_80:1 |");
    assert_int_equal(code.n_kinds, 1);
    assert_int_equal(code.kinds[0].kind, 9);
    assert_true(code.incomplete);
}

/* A file cut anywhere: what was read before the cut stays, and the rest is said to be missing. */
static void test_cut_containers(void **state)
{
    struct arena *a = *state;
    struct bytes b = {0};
    struct gpu_code code;
    put_container(&b, two_forms, 3);
    for (size_t n = 16; n < b.n; n++) {
        read_copy(a, b.at, n, &code);
        if (!code.incomplete || code.n_notes == 0) {
            fail_msg("cut at %zu: said to be whole", n);
        }
    }
}

/* ------------------------------------------------------------------ inside an ELF file */

struct section {
    const char *name;
    const struct bytes *bytes;
    size_t align;
};

/* An ELF file of a host with these sections; without headers for them if `stripped`. */
static void put_host(struct bytes *b, const struct section *sections, size_t n, bool stripped)
{
    struct bytes names = {0};
    size_t offsets[8], name_at[8], start = b->n;
    memcpy(b->at, "\177ELF\2\1\1", 7);
    b->n = 64 + 56;
    put(&names, 0, 1);
    for (size_t i = 0; i < n; i++) {
        pad(b, sections[i].align);
        offsets[i] = b->n;
        put_text(b, (const char *)sections[i].bytes->at, sections[i].bytes->n);
        name_at[i] = names.n;
        put_text(&names, sections[i].name, strlen(sections[i].name) + 1);
    }
    size_t names_at = b->n;
    put_text(b, (const char *)names.at, names.n);
    pad(b, 8);
    size_t table = b->n;
    for (size_t i = 0; i <= n && !stripped; i++) {
        size_t at = b->n;
        put(b, i < n ? name_at[i] : 0, 4);
        put(b, 1, 4); // SHT_PROGBITS
        put(b, 2, 8); // SHF_ALLOC
        b->n = at + 64;
        put_at(b, at + 24, i < n ? offsets[i] : names_at, 8);
        put_at(b, at + 32, i < n ? sections[i].bytes->n : names.n, 8);
    }
    put_at(b, start + 16, 3, 2);  // ET_DYN
    put_at(b, start + 18, 62, 2); // x86-64
    put_at(b, start + 20, 1, 4);
    put_at(b, start + 32, 64, 8); // program headers
    put_at(b, start + 40, stripped ? 0 : table, 8);
    put_at(b, start + 52, 64, 2);
    put_at(b, start + 54, 56, 2);
    put_at(b, start + 56, 1, 2);
    put_at(b, start + 58, 64, 2);
    put_at(b, start + 60, stripped ? 0 : n + 1, 2);
    put_at(b, start + 62, stripped ? 0 : n, 2);
    put_at(b, 64, 1, 4);     // PT_LOAD of the whole file
    put_at(b, 64 + 4, 4, 4); // readable
    put_at(b, 64 + 32, b->n, 8);
    put_at(b, 64 + 40, b->n, 8);
}

static void put_bundle(struct bytes *b, const char *const *ids, size_t n)
{
    size_t start = b->n;
    put_text(b, "__CLANG_OFFLOAD_BUNDLE__", 24);
    put(b, n, 8);
    for (size_t i = 0; i < n; i++) {
        put(b, 2048 + 64 * i, 8);
        put(b, strncmp(ids[i], "host", 4) == 0 ? 0 : 64, 8);
        put(b, strlen(ids[i]), 8);
        put_text(b, ids[i], strlen(ids[i]));
    }
    assert_true(b->n - start <= 2048);
    b->n = start + 2048 + 64 * n;
}

static const char *const ids[] = {
    "host-x86_64-unknown-linux--",
    "hipv4-amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-",
    "hipv4-amdgcn-amd-amdhsa--gfx1030",
    "hip-amdgcn-amd-amdhsa-gfx906",
    "hipv4-amdgcn-amd-amdhsa--gfx11-generic",
    "hipv4-spirv64-amd-amdhsa--amdgcnspirv",
};
static const char all_targets[] =
    "amdgcnspirv:1 gfx1030:1 gfx11-generic:1 gfx906:1 gfx90a:sramecc+:xnack-:1";

static void test_sections(void **state)
{
    struct arena *a = *state;
    struct bytes cuda = {0}, relocatable = {0}, hip = {0};
    struct gpu_code code;
    put_container(&cuda, two_forms, 3);
    put_container(&relocatable, other_forms, 4);
    put_bundle(&hip, ids, 6);
    pad(&hip, 4096);
    put_bundle(&hip, ids, 3);
    const struct section sections[] = {
        {".nv_fatbin", &cuda, 8}, {"__nv_relfatbin", &relocatable, 8}, {".hip_fatbin", &hip, 4096}};
    struct bytes b = {0};
    put_host(&b, sections, 3, false);
    read_bytes(a, &b, &code);
    assert_string_equal(cuda_text(a, &code.cuda), "sm_75:1 sm_90a:1 | compute_90:1");
    assert_string_equal(cuda_text(a, &code.relocatable),
                        "sm_75:1 sm_120f:1 | compute_90:1 compute_120a:1");
    assert_string_equal(
        targets_text(a, &code),
        "amdgcnspirv:1 gfx1030:2 gfx11-generic:1 gfx906:1 gfx90a:sramecc+:xnack-:2");
    assert_int_equal(code.n_bundles, 2);
    assert_int_equal(code.n_notes, 0);
}

/* Containers among the data are found on request only, and kept apart. */
static void test_embedded(void **state)
{
    struct arena *a = *state;
    struct bytes cuda = {0}, data = {0}, b = {0};
    struct gpu_code code;
    put_container(&cuda, two_forms, 3);
    put(&data, 0xBA55ED50, 8); // the magic alone
    put(&data, 7, 8);
    put_container(&data, other_forms, 4);
    put(&data, 7, 8);
    put_container(&data, (struct entry[]){{8, 75, 1, 61, LZ4, 8, 100}}, 1);
    const struct section sections[] = {{".nv_fatbin", &cuda, 8}, {".rodata", &data, 8}};
    put_host(&b, sections, 2, false);
    read_bytes(a, &b, &code);
    assert_string_equal(cuda_text(a, &code.cuda), "sm_75:1 sm_90a:1 | compute_90:1");
    assert_string_equal(cuda_text(a, &code.embedded),
                        "sm_75:1 sm_120f:1 | compute_90:1 compute_120a:1");
    assert_int_equal(code.embedded.n_containers, 2);
    assert_int_equal(code.n_kinds, 1); // 8, for linking
    assert_int_equal(code.n_notes, 0);
    assert_true(code.searched);
    gpu_code_read(a, b.at, b.n, GPU_READ_SECTIONS, &code);
    assert_int_equal(code.embedded.n_containers, 0);
    assert_int_equal(code.cuda.n_containers, 1);
    assert_false(code.searched);
}

static void test_stripped(void **state)
{
    struct arena *a = *state;
    struct bytes cuda = {0}, hip = {0}, b = {0};
    struct gpu_code code;
    put(&cuda, 0xBA55ED50, 8); // the magic alone is no container
    put_container(&cuda, two_forms, 3);
    put(&cuda, 0x1234, 8);
    put_container(&cuda, other_forms, 4);
    put_bundle(&hip, ids, 6);
    const struct section sections[] = {{".nv_fatbin", &cuda, 8}, {".hip_fatbin", &hip, 4096}};
    put_host(&b, sections, 2, true);
    read_bytes(a, &b, &code);
    assert_string_equal(cuda_text(a, &code.cuda),
                        "sm_75:2 sm_90a:1 sm_120f:1 | compute_90:2 compute_120a:1");
    assert_string_equal(targets_text(a, &code), all_targets);
    assert_int_equal(code.n_notes, 0);
}

/* ------------------------------------------------------------------ compressed bundles */

/* Payloads that do not compress, so that the frame has more than its first block. */
static void put_noise(struct bytes *b, size_t n)
{
    uint32_t x = 1;
    for (size_t i = 0; i < n; i++) {
        x = x * 1664525 + 1013904223;
        put(b, x >> 24, 1);
    }
}

static void put_packed(struct bytes *b, const struct bytes *inner, unsigned version,
                       unsigned method)
{
    static unsigned char packed[1 << 17];
    size_t n = 0;
    if (method == 1) {
        n = ZSTD_compress(packed, sizeof packed, inner->at, inner->n, 3);
        assert_false(ZSTD_isError(n));
    } else {
        uLongf room = sizeof packed;
        assert_int_equal(compress2(packed, &room, inner->at, inner->n, 6), Z_OK);
        n = room;
    }
    size_t header = version == 1 ? 20 : version == 2 ? 24 : 32;
    put_text(b, "CCOB", 4);
    put(b, version, 2);
    put(b, method, 2);
    if (version > 1) {
        put(b, header + n, version == 2 ? 4 : 8);
    }
    put(b, inner->n, version == 3 ? 8 : 4);
    put(b, 0x0123456789abcdef, 8);
    put_text(b, (const char *)packed, n);
}

static void test_packed(void **state)
{
    struct arena *a = *state;
    static struct bytes inner, b;
    inner.n = 0;
    put_bundle(&inner, ids, 6);
    put_noise(&inner, 40000);
    for (unsigned version = 1; version <= 3; version++) {
        for (unsigned method = 0; method <= 1; method++) {
            struct gpu_code code;
            b.n = 0;
            put_packed(&b, &inner, version, method);
            read_bytes(a, &b, &code);
            if (strcmp(targets_text(a, &code), all_targets) != 0 || code.n_notes) {
                fail_msg("version %u, method %u: %s", version, method, targets_text(a, &code));
            }
            assert_int_equal(code.n_packed_bundles, 1);
            /* A payload that is cut cannot be opened whole, and its table is in its start. */
            read_copy(a, b.at, 64, &code);
            assert_true(code.incomplete);
            assert_int_equal(code.n_targets, 0);
        }
    }
}

/* A table that is longer than one block of the frame (128 KiB). */
static void test_long_table(void **state)
{
    struct arena *a = *state;
    size_t n = 1000, room = 32 + n * (24 + 256);
    struct bytes *b = calloc(1, sizeof *b);
    unsigned char *table = calloc(1, room);
    struct gpu_code code;
    assert_non_null(b);
    assert_non_null(table);
    memcpy(table, "__CLANG_OFFLOAD_BUNDLE__\xe8\x03", 26);
    unsigned char *p = table + 32;
    for (size_t i = 0; i < n; i++, p += 280) {
        p[8] = 1;  // size
        p[17] = 1; // 256 bytes of id
        memset(p + 24, 'h', 256);
        memcpy(p + 24 + 256 - 11, i + 1 < n ? "-gfx1030:x+" : "-gfx1100:x+", 11);
    }
    put_text(b, "CCOB\2\0\1\0", 8);
    size_t packed = ZSTD_compress(b->at + 24, sizeof b->at - 24, table, room, 3);
    assert_false(ZSTD_isError(packed));
    b->n = 8;
    put(b, 24 + packed, 4);
    put(b, room, 4);
    b->n = 24 + packed;
    read_bytes(a, b, &code);
    assert_string_equal(targets_text(a, &code), "gfx1030:x+:999 gfx1100:x+:1");
    free(table);
    free(b);
}

static void test_broken_bundles(void **state)
{
    struct arena *a = *state;
    struct bytes b = {0};
    struct gpu_code code;
    put_bundle(&b, ids, 6);
    for (size_t n = 24; n < b.n; n++) {
        read_copy(a, b.at, n, &code);
        if (!code.incomplete) {
            fail_msg("cut at %zu: said to be whole", n);
        }
    }
    put_at(&b, 24, UINT64_MAX, 8); // more entries than there can be
    read_bytes(a, &b, &code);
    assert_true(code.incomplete);
    assert_int_equal(code.n_targets, 0);
}

/* ------------------------------------------------------------------ ELF files of a device */

static void put_device(struct bytes *b, unsigned machine, unsigned osabi, unsigned abi,
                       uint32_t flags)
{
    memcpy(b->at, "\177ELF\2\1\1", 7);
    b->n = 64;
    b->at[7] = (unsigned char)osabi;
    b->at[8] = (unsigned char)abi;
    put_at(b, 16, 3, 2);
    put_at(b, 18, machine, 2);
    put_at(b, 48, flags, 4);
    put_at(b, 52, 64, 2);
}

static void test_code_objects(void **state)
{
    static const struct {
        unsigned abi;
        uint32_t flags;
        const char *targets;
    } cases[] = {
        {1, 0x02f, "gfx906:1"},
        {1, 0x12f, "gfx906:xnack+:1"},
        {1, 0x330, "gfx908:sramecc+:xnack+:1"},
        {2, 0x53f, "gfx90a:1"},
        {2, 0x63f, "gfx90a:xnack-:1"},
        {3, 0xf3f, "gfx90a:sramecc+:xnack+:1"},
        {3, 0xa4c, "gfx942:sramecc-:xnack-:1"},
        {2, 0x036, "gfx1030:1"},
        {4, 0x01000054, "gfx11-generic:1"},
        {2, 0x027, ""},
        {0, 0x02f, ""},
        {2, 0x0ff, ""},
    };
    struct arena *a = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bytes b = {0};
        struct gpu_code code;
        put_device(&b, 224, 64, cases[i].abi, cases[i].flags);
        read_bytes(a, &b, &code);
        if (strcmp(targets_text(a, &code), cases[i].targets) != 0) {
            fail_msg("ABI %u, flags 0x%x: %s", cases[i].abi, cases[i].flags,
                     targets_text(a, &code));
        }
        assert_int_equal(code.incomplete, !*cases[i].targets);
    }
}

/* e_flags of ptxas 12.4 (ABI 7) and 13.5 (ABI 8, with the text of its note). */
static void test_cubins(void **state)
{
    static const struct {
        unsigned abi;
        uint32_t flags;
        const char *note, *native;
        char suffix;
    } cases[] = {
        {7, 0x4b054b, "", "sm_75", 0},
        {7, 0x5a055a, "", "sm_90", 0},
        {7, 0x5a0d5a, "", "sm_90a", 'a'},
        {7, 0x320d32, "", "sm_50", 0},
        {8, 0x6004b04, "", "sm_75", 0},
        {8, 0x6006402, "-arch sm_100 ", "sm_100", 0},
        {8, 0x6006402, "-arch sm_100f ", "sm_100f", 'f'},
        {8, 0x6005a04, "-arch sm_90a -m 64", "sm_90a", 'a'},
        {8, 0x6006402, "", "sm_100?", '?'},
    };
    struct arena *a = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bytes b = {0};
        struct gpu_code code;
        put_device(&b, 190, 65, cases[i].abi, cases[i].flags);
        put_text(&b, cases[i].note, strlen(cases[i].note));
        put(&b, 0, 1);
        read_bytes(a, &b, &code);
        assert_int_equal(code.cuda.n_native, 1);
        assert_string_equal(code.cuda.native[0].name, cases[i].native);
        assert_int_equal(code.cuda.native[0].suffix, cases[i].suffix);
    }
}

/* A DLL has the same containers in sections whose names have eight characters; bundles begin at a
 * page of memory, wherever the section lies in the file. */
static void test_windows(void **state)
{
    struct arena *a = *state;
    struct bytes cuda = {0}, hip = {0};
    struct gpu_code code;
    put_container(&cuda, two_forms, 3);
    struct pemake spec = {.section = ".nv_fatbin", .payload = {(const char *)cuda.at, cuda.n}};
    struct str dll = pemake(a, &spec);
    gpu_code_read(a, dll.s, dll.n, GPU_READ_SECTIONS, &code);
    assert_string_equal(cuda_text(a, &code.cuda), "sm_75:1 sm_90a:1 | compute_90:1");
    gpu_code_read(a, dll.s, dll.n - 1, GPU_READ_SECTIONS, &code);
    assert_true(code.incomplete);
    spec.section = ".rdata2"; // among the data: on request only
    dll = pemake(a, &spec);
    gpu_code_read(a, dll.s, dll.n, GPU_READ_SECTIONS, &code);
    assert_int_equal(code.cuda.n_containers + code.embedded.n_containers, 0);
    gpu_code_read(a, dll.s, dll.n, GPU_READ_ALL, &code);
    assert_string_equal(cuda_text(a, &code.embedded), "sm_75:1 sm_90a:1 | compute_90:1");
    put_bundle(&hip, ids, 6);
    pad(&hip, 4096);
    put_bundle(&hip, ids, 3);
    spec = (struct pemake){.section = ".hip_fatbin", .payload = {(const char *)hip.at, hip.n}};
    dll = pemake(a, &spec);
    gpu_code_read(a, dll.s, dll.n, GPU_READ_SECTIONS, &code);
    assert_int_equal(code.n_bundles, 2);
    assert_int_equal(code.n_notes, 0);
    assert_string_equal(
        targets_text(a, &code),
        "amdgcnspirv:1 gfx1030:2 gfx11-generic:1 gfx906:1 gfx90a:sramecc+:xnack-:2");
}

static void test_other_files(void **state)
{
    struct arena *a = *state;
    static const char *const texts[] = {"", "#!/bin/sh\n", "\177ELF", "CCOB", "\x50\xed\x55\xba"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct gpu_code code;
        read_copy(a, (const unsigned char *)texts[i], strlen(texts[i]), &code);
        assert_int_equal(code.cuda.n_native + code.cuda.n_ptx + code.n_targets, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_containers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_list, setup, teardown),
        cmocka_unit_test_setup_teardown(test_foreign_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unknown_kind, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cut_containers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sections, setup, teardown),
        cmocka_unit_test_setup_teardown(test_embedded, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stripped, setup, teardown),
        cmocka_unit_test_setup_teardown(test_packed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_long_table, setup, teardown),
        cmocka_unit_test_setup_teardown(test_broken_bundles, setup, teardown),
        cmocka_unit_test_setup_teardown(test_code_objects, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cubins, setup, teardown),
        cmocka_unit_test_setup_teardown(test_windows, setup, teardown),
        cmocka_unit_test_setup_teardown(test_other_files, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
