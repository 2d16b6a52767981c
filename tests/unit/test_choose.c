/* What is chosen on machines that are described here: choose/choose.h, choose/need.h,
 * choose/visible.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "choose/choose.h"

#define GIB ((uint64_t)1 << 30)

static struct arena arena;
static struct root root;
static struct kb kb;
static struct kb_models models;

static int start(void **state)
{
    (void)state;
    struct gm_err err;
    arena_init(&arena, 0, NULL, NULL);
    return root_open(&root, "/", &err) < 0 || kb_open(&kb, &arena, &root, NULL, &err) < 0 ||
           kb_models(&kb, &models, &err) < 0;
}

static int stop(void **state)
{
    (void)state;
    root_close(&root);
    arena_release(&arena);
    return 0;
}

/* A GPU in one line: 'n' NVIDIA by PCI id and capability, 'a' AMD by target and memory. */
struct card {
    char vendor;
    const char *name;
    uint32_t id;
    const char *nature;  // capability or gfx target
    unsigned gib;        // AMD: what the driver says
    const char *problem; // stands in the way, or NULL
    const char *uuid;
};

static struct host_fact yes(const char *value, uint64_t number)
{
    return (struct host_fact){.state = HOST_YES, .value = value, .number = number, .where = "test"};
}

static struct host_gpu gpu_of(const struct card *c)
{
    struct host_gpu g = {.vendor = c->vendor == 'n' ? HOST_NVIDIA : HOST_AMD,
                         .kind = "pci",
                         .bdf = "0000:01:00.0",
                         .device_id = c->id,
                         .name = c->name};
    if (c->vendor == 'n') {
        g.compute_capability = yes(c->nature, 0);
    } else {
        g.gfx = yes(c->nature, 0);
        g.memory = yes(NULL, c->gib * GIB);
    }
    if (c->uuid) {
        g.uuid = yes(c->uuid, 0);
    }
    if (c->problem) {
        VEC_PUSH(&arena, &g.problems,
                 (struct host_problem){.id = c->problem, .text = "no", .state = HOST_NO});
    }
    return g;
}

static struct host host_of(const struct card *cards, unsigned cores, unsigned gib)
{
    struct host h = {.pci = yes(NULL, 0)};
    for (; cards->vendor; cards++) {
        struct host_gpu g = gpu_of(cards);
        VEC_PUSH(&arena, &h.gpus, g);
    }
    h.cpu.cores = yes(NULL, cores);
    h.cpu.isa = yes("x86-64-v3", 3);
    h.cpu.memory_total = yes(NULL, gib * GIB);
    h.cpu.memory_limit = (struct host_fact){.state = HOST_NO, .why = "test"};
    return h;
}

#define GTX1080                                                                                    \
    {                                                                                              \
        'n', "GTX 1080", 0x1b80, "6.1", 0, NULL, "GPU-aa11"                                        \
    }
#define RTX3060                                                                                    \
    {                                                                                              \
        'n', "RTX 3060", 0x2503, "8.6", 0, NULL, "GPU-bb22"                                        \
    }
#define RTX4090                                                                                    \
    {                                                                                              \
        'n', "RTX 4090", 0x2684, "8.9", 0, NULL, "GPU-cc33"                                        \
    }
#define UNTOLD                                                                                     \
    {                                                                                              \
        'n', "a new card", 0xffff, "12.0", 0, NULL, NULL                                           \
    }
#define LOST                                                                                       \
    {                                                                                              \
        'n', "RTX 4090", 0x2684, "8.9", 0, "no-driver", NULL                                       \
    }
#define RX7900                                                                                     \
    {                                                                                              \
        'a', "RX 7900 XTX", 0x744c, "gfx1100", 24, NULL, NULL                                      \
    }
#define RX6700                                                                                     \
    {                                                                                              \
        'a', "RX 6700 XT", 0x73df, "gfx1031", 12, NULL, NULL                                       \
    }
#define RX5700                                                                                     \
    {                                                                                              \
        'a', "RX 5700 XT", 0x731f, "gfx1010", 8, NULL, NULL                                        \
    }

static const struct {
    const char *what;
    struct card cards[4]; // the last has no vendor
    unsigned cores, gib;
    enum choose_app app;
    const char *model;
    double memory_gib;
    bool require_gpu;
    const char *env[3];
    const char *device; // NULL: nothing works
    long index;
    const char *compute;
    unsigned threads;
    enum host_state fits;
    const char *cause;
} cases[] = {
    {"no GPU",
     {{0}},
     8,
     32,
     CHOOSE_APP_CTRANSLATE2,
     "large-v3",
     0,
     false,
     {0},
     "cpu",
     -1,
     "int8",
     8,
     HOST_YES,
     "no-gpu"},
    {"no GPU, and one required",
     {{0}},
     8,
     32,
     CHOOSE_APP_CTRANSLATE2,
     "large-v3",
     0,
     true,
     {0},
     NULL,
     -1,
     NULL,
     0,
     HOST_NO,
     "no-gpu"},
    {"a card that fits",
     {RTX4090},
     8,
     32,
     CHOOSE_APP_CTRANSLATE2,
     "large-v3",
     0,
     false,
     {0},
     "cuda",
     0,
     "float16",
     4,
     HOST_YES,
     NULL},
    {"two cores",
     {RTX4090},
     2,
     32,
     CHOOSE_APP_CTRANSLATE2,
     "large-v3",
     0,
     false,
     {0},
     "cuda",
     0,
     "float16",
     2,
     HOST_YES,
     NULL},
    {"float16 is slow on 6.1",
     {GTX1080},
     8,
     32,
     CHOOSE_APP_CTRANSLATE2,
     "base",
     0,
     false,
     {0},
     "cuda",
     0,
     "float32",
     4,
     HOST_YES,
     NULL},
    {"32 bits do not fit on 6.1",
     {GTX1080},
     8,
     32,
     CHOOSE_APP_CTRANSLATE2,
     "large-v2",
     0,
     false,
     {0},
     "cuda",
     0,
     "int8_float32",
     4,
     HOST_YES,
     NULL},
    {"torch has no 8 bits",
     {GTX1080},
     8,
     32,
     CHOOSE_APP_TORCH,
     "large-v2",
     0,
     false,
     {0},
     "cpu",
     -1,
     "float32",
     8,
     HOST_YES,
     "too-small"},
    {"a card that is not in the table",
     {UNTOLD},
     8,
     32,
     CHOOSE_APP_CTRANSLATE2,
     "turbo",
     0,
     false,
     {0},
     "cuda",
     0,
     "int8_float16",
     4,
     HOST_UNKNOWN,
     NULL},
    {"one that fits before one that may",
     {UNTOLD, RTX3060},
     8,
     32,
     CHOOSE_APP_CTRANSLATE2,
     "turbo",
     0,
     false,
     {"CUDA_DEVICE_ORDER=PCI_BUS_ID"},
     "cuda",
     1,
     "float16",
     4,
     HOST_YES,
     NULL},
    {"the one with more memory",
     {RTX3060, RTX4090},
     8,
     32,
     CHOOSE_APP_CTRANSLATE2,
     "turbo",
     0,
     false,
     {0},
     "cuda",
     1,
     "float16",
     4,
     HOST_YES,
     NULL},
    {"the only one that is large enough",
     {RTX3060, RTX4090},
     8,
     32,
     CHOOSE_APP_CTRANSLATE2,
     NULL,
     20,
     false,
     {0},
     "cuda",
     1,
     "float16",
     4,
     HOST_YES,
     NULL},
    {"too large for the GPU",
     {RTX4090},
     8,
     32,
     CHOOSE_APP_CTRANSLATE2,
     NULL,
     23,
     false,
     {0},
     "cpu",
     -1,
     "int8",
     8,
     HOST_YES,
     "too-small"},
    {"too large for both",
     {RTX4090},
     8,
     16,
     CHOOSE_APP_CTRANSLATE2,
     NULL,
     23,
     false,
     {0},
     NULL,
     -1,
     NULL,
     0,
     HOST_NO,
     "too-small"},
    {"a lost driver",
     {LOST},
     8,
     32,
     CHOOSE_APP_CTRANSLATE2,
     "turbo",
     0,
     false,
     {0},
     "cpu",
     -1,
     "int8",
     8,
     HOST_YES,
     "no-driver"},
    {"a lost one is not counted",
     {LOST, RTX3060},
     8,
     32,
     CHOOSE_APP_CTRANSLATE2,
     "turbo",
     0,
     false,
     {0},
     "cuda",
     0,
     "float16",
     4,
     HOST_YES,
     NULL},
    {"hidden",
     {RTX4090},
     8,
     32,
     CHOOSE_APP_CTRANSLATE2,
     "turbo",
     0,
     false,
     {"CUDA_VISIBLE_DEVICES=-1"},
     "cpu",
     -1,
     "int8",
     8,
     HOST_YES,
     "hidden"},
    {"by the beginning of a UUID",
     {GTX1080, RTX4090},
     8,
     32,
     CHOOSE_APP_CTRANSLATE2,
     "turbo",
     0,
     false,
     {"CUDA_VISIBLE_DEVICES=GPU-cc"},
     "cuda",
     0,
     "float16",
     4,
     HOST_YES,
     NULL},
    {"by an index in an order that is not known",
     {GTX1080, RTX4090},
     8,
     32,
     CHOOSE_APP_CTRANSLATE2,
     "large",
     0,
     false,
     {"CUDA_VISIBLE_DEVICES=1"},
     "cuda",
     0,
     "int8_float32",
     4,
     HOST_YES,
     NULL},
    {"ROCm",
     {RX7900},
     8,
     32,
     CHOOSE_APP_TORCH,
     "large-v3",
     0,
     false,
     {0},
     "rocm",
     0,
     "float16",
     4,
     HOST_YES,
     NULL},
    {"no wheel for ROCm",
     {RX7900},
     8,
     32,
     CHOOSE_APP_CTRANSLATE2,
     "large-v3",
     0,
     false,
     {0},
     "cpu",
     -1,
     "int8",
     8,
     HOST_YES,
     "other-build"},
    {"a target without kernels",
     {RX5700},
     8,
     32,
     CHOOSE_APP_TORCH,
     "tiny",
     0,
     false,
     {0},
     "cpu",
     -1,
     "float32",
     8,
     HOST_YES,
     "gfx-not-covered"},
    {"an override that is safe",
     {RX6700},
     8,
     32,
     CHOOSE_APP_TORCH,
     "tiny",
     0,
     false,
     {0},
     "rocm",
     0,
     "float16",
     4,
     HOST_YES,
     NULL},
    {"the second of two",
     {RX6700, RX7900},
     8,
     32,
     CHOOSE_APP_TORCH,
     "tiny",
     0,
     false,
     {"HIP_VISIBLE_DEVICES=1"},
     "rocm",
     0,
     "float16",
     4,
     HOST_YES,
     NULL},
    {"no measurement of ONNX Runtime",
     {RTX4090},
     8,
     32,
     CHOOSE_APP_ONNXRUNTIME,
     "turbo",
     0,
     false,
     {0},
     "cuda",
     0,
     "float16",
     4,
     HOST_UNKNOWN,
     NULL},
};

static const char *differs(size_t i, const struct choose_result *c)
{
    const struct choose_candidate *x = c->chosen;
    const char *device = x ? choose_device_name(x->device) : NULL;
    if (!device || !cases[i].device) {
        return device != cases[i].device ? "device" : NULL;
    }
    return strcmp(device, cases[i].device) != 0                             ? "device"
           : x->index != cases[i].index                                     ? "index"
           : strcmp(choose_compute_name(x->compute), cases[i].compute) != 0 ? "compute type"
           : c->threads != cases[i].threads                                 ? "threads"
           : x->fits != cases[i].fits                                       ? "fits"
                                                                            : NULL;
}

static void choices(void **state)
{
    (void)state;
    struct diag_report report = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct host host = host_of(cases[i].cards, cases[i].cores, cases[i].gib);
        struct model m = {.arena = &arena, .kb = &kb, .root = &root, .host = &host};
        struct choose_options o = {
            .app_given = true,
            .app = cases[i].app,
            .model = cases[i].model,
            .memory_bytes = (uint64_t)(cases[i].memory_gib * (double)GIB),
            .require_gpu = cases[i].require_gpu,
            .variables = {.env = cases[i].env},
        };
        while (cases[i].env[o.variables.n_env]) {
            o.variables.n_env++;
        }
        struct choose_result choice;
        struct gm_err err;
        assert_int_equal(choose_best(&m, &report, &o, &choice, &err), 0);
        const char *what = differs(i, &choice);
        if (what) {
            fail_msg("%s: another %s: %s", cases[i].what, what, choice.reason);
        }
        const char *cause = choice.cause ? choice.cause : "";
        assert_string_equal(cause, cases[i].cause ? cases[i].cause : "");
        assert_int_equal(choice.fallback, choice.chosen && !choice.chosen->gpu);
    }
}

/* Names that one size goes by, and names that nothing goes by. */
static void names(void **state)
{
    (void)state;
    static const char *const known[][2] = {
        {"whisper:large-v3", "large"},
        {"large-v1", "large"},
        {"large", "large"},
        {"turbo", "large-v3-turbo"},
        {"small.en", "small"},
        {"whisper:distil-small.en", "distil-small.en"},
        {"whisper-medium.en", "medium"},
        {"large-v3-turbo", "large-v3-turbo"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const struct kb_model *m = choose_model_find(&models, known[i][0]);
        assert_non_null(m);
        assert_string_equal(m->model, known[i][1]);
    }
    assert_null(choose_model_find(&models, "huge"));
    assert_null(choose_model_find(&models, ""));
    assert_null(choose_model_find(&models, "whisper:"));
    assert_null(choose_model_find(&models, "turbo.en"));
}

/* Fewer bits never take more, a measurement is at least its weights, and what the rows say of one
 * run is what is answered for it. */
static void memory(void **state)
{
    (void)state;
    static const enum choose_compute order[] = {CHOOSE_FLOAT32, CHOOSE_FLOAT16,
                                                CHOOSE_INT8_FLOAT16};
    for (size_t i = 0; i < models.n; i++) {
        const struct kb_model *m = &models.rows[i];
        uint64_t before = UINT64_MAX;
        for (size_t k = 0; m->kind == KB_MODEL_MODEL && k < 3; k++) {
            struct choose_memory need = choose_model_memory(&models, m, CHOOSE_APP_CTRANSLATE2,
                                                            CHOOSE_DEVICE_CUDA, order[k]);
            assert_true(need.bytes > (uint64_t)m->parameters_m * 1000000 && need.bytes < before);
            before = need.bytes;
        }
    }
    const struct kb_model *small = choose_model_find(&models, "small");
    struct choose_memory need =
        choose_model_memory(&models, small, CHOOSE_APP_CTRANSLATE2, CHOOSE_DEVICE_CPU, CHOOSE_INT8);
    assert_int_equal(need.how, CHOOSE_MEMORY_MEASURED);
    assert_int_equal(need.bytes, (uint64_t)1477 << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(choices), cmocka_unit_test(names),
                                       cmocka_unit_test(memory)};
    return cmocka_run_group_tests(tests, start, stop);
}
