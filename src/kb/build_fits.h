/*
 * A build against what a question names: shared by the questions about builds (ask_build.c) and
 * about applications (ask_application.c).
 */
#ifndef GPUMEND_KB_BUILD_FITS_H
#define GPUMEND_KB_BUILD_FITS_H

#include "kb/ask.h"

#define ARM "linux-aarch64"

struct wanted {
    const char *sm, *gfx, *driver, *cuda, *cudnn, *rocm;
    const char *build;    // "cu118"
    const char *platform; // "linux-aarch64", or NULL: any
    bool any_rocm;
    bool by_default; // builds of the package index alone
};

struct data {
    struct kb_drivers drivers;
    struct kb_builds builds;
    struct kb_releases releases;
};

/* " for sm_61 on driver 535 with CUDA 12" */
const char *ask_wanted_text(struct ask *k, const struct wanted *w);

/* Without a driver in the question, PTX counts: some driver compiles it. */
enum gpu_serves ask_build_serves(struct ask *k, const struct kb_build *b, const struct wanted *w);

/* Whether a build is for a platform. */
enum py_answer ask_platform_fits(const struct kb_build *b, const char *platform);

/* PY_UNKNOWN when the build does not say it. */
enum py_answer ask_build_fits(struct ask *k, const struct data *d, const struct kb_build *b,
                              const struct wanted *w);

/* " 2.5" where the question names a version, otherwise "". */
const char *ask_version_asked(struct ask *k);

/* An application without builds of its own goes with what the ctranslate2 goes with that it admits:
 * "which whisperx goes with cuDNN 8". */
int ask_say_application(struct ask *k, const struct data *d, const struct wanted *w);

#endif
