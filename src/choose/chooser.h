/*
 * Inside this room: what choose_best() works on, and what its files ask of one another.
 */
#ifndef GPUMEND_CHOOSE_CHOOSER_H
#define GPUMEND_CHOOSE_CHOOSER_H

#include "choose/choose.h"

enum build { BUILD_UNKNOWN, BUILD_CPU, BUILD_CUDA, BUILD_ROCM };

struct chooser {
    struct model *m;
    struct arena *a;
    const struct host *h;
    const struct diag_report *report;
    const struct choose_options *o;
    struct choose_result *choice;
    struct kb_models models;
    struct kb_gpus gpus;
    struct kb_rocms rocms;
    struct kb_builds builds;
    struct kb_drivers drivers;
    const struct kb_model *model; // or NULL
    const struct py_dist *dist;   // of the application, or NULL
    enum build build;
    struct choose_visible cuda, rocm;
};

/* build.c: what the installed build serves, else the plain one of its package. */
enum build chooser_build_of(const struct chooser *c);
bool chooser_is_on_arm(const struct chooser *c);
const char *chooser_app_text(const struct chooser *c); // "ctranslate2 4.8.5"

/* Of ONNX Runtime; NULL: its package has none of its own. */
const char *chooser_provider(const struct chooser *c, enum build build);

/*
 * Whether what runs has kernels for the target: the installed library's own code, where it can be
 * read; else the list of its row, or of a build for the same ROCm; else, where nothing is
 * installed, any official build. A build that none of this tells is one's own perhaps: unknown.
 */
enum host_state chooser_has_kernels(const struct chooser *c, const char *gfx);

/*
 * Of an application that is not installed: whether any build of it that is known serves the GPU of
 * NVIDIA under the driver of this machine. NO only if each is known not to, with *ret_driver the
 * least one with which some build would, or NULL. YES with *ret_build the newest that does, or NULL
 * if that is what the package index serves.
 */
enum host_state chooser_known_builds(const struct chooser *c, const struct host_gpu *g,
                                     const struct kb_build **ret_build, const char **ret_driver);

/* "470": the last driver branch that knows a GPU of NVIDIA; NULL: not known. */
const char *chooser_last_driver(const struct chooser *c, const struct host_gpu *g);

/* The newest official build of the package with kernels for the target; NULL: none is known. */
const struct kb_build *chooser_official_build(const struct chooser *c, const char *package,
                                              const char *gfx);

/* candidate.c: every device, judged; the CPU last. */
void chooser_add_candidates(struct chooser *c);

/* The best type that fits. On a GPU whose memory is not known, the smallest; of an unknown need,
 * the best. */
bool chooser_take_compute(struct chooser *c, struct choose_candidate *x,
                          const struct kb_model *model);

/* "large-v3 needs about 4.4 GiB in float16 (measured)" */
const char *chooser_need_text(struct chooser *c, const struct choose_candidate *x);

/* What was run on it, by its address where that was told; NULL: nothing. */
const struct choose_ran *chooser_ran_on(const struct chooser *c, const struct choose_candidate *x);

/* The first error in the application's own process. What has no script is about the machine, and
 * host_judge() tells of each GPU apart. With an override that was chosen, missing kernels are
 * none. */
const struct diag_finding *chooser_first_error(const struct chooser *c, const char *override);
const char *chooser_step_of(const struct chooser *c, const struct diag_finding *f);

/* A sentence as a part of another: without its stop. */
const char *chooser_clause(struct arena *a, const char *sentence);

#endif
