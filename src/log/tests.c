/* What no expression can say: arithmetic over the facts. One function a test, one row each. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "log/internal.h"

static const char *field(const struct log_fact *f, const char *name)
{
    return log_fact_field(f, name);
}

/* ------------------------------------------------------------------ which major a file asks for */

/* SONAME versions that are not the toolkit's: {in the name, toolkit}, ended by NULL. */
struct renumbered {
    const char *in_name, *means;
};

static const struct renumbered cufft_majors[] = {
    {"9", "9"}, {"10", "11"}, {"11", "12"}, {"12", "13"}, {0}};
static const struct renumbered cusparse_majors[] = {{"10", "10"}, {"11", "11"}, {"12", "12"}, {0}};
static const struct renumbered cusolver_majors[] = {{"10", "10"}, {0}}; // 11 serves CUDA 11 and 12
static const struct renumbered nvjitlink_majors[] = {{"12", "12"}, {"13", "13"}, {0}};

static const struct product {
    const char *stem, *package;
    const struct renumbered *majors; // NULL: as in the name
} products[] = {
    {"cudnn", "cudnn", NULL},
    {"cudart", "cuda", NULL},
    {"cublas", "cuda", NULL},
    {"nvblas", "cuda", NULL},
    {"nvrtc", "cuda", NULL},
    {"cupti", "cuda", NULL},
    {"npp", "cuda", NULL},
    {"cufft", "cuda", cufft_majors},
    {"cusparse", "cuda", cusparse_majors},
    {"cusolver", "cuda", cusolver_majors},
    {"nvjitlink", "cuda", nvjitlink_majors},
    {"nvinfer", "tensorrt", NULL},
    {"amdhip64", "rocm", NULL}, // the other libraries of ROCm are not numbered as its releases
};

struct wanted {
    const char *package; // NULL: the name does not tell
    char major[8]; // for CUDA up to 10, whose releases exclude one another: "10.1" if it is told
};

static void wanted_set_number(struct wanted *to, const char *major, size_t n, const char *minor,
                              size_t n_minor)
{
    char *end = mempcpy(to->major, major, n);
    if (n_minor && (n == 1 || strncmp(major, "10", n) == 0)) {
        *end++ = '.';
        end = mempcpy(end, minor, n_minor);
    }
    *end = '\0';
}

/* The number behind ".so.", "64_" or "_" in the rest of a file's name; false if there is none. */
static bool wanted_number(const char *rest, struct wanted *to)
{
    static const char *const marks[] = {".so.", "64_", "_"};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        const char *at = strstr(rest, marks[i]);
        at = at ? at + strlen(marks[i]) : "";
        size_t n = strspn(at, "0123456789");
        bool joined =
            i == 1 && (n == 3 || (n == 2 && *at > '1')); // cudart64_101.dll, cudart64_90.dll
        if (joined) {
            wanted_set_number(to, at, n - 1, at + n - 1, 1);
            return true;
        }
        if (n > 0 && n <= 2) {
            size_t minor = i == 0 && at[n] == '.' ? strspn(at + n + 1, "0123456789") : 0;
            wanted_set_number(to, at, n, at + n + 1, minor <= 2 ? minor : 0);
            return true;
        }
    }
    return false;
}

static struct wanted wanted_of(struct arena *a, const char *library)
{
    struct wanted w = {0};
    char *name = arena_strdup(a, library ? library : "");
    for (char *c = name; *c; c++) {
        *c = (char)tolower((unsigned char)*c);
    }
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        const char *at = strstr(name, products[i].stem);
        if (!at || !wanted_number(at + strlen(products[i].stem), &w)) {
            continue;
        }
        const struct renumbered *majors = products[i].majors;
        if (majors) {
            w.major[strcspn(w.major, ".")] = '\0';
        }
        for (; majors && majors->in_name && strcmp(majors->in_name, w.major) != 0; majors++) {
        }
        if (majors && !majors->in_name) {
            continue;
        }
        if (majors) {
            memcpy(w.major, majors->means, strlen(majors->means) + 1);
        }
        w.package = products[i].package;
        if (strcmp(w.package, "cuda") != 0) {
            w.major[strcspn(w.major, ".")] = '\0';
        }
        return w;
    }
    return w;
}

static struct wanted wanted_by(const struct log_matched *m)
{
    struct wanted w = {0};
    for (size_t i = 0; i < m->n && !w.package; i++) {
        w = wanted_of(m->a, field(m->items[i], "library"));
    }
    return w;
}

/* Whether the version is of this major: "v11.8" is of 11, "10" may be of 10.1. */
static bool is_major(const char *version, const char *major)
{
    size_t n = strlen(major);
    version += *version == 'v' || *version == 'V';
    if (!strchr(version, '.')) {
        n = strcspn(major, ".");
    }
    return strncmp(version, major, n) == 0 && !isdigit((unsigned char)version[n]);
}

/* Which majors of the package the text shows: the one that is wanted, another one. */
struct majors {
    const struct log_fact *wanted, *other; // the first of each, or NULL
};

static void count_major(struct majors *to, const struct log_fact *f, const char *version,
                        const char *major)
{
    version += *version == 'v' || *version == 'V';
    if (isdigit((unsigned char)*version)) {
        const struct log_fact **of = is_major(version, major) ? &to->wanted : &to->other;
        *of = *of ? *of : f;
    }
}

static struct majors majors_shown(const struct log_matched *m, const struct wanted *w, bool files)
{
    struct majors shown = {0};
    for (size_t i = 0; i < m->n_facts; i++) {
        const struct log_fact *f = m->facts[i];
        const char *package = field(f, "package"), *version = field(f, "version");
        if (strcmp(f->kind, "installed") == 0 && package && version &&
            strcmp(package, w->package) == 0) {
            count_major(&shown, f, version, w->major);
        }
        if (files && strcmp(f->kind, "file-present") == 0) {
            struct wanted there = wanted_of(m->a, field(f, "file"));
            if (there.package && strcmp(there.package, w->package) == 0) {
                count_major(&shown, f, there.major, w->major);
            }
        }
    }
    return shown;
}

static bool test_other_major_installed(struct log_matched *m)
{
    struct wanted w = wanted_by(m);
    struct majors shown = w.package ? majors_shown(m, &w, true) : (struct majors){0};
    m->shown = shown.other;
    return shown.other && !shown.wanted;
}

static bool test_same_major_installed(struct log_matched *m)
{
    struct wanted w = wanted_by(m);
    m->shown = w.package ? majors_shown(m, &w, false).wanted : NULL;
    return m->shown != NULL;
}

/* ------------------------------------------------------------------ files */

/* Whether a library has two numbers in its soname, as those of CUDA before 11 do:
 * libcudart.so.10.1 cannot stand in for libcudart.so.10.2. */
static bool has_minor_in_soname(const char *name, const char *number)
{
    return strncmp(name, "libcu", 5) == 0 && strncmp(name, "libcudnn", 8) != 0 &&
           strtoul(number, NULL, 10) <= 10;
}

/* "/opt/x/libfoo.so.9.1.0" -> "libfoo.so.9", in small letters */
static char *file_stem(struct arena *a, const char *path)
{
    const char *slash = strrchr(path, '/'), *back = strrchr(path, '\\');
    const char *base = slash > back ? slash : back;
    char *name = arena_strdup(a, base ? base + 1 : path);
    for (char *c = name; *c; c++) {
        *c = (char)tolower((unsigned char)*c);
    }
    char *so = strstr(name, ".so");
    if (so) {
        size_t digits = so[3] == '.' ? strspn(so + 4, "0123456789") : 0;
        size_t end = 3 + (digits ? digits + 1 : 0);
        if (digits && so[end] == '.' && has_minor_in_soname(name, so + 4)) {
            end += 1 + strspn(so + end + 1, "0123456789");
        }
        so[end] = '\0';
    }
    return name;
}

static bool test_file_elsewhere(struct log_matched *m)
{
    for (size_t i = 0; i < m->n; i++) {
        const char *library = field(m->items[i], "library");
        const char *want = library ? file_stem(m->a, library) : NULL;
        for (size_t k = 0; want && k < m->n_facts; k++) {
            const char *path = field(m->facts[k], "path"), *file = field(m->facts[k], "file");
            if (strcmp(m->facts[k]->kind, "file-present") == 0 && (path || file) &&
                strcmp(file_stem(m->a, path ? path : file), want) == 0) {
                m->shown = m->facts[k];
                return true;
            }
        }
    }
    return false;
}

/* ------------------------------------------------------------------ versions */

enum { NUMBERS_MAX = 8 };

struct numbers {
    unsigned long items[NUMBERS_MAX];
    size_t n;
};

static struct numbers numbers_of(const char *text)
{
    struct numbers v = {0};
    while (v.n < NUMBERS_MAX && *(text += strcspn(text, "0123456789"))) {
        char *end;
        v.items[v.n++] = strtoul(text, &end, 10); // saturates, which differs from others still
        text = end;
    }
    return v;
}

/* Below 0, 0, above 0: as far as both go, and then the longer one is larger if `whole`. */
static int numbers_compare(const struct numbers *a, const struct numbers *b, bool whole)
{
    size_t n = a->n < b->n ? a->n : b->n;
    for (size_t i = 0; i < n; i++) {
        if (a->items[i] != b->items[i]) {
            return a->items[i] < b->items[i] ? -1 : 1;
        }
    }
    return !whole || a->n == b->n ? 0 : a->n < b->n ? -1 : 1;
}

/* Two matched facts name versions of which none is the beginning of the other. */
static bool test_version_differs(struct log_matched *m)
{
    for (size_t i = 0; i < m->n; i++) {
        for (size_t k = 0; k < i; k++) {
            const char *one = field(m->items[i], "version"), *two = field(m->items[k], "version");
            struct numbers a = numbers_of(one ? one : ""), b = numbers_of(two ? two : "");
            if (one && two && numbers_compare(&a, &b, false) != 0) {
                return true;
            }
        }
    }
    return false;
}

/* ------------------------------------------------------------------ architectures */

/* "sm_86", "8.6" and "86" are 86; -1: no number. */
static long arch_number(const char *text)
{
    text += strcspn(text, "0123456789");
    if (!*text) {
        return -1;
    }
    char *end;
    unsigned long n = strtoul(text, &end, 10);
    n = n > 9999 ? 9999 : n;
    return (long)(end[0] == '.' && isdigit((unsigned char)end[1])
                      ? n * 10 + (unsigned long)(end[1] - '0')
                      : n);
}

static bool tests_is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* The next word of a list of architectures: "sm_70", "compute_90", "gfx1030", "8.6". */
static struct str next_arch(const char **rest)
{
    while (**rest && !isalnum((unsigned char)**rest)) {
        (*rest)++;
    }
    struct str word = {*rest, 0};
    while (tests_is_word(**rest) || (**rest == '.' && isdigit((unsigned char)(*rest)[1]))) {
        (*rest)++;
        word.n++;
    }
    return word;
}

/* Whether code for `arch` is among those: binaries of the same major that are not newer, or PTX
 * ("compute_") that is not newer (CUDA C++ Programming Guide, "Application Compatibility"). */
static bool arch_served(struct arena *a, const char *arches, const char *arch)
{
    bool amd = strncmp(arch, "gfx", 3) == 0;
    long want = amd ? 0 : arch_number(arch);
    for (struct str word; (word = next_arch(&arches)).n;) {
        const char *have = str_dup(a, word);
        long number = arch_number(have);
        if (amd ? strcmp(have, arch) == 0
                : number >= 0 && number <= want &&
                      (starts_with(have, "compute") || number / 10 == want / 10)) {
            return true;
        }
    }
    return false;
}

/* An architecture that follows from a GPU's name, and is not stated. */
static bool is_by_name(const struct log_fact *f)
{
    return field(f, "by_name") != NULL;
}

static bool is_gfx(const char *arch)
{
    return starts_with(arch, "gfx");
}

/* The architecture that a fact states for the GPU, if the list may hold such ones: targets in the
 * list's own line are its items. */
static const char *arch_beside(const struct log_fact *f, const struct log_fact *list, bool by_name)
{
    const char *arch = is_by_name(f) == by_name ? field(f, "arch") : NULL;
    bool amd = strstr(field(list, "arches"), "gfx") != NULL;
    bool item = arch && is_gfx(arch) && f->place == list->place;
    return arch && !item && is_gfx(arch) == amd && (amd || arch_number(arch) >= 0) ? arch : NULL;
}

/* Of the GPUs that are known by name each one is without code; the first of them. */
static const struct log_fact *named_not_served(struct log_matched *m, const struct log_fact *list)
{
    const struct log_fact *first = NULL;
    for (size_t i = 0; i < m->n_facts; i++) {
        const char *arch = arch_beside(m->facts[i], list, true);
        if (arch && arch_served(m->a, field(list, "arches"), arch)) {
            return NULL;
        }
        first = first || !arch ? first : m->facts[i];
    }
    return first;
}

static const struct log_fact *first_with_arch(const struct log_matched *m,
                                              const struct log_fact *list)
{
    for (size_t i = 0; i < m->n_facts; i++) {
        if (arch_beside(m->facts[i], list, false)) {
            return m->facts[i];
        }
    }
    return NULL;
}

/* By the architecture that the text states first, or else by the names of its GPUs. */
static bool test_arch_not_in_list(struct log_matched *m)
{
    const struct log_fact *list = NULL;
    for (size_t i = 0; i < m->n_facts && !list; i++) {
        list = field(m->facts[i], "arches") ? m->facts[i] : NULL;
    }
    const struct log_fact *stated = list ? first_with_arch(m, list) : NULL;
    if (stated && arch_served(m->a, field(list, "arches"), field(stated, "arch"))) {
        return false;
    }
    m->shown = stated || !list ? stated : named_not_served(m, list);
    return m->shown != NULL;
}

/* ------------------------------------------------------------------ drivers */

static const char *first_driver(struct log_matched *m)
{
    for (size_t i = 0; i < m->n_facts; i++) {
        const char *driver = field(m->facts[i], "driver");
        if (driver && isdigit((unsigned char)*driver)) {
            m->shown = m->facts[i];
            return driver;
        }
    }
    return NULL;
}

/* The CUDA release that the program, not the driver, has; matched facts go first. */
static const char *first_cuda(const struct log_matched *m)
{
    for (size_t i = 0; i < m->n + m->n_facts; i++) {
        const struct log_fact *f = i < m->n ? m->items[i] : m->facts[i - m->n];
        const char *cuda = strcmp(f->kind, "driver") != 0 ? field(f, "cuda") : NULL;
        if (cuda) {
            return cuda;
        }
    }
    return NULL;
}

/* The driver is of an older branch than the one that came with the newest toolkit release up to
 * this CUDA (kb/drivers.json). */
static bool test_driver_below_cuda(struct log_matched *m)
{
    struct kb_drivers drivers;
    const char *driver = first_driver(m), *cuda = first_cuda(m);
    if (!driver || !cuda || kb_drivers(m->rules->kb, &drivers, NULL) < 0) {
        return false;
    }
    struct numbers have = numbers_of(driver), release = numbers_of(cuda), best = {0};
    const char *floor = NULL;
    release.n = release.n > 2 ? 2 : release.n;
    for (size_t i = 0; release.n == 2 && i < drivers.n; i++) {
        const struct kb_driver *row = &drivers.rows[i];
        struct numbers of = numbers_of(row->cuda ? row->cuda : "");
        if (row->kind == KB_DRIVER_TOOLKIT && numbers_compare(&of, &release, false) <= 0 &&
            (!floor || numbers_compare(&of, &best, true) > 0)) {
            best = of;
            floor = row->linux_min;
        }
    }
    struct numbers needs = numbers_of(floor ? floor : "");
    return floor && have.n && needs.n && have.items[0] < needs.items[0];
}

/* ------------------------------------------------------------------ memory */

/* "23028MiB" and "5946 MiB" as numbers; 0: there is none. */
static unsigned long mebibytes(const char *text)
{
    return text ? strtoul(text, NULL, 10) : 0;
}

static bool same_gpu(const struct log_fact *a, const struct log_fact *b)
{
    const char *one = field(a, "index"), *two = field(b, "index");
    return one && two ? strcmp(one, two) == 0 : !one && !two;
}

/* The table of a GPU's processes has one that holds half of the memory or more. */
static bool test_process_holds_most(struct log_matched *m)
{
    for (size_t i = 0; i < m->n_facts; i++) {
        const struct log_fact *p = m->facts[i];
        unsigned long held =
            strcmp(p->kind, "gpu-process") == 0 ? mebibytes(field(p, "memory")) : 0;
        for (size_t k = 0; held && k < m->n_facts; k++) {
            const struct log_fact *gpu = m->facts[k];
            unsigned long all = strcmp(gpu->kind, "gpu-memory") == 0 && same_gpu(p, gpu)
                                    ? mebibytes(field(gpu, "memory_total"))
                                    : 0;
            if (all && held >= all / 2) {
                m->shown = p;
                return true;
            }
        }
    }
    return false;
}

/* A screen shows four fifths or more of a GPU's memory in use. */
static bool test_memory_mostly_used(struct log_matched *m)
{
    for (size_t i = 0; i < m->n_facts; i++) {
        unsigned long used = mebibytes(field(m->facts[i], "memory_used"));
        unsigned long all = mebibytes(field(m->facts[i], "memory_total"));
        if (strcmp(m->facts[i]->kind, "gpu-memory") == 0 && all && used >= all / 5 * 4) {
            m->shown = m->facts[i];
            return true;
        }
    }
    return false;
}

/* ------------------------------------------------------------------ order, processes */

static bool test_before(struct log_matched *m)
{
    return m->n >= 2 && m->items[0]->place < m->items[1]->place;
}

static bool test_after(struct log_matched *m)
{
    return m->n >= 2 && m->items[0]->place > m->items[1]->place;
}

/* Not of two processes, as far as the log tells them apart. */
static bool test_same_process(struct log_matched *m)
{
    for (size_t i = 1; i < m->n; i++) {
        if (m->items[i]->process && m->items[0]->process &&
            m->items[i]->process != m->items[0]->process) {
            return false;
        }
    }
    return true;
}

/* ------------------------------------------------------------------ releases by a name */

static bool test_release_by_name(struct log_matched *m)
{
    return log_release_find(m, false);
}

static bool test_release_by_member(struct log_matched *m)
{
    return log_release_find(m, true);
}

log_test log_test_by_name(const char *name)
{
    static const struct {
        const char *name;
        log_test test;
    } rows[] = {
        {"after", test_after},
        {"arch-not-in-list", test_arch_not_in_list},
        {"before", test_before},
        {"driver-below-cuda", test_driver_below_cuda},
        {"file-elsewhere", test_file_elsewhere},
        {"memory-mostly-used", test_memory_mostly_used},
        {"other-major-installed", test_other_major_installed},
        {"process-holds-most", test_process_holds_most},
        {"release-by-member", test_release_by_member},
        {"release-by-name", test_release_by_name},
        {"same-major-installed", test_same_major_installed},
        {"same-process", test_same_process},
        {"version-differs", test_version_differs},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].name, name) == 0) {
            return rows[i].test;
        }
    }
    return NULL;
}
