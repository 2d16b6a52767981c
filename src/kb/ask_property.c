/*
 * One property of the builds of releases side by side: CUDA, cuDNN, architectures, Python, glibc.
 */
#include <stdlib.h>
#include <string.h>

#include "kb/ask.h"
#include "kb/serves.h"

const char *ask_build_cuda(struct ask *k, const struct ask_release *r)
{
    if (r->row && r->row->cuda && strchr(r->row->cuda, '.')) {
        return r->row->cuda;
    }
    if (r->build && r->build->cuda) {
        return r->build->cuda;
    }
    if (r->row && r->row->cuda) {
        return r->row->cuda;
    }
    return r->compat && r->compat->cuda_major > 0 ? arena_printf(k->a, "%d", r->compat->cuda_major)
                                                  : NULL;
}

const char *ask_build_cudnn(const struct ask_release *r)
{
    if (r->row && r->row->cudnn) {
        return r->row->cudnn;
    }
    if (r->build && r->build->cudnn) {
        return r->build->cudnn;
    }
    return r->compat ? r->compat->cudnn : NULL;
}

/* The properties in the order of a table's columns. */
static const struct property {
    unsigned asked;
    const char *head;
    bool of_build; // else of the release
} properties[] = {
    {ASKED_CUDA, "CUDA", true},      {ASKED_CUDNN, "cuDNN", true},
    {ASKED_ROCM, "ROCm", true},      {ASKED_ARCH | ASKED_TARGET, "architectures", true},
    {ASKED_PTX, "PTX", true},        {ASKED_DRIVER, "Linux driver from", true},
    {ASKED_PYTHON, "Python", false}, {ASKED_GLIBC, "glibc", false},
};

#define PROPERTIES_ASKED                                                                           \
    (ASKED_CUDA | ASKED_CUDNN | ASKED_ROCM | ASKED_PTX | ASKED_DRIVER | ASKED_PYTHON | ASKED_GLIBC)

enum {
    PROPERTIES = sizeof properties / sizeof *properties,
    BUILD_COLUMN = 1,
    FIRST_COLUMN = 2,
};

static const char *floor_text(struct ask *k, const char *cuda)
{
    struct kb_drivers d;
    const struct kb_driver *floor =
        cuda && kb_drivers(k->kb, &d, NULL) == 0 ? kb_driver_minor(&d, cuda) : NULL;
    if (!floor) {
        return NULL;
    }
    HIT(k, KB_AREA_DRIVERS, floor);
    return arena_printf(k->a, "%s (the floor for %s)", floor->linux_min, floor->title);
}

/* The lowest or the highest architecture of a build. */
static const char *extreme_arch(const struct kb_build *b, bool first)
{
    const char *best = NULL;
    for (size_t i = 0; i < b->sm.n; i++) {
        int number = ask_arch_number(b->sm.items[i]), had = best ? ask_arch_number(best) : 0;
        best = !best || (first ? number < had : number > had) ? b->sm.items[i] : best;
    }
    return best;
}

static const char *arch_text(struct ask *k, const struct kb_build *b)
{
    if (k->q->said & (SAID_FIRST | SAID_LAST)) {
        return extreme_arch(b, k->q->said & SAID_FIRST);
    }
    const char *text = b->gfx.n ? ask_joined(k->a, b->gfx) : ask_joined(k->a, b->sm);
    text = b->ptx.n ? arena_printf(k->a, "%s and PTX %s", text, ask_joined(k->a, b->ptx)) : text;
    text = b->ptx_isa ? arena_printf(k->a, "%s (ISA %s)", text, b->ptx_isa) : text;
    return text[0] ? text : NULL;
}

/* What its makers say, which wheels there are, and what the release declares; these differ. */
static const char *python_text(struct ask *k, const struct ask_release *r)
{
    const char *text = r->build && r->build->python ? r->build->python : NULL;
    bool first = k->q->said & SAID_FIRST;
    if (k->q->said & (SAID_FIRST | SAID_LAST)) {
        size_t n = r->row ? r->row->pythons.n : 0;
        return n ? r->row->pythons.items[first ? 0 : n - 1] : NULL;
    }
    if (r->row) {
        text = arena_printf(k->a, "%s%s%s", text ? text : "", text ? "; wheels for " : "",
                            ask_joined(k->a, r->row->pythons));
    }
    return r->row && r->row->python ? arena_printf(k->a, "%s; declares %s", text, r->row->python)
                                    : text;
}

const char *ask_libraries_glibc(const struct ask_release *r)
{
    return r->build ? r->build->glibc : NULL;
}

bool ask_tag_is_doubtful(const struct ask_release *r)
{
    return !ask_libraries_glibc(r) && r->row->glibc && strcmp(r->row->glibc, "2.5") == 0;
}

const char *ask_glibc_text(struct ask *k, const struct ask_release *r)
{
    const char *needs = ask_libraries_glibc(r);
    if (!r->row) {
        return NULL;
    }
    if (!r->row->glibc) {
        return needs ? arena_printf(k->a, "%s, by its libraries", needs) : "any";
    }
    return needs
               ? arena_printf(k->a, "%s, by its libraries; its wheel's tag promises %s", needs,
                              r->row->glibc)
               : arena_printf(
                     k->a, "%s, by its wheel's tag%s", r->row->glibc,
                     ask_tag_is_doubtful(r) ? " alone; what its libraries need was not read" : "");
}

/* NULL: not known. `b` may be NULL: the release has no build that was read. */
static const char *property_text(struct ask *k, const struct ask_release *r,
                                 const struct kb_build *b, unsigned asked)
{
    const char *cuda = b ? b->cuda : ask_build_cuda(k, r);
    cuda = b && b->is_default && !b->rocm ? ask_build_cuda(k, r) : cuda;
    switch (asked) {
    case ASKED_CUDA: return cuda;
    case ASKED_CUDNN: return b && !b->is_default ? b->cudnn : ask_build_cudnn(r);
    case ASKED_ROCM: return b ? b->rocm : NULL;
    case ASKED_ARCH | ASKED_TARGET: return b ? arch_text(k, b) : NULL;
    case ASKED_PTX: return b ? b->ptx_isa : NULL;
    case ASKED_DRIVER: return floor_text(k, cuda);
    case ASKED_PYTHON: return python_text(k, r);
    case ASKED_GLIBC: return ask_glibc_text(k, r);
    default: return NULL;
    }
}

/* A row of the wheels for aarch64, beside one of the same build for x86-64. */
static bool is_for_arm(const struct kb_build *b)
{
    return b->index_platforms.n == 1 && ask_has_text(b->index_platforms, "linux-aarch64");
}

const char *ask_build_title(struct ask *k, const struct kb_build *b)
{
    const char *platform = ask_platform(k);
    bool served = !platform || ask_has_text(b->index_platforms, platform);
    return arena_printf(k->a, "%s%s%s%s", b->build, b->is_default && served ? " (default)" : "",
                        b->status == KB_STATUS_EXPERIMENTAL ? " (experimental)" : "",
                        is_for_arm(b) ? " (default on linux-aarch64)" : "");
}

/* Whether the question is about builds: each of them is then a line. */
static bool asks_for_builds(const struct question *q)
{
    for (size_t i = 0; i < PROPERTIES; i++) {
        if (q->asked & properties[i].asked && properties[i].of_build) {
            return true;
        }
    }
    return q->asked & ASKED_BUILD;
}

bool ask_property_build(struct ask *k, const struct ask_release *r, const struct kb_build *b)
{
    const struct question *q = k->q;
    const char *cuda = ask_given(k, KEY_CUDA), *rocm = ask_given(k, KEY_ROCM);
    bool for_rocm = q->asked & ASKED_ROCM || rocm;
    bool for_cuda = q->asked & (ASKED_CUDA | ASKED_CUDNN | ASKED_DRIVER | ASKED_PTX) || cuda;
    const char *build = ask_given(k, KEY_BUILD);
    return strcmp(b->package, q->package) == 0 && ask_admits(k, b->versions, r->version) &&
           (!build || strcmp(build, b->build) == 0) && (!(q->said & SAID_X86) || !is_for_arm(b)) &&
           (!cuda || (b->cuda && ask_meets(b->cuda, cuda))) &&
           (!rocm || (b->rocm && ask_within(b->rocm, rocm))) &&
           (!b->rocm || !for_cuda || for_rocm) && (b->rocm || !for_rocm || for_cuda) &&
           (!(q->said & SAID_DEFAULT) || b->is_default) &&
           (!(q->said & SAID_EXPERIMENTAL) || b->status == KB_STATUS_EXPERIMENTAL);
}

/* What a driver is needed for is said with it. */
static bool property_shown(const struct question *q, size_t i)
{
    bool with_driver = properties[i].asked == ASKED_CUDA && q->asked & ASKED_DRIVER;
    return q->asked & properties[i].asked || with_driver;
}

void ask_property_line(struct ask *k, struct ask_table *t, const struct ask_release *r,
                       const struct kb_build *b)
{
    struct ask_line line = {.cells = {r->name, b ? ask_build_title(k, b) : NULL}};
    bool any = !(k->q->asked & ~(unsigned)(ASKED_BUILD | ASKED_RELEASE)) && b;
    for (size_t i = 0, column = FIRST_COLUMN; i < PROPERTIES; i++) {
        if (property_shown(k->q, i)) {
            line.cells[column] = property_text(k, r, b, properties[i].asked);
            any = any || line.cells[column];
            column++;
        }
    }
    bool said = b && b->origin.note && k->q->asked & ASKED_CUDNN && !b->cudnn;
    if (any || said) {
        struct ask_release shown = *r;
        bool other = ask_given(k, KEY_BUILD) || ask_platform(k); // than the default one
        shown.build = other ? b : r->build;
        ask_release_hits(k, &shown);
        VEC_PUSH(k->a, &t->lines, line);
    }
    if (b && (any || said)) {
        HIT(k, KB_AREA_BUILDS, b);
    }
}

/* A build without cuDNN says in its note why. */
static void say_notes(struct ask *k, const struct ask_releases *all, const struct ask_release *r)
{
    for (size_t i = 0; i < all->builds.n; i++) {
        const struct kb_build *b = &all->builds.rows[i];
        if (ask_property_build(k, r, b) && !b->cudnn && b->origin.note &&
            k->q->asked & ASKED_CUDNN) {
            ask_say(k, "%s: %s", r->name, b->origin.note);
        }
    }
}

struct ask_table ask_property_table(const struct question *q)
{
    struct ask_table t = {.heads = {"release", "build"}, .columns = FIRST_COLUMN, .named = 2};
    for (size_t i = 0; i < PROPERTIES; i++) {
        if (property_shown(q, i)) {
            bool arch = properties[i].asked & ASKED_ARCH;
            bool python = properties[i].asked == ASKED_PYTHON;
            t.heads[t.columns++] = python && q->said & SAID_FIRST  ? "lowest Python"
                                   : python && q->said & SAID_LAST ? "highest Python"
                                   : arch && q->said & SAID_FIRST  ? "lowest architecture"
                                   : arch && q->said & SAID_LAST   ? "highest architecture"
                                                                   : properties[i].head;
        }
    }
    return t;
}

static bool line_repeats(const struct ask_table *t, size_t i, size_t before)
{
    for (size_t c = BUILD_COLUMN; c < t->columns; c++) {
        const char *one = t->lines.items[i].cells[c], *two = t->lines.items[before].cells[c];
        if ((one != NULL) != (two != NULL) || (one && strcmp(one, two) != 0)) {
            return false;
        }
    }
    return true;
}

/* Releases with the same properties one after the other are one line: "torch 2.5.0 to 2.6.0". */
static void merge_lines(struct ask *k, struct ask_table *t, size_t package)
{
    size_t n = 0;
    const char *first = NULL;
    for (size_t i = 0; i < t->lines.n; i++) {
        const char *name = t->lines.items[i].cells[0];
        if (n > 0 && line_repeats(t, i, n - 1)) {
            t->lines.items[n - 1].cells[0] = arena_printf(k->a, "%s to%s", first, name + package);
            continue;
        }
        first = name;
        t->lines.items[n++] = t->lines.items[i];
    }
    t->lines.n = n;
}

/* Each property that is asked for must be known of one build at least. No cuDNN is an answer only
 * where it was read that the release loads none. */
static bool every_property_known(struct ask *k, const struct ask_releases *all,
                                 const struct ask_table *t)
{
    bool cudnn_read = false;
    for (size_t i = 0; i < all->items.n; i++) {
        cudnn_read = cudnn_read || all->items.items[i].compat;
    }
    for (size_t c = FIRST_COLUMN; c < t->columns; c++) {
        bool known = false;
        for (size_t i = 0; i < t->lines.n && !known; i++) {
            known = t->lines.items[i].cells[c] != NULL;
        }
        if (!known && !(cudnn_read && strcmp(t->heads[c], "cuDNN") == 0)) {
            ask_missing(k, "the %s of %s was not read", t->heads[c], t->lines.items[0].cells[0]);
            return false;
        }
    }
    return true;
}

/* "nvidia-cublas (CUDA 13)": the CUDA is that of the package itself. */
static bool is_package_of_cuda(struct ask *k, const struct kb_provides *all)
{
    const char *cuda = ask_given(k, KEY_CUDA);
    for (size_t i = 0; cuda && i < all->n; i++) {
        const struct kb_provide *p = &all->rows[i];
        for (size_t v = 0; v < p->n_providers && p->cuda_major == atoi(cuda); v++) {
            if (p->providers[v].manager == KB_MANAGER_PIP &&
                strcmp(p->providers[v].package, k->q->package) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* Properties of releases and their builds: "which cuDNN does torch 2.5.1 use". */
int form_property(struct ask *k, struct gm_err *err)
{
    struct ask_releases all;
    struct kb_drivers drivers; // loaded here, where an error can be told
    struct kb_provides provides;
    int rc = ask_releases_find(k, &all, err);
    rc = rc < 0 ? rc : kb_drivers(k->kb, &drivers, err);
    rc = rc < 0 ? rc : kb_provides(k->kb, &provides, err);
    unsigned order = k->q->said & (SAID_FIRST | SAID_LAST);
    unsigned asked = k->q->asked & (ASKED_ARCH | ASKED_TARGET | PROPERTIES_ASKED);
    bool of_list = asked == ASKED_ARCH || asked == ASKED_PYTHON; // the lowest, the highest of them
    bool floor = order == SAID_FIRST && (asked == ASKED_DRIVER || asked == ASKED_GLIBC);
    bool ordered = (of_list && order != (SAID_FIRST | SAID_LAST)) || floor;
    if (rc < 0 || k->missing || all.items.n == 0 || (order && !ordered)) {
        return rc < 0 ? rc : 0;
    }
    struct ask_table t = ask_property_table(k->q);
    bool filtered =
        k->q->named & (NAMED_CUDA | NAMED_ROCM | NAMED_BUILD) || k->q->asked & ASKED_ROCM;
    filtered = filtered && (asks_for_builds(k->q) || !is_package_of_cuda(k, &provides));
    for (size_t i = 0; i < all.items.n; i++) {
        const struct ask_release *r = &all.items.items[i];
        size_t before = t.lines.n;
        for (size_t b = 0; asks_for_builds(k->q) && b < all.builds.n; b++) {
            if (ask_property_build(k, r, &all.builds.rows[b])) {
                ask_property_line(k, &t, r, &all.builds.rows[b]);
            }
        }
        if (t.lines.n == before && !filtered) {
            ask_property_line(k, &t, r, NULL);
        }
    }
    if (t.lines.n == 0 || !every_property_known(k, &all, &t)) {
        return 0;
    }
    merge_lines(k, &t, strlen(k->q->package));
    ask_say_table(k, k->q->package, &t);
    say_notes(k, &all, &all.items.items[all.items.n - 1]);
    return 1;
}
