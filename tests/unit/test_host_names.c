/* Names of GPUs and what follows from the chip: host/names.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "host/names.h"
#include "host/parse.h"

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

/* The search halves the table: it must be sorted, and no row may stand twice. */
static void the_table_is_sorted(void **state)
{
    (void)state;
    assert_true(host_n_pci_names > 50);
    for (size_t i = 1; i < host_n_pci_names; i++) {
        const struct host_pci_name *a = &host_pci_names[i - 1], *b = &host_pci_names[i];
        long x = (long)a->vendor << 32 | (long)a->device << 9 | (a->revision + 1);
        long y = (long)b->vendor << 32 | (long)b->device << 9 | (b->revision + 1);
        if (x >= y) {
            fail_msg("%04x:%04x stands after %04x:%04x", b->vendor, b->device, a->vendor,
                     a->device);
        }
        assert_true(b->name[0] != '\0');
    }
}

/* A row of the very revision wins, else the one for any. */
static void names_by_revision(void **state)
{
    static const struct {
        uint32_t vendor, device, revision;
        const char *name; // NULL: none
    } cases[] = {
        {0x10de, 0x2b85, 0xa1, "GB202 [GeForce RTX 5090]"},
        {0x1002, 0x744c, 0xc8, "Navi 31 [Radeon RX 7900 XTX]"},
        {0x1002, 0x744c, 0x01, "Navi 31 [Radeon RX 7900 XT/7900 XTX/7900 GRE/7900M]"},
        {0x1002, 0x744c, UINT32_MAX, "Navi 31 [Radeon RX 7900 XT/7900 XTX/7900 GRE/7900M]"},
        {0x1002, 0x731f, 0xc1, "Navi 10 [Radeon RX 5700 XT]"},
        {0x10de, 0x12b85, 0xa1, NULL},
        {0xffff, 0xffff, 0, NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *name = host_pci_name(cases[i].vendor, cases[i].device, cases[i].revision);
        if (!name != !cases[i].name || (name && strcmp(name, cases[i].name) != 0)) {
            fail_msg("%04x:%04x is %s", cases[i].vendor, cases[i].device, name ? name : "nothing");
        }
    }
}

static void names_are_taken_apart(void **state)
{
    static const char *const cases[][4] = {
        // the name, its vendor, what it is sold as, its chip
        {"AD102 [GeForce RTX 4090]", "NVIDIA", "NVIDIA GeForce RTX 4090", "AD102"},
        {"GH100[H100 SXM5 80GB]", "NVIDIA", "NVIDIA H100 SXM5 80GB", "GH100"},
        {"GB203M / GN22 [GeForce RTX 5090 Max-Q / Mobile]", "NVIDIA",
         "NVIDIA GeForce RTX 5090 Max-Q / Mobile", "GB203M"},
        {"Raphael", "AMD", "AMD Raphael", "Raphael"},
        {"Meteor Lake-P [Intel Arc Graphics]", "Intel", "Intel Arc Graphics", "Meteor Lake-P"},
        {"[x]", "AMD", "AMD x", NULL},
        {"", "AMD", "AMD ", NULL},
        {"]", "AMD", "AMD ]", "]"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *chip = host_chip_name(&arena, cases[i][0]);
        assert_string_equal(host_marketing_name(&arena, cases[i][1], cases[i][0]), cases[i][2]);
        if (!chip != !cases[i][3] || (chip && strcmp(chip, cases[i][3]) != 0)) {
            fail_msg("the chip of %s is %s", cases[i][0], chip ? chip : "nothing");
        }
    }
}

/* NVIDIA's own list of capabilities by product, here by the products' PCI ids. */
static void capabilities(void **state)
{
    static const struct {
        uint32_t device;
        const char *capability;
    } cases[] = {
        {0x2c02, "12.0"}, {0x2bb1, "12.0"}, {0x31c2, "10.3"}, {0x2331, "9.0"},  {0x2335, "9.0"},
        {0x2342, "9.0"},  {0x2e12, "12.1"}, {0x2901, "10.0"}, {0x2b00, "11.0"},
    };
    // By the chip's name, whatever the id.
    static const char *const chips[][2] = {
        {"AD102GL", "8.9"}, {"AD104", "8.9"},   {"GA102GL", "8.6"}, {"GA104", "8.6"},
        {"GA100", "8.0"},   {"TU104GL", "7.5"}, {"TU116", "7.5"},   {"GV100GL", "7.0"},
        {"GP106", "6.1"},   {"GP100GL", "6.0"}, {"GM204GL", "5.2"}, {"GM107", "5.0"},
        {"GK210GL", "3.7"}, {"GK110", "3.5"},   {"GK104", "3.0"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *name = host_pci_name(0x10de, cases[i].device, 0xa1);
        assert_non_null(name);
        const struct host_nvidia_chip *c = host_nvidia_chip(host_chip_name(&arena, name));
        assert_non_null(c);
        assert_string_equal(c->capability, cases[i].capability);
    }
    for (size_t i = 0; i < sizeof chips / sizeof *chips; i++) {
        const struct host_nvidia_chip *c = host_nvidia_chip(chips[i][0]);
        if (!c || strcmp(c->capability, chips[i][1]) != 0) {
            fail_msg("%s is %s", chips[i][0], c ? c->capability : "nothing");
        }
    }
    assert_null(host_nvidia_chip("G80"));
    assert_null(host_nvidia_chip(NULL));
}

/* Cards of one name with chips that differ tell nothing; the size that a name states is taken. */
static void names_of_the_driver(void **state)
{
    static const struct {
        const char *name, *capability; // NULL: not told
        unsigned gib;
    } cases[] = {
        {"NVIDIA A100-PCIE-40GB", "8.0", 40},
        {"nvidia a100 pcie 40gb", NULL, 0}, // "NVIDIA" and "GB" are written so by the driver
        {"Tesla V100-PCIE-16GB", "7.0", 16},
        {"NVIDIA H100 80GB HBM3", "9.0", 80},
        {"GeForce GTX 860M", NULL, 0}, // Kepler and Maxwell
        {"GRID A100-10C", "8.0", 10},
        {"NVIDIA A10-24Q", "8.6", 24},
        {"NVIDIA GeForce RTX 4060", "8.9", 0},
        {"NVIDIA GeForce RTX 4060 ", NULL, 0},
        {"NVIDIA GeForce RTX 406", NULL, 0},
        {"NVIDIA GH200 480GB", "9.0", 0}, // the number is that of its processor
        {"AGB", NULL, 0},
        {"GB", NULL, 0},
        {"", NULL, 0},
        {"-9C", NULL, 0},
        {"x-99999999999999999999GB", NULL, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct host_nvidia_chip *c = host_nvidia_model(cases[i].name);
        const char *capability = c ? c->capability : NULL;
        if (!capability != !cases[i].capability ||
            (c && strcmp(capability, cases[i].capability) != 0) ||
            host_model_gib(cases[i].name) != cases[i].gib) {
            fail_msg("\"%s\" is %s with %u", cases[i].name, capability ? capability : "nothing",
                     host_model_gib(cases[i].name));
        }
    }
}

/* A chip's target is in the table of targets; an override leads to an official target. */
static void gfx_targets(void **state)
{
    static const char *const chips[] = {
        "Vega 10 XL/XT", "Vega 20", "Arcturus GL-XL", "Aldebaran/MI200", "Navi 10",  "Navi 22",
        "Navi 31",       "Raphael", "Navi 48",        "Phoenix1",        "Hawaii XT"};
    (void)state;
    for (size_t i = 0; i < sizeof chips / sizeof *chips; i++) {
        assert_non_null(host_gfx(host_amd_chip_gfx(chips[i])));
    }
    assert_string_equal(host_amd_chip_gfx("Strix Halo"), "gfx1151");
    assert_string_equal(host_amd_chip_gfx("Krackan2"), "gfx1153");
    assert_null(host_amd_chip_gfx("Aqua Vanjaram")); // MI300X is gfx942, MI350X gfx950
    const struct host_gfx *g = host_gfx("gfx1031");
    assert_non_null(g);
    assert_string_equal(g->same_isa, "10.3.0");
    assert_false(g->official);
    assert_true(host_gfx(host_parse_gfx(&arena, 100300))->official);
    assert_null(host_gfx("gfx1010")->same_isa);
    assert_null(host_gfx("gfx9999"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_is_sorted),   cmocka_unit_test(names_by_revision),
        cmocka_unit_test(names_are_taken_apart), cmocka_unit_test(capabilities),
        cmocka_unit_test(names_of_the_driver),   cmocka_unit_test(gfx_targets),
    };
    return cmocka_run_group_tests(tests, start, finish);
}
