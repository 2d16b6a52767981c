#include "choose/need.h"

#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "kb/serves.h"

#define MIB ((uint64_t)1024 * 1024)

/* How a type stores weights and computes, in bytes. */
static const struct {
    const char *name;
    unsigned weight, rest;
} computes[CHOOSE_COMPUTES] = {
    [CHOOSE_FLOAT16] = {"float16", 2, 2},
    [CHOOSE_FLOAT32] = {"float32", 4, 4},
    [CHOOSE_INT8_FLOAT16] = {"int8_float16", 1, 2},
    [CHOOSE_INT8_FLOAT32] = {"int8_float32", 1, 4},
    [CHOOSE_INT8] = {"int8", 1, 4},
    [CHOOSE_BFLOAT16] = {"bfloat16", 2, 2},
    [CHOOSE_INT8_BFLOAT16] = {"int8_bfloat16", 1, 2},
};

/* The engine whose measurements are an application's. ONNX Runtime has none. */
static const struct {
    const char *name, *engine;
} apps[CHOOSE_APPS] = {
    [CHOOSE_APP_CTRANSLATE2] = {"ctranslate2", "faster-whisper"},
    [CHOOSE_APP_TORCH] = {"torch", "openai-whisper"},
    [CHOOSE_APP_ONNXRUNTIME] = {"onnxruntime", NULL},
};

const char *choose_app_name(enum choose_app app)
{
    return apps[app].name;
}

const char *choose_device_name(enum choose_device_kind device)
{
    static const char *const names[] = {[CHOOSE_DEVICE_NONE] = NULL,
                                        [CHOOSE_DEVICE_AUTO] = NULL,
                                        [CHOOSE_DEVICE_CUDA] = "cuda",
                                        [CHOOSE_DEVICE_ROCM] = "rocm",
                                        [CHOOSE_DEVICE_CPU] = "cpu"};
    return names[device];
}

const char *choose_compute_name(enum choose_compute compute)
{
    return computes[compute].name;
}

bool choose_compute_parse(const char *text, enum choose_compute *ret)
{
    for (size_t i = 0; i < CHOOSE_COMPUTES; i++) {
        if (strcmp(text, computes[i].name) == 0) {
            *ret = (enum choose_compute)i;
            return true;
        }
    }
    return false;
}

const char *choose_memory_name(enum choose_memory_how how)
{
    static const char *const names[] = {[CHOOSE_MEMORY_UNKNOWN] = "unknown",
                                        [CHOOSE_MEMORY_GIVEN] = "given",
                                        [CHOOSE_MEMORY_STATED] = "stated",
                                        [CHOOSE_MEMORY_MEASURED] = "measured",
                                        [CHOOSE_MEMORY_ESTIMATED] = "estimated"};
    return names[how];
}

const char *choose_gib(struct arena *a, uint64_t bytes)
{
    return arena_printf(a, "%.1f GiB", (double)bytes / (1024.0 * 1024 * 1024));
}

/* ------------------------------------------------------------------ models by name */

static const struct kb_model *model_by_name(const struct kb_models *models, const char *name)
{
    for (size_t i = 0; i < models->n; i++) {
        const struct kb_model *m = &models->rows[i];
        if (m->kind == KB_MODEL_MODEL && m->model && strcmp(m->model, name) == 0) {
            return m;
        }
    }
    return NULL;
}

static const char *by_alias(const struct kb_models *models, const char *name)
{
    for (size_t i = 0; i < models->n; i++) {
        const struct kb_model *m = &models->rows[i];
        if (m->kind == KB_MODEL_ALIAS && m->alias && strcmp(m->alias, name) == 0) {
            return m->model;
        }
    }
    return NULL;
}

/* "large-v3" is of the size large (note of the row whisper-large), "small.en" of the size small:
 * the English models differ in their training only. */
static const char *const whisper_sizes[][2] = {
    {"large-v3", "large"}, {"large-v2", "large"}, {"large-v1", "large"},   {"tiny.en", "tiny"},
    {"base.en", "base"},   {"small.en", "small"}, {"medium.en", "medium"},
};
enum { WHISPER_SIZES = sizeof whisper_sizes / sizeof *whisper_sizes };

static const char *size_of(const char *name)
{
    for (size_t i = 0; i < WHISPER_SIZES; i++) {
        if (strcmp(name, whisper_sizes[i][0]) == 0) {
            return whisper_sizes[i][1];
        }
    }
    return name;
}

static const char *without_family(const char *name)
{
    return name + (starts_with(name, "whisper:") || starts_with(name, "whisper-") ? 8 : 0);
}

const struct kb_model *choose_model_find(const struct kb_models *models, const char *name)
{
    name = without_family(name);
    const struct kb_model *m = model_by_name(models, size_of(name));
    const char *other = m ? NULL : by_alias(models, name);
    return other ? model_by_name(models, size_of(other)) : m;
}

const char *choose_model_near(const struct kb_models *models, const char *name)
{
    struct nearest n;
    nearest_init(&n, without_family(name));
    for (size_t i = 0; i < WHISPER_SIZES; i++) {
        nearest_try(&n, whisper_sizes[i][0]);
    }
    for (size_t i = 0; i < models->n; i++) {
        const struct kb_model *m = &models->rows[i];
        const char *known = m->kind == KB_MODEL_ALIAS ? m->alias : m->model;
        if (known && (m->kind == KB_MODEL_MODEL || m->kind == KB_MODEL_ALIAS)) {
            nearest_try(&n, known);
        }
    }
    return nearest_best(&n);
}

int choose_model_unknown(const struct kb_models *models, struct arena *a, const char *name,
                         struct gm_err *err)
{
    const char *meant = choose_model_near(models, name);
    return gm_err_set(err, GM_ERR_USAGE, "no model %s is known; %s%s%s: %s", name,
                      meant ? "did you mean " : "these are", meant ? meant : "",
                      meant ? "? These are" : "", choose_model_names(models, a));
}

static int by_size(const void *x, const void *y)
{
    const struct kb_model *a = *(const struct kb_model *const *)x;
    const struct kb_model *b = *(const struct kb_model *const *)y;
    return a->parameters_m != b->parameters_m
               ? (a->parameters_m > b->parameters_m) - (a->parameters_m < b->parameters_m)
               : strcmp(a->id, b->id);
}

const char *choose_model_names(const struct kb_models *models, struct arena *a)
{
    VEC(const struct kb_model *) sizes = {0};
    for (size_t i = 0; i < models->n; i++) {
        if (models->rows[i].kind == KB_MODEL_MODEL && models->rows[i].model) {
            VEC_PUSH(a, &sizes, &models->rows[i]);
        }
    }
    if (sizes.n) {
        qsort(sizes.items, sizes.n, sizeof *sizes.items, by_size);
    }
    const char *text = "";
    for (size_t i = 0; i < sizes.n; i++) {
        text = arena_printf(a, "%s%s%s", text, i ? ", " : "", sizes.items[i]->model);
    }
    return text;
}

/* ------------------------------------------------------------------ memory */

/* On the CPU the peak is at the loading: the weights are read as they are stored, in 16 bits,
 * before they are made smaller (row measured-ctranslate2-large-v3-cpu-int8: 3012 MiB, of which the
 * stored weights are 2956). */
static uint64_t weights(const struct kb_model *model, enum choose_device_kind device,
                        enum choose_compute compute)
{
    unsigned size = computes[compute].weight;
    size = device == CHOOSE_DEVICE_CPU && size < 2 ? 2 : size;
    return (uint64_t)model->parameters_m * 1000000 * size;
}

/* The type that a row of a measurement names. faster-whisper's models are stored in float16, so
 * that int8 on a GPU computes the rest in float16 (docs/quantization.md of CTranslate2). */
static bool compute_of(const struct kb_model *row, enum choose_device_kind device,
                       enum choose_compute *ret)
{
    if (row->compute && strcmp(row->compute, "int8") == 0) {
        *ret = device == CHOOSE_DEVICE_CPU ? CHOOSE_INT8 : CHOOSE_INT8_FLOAT16;
        return true;
    }
    for (size_t i = 0; row->compute && i < CHOOSE_COMPUTES; i++) {
        if (strcmp(row->compute, computes[i].name) == 0) {
            *ret = (enum choose_compute)i;
            return true;
        }
    }
    return false;
}

/* Whether the row tells the memory of a run of this engine on this kind of device. What the authors
 * of a model give is for GPUs. */
static bool tells(const struct kb_model *row, const char *engine, enum choose_device_kind device)
{
    bool gpu = device != CHOOSE_DEVICE_CPU;
    if (!engine || strcmp(row->engine, engine) != 0 || row->memory_mib <= 0) {
        return false;
    }
    return row->kind == KB_MODEL_MODEL
               ? gpu
               : row->kind == KB_MODEL_MEASURED && row->batch <= 1 && row->device &&
                     strcmp(row->device, gpu ? "cuda" : "cpu") == 0;
}

const unsigned choose_memory_bounds_gib[CHOOSE_MEMORY_BOUNDS] = {
    1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 24, 32, 40, 48, 64, 80, 128};

bool choose_strs_list(const struct kb_strs *list, const char *text)
{
    for (size_t i = 0; i < list->n; i++) {
        if (strcmp(list->items[i], text) == 0) {
            return true;
        }
    }
    return false;
}

/* The table's memory of an NVIDIA card by its PCI id, in GiB; 0: not known. */
static unsigned table_gib(struct arena *a, const struct kb_gpus *gpus, const struct host_gpu *g)
{
    const char *id = arena_printf(a, "%04x", (unsigned)g->device_id);
    for (size_t i = 0; g->bdf && i < gpus->n; i++) {
        const struct kb_gpu *row = &gpus->rows[i];
        if (row->vendor == KB_VENDOR_NVIDIA && row->memory_gib > 0 &&
            choose_strs_list(&row->pci, id)) {
            return (unsigned)row->memory_gib;
        }
    }
    return 0;
}

uint64_t choose_gpu_memory(struct arena *a, const struct kb_gpus *gpus, const struct host_gpu *g,
                           const char **ret_why)
{
    unsigned gib = g->vendor != HOST_NVIDIA ? 0
                   : g->model_memory_gib    ? g->model_memory_gib // also by the driver's name
                                            : table_gib(a, gpus, g);
    if (g->mig.n) {
        *ret_why = "it is divided (MIG), and no file says how much memory an instance has";
        return 0;
    }
    if (g->memory.state == HOST_YES) {
        uint64_t parts =
            g->partitions.state == HOST_YES && g->partitions.number > 1 ? g->partitions.number : 1;
        *ret_why = g->memory.where;
        return g->memory.number / parts;
    }
    *ret_why = gib ? arena_printf(a, "sold with %u GB; 1/16 left for error correction", gib)
                   : "no file states it, and the table of cards does not have it";
    return ((uint64_t)gib << 30) / 16 * 15;
}

struct rest { // what a run took beyond the weights
    uint64_t bytes;
    unsigned size; // bytes that it computed in
    const char *row;
};

static void keep_largest(struct rest *r, uint64_t bytes, unsigned size, const char *row)
{
    if (!r->row || bytes > r->bytes) {
        *r = (struct rest){bytes, size, row};
    }
}

static struct choose_memory from_rest(const struct rest *r, const struct kb_model *model,
                                      enum choose_device_kind device, enum choose_compute compute)
{
    unsigned factor = computes[compute].rest > r->size ? computes[compute].rest / r->size : 1;
    return (struct choose_memory){CHOOSE_MEMORY_ESTIMATED,
                                  weights(model, device, compute) + r->bytes * factor, r->row};
}

/* What a larger model of the same kind takes beyond its weights, a smaller one takes at most: of
 * several the nearest counts. */
static void keep_nearest(struct rest *r, const struct kb_model **nearest, const struct kb_model *of,
                         uint64_t bytes, unsigned size, const char *row)
{
    if (*nearest && of->parameters_m > (*nearest)->parameters_m) {
        return;
    }
    if (!*nearest || of->parameters_m < (*nearest)->parameters_m) {
        *r = (struct rest){0};
    }
    *nearest = of;
    keep_largest(r, bytes, size, row);
}

struct choose_memory choose_model_memory(const struct kb_models *models,
                                         const struct kb_model *model, enum choose_app app,
                                         enum choose_device_kind device,
                                         enum choose_compute compute)
{
    struct choose_memory measured = {CHOOSE_MEMORY_UNKNOWN, 0, NULL};
    struct rest own = {0}, larger = {0}, any = {0};
    const struct kb_model *nearest = NULL;
    for (size_t i = 0; i < models->n; i++) {
        const struct kb_model *row = &models->rows[i];
        const struct kb_model *of =
            tells(row, apps[app].engine, device) ? choose_model_find(models, row->model) : NULL;
        enum choose_compute as;
        if (!of || !compute_of(row, device, &as)) {
            continue;
        }
        uint64_t bytes = (uint64_t)row->memory_mib * MIB;
        uint64_t rest = bytes > weights(of, device, as) ? bytes - weights(of, device, as) : 0;
        if (of == model && as == compute && bytes > measured.bytes) {
            bool run = row->kind == KB_MODEL_MEASURED;
            measured = (struct choose_memory){run ? CHOOSE_MEMORY_MEASURED : CHOOSE_MEMORY_STATED,
                                              bytes, row->id};
        }
        if (of == model) {
            keep_largest(&own, rest, computes[as].rest, row->id);
        }
        if (of->parameters_m > model->parameters_m && kb_model_is_plain_size(of->model) &&
            kb_model_is_plain_size(model->model)) {
            keep_nearest(&larger, &nearest, of, rest, computes[as].rest, row->id);
        }
        keep_largest(&any, rest, computes[as].rest, row->id);
    }
    if (measured.bytes) {
        return measured;
    }
    const struct rest *best = own.row ? &own : larger.row ? &larger : &any;
    return best->row ? from_rest(best, model, device, compute) : measured;
}

/* ------------------------------------------------------------------ compute types */

/* The row that says what compute types run as there, or NULL. The types that hardware executes
 * well do not depend on who asks: CTranslate2's table serves for the others too. */
static const struct kb_model *compute_row(const struct kb_models *models, struct arena *a,
                                          enum choose_device_kind device, const char *capability,
                                          const char *machine)
{
    const char *name = choose_device_name(device);
    for (size_t i = 0; i < models->n; i++) {
        const struct kb_model *m = &models->rows[i];
        if (m->kind != KB_MODEL_COMPUTE || !m->device || strcmp(m->device, name) != 0 ||
            m->n_runs < 1 || !m->applies || (device == CHOOSE_DEVICE_CUDA && m->n_runs < 2)) {
            continue;
        }
        bool fits = device == CHOOSE_DEVICE_CUDA
                        ? capability && model_version_fits(a, m->applies, capability)
                    : device == CHOOSE_DEVICE_CPU ? starts_with(m->applies, machine)
                                                  : true;
        if (fits) {
            return m;
        }
    }
    return NULL;
}

/* 32 bits run everywhere. int8 of a CPU is the row's int8_float32. */
static bool runs_well(const struct kb_model *row, enum choose_compute compute)
{
    const char *name = compute == CHOOSE_INT8 ? "int8_float32" : computes[compute].name;
    for (size_t i = 0; row && i < row->n_runs; i++) {
        if (strcmp(row->runs[i].asked, name) == 0) {
            return strcmp(row->runs[i].runs_as, name) == 0;
        }
    }
    return compute == CHOOSE_FLOAT32;
}

static bool is_enough(unsigned formats, enum choose_compute compute)
{
    static const unsigned needs[CHOOSE_COMPUTES] = {
        [CHOOSE_FLOAT16] = CHOOSE_FORMAT_FLOAT16,
        [CHOOSE_FLOAT32] = CHOOSE_FORMAT_FLOAT32,
        [CHOOSE_INT8_FLOAT16] = CHOOSE_FORMAT_INT8 | CHOOSE_FORMAT_FLOAT16,
        [CHOOSE_INT8_FLOAT32] = CHOOSE_FORMAT_INT8 | CHOOSE_FORMAT_FLOAT32,
        [CHOOSE_INT8] = CHOOSE_FORMAT_INT8 | CHOOSE_FORMAT_FLOAT32,
        [CHOOSE_BFLOAT16] = CHOOSE_FORMAT_BFLOAT16,
        [CHOOSE_INT8_BFLOAT16] = CHOOSE_FORMAT_INT8 | CHOOSE_FORMAT_BFLOAT16,
    };
    return (formats & needs[compute]) == needs[compute];
}

static bool is_of_eight_bits(enum choose_compute compute)
{
    return compute == CHOOSE_INT8 || compute == CHOOSE_INT8_FLOAT16 ||
           compute == CHOOSE_INT8_FLOAT32 || compute == CHOOSE_INT8_BFLOAT16;
}

/* Whether cuBLAS multiplies the 8 bits of CTranslate2 there: not on capability 12.0 before 4.7.0,
 * which pads the sizes that it refuses; 4.6.3 turned 8 bits off (its issue 1865, changes 1937 and
 * 1982). A release that is not known is taken for a newer one. */
static bool has_eight_bits(struct arena *a, const struct choose_computes_for *f,
                           enum choose_compute compute)
{
    return !is_of_eight_bits(compute) || f->device != CHOOSE_DEVICE_CUDA || !f->capability ||
           !f->version || !model_version_fits(a, "==12.0", f->capability) ||
           !model_version_fits(a, "<4.7", f->version);
}

/* Whether the type that was asked for may be taken there. int8 of a GPU is the better of two, and
 * other applications than CTranslate2 have no 8-bit types. */
static bool given_runs(const struct choose_computes_for *f, const struct kb_model *row)
{
    bool ct2 = f->app == CHOOSE_APP_CTRANSLATE2;
    bool unknown = f->device == CHOOSE_DEVICE_CUDA && !f->capability;
    return (ct2 || !is_of_eight_bits(f->compute)) && (unknown || runs_well(row, f->compute)) &&
           is_enough(f->formats, f->compute);
}

/* What each application can be asked for. CTranslate2's own advice for the CPU is int8
 * (docs/performance.md); torch and ONNX Runtime compute in the type of the model that they are
 * given, on the CPU usually 32 bits. Of a CUDA device of unknown capability: CTranslate2
 * takes int8_float32 from 6.1 on, and 16 bits from 7.0 on alone (docs/quantization.md); torch has
 * half precision on every one (openai/whisper takes it on all). */
size_t choose_computes(const struct kb_models *models, struct arena *a,
                       const struct choose_computes_for *f,
                       enum choose_compute ret[CHOOSE_COMPUTES])
{
    static const enum choose_compute ct2_gpu[] = {CHOOSE_FLOAT16, CHOOSE_FLOAT32,
                                                  CHOOSE_INT8_FLOAT16, CHOOSE_INT8_FLOAT32},
                                     gpu[] = {CHOOSE_FLOAT16, CHOOSE_FLOAT32},
                                     ct2_cpu[] = {CHOOSE_INT8, CHOOSE_FLOAT32},
                                     cpu[] = {CHOOSE_FLOAT32};
    bool ct2 = f->app == CHOOSE_APP_CTRANSLATE2, is_cpu = f->device == CHOOSE_DEVICE_CPU;
    const enum choose_compute *list = is_cpu ? (ct2 ? ct2_cpu : cpu) : (ct2 ? ct2_gpu : gpu);
    size_t n_list = is_cpu ? (ct2 ? 2 : 1) : (ct2 ? 4 : 2), n = 0;
    const char *kind = f->machine && strcmp(f->machine, "aarch64") == 0 ? "aarch64" : "x86-64";
    const struct kb_model *row = compute_row(models, a, f->device, f->capability, kind);
    if (f->given) {
        ret[0] = f->compute;
        return given_runs(f, row) && has_eight_bits(a, f, f->compute) ? 1 : 0;
    }
    bool half = row && runs_well(row, CHOOSE_FLOAT16) && is_enough(f->formats, CHOOSE_FLOAT16);
    bool any_cuda = f->device == CHOOSE_DEVICE_CUDA && !f->capability;
    for (size_t i = 0; i < n_list; i++) {
        if (any_cuda && list[i] == (ct2 ? CHOOSE_INT8_FLOAT32 : CHOOSE_FLOAT16) &&
            is_enough(f->formats, list[i])) {
            ret[n++] = list[i];
            continue;
        }
        // Where 16 bits run well, 32 would only take more memory.
        if (runs_well(row, list[i]) && is_enough(f->formats, list[i]) &&
            has_eight_bits(a, f, list[i]) && !(half && list[i] == CHOOSE_FLOAT32)) {
            ret[n++] = list[i];
        }
    }
    return n;
}

enum choose_compute choose_runs_as(const struct kb_models *models, struct arena *a,
                                   const struct choose_computes_for *f, enum choose_compute compute)
{
    if (compute != CHOOSE_INT8 || f->device == CHOOSE_DEVICE_CPU) {
        return compute;
    }
    const struct kb_model *row = compute_row(models, a, f->device, f->capability, "x86-64");
    return row && runs_well(row, CHOOSE_INT8_FLOAT16) ? CHOOSE_INT8_FLOAT16 : CHOOSE_INT8_FLOAT32;
}
