/* What is read from a loader's file, and what the CPU decides: ldso/loader.h, ldso/cpu.h. The
 * loaders of this machine are asked themselves for comparison. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "elfmake.h"
#include "ldso/cpu.h"
#include "ldso/loader.h"

static struct arena arena;

/* What a loader says of itself; empty where it cannot run here. */
static char *ask(const char *command)
{
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    char *text = arena_alloc(&arena, 1 << 20);
    size_t n = fread(text, 1, (1 << 20) - 1, pipe);
    text[n] = '\0';
    (void)pclose(pipe); // what it printed is judged, whatever its status
    return text;
}

static struct root root;
static struct ldso_store store;

/* Valid until close_store(). */
static struct ldso_loader read_loader(const char *below, const char *path, uint16_t machine)
{
    struct ldso_loader loader;
    struct gm_err err;
    assert_int_equal(root_open(&root, below, &err), 0);
    ldso_store_open(&store, &root, &arena);
    ldso_loader_read(&store, path, machine, machine == EM_X86_64, &loader);
    if (loader.file) {
        assert_int_equal(loader.file->image.machine, machine);
    }
    return loader;
}

static void close_store(void)
{
    ldso_store_close(&store);
    root_close(&root);
}

/* `path.system_dirs[0x0]="/lib/x86_64-linux-gnu/"` of ld.so --list-diagnostics (since 2.33). */
static void compare_glibc(const char *path, uint16_t machine)
{
    if (access(path, R_OK) != 0) {
        print_message("%s is not here: not compared\n", path);
        return;
    }
    struct ldso_loader l = read_loader("/", path, machine);
    assert_int_equal(l.kind, LDSO_GLIBC);
    assert_false(l.dirs_assumed);
    assert_true(l.n_dirs >= 2);
    const char *said = ask(arena_printf(&arena, "%s --list-diagnostics 2>/dev/null", path));
    if (!strstr(said, "path.system_dirs")) {
        print_message("%s does not describe itself: not compared\n", path);
        close_store();
        return;
    }
    for (size_t i = 0; i < l.n_dirs; i++) {
        const char *line = arena_printf(&arena, "path.system_dirs[0x%zx]=\"%s\"", i, l.dirs[i]);
        assert_non_null(strstr(said, line));
    }
    assert_null(strstr(said, arena_printf(&arena, "path.system_dirs[0x%zx]=", l.n_dirs)));
    assert_non_null(strstr(said, arena_printf(&arena, "version.version=\"%s\"", l.version)));
    close_store();
}

static void loaders_of_this_machine(void **state)
{
    (void)state;
    compare_glibc("/lib64/ld-linux-x86-64.so.2", EM_X86_64);
    compare_glibc("/lib/ld-linux.so.2", EM_386);
}

static void musl_of_this_machine(void **state)
{
    (void)state;
    static const char path[] = "/lib/ld-musl-x86_64.so.1";
    if (access(path, R_OK) != 0) {
        print_message("%s is not here: not compared\n", path);
        return;
    }
    struct ldso_loader l = read_loader("/", path, EM_X86_64);
    assert_int_equal(l.kind, LDSO_MUSL);
    assert_int_equal(l.n_dirs, 3);
    assert_non_null(l.version);
    const char *said = ask(arena_printf(&arena, "%s 2>&1", path));
    assert_non_null(strstr(said, arena_printf(&arena, "Version %s\n", l.version)));
    close_store();
}

#define TEXT(s)                                                                                    \
    {                                                                                              \
        (s), sizeof(s) - 1                                                                         \
    }
#define DIRS "\0/lib/test-linux-gnu/\0/usr/lib/test-linux-gnu/\0/lib/\0/usr/lib/\0"

/* Loaders made here: what stands in the file counts, and what is missing is said to be assumed. */
static void loaders_made_here(void **state)
{
    (void)state;
    static const struct {
        const char *name, *path, *private;
        struct str constants;
        enum ldso_kind kind;
        size_t n_dirs;
        bool assumed;
        const char *version, *lib, *cache;
    } cases[] = {
        {"as Debian's", "/ld.so", "GLIBC_PRIVATE",
         TEXT(DIRS "\0lib/test-linux-gnu\0stable release version 2.41.\0/etc/ld.so.cache\0"),
         LDSO_GLIBC, 4, false, "2.41", "lib/test-linux-gnu", "/etc/ld.so.cache"},
        {"another cache", "/ld.so", "GLIBC_PRIVATE",
         TEXT("\0/lib64/\0/usr/lib64/\0\0lib64\0release version 2.31\0/var/x/ld.so.cache\0"),
         LDSO_GLIBC, 2, false, "2.31", "lib64", "/var/x/ld.so.cache"},
        {"nothing in it", "/ld.so", "GLIBC_PRIVATE", TEXT("\0nothing\0"), LDSO_GLIBC, 2, true, NULL,
         "lib64", "/etc/ld.so.cache"},
        {"a version that is no number", "/ld.so", "GLIBC_PRIVATE", TEXT("release version 2.x\0"),
         LDSO_GLIBC, 2, true, NULL, "lib64", "/etc/ld.so.cache"},
        {"no loader of glibc", "/ld.so", "OTHER_1", TEXT(DIRS), LDSO_OTHER, 4, false, NULL,
         "lib/test-linux-gnu", "/etc/ld.so.cache"},
        {"musl", "/ld-musl-x86_64.so.1", "OTHER_1",
         TEXT("\0/lib:/usr/local/lib:/usr/lib\0\0001.2.5\0"), LDSO_MUSL, 3, false, "1.2.5", "lib",
         "/etc/ld.so.cache"},
    };
    char top[] = "/tmp/gpumend-test-loader.XXXXXX";
    assert_non_null(mkdtemp(top));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct elfmake spec = {.soname = "ld.so",
                               .symbols = {{"_dl_x", cases[i].private, true}},
                               .constants = cases[i].constants};
        struct str bytes = elfmake(&arena, &spec);
        const char *file = arena_printf(&arena, "%s%s", top, cases[i].path);
        FILE *out = fopen(file, "w");
        assert_non_null(out);
        assert_int_equal(fwrite(bytes.s, 1, bytes.n, out), bytes.n);
        assert_int_equal(fclose(out), 0);
        struct ldso_loader l = read_loader(top, cases[i].path, EM_X86_64);
        assert_int_equal(unlink(file), 0);
        bool version_same = l.version && cases[i].version ? !strcmp(l.version, cases[i].version)
                                                          : l.version == cases[i].version;
        if (l.kind != cases[i].kind || l.n_dirs != cases[i].n_dirs || !version_same ||
            l.dirs_assumed != cases[i].assumed) {
            fail_msg("%s: kind %d, %zu folders, version %s, assumed %d", cases[i].name, l.kind,
                     l.n_dirs, l.version ? l.version : "unknown", l.dirs_assumed);
        }
        assert_string_equal(l.lib_token, cases[i].lib);
        assert_string_equal(l.cache_path, cases[i].cache);
        close_store();
    }
    assert_int_equal(rmdir(top), 0);
}

/* A loader that is not there is said to be missing, and common folders are assumed. */
static void missing_loader(void **state)
{
    (void)state;
    struct ldso_loader l = read_loader("/", "/nowhere/ld-linux-aarch64.so.1", EM_AARCH64);
    assert_null(l.file);
    assert_non_null(strstr(l.missing, "No such file"));
    assert_true(l.dirs_assumed && l.n_dirs == 2 && !l.version);
    close_store();
    l = read_loader("/", "/nowhere/ld-musl-aarch64.so.1", EM_AARCH64);
    assert_int_equal(l.kind, LDSO_MUSL);
    close_store();
}

/* ------------------------------------------------------------------ CPU */

static const char *joined(const char *const *items, size_t n)
{
    const char *text = "";
    for (size_t i = 0; i < n; i++) {
        text = arena_printf(&arena, "%s%s%s", text, i ? ":" : "", items[i]);
    }
    return text;
}

#define LEGACY "tls/x86_64/x86_64/:tls/x86_64/:tls/x86_64/:tls/:x86_64/x86_64/:x86_64/:x86_64/:"

static void folders_of_a_cpu(void **state)
{
    (void)state;
    static const struct {
        const char *level;
        int glibc_minor;
        const char *folders;
    } cases[] = {
        {"x86-64-v1", 40, ""},
        {"x86-64-v2", 40, "glibc-hwcaps/x86-64-v2/:"},
        {"x86-64-v3", 37, "glibc-hwcaps/x86-64-v3/:glibc-hwcaps/x86-64-v2/:"},
        {"x86-64-v4", 40,
         "glibc-hwcaps/x86-64-v4/:glibc-hwcaps/x86-64-v3/:glibc-hwcaps/x86-64-v2/:"},
        {"x86-64-v2", 36, "glibc-hwcaps/x86-64-v2/:" LEGACY},
        {"x86-64-v4", 32, LEGACY},
        {"x86-64-v1", 31, LEGACY},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ldso_cpu cpu;
        size_t n = 0;
        assert_true(ldso_cpu_parse(cases[i].level, &cpu));
        const char *const *dirs = ldso_cpu_subdirs(&arena, &cpu, cases[i].glibc_minor, &n);
        assert_string_equal(joined(dirs, n), cases[i].folders);
    }
}

static void levels_that_are_none(void **state)
{
    (void)state;
    static const char *const texts[] = {"",          "x86-64",     "x86-64-v",  "x86-64-v0",
                                        "x86-64-v5", "x86-64-v22", "X86-64-v2", "v2"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct ldso_cpu cpu;
        if (ldso_cpu_parse(texts[i], &cpu)) {
            fail_msg("%s was taken for a level", texts[i]);
        }
    }
}

#define V1    "fpu cmov cx8 fxsr mmx sse sse2"
#define V2    V1 " cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3"
#define V3    V2 " avx avx2 bmi1 bmi2 f16c fma abm movbe xsave"
#define V4    V3 " avx512f avx512bw avx512cd avx512dq avx512vl"
#define INTEL "vendor_id : GenuineIntel\n"

/* Every flag of a level is needed, and every level below it; what is damaged or differs is no
 * level. */
static void cpuinfo(void **state)
{
    static const struct {
        const char *text;
        int level;
        const char *platform;
        const char *why; // begins with
    } cases[] = {
        {"flags : " V1 "\n", 1, "x86_64", NULL},
        {"flags : " V2 "\n", 2, "x86_64", NULL},
        {"flags\t\t: " V3 "\n", 3, "x86_64", NULL},
        {"flags : " V4 "\n", 4, "x86_64", NULL},
        {INTEL "flags : " V3 "\n", 3, "haswell", NULL},
        {INTEL "flags : " V4 "\n", 4, "haswell", NULL},
        {INTEL "flags : " V2 "\n", 2, "x86_64", NULL},
        {INTEL "flags : " V3 " avx512f avx512cd avx512er avx512pf\n", 3, "xeon_phi", NULL},
        {"flags : " V2 " avx512f avx512bw\n", 2, "x86_64", NULL},
        {"flags : " V1 " avx avx2\n", 1, "x86_64", NULL},
        {"flags : " V3 "\n\nprocessor : 1\nflags : " V3 "\n", 3, "x86_64", NULL},
        {"", 0, "x86_64", "/proc/cpuinfo states no flags"},
        {"Features : fp asimd\n", 0, "x86_64", "/proc/cpuinfo states no flags"},
        {"flags : " V3, 0, "x86_64", "/proc/cpuinfo states no flags"}, // cut
        {"flags : " V3 "\nprocessor : 1\nflags : " V1, 3, "x86_64", NULL},
        {"flags : sse\n", 0, "x86_64", "/proc/cpuinfo is damaged"},
        {"flags :\n", 0, "x86_64", "/proc/cpuinfo is damaged"},
        {"flags : " V3 " \x01\xff\n", 0, "x86_64", "/proc/cpuinfo is damaged"},
        {"flags : " V3 "\nflags : " V2 "\n", 0, "x86_64", "the processors of /proc/cpuinfo differ"},
        {"flags : " V3 "\n" INTEL "flags : " V3 "\n", 0, "x86_64",
         "the processors of /proc/cpuinfo differ"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ldso_cpu cpu;
        struct str flags;
        ldso_cpu_info(str_of(cases[i].text), &cpu, &flags);
        assert_int_equal(cpu.level, cases[i].level);
        assert_string_equal(cpu.platform, cases[i].platform);
        assert_int_equal(ldso_cpu_is_unknown(&cpu), cases[i].level == 0);
        assert_int_equal(flags.s != NULL, cases[i].level > 0);
        assert_int_equal(cpu.why != NULL, cases[i].why != NULL);
        assert_true(!cases[i].why || starts_with(cpu.why, cases[i].why));
    }
}

/* An unknown processor searches no folder that another does not, and knows of all that any does. */
static void other_subdirs(void **state)
{
    (void)state;
    size_t n = 0, n_new = 0, n_kinds = 0;
    const char *const *old = ldso_cpu_other_subdirs(&arena, EM_X86_64, 36, &n);
    const char *const *new = ldso_cpu_other_subdirs(&arena, EM_X86_64, 37, &n_new);
    assert_string_equal(joined(new, n_new), "glibc-hwcaps/x86-64-v2/:glibc-hwcaps/x86-64-v3/:"
                                            "glibc-hwcaps/x86-64-v4/");
    assert_true(strstr(joined(old, n), "haswell/avx512_1/"));
    assert_true(strstr(joined(old, n), "xeon_phi/"));
    assert_false(strstr(joined(old, n), "tls/:"));
    const struct ldso_cpu_kind *kinds = ldso_cpu_kinds(EM_X86_64, &n_kinds);
    for (size_t i = 0; i < n_kinds; i++) {
        assert_false(ldso_cpu_is_unknown(&kinds[i].cpu));
    }
}

static void page_sizes(void **state)
{
    (void)state;
    static const struct {
        uint16_t machine;
        size_t n;
        uint32_t last;
    } cases[] = {{EM_X86_64, 1, 4096},
                 {EM_386, 1, 4096},
                 {EM_AARCH64, 3, 65536},
                 {EM_PPC64, 2, 65536},
                 {EM_LOONGARCH, 3, 65536}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t sizes[LDSO_PAGE_SIZES];
        size_t n = ldso_page_sizes(cases[i].machine, sizes);
        assert_int_equal(n, cases[i].n);
        assert_int_equal(sizes[0], 4096);
        assert_int_equal(sizes[n - 1], cases[i].last);
    }
    static const struct {
        const char *text;
        uint32_t size;
    } texts[] = {{"4096", 4096}, {"16384", 16384}, {"65536", 65536}, {"8192", 0},
                 {"64K", 0},     {"", 0},          {"-1", 0},        {"4096 ", 0}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        uint32_t size = 1;
        assert_int_equal(ldso_page_parse(texts[i].text, &size), texts[i].size != 0);
        assert_int_equal(size, texts[i].size);
    }
}

/* Each kind of every architecture is known whole, and the legacy folder of Armv8.1 is its own. */
static void kinds_of_others(void **state)
{
    (void)state;
    static const uint16_t machines[] = {EM_AARCH64, EM_PPC64, EM_LOONGARCH};
    size_t n;
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        const struct ldso_cpu_kind *kinds = ldso_cpu_kinds(machines[i], &n);
        assert_true(n > 1 && n <= LDSO_CPU_KINDS);
        for (size_t k = 0; k < n; k++) {
            assert_false(ldso_cpu_is_unknown(&kinds[k].cpu));
        }
    }
    assert_null(ldso_cpu_kinds(EM_386, &n));
    assert_int_equal(n, 0);
    struct ldso_cpu old, new;
    assert_true(ldso_cpu_parse("armv8.0-a", &old) && ldso_cpu_parse("armv8.1-a", &new));
    const char *const *dirs = ldso_cpu_subdirs(&arena, &new, 36, &n);
    assert_string_equal(joined(dirs, n), "tls/aarch64/atomics/:tls/aarch64/:tls/atomics/:tls/:"
                                         "aarch64/atomics/:aarch64/:atomics/:");
    dirs = ldso_cpu_subdirs(&arena, &old, 36, &n);
    assert_string_equal(joined(dirs, n), "tls/aarch64/:tls/:aarch64/:");
    dirs = ldso_cpu_subdirs(&arena, &new, 37, &n);
    assert_string_equal(joined(dirs, n), "");
}

/* The level of this CPU is what its own loader says ("x86-64-v3 (supported, searched)"). */
static void this_cpu(void **state)
{
    (void)state;
    const char *said = ask("env -u GLIBC_TUNABLES /lib64/ld-linux-x86-64.so.2 --help 2>/dev/null");
    struct ldso_cpu cpu;
    ldso_cpu_host(EM_X86_64, &cpu);
    if (!strstr(said, "x86-64-v2") || getenv("GPUMEND_UNDER_VALGRIND")) {
        print_message("the loader does not tell this CPU's level: not compared\n");
        return;
    }
    for (int level = 2; level <= 4; level++) {
        const char *text = arena_printf(&arena, "x86-64-v%d (supported, searched)", level);
        assert_int_equal(strstr(said, text) != NULL, cpu.level >= level);
    }
    ldso_cpu_host(EM_AARCH64, &cpu);
    assert_int_equal(cpu.level, 0);
    assert_string_equal(cpu.platform, "aarch64");
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
        cmocka_unit_test(loaders_of_this_machine),
        cmocka_unit_test(musl_of_this_machine),
        cmocka_unit_test(loaders_made_here),
        cmocka_unit_test(missing_loader),
        cmocka_unit_test(folders_of_a_cpu),
        cmocka_unit_test(levels_that_are_none),
        cmocka_unit_test(cpuinfo),
        cmocka_unit_test(other_subdirs),
        cmocka_unit_test(page_sizes),
        cmocka_unit_test(kinds_of_others),
        cmocka_unit_test(this_cpu),
    };
    return cmocka_run_group_tests(tests, start, finish);
}
