/*
 * Whether a build fits what a question names: release, driver, CUDA, architecture, platform.
 */
#include <string.h>

#include "kb/ask.h"
#include "kb/build_fits.h"
#include "kb/serves.h"
#include "py/version.h"

enum gpu_serves ask_build_serves(struct ask *k, const struct kb_build *b, const struct wanted *w)
{
    unsigned number = (unsigned)ask_arch_number(w->sm);
    return kb_build_serves(b, number, w->driver ? kb_isa_of_driver(k->kb, w->driver) : KB_ISA_ANY);
}

static enum py_answer worse(enum py_answer one, enum py_answer two)
{
    return one == PY_NO || two == PY_NO ? PY_NO : one == PY_UNKNOWN ? one : two;
}

/* A version that a build has against one that is given. Where either names less of it they may be
 * the same; `minor`: within one major what another minor does is not known. */
static enum py_answer version_fits(struct ask *k, const char *has, const char *given, bool minor)
{
    if (!given) {
        return PY_YES;
    }
    if (!has) {
        return PY_UNKNOWN;
    }
    bool same_major = strcmp(ask_major(k, has), ask_major(k, given)) == 0;
    return ask_meets(has, given) ? PY_YES : minor && same_major ? PY_UNKNOWN : PY_NO;
}

static enum py_answer driver_fits(const struct data *d, const struct kb_build *b,
                                  const struct wanted *w)
{
    const struct kb_driver *floor = b->cuda ? kb_driver_minor(&d->drivers, b->cuda) : NULL;
    return !floor ? PY_UNKNOWN : kb_driver_reaches(w->driver, floor->linux_min) ? PY_YES : PY_NO;
}

static enum py_answer code_fits(struct ask *k, const struct kb_build *b, const struct wanted *w)
{
    if (w->gfx) {
        return b->gfx.n == 0 ? PY_UNKNOWN : ask_has_text(b->gfx, w->gfx) ? PY_YES : PY_NO;
    }
    enum gpu_serves serves = b->sm.n == 0 ? GPU_SERVES_ABSENT : ask_build_serves(k, b, w);
    if (serves == GPU_SERVES_JIT && k->q->said & SAID_NATIVE) {
        return PY_NO;
    }
    return serves == GPU_SERVES_NATIVE || serves == GPU_SERVES_JIT ? PY_YES
           : serves == GPU_SERVES_NONE                             ? PY_NO
                                                                   : PY_UNKNOWN;
}

/* By its name, or "cu124" by its CUDA 12.4. */
static bool is_named(struct ask *k, const struct kb_build *b, const char *name)
{
    const char *dot = b->cuda ? strchr(b->cuda, '.') : NULL;
    return strcmp(name, b->build) == 0 ||
           (dot && strcmp(name, arena_printf(k->a, "cu%.*s%.*s", (int)(dot - b->cuda), b->cuda,
                                             (int)strcspn(dot + 1, "."), dot + 1)) == 0);
}

enum py_answer ask_platform_fits(const struct kb_build *b, const char *platform)
{
    bool known = b->platforms.n > 0 || b->index_platforms.n > 0;
    return ask_has_text(b->platforms, platform) || ask_has_text(b->index_platforms, platform)
               ? PY_YES
           : known && b->is_default ? PY_NO
                                    : PY_UNKNOWN;
}

/* GPUs of processors for aarch64: Jetsons, DRIVE, GB10. */
static bool is_on_arm_alone(const char *sm)
{
    static const int numbers[] = {53, 62, 72, 87, 101, 110, 121};
    for (size_t i = 0; sm && i < sizeof numbers / sizeof *numbers; i++) {
        if (ask_arch_number(sm) == numbers[i]) {
            return true;
        }
    }
    return false;
}

/* The wheels of one build have other code for another machine: what those for x86-64 lack does not
 * tell of those for aarch64. */
static enum py_answer code_fits_machine(struct ask *k, const struct kb_build *b,
                                        const struct wanted *w)
{
    enum py_answer fits = code_fits(k, b, w);
    bool stated = b->origin.evidence == KB_EVIDENCE_DOCUMENTED && b->gfx.n > 0 && w->platform &&
                  ask_has_text(b->platforms, w->platform); // AMD's: by the scripts of each platform
    if (w->platform && !stated && !ask_has_text(b->index_platforms, w->platform)) {
        return PY_UNKNOWN; // the code of wheels in other indexes was read of those for Linux x86-64
    }
    bool unread = is_on_arm_alone(w->sm) && ask_platform_fits(b, ARM) != PY_NO &&
                  !ask_has_text(b->index_platforms, ARM);
    return fits == PY_NO && unread ? PY_UNKNOWN : fits;
}

enum py_answer ask_build_fits(struct ask *k, const struct data *d, const struct kb_build *b,
                              const struct wanted *w)
{
    bool for_cuda = w->cuda || w->cudnn || w->driver || w->sm;
    bool for_rocm = w->rocm || w->gfx || w->any_rocm;
    if ((for_cuda && !b->cuda) || (for_rocm && !b->rocm) ||
        (w->build && !is_named(k, b, w->build))) {
        return PY_NO;
    }
    bool does = k->q->said & SAID_DOES;
    enum py_answer fits = version_fits(k, b->cuda, w->cuda, does);
    if (does && w->cuda && b->cuda && fits != PY_NO && (w->build || fits == PY_UNKNOWN)) {
        fits = b->any_minor ? PY_YES : PY_UNKNOWN; // what another minor than its own does
    }
    fits = worse(fits, w->cudnn ? version_fits(k, b->cudnn, w->cudnn, does) : PY_YES);
    fits = worse(fits, w->rocm ? version_fits(k, b->rocm, w->rocm, false) : PY_YES);
    fits = worse(fits, w->platform ? ask_platform_fits(b, w->platform) : PY_YES);
    fits = worse(fits, w->driver ? driver_fits(d, b, w) : PY_YES);
    bool of_windows = b->platforms.n == 1 && !b->index_platforms.n &&
                      ask_has_text(b->platforms, "windows-x86-64");
    fits = worse(fits, k->q->said & SAID_LINUX && of_windows ? PY_UNKNOWN : PY_YES);
    return worse(fits, w->sm || w->gfx ? code_fits_machine(k, b, w) : PY_YES);
}

static const char *wanted_add(struct ask *k, const char *text, const char *before,
                              const char *value)
{
    return value ? arena_printf(k->a, "%s%s%s", text, before, value) : text;
}

const char *ask_wanted_text(struct ask *k, const struct wanted *w)
{
    const char *sm = w->sm ? arena_printf(k->a, "sm_%d", ask_arch_number(w->sm)) : NULL;
    const char *text = wanted_add(k, "", " for ", sm);
    text = wanted_add(k, text, " for ", w->gfx);
    text = wanted_add(k, text, " on driver ", w->driver);
    text = wanted_add(k, text, " with CUDA ", w->cuda);
    text = wanted_add(k, text, " with cuDNN ", w->cudnn);
    text = wanted_add(k, text, " named ", w->build);
    text = w->any_rocm ? arena_printf(k->a, "%s with ROCm", text) : text;
    text = wanted_add(k, text, " with ROCm ", w->rocm);
    return wanted_add(k, text, " on ", w->platform);
}

const char *ask_version_asked(struct ask *k)
{
    const struct question_span *s = k->q->n_spans ? &k->q->spans[0] : NULL;
    bool range = s && s->from && s->to && strcmp(s->from, s->to) != 0;
    return k->q->n_spans > 1 ? ""
           : range           ? arena_printf(k->a, " %s to %s", s->from, s->to)
           : k->q->version   ? arena_printf(k->a, " %s", k->q->version)
                             : "";
}
