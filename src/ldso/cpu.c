#include "ldso/cpu.h"

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#ifdef __x86_64__
#include <cpuid.h>

#if __has_include(<sys/platform/x86.h>) // glibc from 2.33 on
#include <sys/platform/x86.h>
#define CPUID_WAS_ASKED 1
#else
#define CPUID_WAS_ASKED 0
#endif

static bool reg_has(uint32_t reg, int bit)
{
    return reg >> bit & 1;
}

/* Extended control register 0: which register states the kernel saves. */
static uint64_t xgetbv0(void)
{
    uint32_t lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}

/* What the CPUID instruction says for one leaf. */
struct leaf {
    uint32_t a, b, c, d;
};

/* The leaves 1, 7 and 0x80000001. The C library has asked for them when the process started: a
 * virtual machine takes some microseconds for each CPUID instruction, as its host has to answer. */
#if CPUID_WAS_ASKED
static struct leaf leaf_asked_before(unsigned index)
{
    const unsigned *r = __x86_get_cpuid_feature_leaf(index)->cpuid_array; // eax, ebx, ecx, edx
    return (struct leaf){r[0], r[1], r[2], r[3]};
}

static void read_leaves(struct leaf *l1, struct leaf *l7, struct leaf *l81)
{
    *l1 = leaf_asked_before(CPUID_INDEX_1);
    *l7 = leaf_asked_before(CPUID_INDEX_7);
    *l81 = leaf_asked_before(CPUID_INDEX_80000001);
}
#else
static void read_leaves(struct leaf *l1, struct leaf *l7, struct leaf *l81)
{
    struct leaf l = {0};
    __cpuid(0, l.a, l.b, l.c, l.d);
    __cpuid(1, l1->a, l1->b, l1->c, l1->d);
    if (l.a >= 7) {
        __cpuid_count(7, 0, l7->a, l7->b, l7->c, l7->d);
    }
    __cpuid(0x80000000, l.a, l.b, l.c, l.d);
    if (l.a >= 0x80000001) {
        __cpuid(0x80000001, l81->a, l81->b, l81->c, l81->d);
    }
}
#endif

static bool is_intel(void)
{
    uint32_t max = 0, vendor[3] = {0};
    __cpuid(0, max, vendor[0], vendor[2], vendor[1]);
    return memcmp(vendor, "GenuineIntel", 12) == 0;
}

/* Levels: x86-64 psABI, table 3.1; the tests are those of glibc 2.36 sysdeps/x86/dl-hwcaps-subdirs
 * and cpu_features.c (a feature counts only if the kernel saves its registers). */
static void read_x86(struct ldso_cpu *cpu)
{
    struct leaf l1 = {0}, l7 = {0}, l81 = {0};
    read_leaves(&l1, &l7, &l81);
    uint32_t c1 = l1.c, b7 = l7.b, c81 = l81.c;
    uint64_t saved = reg_has(c1, 27) ? xgetbv0() : 0;
    bool ymm = (saved & 0x06) == 0x06, zmm = (saved & 0xe6) == 0xe6;
    bool v2 = reg_has(c1, 0) && reg_has(c1, 9) && reg_has(c1, 13) && reg_has(c1, 19) &&
              reg_has(c1, 20) && reg_has(c1, 23) && reg_has(c81, 0);
    bool v3 = v2 && ymm && reg_has(c1, 12) && reg_has(c1, 22) && reg_has(c1, 28) &&
              reg_has(c1, 29) && reg_has(b7, 3) && reg_has(b7, 5) && reg_has(b7, 8) &&
              reg_has(c81, 5);
    bool v4 = v3 && zmm && reg_has(b7, 16) && reg_has(b7, 17) && reg_has(b7, 28) &&
              reg_has(b7, 30) && reg_has(b7, 31);
    cpu->level = v4 ? 4 : v3 ? 3 : v2 ? 2 : 1;
    cpu->platform = "x86_64";
    if (v3 && !reg_has(c81, 6) && is_intel()) { // SSE4a: AMD's and Hygon's alone, no need to ask
        bool phi = zmm && reg_has(b7, 28) && reg_has(b7, 27) && reg_has(b7, 26);
        cpu->platform = phi ? "xeon_phi" : "haswell";
        cpu->avx512_1 = !phi && v4;
    }
}
#endif

static const char *arch_platform(uint16_t machine)
{
    switch (machine) {
    case EM_AARCH64: return "aarch64";
    case EM_386: return "i686";
    case EM_ARM: return "v7l";
    case EM_X86_64: return "x86_64";
    default: return "";
    }
}

uint16_t ldso_cpu_own_machine(void)
{
#if defined __x86_64__
    return EM_X86_64;
#elif defined __aarch64__
    return EM_AARCH64;
#else
    return EM_NONE;
#endif
}

/* ------------------------------------------------------------------ pages */

static const struct {
    uint16_t machine;
    uint32_t sizes[LDSO_PAGE_SIZES];
} page_sizes[] = {
    {EM_AARCH64, {4096, 16384, 65536}},
    {EM_PPC64, {4096, 65536}},
    {EM_LOONGARCH, {4096, 16384, 65536}},
};

size_t ldso_page_sizes(uint16_t machine, uint32_t ret[LDSO_PAGE_SIZES])
{
    size_t n = 0;
    for (size_t i = 0; i < sizeof page_sizes / sizeof *page_sizes; i++) {
        for (size_t k = 0; page_sizes[i].machine == machine && k < LDSO_PAGE_SIZES; k++) {
            if (page_sizes[i].sizes[k]) {
                ret[n++] = page_sizes[i].sizes[k];
            }
        }
    }
    if (n == 0) {
        ret[n++] = 4096;
    }
    return n;
}

bool ldso_page_parse(const char *text, uint32_t *ret)
{
    uint64_t value = 0;
    bool known =
        str_u64(str_of(text), &value) && (value == 4096 || value == 16384 || value == 65536);
    *ret = known ? (uint32_t)value : 0;
    return known;
}

static bool has_page_sizes(uint16_t machine)
{
    uint32_t sizes[LDSO_PAGE_SIZES];
    return ldso_page_sizes(machine, sizes) > 1;
}

/* CONFIG_ARM64_64K_PAGES=y, CONFIG_PPC_64K_PAGES=y, CONFIG_PAGE_SIZE_16KB=y; 0: none of them. */
static uint32_t page_size_of_config(struct str text)
{
    static const struct {
        const char *word;
        uint32_t size;
    } words[] = {{"4K", 4096}, {"16K", 16384}, {"64K", 65536}};
    struct str line;
    while (str_line(&text, &line)) {
        struct str value = line, key = str_cut(&value, '=');
        if (!str_is(value, "y")) {
            continue;
        }
        for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
            char arm[32], ppc[32], loong[32];
            (void)snprintf(arm, sizeof arm, "CONFIG_ARM64_%s_PAGES", words[i].word);
            (void)snprintf(ppc, sizeof ppc, "CONFIG_PPC_%s_PAGES", words[i].word);
            (void)snprintf(loong, sizeof loong, "CONFIG_PAGE_SIZE_%sB", words[i].word);
            if (str_is(key, arm) || str_is(key, ppc) || str_is(key, loong)) {
                return words[i].size;
            }
        }
    }
    return 0;
}

/* The page size of the kernel that runs below `r`. */
static void read_page_size(struct root *r, struct arena *a, struct ldso_cpu *cpu)
{
    enum { RELEASE_MAX = 256, CONFIG_MAX = 4 << 20 };
    struct str text = {0};
    if (root_read(r, a, "/proc/sys/kernel/osrelease", RELEASE_MAX, &text) < 0) {
        cpu->why = "it is not stated which kernel runs, and so the page size is not known";
        return;
    }
    const char *release = str_dup(a, str_trim(text));
    for (size_t i = 0; i < 2 && !strchr(release, '/'); i++) {
        const char *path = i ? arena_printf(a, "/lib/modules/%s/config", release)
                             : arena_printf(a, "/boot/config-%s", release);
        if (root_read(r, a, path, CONFIG_MAX, &text) == 0) {
            cpu->page_size = page_size_of_config(text);
        }
        if (cpu->page_size) {
            return;
        }
    }
    cpu->why = arena_printf(a,
                            "the configuration of the kernel %s, which states its page size, is "
                            "not there",
                            str_printable(a, release));
}

/* ------------------------------------------------------------------ this machine */

void ldso_cpu_host(uint16_t machine, struct ldso_cpu *ret)
{
    *ret = (struct ldso_cpu){.machine = machine, .platform = arch_platform(machine)};
    if (machine == ldso_cpu_own_machine() && has_page_sizes(machine)) {
        ret->page_size = (uint32_t)sysconf(_SC_PAGESIZE);
    }
#ifdef __x86_64__
    if (machine == EM_X86_64) {
        read_x86(ret);
    }
#endif
#ifdef __aarch64__
    if (machine == EM_AARCH64) {
        ret->level = getauxval(AT_HWCAP) & HWCAP_ATOMICS ? LDSO_ARMV8_1 : LDSO_ARMV8_0;
    }
#endif
    if (ldso_cpu_is_unknown(ret)) {
        ret->why = "this machine's processor is of another architecture";
    }
}

/* ------------------------------------------------------------------ /proc/cpuinfo */

bool ldso_cpu_has_flag(struct str flags, const char *flag)
{
    while (flags.s) {
        if (str_is(str_cut(&flags, ' '), flag)) {
            return true;
        }
    }
    return false;
}

/* Levels by flags: Linux writes sse3 as "pni" and lzcnt as "abm" (arch/x86/include/asm/
 * cpufeatures.h), and leaves out what it does not save the registers of. */
static int level_of(struct str flags)
{
    static const struct {
        int level;
        const char *flags[12];
    } levels[] = {
        {1, {"cmov", "cx8", "fpu", "fxsr", "mmx", "sse", "sse2"}},
        {2, {"cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"}},
        {3, {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"}},
        {4, {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}},
    };
    int level = 0;
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        for (size_t k = 0; levels[i].flags[k]; k++) {
            if (!ldso_cpu_has_flag(flags, levels[i].flags[k])) {
                return level;
            }
        }
        level = levels[i].level;
    }
    return level;
}

/* As read_x86() does by CPUID. */
static struct ldso_cpu by_flags(struct str flags, bool intel)
{
    struct ldso_cpu cpu = {.machine = EM_X86_64, .level = level_of(flags), .platform = "x86_64"};
    if (cpu.level >= 3 && intel) {
        bool phi = ldso_cpu_has_flag(flags, "avx512f") && ldso_cpu_has_flag(flags, "avx512cd") &&
                   ldso_cpu_has_flag(flags, "avx512er") && ldso_cpu_has_flag(flags, "avx512pf");
        cpu.platform = phi ? "xeon_phi" : "haswell";
        cpu.avx512_1 = !phi && cpu.level == 4;
    }
    return cpu;
}

static bool are_words(struct str flags)
{
    for (size_t i = 0; i < flags.n; i++) {
        char c = flags.s[i];
        if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '_' && c != ' ') {
            return false;
        }
    }
    return true;
}

/* The part up to the last line end: a line that was cut says less than is true. */
static struct str whole_lines(struct str text)
{
    while (text.n && text.s[text.n - 1] != '\n') {
        text.n--;
    }
    return text;
}

void ldso_cpu_info(struct str text, struct ldso_cpu *ret, struct str *ret_flags)
{
    const struct ldso_cpu unknown = {.machine = EM_X86_64, .platform = "x86_64"};
    struct str line;
    bool intel = false;
    *ret = unknown;
    *ret_flags = (struct str){0};
    ret->why = "/proc/cpuinfo states no flags of an x86-64 processor";
    text = whole_lines(text);
    while (str_line(&text, &line)) {
        struct str value = line, key = str_trim(str_cut(&value, ':'));
        value = str_trim(value);
        intel = str_is(key, "vendor_id") ? str_is(value, "GenuineIntel") : intel;
        if (!str_is(key, "flags")) {
            continue;
        }
        struct ldso_cpu cpu = by_flags(value, intel);
        bool first = !ret_flags->s;
        const char *why =
            !are_words(value) || cpu.level == 0 ? "/proc/cpuinfo is damaged"
            : !first && (cpu.level != ret->level || strcmp(cpu.platform, ret->platform) != 0)
                ? "the processors of /proc/cpuinfo differ"
                : NULL;
        if (why) {
            *ret = unknown;
            *ret_flags = (struct str){0};
            ret->why = why;
            return;
        }
        *ret = cpu;
        *ret_flags = first ? value : *ret_flags;
    }
}

/* "Features : fp asimd ... atomics" of each processor; the loader has the kernel's common set. */
static void read_arm(struct str text, struct ldso_cpu *ret)
{
    struct str line;
    text = whole_lines(text);
    while (str_line(&text, &line)) {
        struct str value = line, key = str_trim(str_cut(&value, ':'));
        if (str_is(key, "Features")) {
            int level = ldso_cpu_has_flag(str_trim(value), "atomics") ? LDSO_ARMV8_1 : LDSO_ARMV8_0;
            ret->level = ret->level == 0 || level < ret->level ? level : ret->level;
        }
    }
}

void ldso_cpu_of(struct root *r, struct arena *a, uint16_t machine, struct ldso_cpu *ret)
{
    bool pages = has_page_sizes(machine);
    if (root_is_here(r) || (machine != EM_X86_64 && !pages)) {
        ldso_cpu_host(machine, ret);
        return;
    }
    struct str text = {0}, flags;
    *ret = (struct ldso_cpu){.machine = machine, .platform = arch_platform(machine)};
    if (pages) {
        read_page_size(r, a, ret);
    }
    if (machine != EM_X86_64 && machine != EM_AARCH64) {
        return;
    }
    int rc = root_read(r, a, "/proc/cpuinfo", LDSO_CPUINFO_MAX, &text);
    if (machine == EM_X86_64) {
        ldso_cpu_info(text, ret, &flags);
    } else {
        read_arm(text, ret);
    }
    if (ret->level == 0 && rc < 0) {
        ret->why = rc == -ENOENT || rc == -ENOTDIR
                       ? "there is no /proc/cpuinfo"
                       : arena_printf(a, "/proc/cpuinfo: %s", strerror(-rc));
    } else if (ret->level == 0 && machine == EM_AARCH64) {
        ret->why = "/proc/cpuinfo states no features of an aarch64 processor";
    }
}

bool ldso_cpu_is_unknown(const struct ldso_cpu *cpu)
{
    bool level = cpu->machine == EM_X86_64 || cpu->machine == EM_AARCH64;
    return (level && cpu->level == 0) || (has_page_sizes(cpu->machine) && cpu->page_size == 0);
}

#define ARM(version, size, kib)                                                                    \
    {                                                                                              \
        "Armv8." #version " with pages of " #kib " KiB",                                           \
        {                                                                                          \
            .machine = EM_AARCH64, .level = LDSO_ARMV8_##version, .platform = "aarch64",           \
            .page_size = size                                                                      \
        }                                                                                          \
    }
#define PAGES(of_machine, size, kib)                                                               \
    {                                                                                              \
        "pages of " #kib " KiB",                                                                   \
        {                                                                                          \
            .machine = of_machine, .platform = "", .page_size = size                               \
        }                                                                                          \
    }

static const struct ldso_cpu_kind x86_kinds[] = {
    {"x86-64-v1", {.machine = EM_X86_64, .level = 1, .platform = "x86_64"}},
    {"x86-64-v2", {.machine = EM_X86_64, .level = 2, .platform = "x86_64"}},
    {"x86-64-v3", {.machine = EM_X86_64, .level = 3, .platform = "x86_64"}},
    {"x86-64-v3 of Intel", {.machine = EM_X86_64, .level = 3, .platform = "haswell"}},
    {"Xeon Phi", {.machine = EM_X86_64, .level = 3, .platform = "xeon_phi"}},
    {"x86-64-v4", {.machine = EM_X86_64, .level = 4, .platform = "x86_64"}},
    {"x86-64-v4 of Intel",
     {.machine = EM_X86_64, .level = 4, .platform = "haswell", .avx512_1 = true}},
};
static const struct ldso_cpu_kind arm_kinds[] = {
    ARM(0, 4096, 4), ARM(0, 16384, 16), ARM(0, 65536, 64),
    ARM(1, 4096, 4), ARM(1, 16384, 16), ARM(1, 65536, 64),
};
static const struct ldso_cpu_kind ppc_kinds[] = {
    PAGES(EM_PPC64, 4096, 4),
    PAGES(EM_PPC64, 65536, 64),
};
static const struct ldso_cpu_kind loong_kinds[] = {
    PAGES(EM_LOONGARCH, 4096, 4),
    PAGES(EM_LOONGARCH, 16384, 16),
    PAGES(EM_LOONGARCH, 65536, 64),
};

const struct ldso_cpu_kind *ldso_cpu_kinds(uint16_t machine, size_t *ret_n)
{
    switch (machine) {
    case EM_X86_64: *ret_n = sizeof x86_kinds / sizeof *x86_kinds; return x86_kinds;
    case EM_AARCH64: *ret_n = sizeof arm_kinds / sizeof *arm_kinds; return arm_kinds;
    case EM_PPC64: *ret_n = sizeof ppc_kinds / sizeof *ppc_kinds; return ppc_kinds;
    case EM_LOONGARCH: *ret_n = sizeof loong_kinds / sizeof *loong_kinds; return loong_kinds;
    default: *ret_n = 0; return NULL;
    }
}

static const struct {
    const char *name;
    struct ldso_cpu cpu;
} levels[] = {
    {"x86-64-v1", {.machine = EM_X86_64, .level = 1, .platform = "x86_64"}},
    {"x86-64-v2", {.machine = EM_X86_64, .level = 2, .platform = "x86_64"}},
    {"x86-64-v3", {.machine = EM_X86_64, .level = 3, .platform = "x86_64"}},
    {"x86-64-v4", {.machine = EM_X86_64, .level = 4, .platform = "x86_64"}},
    {"armv8.0-a", {.machine = EM_AARCH64, .level = LDSO_ARMV8_0, .platform = "aarch64"}},
    {"armv8.1-a", {.machine = EM_AARCH64, .level = LDSO_ARMV8_1, .platform = "aarch64"}},
};

const char *ldso_cpu_level_name(const struct ldso_cpu *cpu)
{
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        if (levels[i].cpu.machine == cpu->machine && levels[i].cpu.level == cpu->level) {
            return levels[i].name;
        }
    }
    return NULL;
}

bool ldso_cpu_parse(const char *text, struct ldso_cpu *ret)
{
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        if (strcmp(levels[i].name, text) == 0) {
            *ret = levels[i].cpu;
            return true;
        }
    }
    return false;
}

static const char *const hwcaps_names[] = {"x86-64-v4", "x86-64-v3", "x86-64-v2"};

const char *const *ldso_cpu_hwcaps(const struct ldso_cpu *cpu, size_t *ret_n)
{
    *ret_n = cpu->machine == EM_X86_64 && cpu->level > 1 ? (size_t)cpu->level - 1 : 0;
    return hwcaps_names + (3 - *ret_n);
}

const char *const *ldso_cpu_subdirs(struct arena *a, const struct ldso_cpu *cpu, int glibc_minor,
                                    size_t *ret_n)
{
    VEC(const char *) v = {0};
    size_t n_hwcaps = 0;
    const char *const *hwcaps = ldso_cpu_hwcaps(cpu, &n_hwcaps);
    for (size_t i = 0; i < n_hwcaps && glibc_minor >= 33; i++) {
        VEC_PUSH(a, &v, arena_printf(a, "glibc-hwcaps/%s/", hwcaps[i]));
    }
    if (glibc_minor < 37 && cpu->platform[0]) {
        /* The power set of these names in this order, each a folder level, largest set first. */
        const char *names[4] = {"tls", cpu->platform};
        unsigned n = 2;
        if (cpu->avx512_1) {
            names[n++] = "avx512_1";
        }
        if (cpu->machine == EM_X86_64) {
            names[n++] = "x86_64";
        }
        if (cpu->machine == EM_AARCH64 && cpu->level >= LDSO_ARMV8_1) {
            names[n++] = "atomics";
        }
        for (unsigned mask = (1u << n) - 1; mask; mask--) {
            char *dir = arena_strdup(a, "");
            for (unsigned k = 0; k < n; k++) {
                if (mask >> (n - 1 - k) & 1) {
                    dir = arena_printf(a, "%s%s/", dir, names[k]);
                }
            }
            VEC_PUSH(a, &v, dir);
        }
    }
    VEC_PUSH(a, &v, "");
    *ret_n = v.n;
    return v.items;
}

static bool among(const char *const *list, size_t n, const char *text)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(list[i], text) == 0) {
            return true;
        }
    }
    return false;
}

const char *const *ldso_cpu_other_subdirs(struct arena *a, uint16_t machine, int glibc_minor,
                                          size_t *ret_n)
{
    const struct ldso_cpu unknown = {.machine = machine, .platform = arch_platform(machine)};
    size_t n_kinds, n_dirs, n_own;
    const struct ldso_cpu_kind *kinds = ldso_cpu_kinds(machine, &n_kinds);
    const char *const *own = ldso_cpu_subdirs(a, &unknown, glibc_minor, &n_own);
    VEC(const char *) v = {0};
    for (size_t i = 0; i < n_kinds; i++) {
        const char *const *dirs = ldso_cpu_subdirs(a, &kinds[i].cpu, glibc_minor, &n_dirs);
        for (size_t k = 0; k < n_dirs; k++) {
            if (!among(own, n_own, dirs[k]) && !among(v.items, v.n, dirs[k])) {
                VEC_PUSH(a, &v, dirs[k]);
            }
        }
    }
    *ret_n = v.n;
    return v.items;
}
