/* Forward compatibility: the note of a libcuda, versions, and where it may be used. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "host/host.h"

static struct arena arena;

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

static const char text[] =
    "{\"format\":1,\"CUDA version\":\"12.9\",\"driver\":[535,550,575],\"device\":[1,2]}";

/* A section of notes: owner and text padded to `align` bytes, sizes as stated. */
static struct str section(const char *owner, const char *desc, size_t align, uint32_t desc_size)
{
    size_t name = strlen(owner) + 1, head = 12 + name;
    head = (head + align - 1) / align * align;
    size_t size = head + strlen(desc) + 4;
    char *bytes = arena_alloc(&arena, size);
    memset(bytes, 0, size);
    bytes[0] = (char)name;
    memcpy(bytes + 4, &desc_size, sizeof desc_size); // little-endian, as this machine
    memcpy(bytes + 12, owner, name);
    memcpy(bytes + head, desc, strlen(desc));
    return (struct str){bytes, size};
}

static void a_note(void **state)
{
    (void)state;
    for (size_t align = 4; align <= 8; align += 4) {
        struct host_compat c;
        host_compat_parse(&arena, section("NVIDIA Corporation", text, align, sizeof text - 1), &c);
        assert_true(c.has_note);
        assert_string_equal(c.cuda, "12.9");
        assert_int_equal(c.branches.n, 3);
        assert_int_equal(c.branches.items[0], 535);
        assert_int_equal(c.branches.items[2], 575);
    }
}

/* That of Orin states no drivers. */
static void a_note_without_drivers(void **state)
{
    static const char orin[] = "{\"format\":1,\"CUDA version\":\"12.2\"}";
    struct host_compat c;
    (void)state;
    host_compat_parse(&arena, section("NVIDIA Corporation", orin, 4, sizeof orin - 1), &c);
    assert_true(c.has_note);
    assert_int_equal(c.branches.n, 0);
}

/* More drivers than are read: for which it is is not stated, and none is excluded. */
static void a_note_of_many_drivers(void **state)
{
    (void)state;
    for (size_t n = 64; n <= 65; n++) {
        char many[600] = "{\"CUDA version\":\"12.2\",\"driver\":[1";
        for (size_t i = 1; i < n; i++) {
            (void)snprintf(many + strlen(many), sizeof many - strlen(many), ",%zu", i + 1);
        }
        (void)snprintf(many + strlen(many), sizeof many - strlen(many), "]}");
        struct host_compat c;
        host_compat_parse(&arena, section("NVIDIA Corporation", many, 4, (uint32_t)strlen(many)),
                          &c);
        assert_true(c.has_note);
        assert_int_equal(c.branches.n, n > 64 ? 0 : n);
    }
}

static void no_notes(void **state)
{
    struct host_compat c;
    struct str good = section("NVIDIA Corporation", text, 4, sizeof text - 1);
    (void)state;
    for (size_t n = 0; n < 12 + 20 + sizeof text - 1; n++) { // cut anywhere before its last byte
        host_compat_parse(&arena, (struct str){good.s, n}, &c);
        assert_false(c.has_note);
    }
    host_compat_parse(&arena, section("NVIDIA", text, 4, sizeof text - 1), &c);
    assert_false(c.has_note);
    host_compat_parse(&arena, section("NVIDIA Corporation", "[1]", 4, 3), &c);
    assert_false(c.has_note);
    host_compat_parse(&arena, section("NVIDIA Corporation", text, 4, 8), &c);
    assert_false(c.has_note);
}

static void versions(void **state)
{
    static const struct {
        const char *a, *b;
        int order;
    } cases[] = {
        {"550.90.07", "550.90.07", 0}, {"550.90.07", "550.127.05", -1},
        {"9.0", "10.0", -1},           {"525.60.13", "525.60.11", 1},
        {"550", "550.0", 0},           {"550.54", "550.54.15", -1},
        {"580.65.06", "575.57.08", 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int order = host_version_cmp(cases[i].a, cases[i].b);
        assert_int_equal((order > 0) - (order < 0), cases[i].order);
        order = host_version_cmp(cases[i].b, cases[i].a);
        assert_int_equal((order > 0) - (order < 0), -cases[i].order);
    }
}

/* What is not known is neither a yes nor a no. */
static void where_it_may_be_used(void **state)
{
    struct host h = {0};
    struct host_compat c;
    const char *why = NULL;
    (void)state;
    host_compat_parse(&arena, section("NVIDIA Corporation", text, 4, sizeof text - 1), &c);
    VEC_PUSH(&arena, &h.gpus,
             ((struct host_gpu){.kind = "pci", .vendor = HOST_NVIDIA, .name = "NVIDIA H100 PCIe"}));
    assert_int_equal(host_compat_fits(&h, &arena, "575.57.08", &c, &why), HOST_UNKNOWN);
    h.nvidia.module = (struct host_fact){.state = HOST_YES, .value = "550.90.07"};
    assert_int_equal(host_compat_fits(&h, &arena, "575.57.08", &c, &why), HOST_YES);
    assert_int_equal(host_compat_fits(&h, &arena, NULL, &c, &why), HOST_UNKNOWN);
    assert_int_equal(host_compat_fits(&h, &arena, "550.54.15", &c, &why), HOST_NO);
    assert_int_equal(host_compat_fits(&h, &arena, "550.90.07", &c, &why), HOST_YES);
    h.nvidia.module.value = "545.23.08";
    assert_int_equal(host_compat_fits(&h, &arena, "575.57.08", &c, &why), HOST_NO);
    assert_non_null(strstr(why, "535, 550, 575"));
    h.gpus.items[0].name = "NVIDIA GeForce RTX 4090";
    assert_int_equal(host_compat_fits(&h, &arena, "575.57.08", &c, &why), HOST_NO);
    assert_non_null(strstr(why, "804"));
}

/* The note alone is no witness: the libcuda of a driver has it, too. */
static void what_is_one(void **state)
{
    static const char folder[] = "/usr/local/nvidia/lib64";
    static const struct {
        const char *module, *file;
        bool note, is;
    } cases[] = {
        {"580.159.04", "/libcuda.so.580.159.04", true, false},
        {"580.159.04", "/libcuda.so.575.57.08", true, false}, // a mismatch, told as such
        {"550.90.07", "/libcuda.so.575.57.08", true, true},
        {"550.90.07", "/libcuda.so.575.57.08", false, false},
        {NULL, "/libcuda.so.575.57.08", true, false},
        {"550.90.07", "/libcuda.so.1", true, false},
        {"550.90.07", "/compat/libcuda.so.1", false, true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct host h = {.nvidia.module = {.state = cases[i].module ? HOST_YES : HOST_NO,
                                           .value = cases[i].module}};
        struct host_compat c = {.has_note = cases[i].note};
        char path[128];
        (void)snprintf(path, sizeof path, "%s%s", folder, cases[i].file);
        assert_int_equal(host_compat_is(&h, &arena, path, &c), cases[i].is);
    }
}

/* What ran is usable, and what the files said is a remark; no other GPU changes. */
static void after_a_run(void **state)
{
    static const char *const ran[] = {"0000:01:00.0"};
    struct host h = {0};
    struct host_gpu gpus[] = {{.bdf = "0000:01:00.0", .usable = HOST_NO},
                              {.bdf = "0000:02:00.0", .usable = HOST_NO}};
    const struct host_problem wrong = {.id = "a", .text = "it is broken", .state = HOST_NO};
    const struct host_problem known = {.id = "b", .text = "it is slow", .state = HOST_YES};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        VEC_PUSH(&arena, &gpus[i].problems, wrong);
        VEC_PUSH(&arena, &gpus[i].problems, known);
        VEC_PUSH(&arena, &h.gpus, gpus[i]);
    }
    assert_ptr_equal(host_after_run(&h, &arena, NULL, 0, NULL), &h);
    const struct host *now = host_after_run(&h, &arena, ran, 1, "/lib/libcuda.so.1");
    assert_int_equal(now->gpus.items[0].usable, HOST_YES);
    assert_int_equal(now->gpus.items[0].problems.n, 2);
    assert_string_equal(now->gpus.items[0].problems.items[0].text, "it is slow");
    assert_string_equal(now->gpus.items[0].problems.items[1].id, HOST_PROBLEM_RAN);
    assert_non_null(strstr(now->gpus.items[0].problems.items[1].text, "it is broken"));
    assert_int_equal(now->gpus.items[0].problems.items[1].state, HOST_YES);
    assert_int_equal(now->gpus.items[1].usable, HOST_NO);
    assert_int_equal(h.gpus.items[0].usable, HOST_NO);
    assert_string_equal(now->nvidia.ran_with, "/lib/libcuda.so.1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_note, start, finish),
        cmocka_unit_test_setup_teardown(a_note_without_drivers, start, finish),
        cmocka_unit_test_setup_teardown(a_note_of_many_drivers, start, finish),
        cmocka_unit_test_setup_teardown(what_is_one, start, finish),
        cmocka_unit_test_setup_teardown(after_a_run, start, finish),
        cmocka_unit_test_setup_teardown(no_notes, start, finish),
        cmocka_unit_test_setup_teardown(versions, start, finish),
        cmocka_unit_test_setup_teardown(where_it_may_be_used, start, finish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
