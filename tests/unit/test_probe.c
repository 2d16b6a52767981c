/* The table of the probe's stages, the embedded helper as a file, and children of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <stdlib.h>

#include "elf/image.h"
#include "host/host.h"
#include "probe/internal.h"
#include "probe/runner.h"
#include "probe/stage.h"

/* ------------------------------------------------------------------ the table */

static void needs_of(const struct probe_stage *s, size_t index, const char *needs)
{
    const struct probe_stage *need = needs ? probe_stage_find(needs) : NULL;
    if (!needs) {
        return;
    }
    if (!need || (size_t)(need - probe_stages) >= index || (need->per_device && !s->per_device) ||
        (s->quick && !need->quick) || need->vendor != s->vendor) {
        fail_msg("%s needs %s, which does not exist, comes later or is not run with it", s->name,
                 needs);
    }
}

/* Every stage is complete, and what it needs stands before it. */
static void table_can_be_run(void **state)
{
    (void)state;
    for (size_t i = 0; i < probe_n_stages; i++) {
        const struct probe_stage *s = &probe_stages[i];
        if (probe_stage_find(s->name) != s) {
            fail_msg("%s stands twice in the table", s->name);
        }
        assert_true(s->vendor < PROBE_VENDORS);
        assert_true((s->vendor == PROBE_ANY) == (s->module != NULL));
        assert_true(s->title && *s->title && s->shows && *s->shows);
        if (!s->means || !ends_with(s->means, ".") || ends_with(s->shows, ".")) {
            fail_msg("%s: `means` is a sentence and `shows` is none", s->name);
        }
        needs_of(s, i, s->needs);
        needs_of(s, i, s->needs_too);
    }
    assert_null(probe_stage_find("nothing"));
}

static void deadlines(void **state)
{
    (void)state;
    assert_int_equal(probe_stage_deadline_ms(&(struct probe_stage){.vendor = PROBE_NVIDIA}), 15000);
    assert_int_equal(probe_stage_deadline_ms(&(struct probe_stage){.vendor = PROBE_AMD}), 30000);
    assert_int_equal(probe_stage_deadline_ms(&(struct probe_stage){.deadline_ms = 7}), 7);
}

/* ------------------------------------------------------------------ the file */

/* It runs in old images: no version of glibc above 2.17, no library but libc and libdl. */
static void helper_is_old(void **state)
{
    struct arena a;
    struct elf_image e;
    (void)state;
    arena_init(&a, 0, NULL, NULL);
    elf_image_parse(&a, probe_helper_image, probe_helper_image_size, &e);
    assert_int_equal(e.state, ELF_STATE_OK);
    assert_non_null(e.interp);
    assert_int_equal(e.n_needs, 2);
    assert_string_equal(e.needs[0].name, "libdl.so.2");
    assert_string_equal(e.needs[1].name, "libc.so.6");
    assert_null(e.runpath);
    assert_null(e.rpath);
    assert_false(e.stack_exec);
    assert_false(e.has_relr);
    struct elf_versions v;
    elf_versions_read(&a, &e, &v);
    assert_true(v.n_needs > 0);
    for (size_t i = 0; i < v.n_needs; i++) {
        const char *name = v.needs[i].name;
        if (!starts_with(name, "GLIBC_") || host_version_cmp(name + 6, "2.17") > 0) {
            fail_msg("the helper wants %s of %s", name, v.needs[i].file);
        }
    }
    arena_release(&a);
}

/* ------------------------------------------------------------------ children */

static size_t open_descriptors(void)
{
    size_t n = 0;
    DIR *d = opendir("/proc/self/fd");
    assert_non_null(d);
    while (readdir(d)) {
        n++;
    }
    (void)closedir(d);
    return n;
}

static void run_one(struct arena *a, const struct probe_helper *h, const char *stage,
                    struct probe_answer *ret)
{
    const char *arguments[] = {stage, "level=1", "threads=1"};
    struct probe_child c = {
        .arguments = arguments, .n_arguments = 3, .deadline_ms = 20000, .stop_fd = -1};
    probe_child_run(a, h, &c, ret);
}

/* 200 in one process leave no descriptor. */
static void children_leave_nothing(void **state)
{
    struct arena a;
    struct probe_helper h;
    struct probe_answer r;
    (void)state;
    if (getenv("GPUMEND_UNDER_VALGRIND")) {
        skip(); // it cannot start a memory file
    }
    arena_init(&a, 0, NULL, NULL);
    size_t before = open_descriptors();
    probe_helper_open(&a, NULL, 0, &h);
    assert_null(h.why);
    for (int i = 0; i < 200; i++) {
        run_one(&a, &h, i % 2 ? "stage=cpu" : "stage=none", &r);
        if (r.outcome != (i % 2 ? PROBE_PASSED : PROBE_UNKNOWN)) {
            fail_msg("child %d: %s", i, r.text);
        }
        assert_int_equal(r.left, 0);
    }
    assert_string_equal(probe_fact(&r.facts, "cores") ? "told" : "not told", "told");
    assert_null(probe_fact(&r.facts, "nothing"));
    probe_helper_close(&h);
    assert_int_equal(open_descriptors(), before);
    arena_release(&a);
}

/* A helper that could not be had makes its stages unknown. */
static void no_helper(void **state)
{
    struct arena a;
    struct probe_helper h = PROBE_HELPER_EMPTY;
    struct probe_answer r;
    (void)state;
    arena_init(&a, 0, NULL, NULL);
    h.why = "because";
    run_one(&a, &h, "stage=cpu", &r);
    assert_int_equal(r.outcome, PROBE_UNKNOWN);
    assert_string_equal(r.text, "because");
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table_can_be_run), cmocka_unit_test(deadlines),
        cmocka_unit_test(helper_is_old),    cmocka_unit_test(children_leave_nothing),
        cmocka_unit_test(no_helper),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
