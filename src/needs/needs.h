/*
 * What a target needs of the machine that it will run on: by the libraries that it would really
 * load, whatever machine it is looked at on.
 *
 *   needs_find()        out of a model
 *   needs_json(), needs_expression()
 *
 * Each need is necessary, and none is promised to be enough: whether a program runs on a machine is
 * judged by src/diag with that machine's facts (`gpumend needs --on`). What is not known is said in
 * `unknown`, and no expression then excludes a machine for it.
 *
 * Compute capabilities are ten times the major version plus the minor one.
 */
#ifndef GPUMEND_NEEDS_NEEDS_H
#define GPUMEND_NEEDS_NEEDS_H

#include <jansson.h>

#include "choose/need.h"
#include "diag/finding.h"
#include "gpu/code.h"

enum { NEEDS_CAPABILITY_MIN = 30, NEEDS_CAPABILITY_MAX = 159 };

/* Compute capabilities that are served alike. */
struct needs_range {
    unsigned from, to;      // to NEEDS_CAPABILITY_MAX: without an end
    enum gpu_serves by;     // GPU_SERVES_NATIVE, _JIT: compiled by the driver, which then needs
                            // driver_min; _UNKNOWN: nothing is promised for them, as between Tegra
                            // and other GPUs
    const char *driver_min; // of PTX: "570.26", or NULL: not known; of native code NULL
    const char *cuda_min;   // of that driver: "12.8.0", or NULL
};

/* What a named model takes of a GPU, by the rows and estimates of choose/need.h. An estimate is an
 * upper bound: with an expression over one, a node that it excludes may still run the model. */
struct needs_memory {
    const char *model; // as it was named; NULL: none was
    const char *app;   // that computes it
    enum choose_compute compute;
    struct choose_memory need; // UNKNOWN: no expression asks for memory
};

struct needs {
    bool nvidia, amd; // a GPU of this vendor is asked for
    const char *nvidia_who, *amd_who;
    const struct kb_driver *driver; // at least, or NULL: none is needed, or it is not known
    const char *driver_from;
    bool own_libcuda; // the target has a libcuda of forward compatibility: the driver alone does
                      // not decide
    bool cuda_known;  // the ranges hold: outside them nothing of a framework runs
    VEC(struct needs_range) cuda;
    bool gfx_known;
    diag_texts gfx;  // targets with code, of those that are known
    int glibc_minor; // of the machine, at least; 0: none is needed of it
    const char *glibc_from;
    int cpu_level; // x86-64-vN at least; 0: not stated
    const char *cpu_from;
    uint32_t page_size_max; // bytes; 0: every page size will do
    const char *page_from;
    const char *machine; // "x86-64", or NULL
    struct needs_memory memory;
    diag_texts unknown; // one sentence each
};

/* `is_image`: the C library is the image's. All lives in the model's arena. */
void needs_find(struct model *m, bool is_image, struct needs *ret);

/* After needs_find(): adds what this model takes in `compute`, or, with NULL, in the type of the
 * application's that takes least. GM_ERR_USAGE: no such model. */
int needs_add_model(struct model *m, const char *name, const enum choose_compute *compute,
                    struct needs *n, struct gm_err *err) GM_CHECK;

/* In MiB, rounded down; 0: nothing is asked. */
unsigned long long needs_memory_mib(const struct needs *n);

/* Whether a GPU has that much; unknown: how much it has is. Yes where nothing is asked. */
enum host_state needs_memory_fits(struct model *m, const struct needs *n, const struct host_gpu *g);

/* Whether a GPU is of a vendor that is asked for, can be used for all that is known, and may have
 * code here. */
bool needs_gpu_serves(const struct needs *n, const struct host_gpu *g);

/* A new reference. */
json_t *needs_json(struct arena *a, const struct needs *n);

enum needs_form {
    NEEDS_NFD,
    NEEDS_CEL,
    NEEDS_REQUIRE_CUDA,
    NEEDS_SLURM,
    NEEDS_SLURM_EXTRA,
    NEEDS_WHEEL_VARIANT,
    NEEDS_FORMS
};

/* "nfd", "cel", ...; NEEDS_FORMS: it is none. */
enum needs_form needs_form_of(const char *name);
const char *needs_form_name(enum needs_form form);

/*
 * The needs as one expression; NULL: this form has no word for them, and *ret_why says why.
 *
 *   NEEDS_NFD           nodeSelectorTerms of Kubernetes over the labels of `gpumend export nfd`
 *
 *   NEEDS_CEL           over the attributes of NVIDIA's driver for dynamic resource allocation
 *
 *   NEEDS_REQUIRE_CUDA  NVIDIA_REQUIRE_CUDA of NVIDIA's container tools
 *
 *   NEEDS_SLURM         Slurm's --constraint over `gpumend export slurm-features`
 *
 *   NEEDS_SLURM_EXTRA   Slurm's --extra over `gpumend export slurm-extra`
 *
 *   NEEDS_WHEEL_VARIANT properties of wheel variants as JSON, a preview (PEP 825 is a draft)
 */
const char *needs_expression(struct arena *a, const struct needs *n, enum needs_form form,
                             const char **ret_why);

/* What is left of NEEDS_SLURM in a cluster whose nodes have these features (as sinfo prints them):
 * Slurm refuses a constraint with a feature that no node has, also in an alternative. NULL:
 * nothing, and *ret_why. */
const char *needs_slurm_within(struct arena *a, const char *constraint, const char *features,
                               const char **ret_why);

/* "CUDA: compute capability 8.0 to 8.6 (machine code), ..." one line for each need. */
void needs_sentences(struct arena *a, const struct needs *n, diag_texts *ret);

/* "8.9" */
const char *needs_capability(struct arena *a, unsigned number);

#endif
