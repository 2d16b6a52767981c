/* Releases of packages: what they need, and what of them serves what. */
#include "kb/ask.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "kb/serves.h"

/* ------------------------------------------------------------------ which releases */

/* "2.8" and "2.8.0" are a series and its first release; "2.8.1" is neither. */
static bool is_series_start(const char *version)
{
    const char *dot = strchr(version, '.');
    dot = dot ? strchr(dot + 1, '.') : NULL;
    return !dot || strspn(dot, ".0") == strlen(dot);
}

static const char *series_of(struct ask *k, const char *version)
{
    size_t n = strcspn(version, ".");
    return version[n] ? arena_strndup(k->a, version, n + 1 + strcspn(version + n + 1, "."))
                      : version;
}

/* Order of two versions, of which the second may be a series that the first is in. */
static int compare_within(const char *version, const char *part)
{
    return ask_within(version, part) ? 0 : ask_compare(version, part);
}

bool ask_in_span(const char *version, const struct question_span *s)
{
    int low = s->from ? compare_within(version, s->from) : 1;
    int high = s->to ? compare_within(version, s->to) : -1;
    return (low > 0 || (low == 0 && !s->above_from)) && (high < 0 || (high == 0 && !s->below_to));
}

static bool span_is_one(const struct question_span *s)
{
    return s->from && s->to && strcmp(s->from, s->to) == 0;
}

static int older_first(const void *one, const void *two)
{
    const struct ask_release *a = one, *b = two;
    return ask_compare(a->version, b->version);
}

static void release_add(struct ask *k, struct ask_releases *all, const char *version,
                        const struct kb_release *row)
{
    for (size_t i = 0; i < all->items.n; i++) {
        if (strcmp(all->items.items[i].version, version) == 0) {
            return;
        }
    }
    struct ask_release r = {.name = arena_printf(k->a, "%s %s", k->q->package, version),
                            .version = version,
                            .row = row};
    VEC_PUSH(k->a, &all->items, r);
}

/* The newest release that was read of a series, or of all; an exact one comes first. */
static const struct kb_release *read_release(struct ask *k, const struct kb_releases *all,
                                             const char *version)
{
    const struct kb_release *best = NULL;
    for (size_t i = 0; i < all->n; i++) {
        const struct kb_release *row = &all->rows[i];
        if (strcmp(row->package, k->q->package) != 0 ||
            (version && !ask_within(row->version, version) &&
             ask_compare(row->version, version) != 0)) {
            continue;
        }
        bool series = version && strchr(version, '.') == strrchr(version, '.');
        if (version && !series && ask_compare(row->version, version) == 0) {
            return row;
        }
        best = !best || ask_compare(row->version, best->version) > 0 ? row : best;
    }
    return best;
}

/* "3.3.1 and 3.3.3": the nearest releases on either side of one that was not read. */
static void say_not_read(struct ask *k, const struct kb_releases *all, const char *version)
{
    const struct kb_release *below = NULL, *above = NULL;
    for (size_t i = 0; i < all->n; i++) {
        const struct kb_release *row = &all->rows[i];
        if (strcmp(row->package, k->q->package) != 0) {
            continue;
        }
        if (ask_compare(row->version, version) < 0) {
            below = !below || ask_compare(row->version, below->version) > 0 ? row : below;
        } else {
            above = !above || ask_compare(row->version, above->version) < 0 ? row : above;
        }
    }
    const char *near = below && above
                           ? arena_printf(k->a, "%s and %s", below->version, above->version)
                       : below ? below->version
                       : above ? above->version
                               : NULL;
    ask_missing(k, "%s %s was not read%s%s", k->q->package, version,
                near ? "; the nearest that were: " : "", near ? near : "");
}

/* A row about this one version: "==3.1.1". */
static bool names_version(const char *set, const char *version)
{
    return starts_with(set, "==") && strcmp(set + strlen("=="), version) == 0;
}

/* Whether builds are described for a version, and no release of its series was read, which would
 * show that this one is none. */
static bool is_described(struct ask *k, const struct kb_builds *b, const struct kb_compats *c,
                         const char *version)
{
    for (size_t i = 0; i < b->n; i++) {
        if (strcmp(b->rows[i].package, k->q->package) == 0 &&
            ask_admits(k, b->rows[i].versions, version)) {
            return is_series_start(version) || names_version(b->rows[i].versions, version);
        }
    }
    for (size_t i = 0; i < c->n; i++) {
        if (strcmp(c->rows[i].package, k->q->package) == 0 &&
            ask_admits(k, c->rows[i].versions, version)) {
            return is_series_start(version) || names_version(c->rows[i].versions, version);
        }
    }
    return false;
}

static void add_span(struct ask *k, const struct kb_releases *all, const struct kb_compats *c,
                     const struct question_span *span, struct ask_releases *ret)
{
    if (span_is_one(span)) {
        const struct kb_release *row = read_release(k, all, span->from);
        bool series_read = read_release(k, all, series_of(k, span->from)) != NULL;
        if (row) {
            release_add(k, ret, row->version, row);
        } else if (!series_read && is_described(k, &ret->builds, c, span->from)) {
            release_add(k, ret, span->from, NULL);
        } else {
            say_not_read(k, all, span->from);
        }
        return;
    }
    for (size_t i = 0; i < all->n; i++) {
        const struct kb_release *row = &all->rows[i];
        if (strcmp(row->package, k->q->package) == 0 && ask_in_span(row->version, span)) {
            release_add(k, ret, row->version, row);
        }
    }
    const char *const ends[] = {span->from, span->to};
    for (size_t i = 0; i < 2; i++) {
        bool there = ends[i] && read_release(k, all, series_of(k, ends[i]));
        bool outside = i == 0 ? span->above_from : span->below_to;
        if (ends[i] && !outside && !there && is_described(k, &ret->builds, c, ends[i])) {
            release_add(k, ret, ends[i], NULL);
        }
    }
}

static void release_rest(struct ask *k, const struct kb_compats *c, const struct kb_builds *builds,
                         struct ask_release *ret)
{
    const char *package = k->q->package;
    for (size_t i = 0; i < builds->n; i++) {
        const struct kb_build *b = &builds->rows[i];
        if (strcmp(b->package, package) == 0 && b->is_default &&
            ask_admits(k, b->versions, ret->version)) {
            ret->build = b;
        }
    }
    for (size_t i = 0; i < c->n; i++) {
        if (strcmp(c->rows[i].package, package) == 0 &&
            ask_admits(k, c->rows[i].versions, ret->version)) {
            ret->compat = &c->rows[i];
        }
    }
}

int ask_releases_find(struct ask *k, struct ask_releases *ret, struct gm_err *err)
{
    struct kb_releases r;
    struct kb_compats c;
    *ret = (struct ask_releases){0};
    int rc = kb_releases(k->kb, &r, err);
    rc = rc < 0 ? rc : kb_compats(k->kb, &c, err);
    rc = rc < 0 ? rc : kb_builds(k->kb, &ret->builds, err);
    if (rc < 0) {
        return rc;
    }
    const struct kb_release *newest = k->q->n_spans ? NULL : read_release(k, &r, NULL);
    if (newest) {
        release_add(k, ret, newest->version, newest);
    }
    for (size_t i = 0; i < k->q->n_spans; i++) {
        add_span(k, &r, &c, &k->q->spans[i], ret);
    }
    if (ret->items.n > 0) {
        qsort(ret->items.items, ret->items.n, sizeof *ret->items.items, older_first);
    }
    for (size_t i = 0; i < ret->items.n; i++) {
        release_rest(k, &c, &ret->builds, &ret->items.items[i]);
    }
    return 0;
}

void ask_release_hits(struct ask *k, const struct ask_release *r)
{
    if (r->row) {
        HIT(k, KB_AREA_RELEASES, r->row);
    }
    if (r->build) {
        HIT(k, KB_AREA_BUILDS, r->build);
    }
    if (r->compat) {
        HIT(k, KB_AREA_COMPATS, r->compat);
    }
}

const char *ask_read_range(struct ask *k, const struct kb_releases *all, const char *package,
                           const char *set, const char **ret_first, const char **ret_last)
{
    const char *first = NULL, *last = NULL;
    for (size_t i = 0; i < all->n; i++) {
        const struct kb_release *row = &all->rows[i];
        if (strcmp(row->package, package) != 0 || !ask_admits(k, set, row->version)) {
            continue;
        }
        first = !first || ask_compare(row->version, first) < 0 ? row->version : first;
        last = !last || ask_compare(row->version, last) > 0 ? row->version : last;
    }
    *ret_first = first;
    *ret_last = last;
    return !first                     ? NULL
           : strcmp(first, last) == 0 ? first
                                      : arena_printf(k->a, "%s to %s", first, last);
}

/* ------------------------------------------------------------------ properties */

static const char *cuda_of(struct ask *k, const struct ask_release *r)
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

static const char *cudnn_of(const struct ask_release *r)
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

enum { PROPERTIES = sizeof properties / sizeof *properties, BUILD_COLUMN = 1, FIRST_COLUMN = 2 };

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

/* The glibc that the libraries of its wheel were read to need, or NULL. */
static const char *libraries_glibc(const struct ask_release *r)
{
    return r->build ? r->build->glibc : NULL;
}

/* Wheels with the tag manylinux1 (glibc 2.5) may need more than it promises, as those of torch
 * 2.5.1 do (2.17): without its libraries' own need that is not known. */
static bool tag_is_doubtful(const struct ask_release *r)
{
    return !libraries_glibc(r) && r->row->glibc && strcmp(r->row->glibc, "2.5") == 0;
}

/* NULL: not known. */
static const char *glibc_text(struct ask *k, const struct ask_release *r)
{
    const char *needs = libraries_glibc(r);
    if (!r->row) {
        return NULL;
    }
    if (!r->row->glibc) {
        return needs ? arena_printf(k->a, "%s, by its libraries", needs) : "any";
    }
    return needs ? arena_printf(k->a, "%s, by its libraries; its wheel's tag promises %s", needs,
                                r->row->glibc)
                 : arena_printf(k->a, "%s, by its wheel's tag%s", r->row->glibc,
                                tag_is_doubtful(r) ? " alone; what its libraries need was not read"
                                                   : "");
}

/* NULL: not known. `b` may be NULL: the release has no build that was read. */
static const char *property_text(struct ask *k, const struct ask_release *r,
                                 const struct kb_build *b, unsigned asked)
{
    const char *cuda = b ? b->cuda : cuda_of(k, r);
    cuda = b && b->is_default && !b->rocm ? cuda_of(k, r) : cuda;
    switch (asked) {
    case ASKED_CUDA: return cuda;
    case ASKED_CUDNN: return b && !b->is_default ? b->cudnn : cudnn_of(r);
    case ASKED_ROCM: return b ? b->rocm : NULL;
    case ASKED_ARCH | ASKED_TARGET: return b ? arch_text(k, b) : NULL;
    case ASKED_PTX: return b ? b->ptx_isa : NULL;
    case ASKED_DRIVER: return floor_text(k, cuda);
    case ASKED_PYTHON: return python_text(k, r);
    case ASKED_GLIBC: return glibc_text(k, r);
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

/* ------------------------------------------------------------------ needs */

static void say_compat(struct ask *k, const struct kb_compat *compat, bool needs)
{
    for (size_t i = 0; needs && i < compat->n_needs; i++) {
        const struct kb_need *n = &compat->needs[i];
        ask_say(k, "It needs %s%s%s.", n->package, n->versions ? " " : "",
                n->versions ? n->versions : "");
    }
    if (compat->origin.note) {
        ask_say(k, "%s", compat->origin.note);
    }
}

static void say_release(struct ask *k, const struct ask_release *r)
{
    const char *cuda = cuda_of(k, r), *cudnn = cudnn_of(r), *needs = "";
    if (r->row) {
        ask_say(k, "%s has wheels for Python %s%s%s.", r->name, ask_joined(k->a, r->row->pythons),
                r->row->python ? " and declares " : "", r->row->python ? r->row->python : "");
        bool any = !r->row->glibc && !libraries_glibc(r);
        ask_say(k,
                any                  ? "Its wheel is for %s platform."
                : tag_is_doubtful(r) ? "Its glibc is %s."
                                     : "It needs glibc %s.",
                glibc_text(k, r));
    }
    if (cuda) {
        ask_say(k, "%s goes with CUDA %s.", r->name, cuda);
    }
    if (cudnn) {
        ask_say(k, "%s goes with cuDNN %s.", r->name, cudnn);
    } else if (r->build && r->build->origin.note) {
        ask_say(k, "%s: %s", r->name, r->build->origin.note);
    }
    for (size_t i = 0; r->row && i < r->row->n_needs; i++) {
        needs =
            arena_printf(k->a, "%s%s%s", needs, i ? "; " : "", ask_need_text(k, &r->row->needs[i]));
    }
    if (needs[0]) {
        ask_say(k, "It requires %s.", needs);
    }
    if (r->compat) {
        say_compat(k, r->compat, !needs[0]);
    }
}

/* "what does ctranslate2 4.5.0 need" */
int form_release(struct ask *k, struct gm_err *err)
{
    struct ask_releases all;
    int found = 0;
    int rc = ask_releases_find(k, &all, err);
    if (rc < 0 || k->missing) {
        return rc < 0 ? rc : 0;
    }
    for (size_t i = 0; i < all.items.n; i++) {
        const struct ask_release *r = &all.items.items[i];
        if (r->row || r->compat || r->build) {
            ask_release_hits(k, r);
            say_release(k, r);
            found = 1;
        }
    }
    return found;
}

/* ------------------------------------------------------------------ the newest, Python */

static const struct kb_release *extreme_release(struct ask *k, const struct kb_releases *all,
                                                bool first)
{
    const struct kb_release *best = NULL;
    for (size_t i = 0; i < all->n; i++) {
        const struct kb_release *row = &all->rows[i];
        const char *python = ask_given(k, KEY_PYTHON);
        bool in = k->q->n_spans == 0 || ask_in_span(row->version, &k->q->spans[0]);
        if (strcmp(row->package, k->q->package) == 0 && in &&
            (!python || ask_has_text(row->pythons, python)) &&
            (!best || (ask_compare(row->version, best->version) < 0) == first)) {
            best = row;
        }
    }
    return best;
}

/* "which is the last ctranslate2 3.x" */
int form_newest(struct ask *k, struct gm_err *err)
{
    struct kb_releases all;
    int rc = kb_releases(k->kb, &all, err);
    bool first = k->q->said & SAID_FIRST;
    if (rc < 0 || !(k->q->said & (SAID_FIRST | SAID_LAST))) {
        return rc < 0 ? rc : 0;
    }
    const struct kb_release *row = extreme_release(k, &all, first);
    if (!row) {
        return 0;
    }
    HIT(k, KB_AREA_RELEASES, row);
    ask_say(k, "%s %s is the %s%s%s that was read.", row->package, row->version,
            first ? "oldest" : "newest", k->q->version ? " of " : "",
            k->q->version ? k->q->version : "");
    return 1;
}

static int say_python_of(struct ask *k, const struct ask_releases *all, const char *python)
{
    for (size_t i = 0; i < all->items.n; i++) {
        const struct ask_release *r = &all->items.items[i];
        if (!r->row) {
            return 0;
        }
        bool has = ask_has_text(r->row->pythons, python);
        HIT(k, KB_AREA_RELEASES, r->row);
        ask_say(k, "%s: %s %s a wheel for Python %s.", has ? "Yes" : "No", r->name,
                has ? "has" : "does not have", python);
    }
    return 1;
}

/* "does torch 2.5.1 have wheels for Python 3.13", "which torch for Python 3.8" */
int form_python(struct ask *k, struct gm_err *err)
{
    struct kb_releases all;
    struct ask_releases mine;
    const char *python = ask_given(k, KEY_PYTHON);
    int rc = kb_releases(k->kb, &all, err);
    rc = rc < 0 ? rc : ask_releases_find(k, &mine, err);
    bool quantified = k->q->said & (SAID_FIRST | SAID_LAST);
    if (rc < 0 || (k->missing && !quantified)) {
        return rc < 0 ? rc : 0;
    }
    if (k->q->n_spans > 0 && !quantified) {
        return say_python_of(k, &mine, python);
    }
    const struct kb_release *first = extreme_release(k, &all, true);
    const struct kb_release *last = extreme_release(k, &all, false);
    if (!first) {
        ask_missing(k, "no release of %s that was read has a wheel for Python %s", k->q->package,
                    python);
        return 0;
    }
    HIT(k, KB_AREA_RELEASES, first);
    HIT(k, KB_AREA_RELEASES, last);
    if (quantified && (k->q->said & (SAID_FIRST | SAID_LAST)) != (SAID_FIRST | SAID_LAST)) {
        ask_say(k, "%s %s is the %s of the releases that were read with a wheel for Python %s.",
                k->q->package, k->q->said & SAID_FIRST ? first->version : last->version,
                k->q->said & SAID_FIRST ? "first" : "newest", python);
        return 1;
    }
    const struct kb_release *newest = mine.items.n ? mine.items.items[0].row : NULL;
    bool has = newest && ask_has_text(newest->pythons, python);
    if (k->q->said & SAID_DOES && newest) { // what is installed without a version
        HIT(k, KB_AREA_RELEASES, newest);
        ask_say(k, "%s: %s %s, the newest that was read, %s a wheel for Python %s.",
                has ? "Yes" : "No", k->q->package, newest->version, has ? "has" : "does not have",
                python);
    }
    ask_say(k, "%s has wheels for Python %s from %s to %s, of the releases that were read.",
            k->q->package, python, first->version, last->version);
    return 1;
}

static const char *texts_missing(struct ask *k, struct kb_strs these, struct kb_strs among)
{
    const char *list = "";
    for (size_t i = 0; i < these.n; i++) {
        if (!ask_has_text(among, these.items[i])) {
            list = arena_printf(k->a, "%s%s%s", list, list[0] ? ", " : "", these.items[i]);
        }
    }
    return list;
}

/* "which Python does ctranslate2 4.6.0 add": against the release before it. */
int form_python_change(struct ask *k, struct gm_err *err)
{
    struct kb_releases all;
    struct ask_releases mine;
    int rc = kb_releases(k->kb, &all, err);
    rc = rc < 0 ? rc : ask_releases_find(k, &mine, err);
    unsigned said = k->q->said & (SAID_ADDED | SAID_DROPPED);
    if (rc < 0 || k->missing || !said || mine.items.n != 1 || !mine.items.items[0].row) {
        return rc < 0 ? rc : 0;
    }
    const struct kb_release *row = mine.items.items[0].row, *before = NULL;
    for (size_t i = 0; i < all.n; i++) {
        const struct kb_release *r = &all.rows[i];
        if (strcmp(r->package, row->package) == 0 && ask_compare(r->version, row->version) < 0 &&
            (!before || ask_compare(r->version, before->version) > 0)) {
            before = r;
        }
    }
    if (!before) {
        return 0;
    }
    const char *more = texts_missing(k, row->pythons, before->pythons);
    const char *less = texts_missing(k, before->pythons, row->pythons);
    HIT(k, KB_AREA_RELEASES, row);
    HIT(k, KB_AREA_RELEASES, before);
    ask_say(k, "Against %s, the release before it that was read, %s %s has wheels", before->version,
            row->package, row->version);
    ask_say(k, "%s%s%s%s%s.",
            !(said & SAID_ADDED) ? ""
            : more[0]            ? "for Python "
                                 : "for no further Python",
            said & SAID_ADDED ? more : "", said == (SAID_ADDED | SAID_DROPPED) ? ", and " : "",
            !(said & SAID_DROPPED) ? ""
            : less[0]              ? "none any more for "
                                   : "none less",
            said & SAID_DROPPED ? less : "");
    return 1;
}

/* "does torch 2.5.1 run on glibc 2.17": by what its libraries need, or the tag of its wheel. */
int form_release_glibc(struct ask *k, struct gm_err *err)
{
    struct ask_releases mine;
    const char *glibc = ask_given(k, KEY_GLIBC);
    int rc = ask_releases_find(k, &mine, err);
    if (rc < 0 || k->missing || mine.items.n != 1 || !mine.items.items[0].row) {
        return rc < 0 ? rc : 0;
    }
    const struct ask_release *r = &mine.items.items[0];
    const char *needs = libraries_glibc(r);
    if (needs) {
        HIT(k, KB_AREA_BUILDS, r->build);
        ask_say(k, "%s: the libraries of %s need glibc %s.",
                ask_compare(glibc, needs) >= 0 ? "Yes" : "No", r->name, needs);
        return 1;
    }
    bool runs = !r->row->glibc || ask_compare(glibc, r->row->glibc) >= 0;
    if (runs && tag_is_doubtful(r)) {
        ask_missing(k,
                    "the wheel of %s is tagged for glibc %s, and what its libraries need was "
                    "not read",
                    r->name, r->row->glibc);
        return 0;
    }
    HIT(k, KB_AREA_RELEASES, r->row);
    ask_say(k, "%s: the wheel of %s is %s%s%s.", runs ? "Yes" : "No", r->name,
            r->row->glibc ? "tagged for glibc " : "for any platform",
            r->row->glibc ? r->row->glibc : "", r->row->glibc ? " or later" : "");
    return 1;
}

/* "does ctranslate2 4.8.1 need cuDNN": of the default build; one without cuDNN says so in its note.
 */
int form_needs_cudnn(struct ask *k, struct gm_err *err)
{
    struct ask_releases mine;
    int rc = ask_releases_find(k, &mine, err);
    if (rc < 0 || k->missing || mine.items.n != 1 || !(k->q->said & SAID_DOES)) {
        return rc < 0 ? rc : 0;
    }
    const struct ask_release *r = &mine.items.items[0];
    const char *cudnn = cudnn_of(r), *note = r->build ? r->build->origin.note : NULL;
    if (cudnn) {
        ask_release_hits(k, r);
        ask_say(k, "Yes: %s goes with cuDNN %s.", r->name, cudnn);
        return 1;
    }
    if (note && strstr(note, "cuDNN is no")) {
        HIT(k, KB_AREA_BUILDS, r->build);
        ask_say(k, "No: %s", note);
        return 1;
    }
    ask_missing(k, "whether %s needs cuDNN was not read", r->name);
    return 0;
}
