/* Whether a driver, a build and a release fit the machine, for the search of releases (pins.c).
 * What is not known does not fit. */
#ifndef GPUMEND_SETUP_FINDER_H
#define GPUMEND_SETUP_FINDER_H

#include "plan/solve.h"
#include "setup/internal.h"

struct finder {
    const struct setup_question *q;
    struct arena *a;
    const struct setup_app *app;
    enum choose_device_kind device;
    enum setup_driver_policy policy;
    const char *python;
    struct kb_releases releases;
    struct kb_builds builds;
    struct kb_compats compats;
    struct kb_drivers drivers;
    struct kb_toolkits toolkits;
    struct kb_cudnns cudnns;
    struct kb_rocms rocms;
    unsigned capability;  // ten times; 0: no GPU of NVIDIA's
    const char *toolkit;  // the first CUDA toolkit of the row's major for it; NULL: none is known
    const char *gfx;      // of AMD's GPU, or that of the override; NULL: not AMD's
    const char *override; // HSA_OVERRIDE_GFX_VERSION that `gfx` needs, or NULL
    VEC(struct plan_solve_package *) packages;
};

bool setup_list_has(struct kb_strs list, const char *text);
bool setup_is_among(const char *words, char separator, const char *word);
bool setup_is_newer(const char *one, const char *two);
const char *setup_last_branch(const struct finder *f);
const char *setup_newer_of(const char *one, const char *two);
const char *setup_driver_min(const struct finder *f, const char *cuda, unsigned isa);
bool setup_has_builds(const struct finder *f, const char *package);
bool setup_is_plain(const struct finder *f, const struct kb_build *b);
const char *setup_build_driver(const struct finder *f, const struct kb_build *b);
const struct kb_build *setup_build_of(const struct finder *f, const char *package,
                                      const char *version);
const char *setup_toolkit_first(const struct finder *f);
bool setup_is_engine(const struct finder *f, const char *package);
bool setup_engine_fits(const struct finder *f, const char *package, const char *version);
bool setup_cudnn_fits(const struct finder *f, const struct kb_release *r);

#endif
