/* The small tables of src/host, which must do without the knowledge base, against its rows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "host/names.h"
#include "kb/kb.h"

static struct arena arena;
static struct root root = {.fd = -1};
static struct kb kb;

static int start(void **state)
{
    struct gm_err err;
    (void)state;
    arena_init(&arena, 0, NULL, NULL);
    return root_open(&root, "/", &err) < 0 || kb_open(&kb, &arena, &root, NULL, &err) < 0;
}

static int finish(void **state)
{
    (void)state;
    root_close(&root);
    arena_release(&arena);
    return 0;
}

/* Every chip of NVIDIA that a row names has the row's capability and generation. */
static void chips_of_nvidia(void **state)
{
    struct kb_gpus gpus;
    struct gm_err err;
    size_t compared = 0;
    (void)state;
    assert_int_equal(kb_gpus(&kb, &gpus, &err), 0);
    for (size_t i = 0; i < gpus.n; i++) {
        const struct kb_gpu *g = &gpus.rows[i];
        for (size_t k = 0; g->vendor == KB_VENDOR_NVIDIA && g->capability && k < g->chips.n; k++) {
            const struct host_nvidia_chip *chip = host_nvidia_chip(g->chips.items[k]);
            if (!chip || !chip->capability) {
                continue; // Tegra's chips have no row: those machines say what they are
            }
            if (strcmp(chip->capability, g->capability) != 0 ||
                (g->generation && strcmp(chip->architecture, g->generation) != 0)) {
                fail_msg("%s: %s is %s %s in kb, %s %s in host", g->id, g->chips.items[k],
                         g->generation, g->capability, chip->architecture, chip->capability);
            }
            compared++;
        }
    }
    assert_true(compared > 300);
}

static const struct kb_rocm *target_row(const struct kb_rocms *rocms, const char *gfx)
{
    for (size_t i = 0; i < rocms->n; i++) {
        const struct kb_rocm *r = &rocms->rows[i];
        if (r->kind == KB_ROCM_TARGET && strcmp(r->gfx.items[0], gfx) == 0) {
            return r;
        }
    }
    return NULL;
}

/* Every target of a row is known to host, by the same generation; and an override that host would
 * propose is one that the knowledge base calls the same instruction set. */
static void targets_of_amd(void **state)
{
    struct kb_rocms rocms;
    struct gm_err err;
    size_t compared = 0, overrides = 0;
    (void)state;
    assert_int_equal(kb_rocms(&kb, &rocms, &err), 0);
    for (size_t i = 0; i < rocms.n; i++) {
        const struct kb_rocm *r = &rocms.rows[i];
        const struct host_gfx *g = host_gfx(r->gfx.items[0]);
        /* Before RDNA and CDNA, products and the tables of LLVM count generations differently. */
        if (r->kind == KB_ROCM_TARGET && g && strstr(g->architecture, "DNA")) {
            if (strcmp(g->architecture, r->generation) != 0) {
                fail_msg("%s is %s in kb, %s in host", g->gfx, r->generation, g->architecture);
            }
            compared++;
        }
        if (r->kind == KB_ROCM_OVERRIDE && g && g->same_isa &&
            strcmp(g->same_isa, r->override) == 0) {
            assert_int_equal(r->verdict, KB_VERDICT_SAME_ISA);
            overrides++;
        }
    }
    assert_true(compared >= 20);
    assert_true(overrides >= 6);
    assert_non_null(target_row(&rocms, "gfx1010"));
}

/* A chip's target by its name is the target of the cards that carry it. */
static void chips_of_amd(void **state)
{
    struct kb_gpus gpus;
    struct gm_err err;
    size_t compared = 0;
    (void)state;
    assert_int_equal(kb_gpus(&kb, &gpus, &err), 0);
    for (size_t i = 0; i < gpus.n; i++) {
        const struct kb_gpu *g = &gpus.rows[i];
        for (size_t k = 0; g->vendor == KB_VENDOR_AMD && g->gfx && k < g->chips.n; k++) {
            const char *gfx = host_amd_chip_gfx(g->chips.items[k]);
            if (gfx && strcmp(gfx, g->gfx) != 0) {
                fail_msg("%s: %s is %s in kb, %s in host", g->id, g->chips.items[k], g->gfx, gfx);
            }
            compared += gfx != NULL;
        }
    }
    assert_true(compared > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chips_of_nvidia),
        cmocka_unit_test(targets_of_amd),
        cmocka_unit_test(chips_of_amd),
    };
    return cmocka_run_group_tests(tests, start, finish);
}
