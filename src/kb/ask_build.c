/* Which builds of a package fit what is given: a GPU, a driver, CUDA, cuDNN, ROCm. */
#include <stdlib.h>
#include <string.h>

#include "kb/ask.h"
#include "kb/build_fits.h"
#include "kb/serves.h"
#include "py/version.h"

/* A build that fits, and the releases with it: "2.8.0 to 2.8.1", or where none was read "2.8". */
struct fit {
    const struct kb_build *build;
    const char *first, *last, *range;
};

static struct fit fit_of(struct ask *k, const struct data *d, const struct kb_build *b)
{
    struct fit f = {.build = b};
    f.range = ask_read_range(k, &d->releases, b->package, b->versions, &f.first, &f.last);
    if (!f.range) {
        f.range = f.first = f.last = kb_build_first(k->a, b);
    }
    return f;
}

static int newer_first(const void *one, const void *two)
{
    const struct fit *a = one, *b = two;
    int by_version = ask_compare(b->last, a->last);
    return by_version ? by_version : strcmp(a->build->build, b->build->build);
}

/* The first driver that knows the architecture, if it is newer than `least`; or NULL. */
static const struct kb_driver *gpu_driver(struct ask *k, const struct data *d, const char *sm,
                                          const char *least)
{
    const char *name = arena_printf(k->a, "sm_%d", ask_arch_number(sm));
    for (size_t i = 0; i < d->drivers.n; i++) {
        const struct kb_driver *row = &d->drivers.rows[i];
        if (row->kind == KB_DRIVER_FIRST && ask_has_text(row->sm, name) &&
            !kb_driver_reaches(least, row->linux_min)) {
            return row;
        }
    }
    return NULL;
}

/* What the driver must be: to know the GPU, to compile PTX where the GPU gets only that, else the
 * floor. */
static const char *fit_driver(struct ask *k, const struct data *d, const struct kb_build *b,
                              const struct wanted *w)
{
    bool jit = w->sm && ask_build_serves(k, b, w) == GPU_SERVES_JIT;
    const struct kb_driver *row =
        jit && b->ptx_isa ? kb_driver_of_isa(k->kb, kb_isa_number(b->ptx_isa)) : NULL;
    row = row ? row : b->cuda ? kb_driver_minor(&d->drivers, b->cuda) : NULL;
    bool windows = k->q->said & SAID_WINDOWS;
    bool brings_driver = strcmp(b->package, "jetpack") == 0;
    if (!row || brings_driver || (windows && !row->windows_min)) {
        return NULL;
    }
    const struct kb_driver *gpu =
        w->sm && !windows ? gpu_driver(k, d, w->sm, row->linux_min) : NULL;
    if (gpu) {
        HIT(k, KB_AREA_DRIVERS, gpu);
        return arena_printf(k->a, "%s (that knows the GPU)", gpu->linux_min);
    }
    if (jit || w->driver) {
        HIT(k, KB_AREA_DRIVERS, row);
    }
    return arena_printf(k->a, "%s%s", windows ? row->windows_min : row->linux_min,
                        jit ? " (to compile its PTX)" : "");
}

static void add_fit(struct ask *k, const struct data *d, struct ask_table *t, const struct fit *f,
                    const struct wanted *w)
{
    const struct kb_build *b = f->build;
    const char *title = ask_build_title(k, b);
    const char *release = arena_printf(k->a, "%s %s", b->package, f->range);
    struct ask_line line = {.cells = {release, title, b->cuda ? b->cuda : NULL, b->cudnn, b->rocm,
                                      fit_driver(k, d, b, w)}};
    HIT(k, KB_AREA_BUILDS, b);
    VEC_PUSH(k->a, &t->lines, line);
}

static bool spans_meet(struct ask *k, const struct fit *f)
{
    for (size_t i = 0; i < k->q->n_spans; i++) {
        const struct question_span *s = &k->q->spans[i];
        bool below =
            s->to &&
            !ask_in_span(f->first, &(struct question_span){.to = s->to, .below_to = s->below_to});
        bool above =
            s->from && !ask_in_span(f->last, &(struct question_span){.from = s->from,
                                                                     .above_from = s->above_from});
        bool one = s->from && s->to && strcmp(s->from, s->to) == 0;
        if (one ? ask_admits(k, f->build->versions, s->from) ||
                      (!below && !above && ask_within(f->last, s->from))
                : !below && !above) {
            return true;
        }
    }
    return k->q->n_spans == 0;
}

struct verdict {
    VEC(struct fit) fits, others; // others: asked for, and do not fit
    size_t unknown;
};

static void verdict_find(struct ask *k, const struct data *d, const struct wanted *w,
                         struct verdict *ret)
{
    for (size_t i = 0; i < d->builds.n; i++) {
        const struct kb_build *b = &d->builds.rows[i];
        bool own = strcmp(b->build, "any") != 0; // else what the application's documents ask for
        if (strcmp(b->package, k->q->package) != 0 || !own) {
            continue;
        }
        bool served = w->platform ? ask_has_text(b->index_platforms, w->platform) || b->is_default
                                  : b->is_default;
        struct fit f = fit_of(k, d, b);
        if (!spans_meet(k, &f) || (w->by_default && !served)) {
            continue;
        }
        enum py_answer answer = ask_build_fits(k, d, b, w);
        ret->unknown += answer == PY_UNKNOWN;
        if (answer == PY_YES) {
            VEC_PUSH(k->a, &ret->fits, f);
        } else {
            VEC_PUSH(k->a, &ret->others, f);
        }
    }
    if (ret->fits.n > 0) {
        qsort(ret->fits.items, ret->fits.n, sizeof *ret->fits.items, newer_first);
    }
}

/* Whether the code of some build was read that could have fitted, and does not. */
static bool read_in_vain(struct ask *k, const struct data *d, const struct verdict *v,
                         const struct wanted *w)
{
    for (size_t i = 0; i < v->others.n; i++) {
        const struct kb_build *b = v->others.items[i].build;
        bool read = (w->sm && b->sm.n > 0) || (w->gfx && b->gfx.n > 0);
        if (read && ask_build_fits(k, d, b, w) == PY_NO) {
            return true;
        }
    }
    return false;
}

/* " (2.0.0 to 2.15.0)": the releases whose builds were judged. */
static const char *judged_text(struct ask *k, const struct verdict *v)
{
    struct ask_range range = {0};
    for (size_t i = 0; i < v->others.n; i++) {
        ask_range_add(&range, v->others.items[i].first, v->others.items[i].last);
    }
    const char *text = ask_range_text(k, &range);
    return text ? arena_printf(k->a, " (%s)", text) : "";
}

static bool has_build_row(struct ask *k, const struct data *d, const struct kb_release *r)
{
    for (size_t i = 0; i < d->builds.n; i++) {
        const struct kb_build *b = &d->builds.rows[i];
        if (strcmp(b->package, r->package) == 0 && ask_admits(k, b->versions, r->version)) {
            return true;
        }
    }
    return false;
}

/* "0.2.7 to 0.32.0": releases of the package of whose builds no row speaks; NULL: there are none.
 */
static const char *unread_text(struct ask *k, const struct data *d)
{
    struct ask_range range = {0};
    for (size_t i = 0; i < d->releases.n; i++) {
        const struct kb_release *r = &d->releases.rows[i];
        if (strcmp(r->package, k->q->package) == 0 && !has_build_row(k, d, r)) {
            ask_range_add(&range, r->version, r->version);
        }
    }
    return ask_range_text(k, &range);
}

/* None fits: the answer rests on all that were judged. */
static int say_no_build(struct ask *k, const struct data *d, const struct verdict *v,
                        const struct wanted *w)
{
    for (size_t i = 0; i < v->others.n; i++) {
        HIT(k, KB_AREA_BUILDS, v->others.items[i].build);
    }
    bool any_release = !k->q->version && k->q->n_spans == 0;
    const char *unread = any_release ? unread_text(k, d) : NULL;
    if (unread) {
        ask_missing(k, "no build of %s that was read%s is%s; of %s the builds were not read",
                    k->q->package, judged_text(k, v), ask_wanted_text(k, w), unread);
        return 0;
    }
    bool does = k->q->said & SAID_DOES;
    ask_say(k, "%s%s build of %s%s that was read%s is%s.", does ? "No: no" : "No",
            w->by_default ? " default" : "", k->q->package, ask_version_asked(k),
            k->q->version ? "" : judged_text(k, v), ask_wanted_text(k, w));
    struct wanted any = *w;
    struct verdict rest = {.unknown = 0};
    any.by_default = false;
    if (w->by_default) {
        verdict_find(k, d, &any, &rest);
    }
    for (size_t i = 0; i < rest.fits.n; i++) {
        HIT(k, KB_AREA_BUILDS, rest.fits.items[i].build);
        ask_say(k, "The build %s of %s %s, from another index, is.",
                rest.fits.items[i].build->build, k->q->package, rest.fits.items[i].range);
    }
    return 1;
}

/* "newest ctranslate2 with cuDNN 8": one release. */
static const struct fit *extreme_of(const struct verdict *v, bool first)
{
    const struct fit *f = NULL;
    for (size_t i = 0; i < v->fits.n; i++) {
        const struct fit *x = &v->fits.items[i];
        bool better =
            f && (first ? ask_compare(x->first, f->first) < 0 : ask_compare(x->last, f->last) > 0);
        f = !f || better ? x : f;
    }
    return f;
}

static int say_extreme(struct ask *k, const struct verdict *v, const struct wanted *w)
{
    bool first = k->q->said & (SAID_FIRST | SAID_ADDED);
    const struct fit *f = extreme_of(v, first);
    const struct kb_build *b = f->build;
    HIT(k, KB_AREA_BUILDS, b);
    ask_say(k, "%s %s is the %s%s of those that were read, in the build %s%s%s%s%s%s.", b->package,
            first ? f->first : f->last, first ? "first" : "newest", ask_wanted_text(k, w), b->build,
            b->is_default ? " (the default)" : "", b->cuda ? ", CUDA " : "", b->cuda ? b->cuda : "",
            b->cudnn ? ", cuDNN " : "", b->cudnn ? b->cudnn : "");
    return 1;
}

/* "is torch 2.5 the newest with CUDA 11.8": of all releases, not of those that are named. */
static int say_whether_extreme(struct ask *k, const struct data *d, const struct wanted *w)
{
    const struct question *asked = k->q;
    struct question all = *asked;
    struct verdict v = {.unknown = 0};
    bool first = asked->said & (SAID_FIRST | SAID_ADDED);
    all.n_spans = 0;
    k->q = &all;
    verdict_find(k, d, w, &v);
    k->q = asked;
    if (v.fits.n == 0 || asked->n_spans != 1) {
        ask_missing(k, "of some builds of %s this was not read", asked->package);
        return 0;
    }
    const struct fit *f = extreme_of(&v, first);
    const char *version = first ? f->first : f->last;
    HIT(k, KB_AREA_BUILDS, f->build);
    ask_say(k, "%s: %s %s is the %s%s of those that were read, in the build %s.",
            ask_in_span(version, &asked->spans[0]) ? "Yes" : "No", asked->package, version,
            first ? "first" : "newest", ask_wanted_text(k, w), f->build->build);
    return 1;
}

/* The release that was read next after one, or NULL. */
static const struct kb_release *release_after(const struct kb_releases *all, const char *package,
                                              const char *version)
{
    const struct kb_release *next = NULL;
    for (size_t i = 0; i < all->n; i++) {
        const struct kb_release *row = &all->rows[i];
        if (strcmp(row->package, package) == 0 && ask_compare(row->version, version) > 0 &&
            (!next || ask_compare(row->version, next->version) < 0)) {
            next = row;
        }
    }
    return next;
}

/* "which torch dropped CUDA 11.8": the release behind the last that has it, if all of its builds
 * are known. */
static int say_dropped(struct ask *k, const struct data *d, const struct verdict *v,
                       const struct wanted *w)
{
    const char *last = v->fits.items[0].last;
    size_t builds = 0;
    for (size_t i = 1; i < v->fits.n; i++) {
        last = ask_compare(v->fits.items[i].last, last) > 0 ? v->fits.items[i].last : last;
    }
    const struct kb_release *next = release_after(&d->releases, k->q->package, last);
    for (size_t i = 0; next && i < d->builds.n; i++) {
        const struct kb_build *b = &d->builds.rows[i];
        if (strcmp(b->package, next->package) == 0 && ask_admits(k, b->versions, next->version)) {
            if (ask_build_fits(k, d, b, w) != PY_NO) {
                next = NULL;
            } else {
                HIT(k, KB_AREA_BUILDS, b);
                builds++;
            }
        }
    }
    if (!next || builds == 0) {
        ask_missing(k,
                    "%s %s is the newest%s of those that were read; which one dropped it was not "
                    "read",
                    k->q->package, last, ask_wanted_text(k, w));
        return 0;
    }
    ask_say(k, "%s %s is the last%s of those that were read; %s, the next, has no build%s.",
            k->q->package, last, ask_wanted_text(k, w), next->version, ask_wanted_text(k, w));
    return 1;
}

static bool has_default(const struct fit *list, size_t n, const struct wanted *w)
{
    for (size_t i = 0; i < n; i++) {
        const struct kb_build *b = list[i].build;
        if (b->is_default || (w->platform && ask_has_text(b->index_platforms, w->platform))) {
            return true;
        }
    }
    return false;
}

static int say_builds(struct ask *k, const struct data *d, const struct verdict *v,
                      const struct wanted *w)
{
    struct ask_table t = {
        .heads = {"releases", "build", "CUDA", "cuDNN", "ROCm",
                  k->q->said & SAID_WINDOWS ? "Windows driver from" : "Linux driver from"},
        .columns = 6,
        .named = 2};
    if (k->q->said & SAID_DOES) {
        bool minor = w->cuda && v->fits.items[0].build->any_minor && !question_needs(k->q);
        bool other = !has_default(v->fits.items, v->fits.n, w) &&
                     has_default(v->others.items, v->others.n, w);
        bool needs = question_needs(k->q);
        bool some = needs && !other && v->others.n > 0;
        ask_say(k, "%s%s%s",
                needs && other ? "No: the default build does not; another one does"
                : other        ? "Yes, in a build that is not the default"
                               : "Yes",
                some ? ", but not every build" : "",
                minor ? ": its makers say that a build runs with every CUDA of its major." : ".");
    }
    for (size_t i = 0; i < v->fits.n; i++) {
        add_fit(k, d, &t, &v->fits.items[i], w);
    }
    ask_say_table(k,
                  arena_printf(k->a, "%s%s%s, newest first", k->q->package, ask_version_asked(k),
                               ask_wanted_text(k, w)),
                  &t);
    for (size_t i = 0; i < v->fits.n && w->any_rocm; i++) { // where its wheels are
        const char *note = v->fits.items[i].build->origin.note;
        if (note) {
            ask_say(k, "%s: %s", v->fits.items[i].build->build, note);
        }
    }
    if (v->unknown > 0 && !(k->q->said & SAID_DOES)) {
        ask_say(k, "For %zu more build%s this was not read.", v->unknown,
                v->unknown == 1 ? "" : "s");
    }
    return 1;
}

/* A GPU needs a driver that knows it, whatever a build needs. 1: said that the driver of the
 * question is too old. */
static int say_old_driver(struct ask *k, const struct data *d, const struct wanted *w,
                          const char *gpu)
{
    for (size_t i = 0; w->driver && w->sm && i < d->drivers.n; i++) {
        const struct kb_driver *row = &d->drivers.rows[i];
        const char *sm = arena_printf(k->a, "sm_%d", ask_arch_number(w->sm));
        if (row->kind == KB_DRIVER_FIRST && ask_has_text(row->sm, sm) &&
            !kb_driver_reaches(w->driver, row->linux_min)) {
            HIT(k, KB_AREA_DRIVERS, row);
            ask_say(k, "%s: driver %s does not know %s; %s needs Linux driver %s or later.",
                    k->q->said & SAID_DOES ? "No" : "None", w->driver, gpu ? gpu : sm, sm,
                    row->linux_min);
            return 1;
        }
        if (row->kind == KB_DRIVER_LAST && ask_has_text(row->sm, sm) &&
            atoi(w->driver) > atoi(row->linux_min)) {
            HIT(k, KB_AREA_DRIVERS, row);
            ask_say(k, "%s: driver %s no longer knows %s; the last is %s.",
                    k->q->said & SAID_DOES ? "No" : "None", w->driver, gpu ? gpu : sm, row->title);
            return 1;
        }
    }
    return 0;
}

/* ------------------------------------------------------------------ the form */

static int data_load(struct ask *k, struct data *d, struct gm_err *err)
{
    int rc = kb_builds(k->kb, &d->builds, err);
    rc = rc < 0 ? rc : kb_drivers(k->kb, &d->drivers, err);
    return rc < 0 ? rc : kb_releases(k->kb, &d->releases, err);
}

/* A version must be one that was read, or of a described series. */
static int release_check(struct ask *k, struct gm_err *err)
{
    struct ask_releases named;
    int rc = k->q->n_spans ? ask_releases_find(k, &named, err) : 0;
    return rc < 0 ? rc : k->missing == NULL;
}

/* Whether the builds of the package index among those that do not fit are known not to be for a
 * platform. */
static bool index_has_none(const struct verdict *v, const char *platform)
{
    bool any = false;
    for (size_t i = 0; i < v->others.n; i++) {
        const struct kb_build *b = v->others.items[i].build;
        bool in_index = b->is_default || ask_has_text(b->index_platforms, platform);
        if (in_index && ask_platform_fits(b, platform) != PY_NO) {
            return false;
        }
        any = any || b->is_default;
    }
    return any;
}

/* "which torch runs on sm_61 with driver 535"; the GPU may be given by name. */
int form_builds(struct ask *k, struct gm_err *err)
{
    struct data d;
    struct ask_arch arch;
    struct verdict v = {.unknown = 0};
    int rc = data_load(k, &d, err);
    rc = rc < 0 ? rc : release_check(k, err);
    if (rc <= 0) {
        return rc;
    }
    rc = ask_arch_find(k, &arch, err);
    if (rc < 0 || k->missing) {
        return rc;
    }
    bool module = arch.gpu && arch.gpu->kind == KB_GPU_MODULE; // a Jetson, which is aarch64
    struct wanted w = {.sm = arch.sm,
                       .gfx = arch.gfx,
                       .driver = ask_given(k, KEY_DRIVER),
                       .cuda = ask_given(k, KEY_CUDA),
                       .cudnn = ask_given(k, KEY_CUDNN),
                       .rocm = ask_given(k, KEY_ROCM),
                       .build = ask_given(k, KEY_BUILD),
                       .platform = module ? ARM : ask_platform(k),
                       .any_rocm = k->q->asked & ASKED_ROCM && !ask_given(k, KEY_ROCM),
                       .by_default = k->q->said & SAID_DEFAULT};
    bool nowhere = k->q->said & SAID_WINDOWS && (!w.platform || w.driver || module);
    if (nowhere) {
        return 0; // what a Windows driver knows was not read
    }
    if (say_old_driver(k, &d, &w, arch.gpu ? arch.gpu->name : NULL)) {
        return 1;
    }
    if (k->q->said & SAID_DOES && k->q->n_spans > 0 && k->q->said & (SAID_FIRST | SAID_LAST)) {
        return say_whether_extreme(k, &d, &w);
    }
    verdict_find(k, &d, &w, &v);
    if (v.fits.n == 0 && v.others.n == 0) {
        return ask_say_application(k, &d, &w);
    }
    if (v.fits.n == 0 && v.unknown > 0) {
        bool cpu = w.platform && index_has_none(&v, w.platform);
        ask_missing(
            k, "%sfor %zu build%s of %s%s%s this was not read%s",
            cpu ? arena_printf(k->a, "the package index has no GPU code for %s; ", w.platform) : "",
            v.unknown, v.unknown == 1 ? "" : "s", k->q->package, ask_version_asked(k),
            cpu ? " elsewhere" : "",
            read_in_vain(k, &d, &v, &w) ? "; of those that were read none is" : "");
        return 0;
    }
    if (k->q->said & SAID_DROPPED) {
        return v.fits.n > 0 && k->q->n_spans == 0 ? say_dropped(k, &d, &v, &w) : 0;
    }
    return v.fits.n == 0                                        ? say_no_build(k, &d, &v, &w)
           : k->q->said & (SAID_FIRST | SAID_LAST | SAID_ADDED) ? say_extreme(k, &v, &w)
                                                                : say_builds(k, &d, &v, &w);
}

/* "does torch 2.6 have a ROCm build", "which ctranslate2 has ROCm wheels": which ROCm one release
 * uses is a property of it. */
int form_rocm_builds(struct ask *k, struct gm_err *err)
{
    bool builds = k->q->asked & (ASKED_BUILD | ASKED_RELEASE) || k->q->said & (SAID_WHEEL | ORDER);
    return k->q->said & (SAID_DOES | SAID_WINDOWS | SAID_AARCH64) || (k->q->n_spans == 0 && builds)
               ? form_builds(k, err)
               : 0;
}

/* "does torch 2.10 have kernels for gfx1101" */
int form_has_code(struct ask *k, struct gm_err *err)
{
    return k->q->said & SAID_DOES ? form_builds(k, err) : 0;
}
