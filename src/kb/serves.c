#include "kb/serves.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "py/version.h"

/* ------------------------------------------------------------------ packages */

/* "cupy_cuda12x" is "cupy-cuda12x". */
static bool is_package(const char *glob, const char *name)
{
    char text[64];
    size_t n = strlen(name);
    for (size_t i = 0; i <= n && n < sizeof text; i++) {
        text[i] = name[i] == '_' ? '-' : name[i];
    }
    return n < sizeof text && str_glob(glob, text);
}

const struct kb_trait *kb_gpu_alone(const struct kb_traits *t, const char *package)
{
    for (size_t i = 0; i < t->n; i++) {
        const struct kb_trait *row = &t->rows[i];
        if (row->kind == KB_TRAIT_NEEDS && strcmp(row->name, "gpu") == 0 &&
            is_package(row->package, package)) {
            return row;
        }
    }
    return NULL;
}

/* ------------------------------------------------------------------ drivers */

/* Order of two versions; -2 where one is none, so that nothing is "at least" the other. */
static int compare(const char *one, const char *two)
{
    struct py_version a, b;
    if (!one || !two || !py_version_parse(str_of(one), &a) || !py_version_parse(str_of(two), &b)) {
        return -2;
    }
    int order = py_version_cmp(&a, &b);
    return order < 0 ? -1 : order > 0;
}

bool kb_driver_reaches(const char *driver, const char *least)
{
    if (strchr(driver, '.')) {
        return compare(driver, least) >= 0;
    }
    return atoi(driver) >= atoi(least);
}

bool kb_driver_has_cuda(const struct kb_driver *row)
{
    return row->kind == KB_DRIVER_TOOLKIT || row->kind == KB_DRIVER_ALONE;
}

const struct kb_driver *kb_newest_cuda(const struct kb_drivers *d, const char *driver)
{
    const struct kb_driver *best = NULL;
    for (size_t i = 0; i < d->n; i++) {
        const struct kb_driver *row = &d->rows[i];
        if (kb_driver_has_cuda(row) && kb_driver_reaches(driver, row->linux_min) &&
            (!best || compare(row->cuda, best->cuda) > 0)) {
            best = row;
        }
    }
    return best;
}

bool kb_driver_reaches_all(const struct kb_drivers *d, const char *driver)
{
    for (size_t i = 0; i < d->n; i++) {
        const struct kb_driver *row = &d->rows[i];
        if (row->kind == KB_DRIVER_TOOLKIT && !kb_driver_reaches(driver, row->linux_min)) {
            return false;
        }
    }
    return true;
}

bool kb_driver_may_exceed(const struct kb_drivers *d, const char *driver,
                          const struct kb_driver *newest)
{
    return atoi(newest->linux_min) != atoi(driver) || kb_driver_reaches_all(d, driver);
}

const struct kb_driver *kb_driver_minor(const struct kb_drivers *d, const char *cuda)
{
    for (size_t i = 0; i < d->n; i++) {
        if (d->rows[i].kind == KB_DRIVER_MINOR && atoi(d->rows[i].cuda) == atoi(cuda)) {
            return &d->rows[i];
        }
    }
    return NULL;
}

const struct kb_driver *kb_driver_floor(const struct kb_drivers *d, const char *cuda)
{
    const struct kb_driver *best = kb_driver_minor(d, cuda);
    size_t n = strlen(cuda);
    for (size_t i = 0; atoi(cuda) < 11 && i < d->n; i++) {
        const struct kb_driver *row = &d->rows[i];
        if (row->kind == KB_DRIVER_TOOLKIT && strncmp(row->cuda, cuda, n) == 0 &&
            (!row->cuda[n] || row->cuda[n] == '.') &&
            (!best || compare(row->linux_min, best->linux_min) < 0)) {
            best = row;
        }
    }
    return best;
}

const struct kb_driver *kb_driver_last(const struct kb_drivers *d, unsigned capability)
{
    for (size_t i = 0; i < d->n; i++) {
        const struct kb_driver *row = &d->rows[i];
        for (size_t k = 0; row->kind == KB_DRIVER_LAST && k < row->sm.n; k++) {
            if (strtoul(row->sm.items[k] + strlen("sm_"), NULL, 10) == capability) {
                return row;
            }
        }
    }
    return NULL;
}

bool kb_model_is_plain_size(const char *model)
{
    return !starts_with(model, "distil") && !ends_with(model, "turbo");
}

const char *kb_build_first(struct arena *a, const struct kb_build *b)
{
    const char *from = b->versions + strspn(b->versions, "<>=~");
    return arena_strndup(a, from, strcspn(from, ","));
}

/* ------------------------------------------------------------------ PTX */

unsigned kb_isa_number(const char *text)
{
    uint64_t major = 0, minor = 0;
    struct str rest = str_of(text);
    struct str head = str_cut(&rest, '.');
    return text && rest.s && str_u64(head, &major) && str_u64(rest, &minor) && major < 100 &&
                   minor < 10
               ? (unsigned)(major * 10 + minor)
               : 0;
}

/* "8.7" is the ISA of 12.8; a row of drivers says "12.8.1". */
static unsigned isa_of(const struct kb_toolkits *t, const char *cuda)
{
    for (size_t i = 0; i < t->n; i++) {
        size_t n = strlen(t->rows[i].cuda);
        if (strncmp(cuda, t->rows[i].cuda, n) == 0 && (!cuda[n] || cuda[n] == '.')) {
            return kb_isa_number(t->rows[i].ptx);
        }
    }
    return 0;
}

struct kb_isa kb_isa_of_driver(struct kb *kb, const char *driver)
{
    struct kb_drivers d;
    struct kb_toolkits t;
    struct gm_err err;
    if (!driver || kb_drivers(kb, &d, &err) < 0 || kb_toolkits(kb, &t, &err) < 0) {
        return (struct kb_isa){0};
    }
    const struct kb_driver *cuda = kb_newest_cuda(&d, driver);
    unsigned isa = !cuda ? 0 : cuda->ptx ? kb_isa_number(cuda->ptx) : isa_of(&t, cuda->cuda);
    return (struct kb_isa){.isa = isa, .more = isa && kb_driver_reaches_all(&d, driver)};
}

unsigned kb_isa_of_cuda(struct kb *kb, const char *cuda)
{
    struct kb_toolkits t;
    struct gm_err err;
    return cuda && kb_toolkits(kb, &t, &err) == 0 ? isa_of(&t, cuda) : 0;
}

const struct kb_driver *kb_driver_of_isa(struct kb *kb, unsigned isa)
{
    struct kb_drivers d;
    struct kb_toolkits t;
    struct gm_err err;
    const struct kb_driver *best = NULL;
    if (kb_drivers(kb, &d, &err) < 0 || kb_toolkits(kb, &t, &err) < 0) {
        return NULL;
    }
    for (size_t i = 0; i < d.n; i++) {
        const struct kb_driver *row = &d.rows[i];
        if (row->kind == KB_DRIVER_TOOLKIT && isa_of(&t, row->cuda) >= isa &&
            (!best || compare(row->linux_min, best->linux_min) == -1)) {
            best = row;
        }
    }
    return best;
}

/* ------------------------------------------------------------------ a build */

enum { ARCHES_MAX = 64 };

/* "sm_90a", "compute_80": the rows of a build as the codes of a file. */
static size_t arches_of(struct kb_strs names, const char *isa, struct gpu_cuda_arch *ret)
{
    size_t n = 0;
    for (size_t i = 0; i < names.n && n < ARCHES_MAX; i++) {
        char *end = NULL;
        const char *name = names.items[i];
        unsigned long number = strtoul(name + strcspn(name, "0123456789"), &end, 10);
        unsigned version = kb_isa_number(isa);
        ret[n++] = (struct gpu_cuda_arch){.name = name,
                                          .number = number < 1000 ? (unsigned)number : 0,
                                          .suffix = *end,
                                          .isa_min = version,
                                          .isa_max = version ? version : UINT_MAX};
    }
    return n;
}

static enum gpu_serves serves(const struct kb_build *b, unsigned number, unsigned isa)
{
    struct gpu_cuda_arch native[ARCHES_MAX], ptx[ARCHES_MAX];
    struct gpu_answer answer;
    const struct gpu_code code = {
        .cuda = {.native = native,
                 .n_native = arches_of(b->sm, NULL, native),
                 .ptx = ptx,
                 .n_ptx = arches_of(b->ptx, b->ptx_isa, ptx)},
        .searched = true,
    };
    gpu_code_serves_cuda(&code, number / 10, number % 10, isa, &answer);
    bool is_cut = b->sm.n > ARCHES_MAX || b->ptx.n > ARCHES_MAX;
    return is_cut && answer.serves == GPU_SERVES_NONE ? GPU_SERVES_UNKNOWN : answer.serves;
}

enum gpu_serves kb_build_serves(const struct kb_build *b, unsigned number, struct kb_isa isa)
{
    enum gpu_serves known = serves(b, number, isa.isa);
    bool final = known != GPU_SERVES_NONE || !isa.more;
    return final ? known : serves(b, number, 0); // an ISA that is too new may be no obstacle
}
