/* The text files of /proc and /sys: host/parse.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

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

static bool same(struct str got, const char *expected)
{
    return got.s && str_is(got, expected);
}

/* The version stands behind "Kernel Module", with the open modules behind "for <arch>". */
static void nvrm_lines(void **state)
{
    static const struct {
        const char *text, *version; // NULL: none is found
        bool open;
    } cases[] = {
        {"NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.127.05  Tue Oct  8 16:30:26 UTC "
         "2024\n"
         "GCC version:  gcc version 12.2.0\n",
         "550.127.05", false},
        {"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  555.58.02  Release Build  (x)\n",
         "555.58.02", true},
        {"NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  TempVersion  Release Build\n",
         NULL, false},
        {"GCC version:  gcc version 12.2.0\n", NULL, false},
        {"NVRM version: Kernel Module", NULL, false},
        {"", NULL, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct str version = {0};
        bool open = false, found = host_parse_nvrm(str_of(cases[i].text), &version, &open);
        if (found != (cases[i].version != NULL) || open != cases[i].open ||
            (found && !same(version, cases[i].version))) {
            fail_msg("%s", cases[i].text);
        }
    }
}

/* HSA_OVERRIDE_GFX_VERSION: three numbers of one hexadecimal digit. */
static void gfx_overrides(void **state)
{
    (void)state;
    static const struct {
        const char *text, *name;
    } cases[] = {
        {"10.3.0", "gfx1030"}, {"9.0.10", "gfx90a"}, {"11.0.15", "gfx110f"}, {"10.15.0", "gfx10f0"},
        {"10.16.0", NULL},     {"10.3.16", NULL},    {"16.0.0", NULL},       {"0.0.0", NULL},
        {"10.3", NULL},        {"10.3.0.1", NULL},   {"10.3.x", NULL},       {"", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *name = host_parse_gfx_override(&arena, cases[i].text);
        if ((name || cases[i].name) &&
            (!name || !cases[i].name || strcmp(name, cases[i].name) != 0)) {
            fail_msg("%s: %s", cases[i].text, name ? name : "nothing");
        }
    }
}

/* gfx and the decimal major, then minor and stepping as hexadecimal digits. */
static void gfx_names(void **state)
{
    static const struct {
        uint64_t version;
        const char *name;
    } cases[] = {
        {80003, "gfx803"},   {90000, "gfx900"},   {90010, "gfx90a"},   {90012, "gfx90c"},
        {90402, "gfx942"},   {90500, "gfx950"},   {100100, "gfx1010"}, {100302, "gfx1032"},
        {100306, "gfx1036"}, {110003, "gfx1103"}, {110501, "gfx1151"}, {120001, "gfx1201"},
        {0, NULL},           {99, NULL},          {90016, NULL},       {91600, NULL},
        {1000000, NULL},     {UINT64_MAX, NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *name = host_parse_gfx(&arena, cases[i].version);
        if (!name != !cases[i].name || (name && strcmp(name, cases[i].name) != 0)) {
            fail_msg("%llu gives %s", (unsigned long long)cases[i].version,
                     name ? name : "nothing");
        }
    }
}

static void cpu_lists(void **state)
{
    static const struct {
        const char *text;
        uint64_t count; // 0: refused
    } cases[] = {
        {"0", 1},           {"0-3", 4}, {"0-3,8,10-11\n", 7},
        {"0-65535", 65536}, {"", 0},    {"3-0", 0},
        {"0-65536", 0},     {"a", 0},   {"0-", 0},
        {"0,,1", 0},        {"-1", 0},  {"0-65535,0", 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t count = 0;
        bool found = host_parse_cpu_list(str_of(cases[i].text), &count);
        if (found != (cases[i].count != 0) || count != cases[i].count) {
            fail_msg("\"%s\" gives %llu", cases[i].text, (unsigned long long)count);
        }
    }
}

static void bdfs(void **state)
{
    static const struct {
        const char *text;
        bool fits;
        struct host_bdf bdf;
    } cases[] = {
        {"0000:01:00.0", true, {0, 1, 0, 0}},
        {"10000:e1:1f.7", true, {0x10000, 0xe1, 0x1f, 7}},
        {"0000:01:20.0", false, {0}},
        {"0000:01:00.8", false, {0}},
        {"01:00.0", false, {0}},
        {"0000:01:00", false, {0}},
        {"0000:01:00.0x", false, {0}},
        {"", false, {0}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct host_bdf b = {0};
        if (host_parse_bdf(str_of(cases[i].text), &b) != cases[i].fits ||
            (cases[i].fits &&
             (b.domain != cases[i].bdf.domain || b.bus != cases[i].bdf.bus ||
              b.device != cases[i].bdf.device || b.function != cases[i].bdf.function))) {
            fail_msg("%s", cases[i].text);
        }
    }
}

static void so_versions(void **state)
{
    static const char *const cases[][2] = {
        {"libcuda.so.550.90.07", "550.90.07"},
        {"libcuda.so.1", NULL},
        {"libcuda.so", NULL},
        {"libze_loader.so.1.17.6", "1.17.6"},
        {"libcuda.so.550.90.07.bak", NULL},
        {"libcuda.so..1", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct str version = {0};
        bool found = host_parse_so_version(str_of(cases[i][0]), &version);
        if (found != (cases[i][1] != NULL) || (found && !same(version, cases[i][1]))) {
            fail_msg("%s", cases[i][0]);
        }
    }
}

/* Optional fields stand between the options and the dash. */
static void mounts(void **state)
{
    struct host_mount m;
    (void)state;
    assert_true(host_parse_mount(STR("36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 shared:2 - ext3 "
                                     "/dev/root rw,errors=continue"),
                                 &m));
    assert_true(same(m.root, "/mnt1") && same(m.point, "/mnt2") && same(m.type, "ext3"));
    assert_true(same(m.source, "/dev/root") && same(m.options, "rw,errors=continue"));
    assert_false(host_parse_mount(STR("36 35 98:0 /mnt1 /mnt2 rw,noatime"), &m));
    assert_false(host_parse_mount(STR("36 35"), &m));
    assert_false(host_parse_mount(STR(""), &m));
}

static void cgroups_and_quotas(void **state)
{
    static const struct {
        const char *text;
        uint64_t millis; // 0: no limit
    } quotas[] = {{"max 100000\n", 0},
                  {"150000 100000\n", 1500},
                  {"50000 100000", 500},
                  {"1 0", 0},
                  {"", 0},
                  {"100000", 0},
                  {"18446744073709551615 1", 0}};
    struct host_cgroup_line line;
    (void)state;
    for (size_t i = 0; i < sizeof quotas / sizeof *quotas; i++) {
        uint64_t millis = 0;
        bool found = host_parse_cpu_max(str_of(quotas[i].text), &millis);
        if (found != (quotas[i].millis != 0) || millis != quotas[i].millis) {
            fail_msg("%s", quotas[i].text);
        }
    }
    assert_true(host_parse_cgroup(STR("4:cpu,cpuacct:/a:b"), &line));
    assert_true(same(line.controllers, "cpu,cpuacct") && same(line.path, "/a:b"));
    assert_true(host_parse_cgroup(STR("0::/"), &line));
    assert_int_equal(line.controllers.n, 0);
    assert_false(host_parse_cgroup(STR("cpu:/"), &line));
    assert_false(host_parse_cgroup(STR("1:cpu:relative"), &line));
}

/* A device is allowed by a line that names it or a star, with both r and w. */
static void devices_lists(void **state)
{
    static const struct {
        const char *list;
        bool allowed; // of c 195:255
    } cases[] = {
        {"a *:* rwm\n", true},
        {"c 195:* rw\n", true},
        {"c 195:255 rwm\n", true},
        {"c 195:0 rwm\n", false},
        {"c 195:* r\n", false},
        {"b 195:255 rwm\n", false},
        {"c 1:3 rwm\nc *:255 rw", true},
        {"", false},
        {"c 195 rw", false},
        {"c 195:25 rw\n", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (host_parse_devices_allow(str_of(cases[i].list), 195, 255) != cases[i].allowed) {
            fail_msg("%s", cases[i].list);
        }
    }
}

static void node_lines(void **state)
{
    static const char *const refused[] = {"",
                                          "dev/kfd c 1 2 660 0 0 ok",
                                          "/dev/kfd x 1 2 660 0 0 ok",
                                          "/dev/kfd c 1 2 680 0 0 ok",
                                          "/dev/kfd c 1 2 660 0",
                                          "/dev/kfd c -1 2 660 0 0 ok",
                                          "/dev/kfd c 1 2 6600000 0 0 ok"};
    struct host_node_line n;
    (void)state;
    assert_true(host_parse_node(STR("/dev/kfd c 234 7 660 1 105 EPERM"), &n));
    assert_true(same(n.path, "/dev/kfd") && same(n.access, "EPERM") && n.is_char);
    assert_true(n.major == 234 && n.minor == 7 && n.mode == 0660 && n.uid == 1 && n.gid == 105);
    assert_true(host_parse_node(STR("/dev/kfd c 234 7 660 1 105"), &n));
    assert_true(same(n.access, "-"));
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        if (host_parse_node(str_of(refused[i]), &n)) {
            fail_msg("%s was accepted", refused[i]);
        }
    }
}

static void keys_and_tables(void **state)
{
    struct str value = {0};
    uint64_t number = 0;
    uint32_t major = 0;
    (void)state;
    assert_true(
        host_parse_key(STR("Model: \t\t NVIDIA A10G\nDevice Minor: \t 3\n"), "Model", ':', &value));
    assert_true(same(value, "NVIDIA A10G"));
    assert_false(host_parse_key(STR("Model: x\n"), "Mode", ':', &value));
    assert_true(host_parse_property(STR("a 1\nsimd_count 40\n"), "simd_count", &number));
    assert_int_equal(number, 40);
    assert_false(host_parse_property(STR("simd_count x\n"), "simd_count", &number));
    assert_true(host_parse_major(STR("Character devices:\n  1 mem\n195 nvidia-frontend\n508 "
                                     "nvidia-uvm\n\nBlock devices:\n  7 nvidia\n"),
                                 "nvidia-uvm", &major));
    assert_int_equal(major, 508);
    assert_false(host_parse_major(STR("1 mem\nBlock devices:\n  7 loop\n"), "loop", &major));
    static const char environ[] = "PATH=/bin\0CUDA_VISIBLE_DEVICES=\0X=a=b";
    struct str block = {environ, sizeof environ};
    assert_true(host_parse_environ(block, "CUDA_VISIBLE_DEVICES", &value));
    assert_int_equal(value.n, 0);
    assert_true(host_parse_environ(block, "X", &value) && same(value, "a=b"));
    assert_false(host_parse_environ(block, "CUDA", &value));
    assert_true(host_parse_group(STR("root:x:0:\nvideo:x:44:a,b\n"), 44, &value));
    assert_true(same(value, "video"));
    assert_false(host_parse_group(STR("video:x\n:x:44:\n"), 44, &value));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nvrm_lines),
        cmocka_unit_test(gfx_names),
        cmocka_unit_test(gfx_overrides),
        cmocka_unit_test(cpu_lists),
        cmocka_unit_test(bdfs),
        cmocka_unit_test(so_versions),
        cmocka_unit_test(mounts),
        cmocka_unit_test(cgroups_and_quotas),
        cmocka_unit_test(devices_lists),
        cmocka_unit_test(node_lines),
        cmocka_unit_test(keys_and_tables),
    };
    return cmocka_run_group_tests(tests, start, finish);
}
