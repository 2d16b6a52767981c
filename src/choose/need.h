/*
 * What a model needs on a device: the compute types that the device executes well, and the memory
 * that the model takes in each. Both come from the rows of kb/models.json:
 *
 *   measured   memory of a run with this model and type: the largest of the runs counts
 *   stated     what the authors of the model say of it
 *   estimated  weights (parameters times their size) and the rest of the nearest measurements,
 *              which is what they took beyond their own weights: those of the same model, else the
 *              largest of any model of the engine. A type that computes in 32 bits where the
 *              measurement did in 16 is given twice that rest: an upper bound, because a part of it
 *              does not grow. On the CPU weights count at least 16 bits, as they are stored.
 *
 * All figures are for one request at a time (no batches). No I/O but the knowledge base's.
 */
#ifndef GPUMEND_CHOOSE_NEED_H
#define GPUMEND_CHOOSE_NEED_H

#include "kb/kb.h"
#include "choose/device.h"
#include "model/model.h"

/* The programming interface that an application computes with. */
enum choose_app { CHOOSE_APP_CTRANSLATE2, CHOOSE_APP_TORCH, CHOOSE_APP_ONNXRUNTIME, CHOOSE_APPS };
const char *choose_app_name(enum choose_app app); // "ctranslate2"

/* "cuda", "rocm", "cpu"; NULL for the others. */
const char *choose_device_name(enum choose_device_kind device);

/* In the order of preference on a GPU: 16 bits as the weights of Whisper are published in, then
 * more bits than needed, then fewer. */
enum choose_compute {
    CHOOSE_FLOAT16,
    CHOOSE_FLOAT32,
    CHOOSE_INT8_FLOAT16,
    CHOOSE_INT8_FLOAT32,
    CHOOSE_INT8,     // on the CPU: 8-bit weights, the rest in 32 bits
    CHOOSE_BFLOAT16, // this and what follows only if it is asked for
    CHOOSE_INT8_BFLOAT16,
    CHOOSE_COMPUTES,
};
const char *choose_compute_name(enum choose_compute compute); // "int8_float16"
bool choose_compute_parse(const char *text, enum choose_compute *ret);

struct choose_memory {
    enum choose_memory_how {
        CHOOSE_MEMORY_UNKNOWN,
        CHOOSE_MEMORY_GIVEN,  // by the caller
        CHOOSE_MEMORY_STATED, // by the authors of the model
        CHOOSE_MEMORY_MEASURED,
        CHOOSE_MEMORY_ESTIMATED,
    } how;
    uint64_t bytes;  // 0 when unknown
    const char *row; // of the knowledge base, or NULL
};
const char *choose_memory_name(enum choose_memory_how how); // "measured"

/* The model with this name ("whisper:large-v3", "turbo", "distil-large-v3", "small.en"), or NULL.
 * Sizes that share one architecture share one row. */
const struct kb_model *choose_model_find(const struct kb_models *models, const char *name);

/* The known name that was most likely meant ("large-v4": "large-v3"), without "whisper:"; or NULL.
 */
const char *choose_model_near(const struct kb_models *models, const char *name);

/* The names that choose_model_find() takes, "tiny, base, ...", by size. */
const char *choose_model_names(const struct kb_models *models, struct arena *a);

/* Whether a list of a row names this. */
bool choose_strs_list(const struct kb_strs *list, const char *text);

/* Bounds of memory in GiB that fleets are asked about, where only a name can be compared. */
enum { CHOOSE_MEMORY_BOUNDS = 19 };
extern const unsigned choose_memory_bounds_gib[CHOOSE_MEMORY_BOUNDS];

/* The error that there is no such model, with the name that was most likely meant. */
int choose_model_unknown(const struct kb_models *models, struct arena *a, const char *name,
                         struct gm_err *err);

/* Bytes that programs can have of a GPU; 0: not known. *ret_why: how it is known, or why not. */
uint64_t choose_gpu_memory(struct arena *a, const struct kb_gpus *gpus, const struct host_gpu *g,
                           const char **ret_why);

struct choose_memory choose_model_memory(const struct kb_models *models,
                                         const struct kb_model *model, enum choose_app app,
                                         enum choose_device_kind device,
                                         enum choose_compute compute);

/* Number formats in which a device has shown that it multiplies right. */
enum {
    CHOOSE_FORMAT_FLOAT32 = 1,
    CHOOSE_FORMAT_FLOAT16 = 2,
    CHOOSE_FORMAT_INT8 = 4,
    CHOOSE_FORMAT_BFLOAT16 = 8,
    CHOOSE_FORMATS_ALL = 15
};

struct choose_computes_for {
    enum choose_app app;
    enum choose_device_kind device;
    const char *capability; // of a CUDA device; NULL when not known: then what runs on every one
    const char *version;    // of the application; NULL when not known
    const char *machine;    // of a CPU: "aarch64", else x86-64
    bool given; // only `compute`, where it runs well (of unknown capability: where it may)
    enum choose_compute compute;
    unsigned formats; // only what these are enough for; CHOOSE_FORMATS_ALL where nothing ran
};

/* The types to try on a device, best first; returns their number (at most CHOOSE_COMPUTES). */
size_t choose_computes(const struct kb_models *models, struct arena *a,
                       const struct choose_computes_for *f,
                       enum choose_compute ret[CHOOSE_COMPUTES]);

/* What a type that was chosen runs as there: "int8" of CTranslate2 on a GPU is the better of two,
 * for models that are stored in float16 (its src/types.cc); any other type is itself. */
enum choose_compute choose_runs_as(const struct kb_models *models, struct arena *a,
                                   const struct choose_computes_for *f,
                                   enum choose_compute compute);

/* "4.4 GiB" */
const char *choose_gib(struct arena *a, uint64_t bytes);

#endif
