/* Which builds of a package run on a GPU with a driver. */
#include "kb/ask.h"

#include <stdlib.h>
#include <string.h>

#include "kb/serves.h"
#include "py/version.h"

struct wanted {
    const char *sm, *gfx, *driver, *cuda, *rocm;
};

/* Without a driver in the question, PTX counts: some driver compiles it. */
static enum gpu_serves build_serves(struct ask *k, const struct kb_build *b, const struct wanted *w)
{
    unsigned number = (unsigned)ask_arch_number(w->sm);
    return kb_build_serves(b, number, w->driver ? kb_isa_of_driver(k->kb, w->driver) : KB_ISA_ANY);
}

/* PY_UNKNOWN when the build does not say what it has kernels for. */
static enum py_answer build_fits(struct ask *k, const struct kb_drivers *d,
                                 const struct kb_build *b, const struct wanted *w)
{
    if ((w->cuda && !ask_within(b->cuda, w->cuda)) || (w->rocm && !ask_within(b->rocm, w->rocm)) ||
        (w->sm && !b->cuda) || (w->gfx && !b->rocm) || (w->driver && !b->cuda)) {
        return PY_NO;
    }
    const struct kb_driver *floor = w->driver ? ask_floor(k, d, b->cuda) : NULL;
    if (w->driver && floor && !kb_driver_reaches(w->driver, floor->linux_min)) {
        return PY_NO;
    }
    if ((w->driver && !floor) || (w->sm && b->sm.n == 0) || (w->gfx && b->gfx.n == 0)) {
        return PY_UNKNOWN;
    }
    if (w->gfx && !ask_has_text(b->gfx, w->gfx)) {
        return PY_NO;
    }
    enum gpu_serves serves = w->sm ? build_serves(k, b, w) : GPU_SERVES_NATIVE;
    return serves == GPU_SERVES_NATIVE || serves == GPU_SERVES_JIT ? PY_YES
           : serves == GPU_SERVES_NONE                             ? PY_NO
                                                                   : PY_UNKNOWN;
}

/* A build that fits, and the version its set begins with: "2.8" of ">=2.8,<2.9". */
struct fit {
    const struct kb_build *build;
    const char *series;
};

static struct fit fit_of(struct ask *k, const struct kb_build *b)
{
    const char *from = b->versions + strspn(b->versions, "<>=~");
    return (struct fit){b, arena_strndup(k->a, from, strcspn(from, ","))};
}

static int newer_first(const void *one, const void *two)
{
    const struct fit *a = one, *b = two;
    int by_version = ask_compare(b->series, a->series);
    return by_version ? by_version : strcmp(b->build->build, a->build->build);
}

static const char *wanted_text(struct ask *k, const struct wanted *w)
{
    const char *text = "";
    if (w->sm) {
        text = arena_printf(k->a, " for sm_%d", ask_arch_number(w->sm));
    }
    if (w->gfx) {
        text = arena_printf(k->a, "%s for %s", text, w->gfx);
    }
    if (w->driver) {
        text = arena_printf(k->a, "%s on driver %s", text, w->driver);
    }
    if (w->cuda) {
        text = arena_printf(k->a, "%s with CUDA %s", text, w->cuda);
    }
    return w->rocm ? arena_printf(k->a, "%s with ROCm %s", text, w->rocm) : text;
}

/* "2.8 (cu126, default)"; where the GPU gets only PTX, which driver compiles it. */
static const char *fit_text(struct ask *k, const struct fit *f, const struct wanted *w)
{
    const struct kb_build *b = f->build;
    bool jit = w->sm && build_serves(k, b, w) == GPU_SERVES_JIT;
    const struct kb_driver *d =
        jit && b->ptx_isa ? kb_driver_of_isa(k->kb, kb_isa_number(b->ptx_isa)) : NULL;
    if (d) {
        HIT(k, KB_AREA_DRIVERS, d);
    }
    const char *text = arena_printf(k->a, "%s (%s%s%s", f->series, b->build,
                                    b->is_default ? ", default" : "", jit ? ", by PTX" : "");
    return d ? arena_printf(k->a, "%s from driver %s on)", text, d->linux_min)
             : arena_printf(k->a, "%s)", text);
}

static bool is_asked(struct ask *k, const struct kb_build *b)
{
    return strcmp(b->package, k->q->package) == 0 &&
           (!k->q->version || ask_admits(k, b->versions, k->q->version));
}

/* None fits: the answer rests on all that were judged. */
static int say_no_build(struct ask *k, const struct kb_builds *builds, const struct wanted *w)
{
    for (size_t i = 0; i < builds->n; i++) {
        if (is_asked(k, &builds->rows[i])) {
            HIT(k, KB_AREA_BUILDS, &builds->rows[i]);
        }
    }
    ask_say(k, "No build of %s%s%s here is%s.", k->q->package, k->q->version ? " " : "",
            k->q->version ? k->q->version : "", wanted_text(k, w));
    return 1;
}

static int say_builds(struct ask *k, const struct kb_drivers *d, const struct kb_builds *builds,
                      const struct wanted *w)
{
    VEC(struct fit) fits = {0};
    size_t judged = 0, unknown = 0;
    for (size_t i = 0; i < builds->n; i++) {
        const struct kb_build *b = &builds->rows[i];
        if (!is_asked(k, b)) {
            continue;
        }
        enum py_answer answer = build_fits(k, d, b, w);
        judged++;
        unknown += answer == PY_UNKNOWN;
        if (answer == PY_YES) {
            VEC_PUSH(k->a, &fits, fit_of(k, b));
        }
    }
    if (fits.n == 0) {
        return judged == 0 || unknown > 0 ? 0 : say_no_build(k, builds, w);
    }
    qsort(fits.items, fits.n, sizeof *fits.items, newer_first);
    const char *list = "";
    for (size_t i = 0; i < fits.n; i++) {
        HIT(k, KB_AREA_BUILDS, fits.items[i].build);
        list = arena_printf(k->a, "%s%s%s", list, i ? ", " : "", fit_text(k, &fits.items[i], w));
    }
    ask_say(k, "%s builds%s, newest first: %s.", k->q->package, wanted_text(k, w), list);
    if (unknown > 0) {
        ask_say(k, "Of %zu more it is not known.", unknown);
    }
    return 1;
}

/* "which torch runs on sm_61 with driver 535"; the GPU may be given by name. */
int form_builds(struct ask *k, struct gm_err *err)
{
    struct kb_builds builds;
    struct kb_drivers d;
    struct ask_gpus found = {{0}};
    const struct question *q = k->q;
    struct wanted w = {q->sm, q->gfx, q->driver, q->cuda, q->rocm};
    int rc = kb_builds(k->kb, &builds, err);
    rc = rc < 0 ? rc : kb_drivers(k->kb, &d, err);
    rc = rc < 0 || w.sm || w.gfx ? rc : ask_gpus_find(k, true, &found, err);
    if (rc < 0) {
        return rc;
    }
    if (ask_gpus_alike(&found)) {
        w.sm = found.items.items[0]->capability;
        w.gfx = found.items.items[0]->gfx;
        HIT(k, KB_AREA_GPUS, found.items.items[0]);
    }
    if (!w.sm && !w.gfx && !w.driver && !w.cuda && !w.rocm) {
        return 0;
    }
    return say_builds(k, &d, &builds, &w);
}
