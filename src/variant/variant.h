/*
 * Wheel variants: what the variant.json of a wheel asks of a machine, what a machine supports, and
 * which variant of an index an installer would choose.
 *
 *   variant_read()      the variant.json of a wheel, or the variants.json of an index
 *   variant_machine()   what a machine supports, as the providers would list it
 *   variant_least()     what every one of several machines supports
 *   variant_judge()     whether a variant fits a machine, and by which value of each feature
 *   variant_rank()      the variants of a document, best first
 *   variant_static()    the list of a machine, for installers that are to ask no provider
 *
 * All of this is a draft, and its users say so (--preview). Sources:
 *   - PEP 825 (draft; "Variant metadata", "Variant ordering"): properties, labels, priorities
 *   - "Wheel Variants: Providers" (draft, wheelnext/peps, peps/pep-0826.rst, before it had a number
 *     of its own): who says what a machine supports; static properties take precedence
 *   - wheelnext/nvidia-variant-provider, plugin.py at ffea5d3: the namespace "nvidia"
 *   - wheelnext/provider-variant-x86-64, plugin.py at 033f2c5: "level" of the namespace "x86_64"
 *   - uv 0.13.9, which reads the schemas peps/825/v0.1.1 and peps/850/v0.2.0
 *
 * Not determined: features of processors besides the level (their names are archspec's), versions
 * of aarch64, and "amd", whose provider renames its features from release to release. What needs
 * one of them is unknown, never "does not fit".
 *
 * All texts live in the arena that is given.
 */
#ifndef GPUMEND_VARIANT_VARIANT_H
#define GPUMEND_VARIANT_VARIANT_H

#include <jansson.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "host/host.h"
#include "kb/kb.h"

enum {
    VARIANT_BYTES_MAX = 4 << 20,
    VARIANT_LABELS_MAX = 4096,
    VARIANT_VALUES_MAX = 1024, // of one feature
    VARIANT_FEATURES_MAX = 256 // of one namespace
};

typedef VEC(const char *) variant_texts;

/* "nvidia :: sm_arch", and its values: those that a wheel was built for, or that a machine
 * supports, the preferred first. */
struct variant_feature {
    const char *ns, *name;
    variant_texts values;
    const char *why; // of a machine: set where the values are unknown
};
typedef VEC(struct variant_feature) variant_features;

struct variant {
    const char *label; // "cu129"; "null": fits everywhere
    variant_features features;
};

struct variant_document {
    const char *version;          // of the schema, "0.1.1"
    variant_texts namespaces;     // the preferred first
    variant_features orders;      // default-priorities.feature: the names are in `values`
    variant_features preferred;   // default-priorities.property
    variant_features statics;     // stated by the wheel: no provider is asked
    variant_texts static_of;      // namespaces of `statics`
    variant_texts optional;       // namespaces that are off unless they are asked for
    VEC(struct variant) variants; // as the document has them
};

/* GM_ERR_FORMAT; GM_ERR_UNSUPPORTED: a schema that is not known (a tool must then take the wheel
 * for one that it does not support); GM_ERR_LIMIT. `name` is for messages. */
int variant_read(struct arena *a, const char *name, struct str text, struct variant_document *ret,
                 struct gm_err *err) GM_CHECK;

/* What a machine supports in one namespace. */
struct variant_namespace {
    const char *name;
    enum host_state state; // no: nothing, `why`; unknown: `why`
    const char *why;
    variant_features features; // in the order of the provider
};

struct variant_machine {
    VEC(struct variant_namespace) namespaces;
};

/* What the machine has of this name, or NULL. */
const struct variant_namespace *variant_namespace_of(const struct variant_machine *m,
                                                     const char *name);

/* The values of nvidia-variant-provider for a CUDA driver and the highest compute capability.
 * sm_major 0: without sm_arch. A capability below 5.0 has no sm_arch either. */
void variant_nvidia(struct arena *a, unsigned cuda_major, unsigned cuda_minor, unsigned sm_major,
                    unsigned sm_minor, variant_features *ret);

/* After host_judge(). */
void variant_machine(struct arena *a, const struct host *h, struct kb *kb,
                     struct variant_machine *ret);

/* What conda and pixi find here: `__cuda`, the CUDA of the driver (conda, "Managing virtual
 * packages"), and `__cuda_arch`, the lowest compute capability of all GPUs (conda-forge, "CUDA
 * architecture detection", 2026-10-19). NULL: no such package, or, with a reason, unknown. */
struct variant_conda {
    const char *cuda, *arch;
    const char *cuda_why, *arch_why;
};
void variant_conda(struct arena *a, const struct host *h, struct kb *kb, struct variant_conda *ret);

/* Values that all support, in the order of the first; `names` are the machines', for reasons. */
void variant_least(struct arena *a, const struct variant_machine *machines,
                   const char *const *names, size_t n, struct variant_machine *ret);

/* One feature of a variant on a machine. */
struct variant_judged {
    const struct variant_feature *asked;
    enum host_state fits;
    const char *best; // the value that an installer ranks it by; NULL unless it fits
    const char *why;  // unless it fits
};

struct variant_verdict {
    enum host_state fits; // every feature
    VEC(struct variant_judged) features;
};

void variant_judge(struct arena *a, const struct variant_document *doc, const struct variant *v,
                   const struct variant_machine *m, struct variant_verdict *ret);

struct variant_ranked {
    const struct variant *variant;
    struct variant_verdict verdict;
};
typedef VEC(struct variant_ranked) variant_ranking;

/* Those that fit, the best first; then those that may; then those that do not. */
void variant_rank(struct arena *a, const struct variant_document *doc,
                  const struct variant_machine *m, variant_ranking *ret);

/* A document with the providers' static properties and no variants, in the draft 0.2.0; a new
 * reference. What is unknown, and a namespace with nothing, is left out. */
json_t *variant_static(const struct variant_machine *m);

#endif
