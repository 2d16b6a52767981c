/* Whether a build's code runs on a GPU, by what its row says and what the driver compiles. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "kb/serves.h"
#include "kbfixture.h"

static void a_version_of_the_isa_is_a_number(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        unsigned number;
    } rows[] = {{"8.7", 87}, {"9.0", 90}, {"10.2", 102}, {NULL, 0},   {"", 0},
                {"8", 0},    {"8.", 0},   {".7", 0},     {"8.10", 0}, {"x.7", 0},
                {"8.x", 0},  {"-8.7", 0}, {"8.7.1", 0},  {"100.0", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(kb_isa_number(rows[i].text), rows[i].number);
    }
}

/* Drivers of toolkits and between them; a branch alone stands for its newest driver. */
static void a_driver_knows_the_isa_of_its_toolkit(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *driver;
        unsigned isa;
    } rows[] = {{"550.54.14", 84}, {"550.90.07", 84}, {"550", 84},       {"550.54.13", 83},
                {"570.26", 87},    {"570", 87},       {"575.57.08", 88}, {"580.65.06", 90},
                {"565.57.01", 86}, // CUDA 12.7, which has no toolkit
                {NULL, 0},         {"300.1", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kb_isa known = kb_isa_of_driver(&f->kb, rows[i].driver);
        assert_int_equal(known.isa, rows[i].isa);
        assert_false(known.more);
    }
    struct kb_isa newest = kb_isa_of_driver(&f->kb, "9999.1");
    assert_true(newest.isa >= 92);
    assert_true(newest.more);
}

/* A driver of a branch that came with no toolkit may be of a newer CUDA than all that it reaches.
 */
static void a_branch_without_a_toolkit(void **state)
{
    struct fixture *f = *state;
    struct kb_drivers d;
    struct gm_err err;
    static const struct {
        const char *driver, *toolkit;
        bool exceeds;
    } rows[] = {{"565.57.01", "12.7", false},  // of a row without a toolkit
                {"535.43.02", "12.1.1", true}, // a beta of R535
                {"550.90.07", "12.4.1", false},
                {"560.35.05", "12.6.3", false},
                {"470", "11.4.4", false}};
    assert_int_equal(kb_drivers(&f->kb, &d, &err), 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct kb_driver *newest = kb_newest_cuda(&d, rows[i].driver);
        assert_non_null(newest);
        assert_string_equal(newest->cuda, rows[i].toolkit);
        assert_int_equal(kb_driver_may_exceed(&d, rows[i].driver, newest), rows[i].exceeds);
    }
    assert_true(kb_driver_may_exceed(&d, "9999.1", kb_newest_cuda(&d, "9999.1")));
}

static void the_oldest_driver_of_an_isa(void **state)
{
    struct fixture *f = *state;
    assert_string_equal(kb_driver_of_isa(&f->kb, 84)->linux_min, "550.54.14");
    assert_string_equal(kb_driver_of_isa(&f->kb, 87)->linux_min, "570.26");
    assert_null(kb_driver_of_isa(&f->kb, 999));
}

#define STRS(...)                                                                                  \
    {                                                                                              \
        (const char *const[]){__VA_ARGS__},                                                        \
            sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *)                      \
    }

static const struct kb_build jit = {
    .sm = STRS("sm_80", "sm_86"), .ptx = STRS("compute_86"), .ptx_isa = "8.7"};
static const struct kb_build untold = {.sm = STRS("sm_80"), .ptx = STRS("compute_80")};
static const struct kb_build specific = {.sm = STRS("sm_75", "sm_90a", "sm_100f")};
static const struct kb_build nothing = {.cuda = "12"};

static void code_serves_by_its_kind(void **state)
{
    (void)state;
    const struct kb_isa old = {.isa = 84}, same = {.isa = 87}, unknown = {0};
    const struct kb_isa newest = {.isa = 84, .more = true};
    const struct {
        const struct kb_build *build;
        unsigned number;
        struct kb_isa isa;
        enum gpu_serves serves;
    } rows[] = {
        {&jit, 86, unknown, GPU_SERVES_NATIVE},
        {&jit, 89, old, GPU_SERVES_NATIVE},
        {&jit, 75, same, GPU_SERVES_NONE},
        {&jit, 90, old, GPU_SERVES_NONE},
        {&jit, 90, same, GPU_SERVES_JIT},
        {&jit, 90, unknown, GPU_SERVES_UNKNOWN},
        {&jit, 90, newest, GPU_SERVES_UNKNOWN}, // it may know 8.7
        {&jit, 75, newest, GPU_SERVES_NONE},
        {&jit, 90, KB_ISA_ANY, GPU_SERVES_JIT},
        {&untold, 90, same, GPU_SERVES_UNKNOWN}, // PTX of an ISA that the row does not say
        {&untold, 90, KB_ISA_ANY, GPU_SERVES_JIT},
        {&untold, 86, old, GPU_SERVES_NATIVE},
        {&specific, 90, old, GPU_SERVES_NATIVE},
        {&specific, 103, old, GPU_SERVES_NATIVE},
        {&specific, 120, KB_ISA_ANY, GPU_SERVES_NONE},
        {&nothing, 86, KB_ISA_ANY, GPU_SERVES_ABSENT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(kb_build_serves(rows[i].build, rows[i].number, rows[i].isa),
                         rows[i].serves);
    }
}

/* A device that none of those that are looked at serves may be served by another. */
static void code_of_many_kinds(void **state)
{
    (void)state;
    const char *sm[65];
    for (size_t i = 0; i < 65; i++) {
        sm[i] = "sm_80";
    }
    const struct kb_build few = {.sm = {sm, 64}}, many = {.sm = {sm, 65}};
    assert_int_equal(kb_build_serves(&few, 90, KB_ISA_ANY), GPU_SERVES_NONE);
    assert_int_equal(kb_build_serves(&many, 90, KB_ISA_ANY), GPU_SERVES_UNKNOWN);
    assert_int_equal(kb_build_serves(&many, 86, KB_ISA_ANY), GPU_SERVES_NATIVE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_version_of_the_isa_is_a_number),
        cmocka_unit_test_setup_teardown(a_driver_knows_the_isa_of_its_toolkit, setup, teardown),
        cmocka_unit_test_setup_teardown(a_branch_without_a_toolkit, setup, teardown),
        cmocka_unit_test_setup_teardown(the_oldest_driver_of_an_isa, setup, teardown),
        cmocka_unit_test(code_serves_by_its_kind),
        cmocka_unit_test(code_of_many_kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
