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

static int finish(void **state)
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
    {.what = "no GPU",
     .cores = 8,
     .gib = 32,
     .model = "large-v3",
     .device = "cpu",
     .index = -1,
     .compute = "int8",
     .threads = 8,
     .fits = HOST_YES,
     .cause = "no-gpu"},
    {.what = "no GPU, and one required",
     .cores = 8,
     .gib = 32,
     .model = "large-v3",
     .require_gpu = true,
     .index = -1,
     .fits = HOST_NO,
     .cause = "no-gpu"},
    {.what = "a card that fits",
     .cards = {RTX4090},
     .cores = 8,
     .gib = 32,
     .model = "large-v3",
     .device = "cuda",
     .index = 0,
     .compute = "float16",
     .threads = 4,
     .fits = HOST_YES},
    {.what = "two cores",
     .cards = {RTX4090},
     .cores = 2,
     .gib = 32,
     .model = "large-v3",
     .device = "cuda",
     .index = 0,
     .compute = "float16",
     .threads = 2,
     .fits = HOST_YES},
    {.what = "float16 is slow on 6.1",
     .cards = {GTX1080},
     .cores = 8,
     .gib = 32,
     .model = "base",
     .device = "cuda",
     .index = 0,
     .compute = "float32",
     .threads = 4,
     .fits = HOST_YES},
    {.what = "32 bits do not fit on 6.1",
     .cards = {GTX1080},
     .cores = 8,
     .gib = 32,
     .model = "large-v2",
     .device = "cuda",
     .index = 0,
     .compute = "int8_float32",
     .threads = 4,
     .fits = HOST_YES},
    {.what = "torch has no 8 bits",
     .cards = {GTX1080},
     .cores = 8,
     .gib = 32,
     .app = CHOOSE_APP_TORCH,
     .model = "large-v2",
     .device = "cpu",
     .index = -1,
     .compute = "float32",
     .threads = 8,
     .fits = HOST_YES,
     .cause = "too-small"},
    {.what = "a card that is not in the table",
     .cards = {UNTOLD},
     .cores = 8,
     .gib = 32,
     .model = "turbo",
     .device = "cuda",
     .index = 0,
     .compute = "int8_float16",
     .threads = 4,
     .fits = HOST_UNKNOWN},
    {.what = "one that fits before one that may",
     .cards = {UNTOLD, RTX3060},
     .cores = 8,
     .gib = 32,
     .model = "turbo",
     .env = {"CUDA_DEVICE_ORDER=PCI_BUS_ID"},
     .device = "cuda",
     .index = 1,
     .compute = "float16",
     .threads = 4,
     .fits = HOST_YES},
    {.what = "the one with more memory",
     .cards = {RTX3060, RTX4090},
     .cores = 8,
     .gib = 32,
     .model = "turbo",
     .device = "cuda",
     .index = 1,
     .compute = "float16",
     .threads = 4,
     .fits = HOST_YES},
    {.what = "the only one that is large enough",
     .cards = {RTX3060, RTX4090},
     .cores = 8,
     .gib = 32,
     .memory_gib = 20,
     .device = "cuda",
     .index = 1,
     .compute = "float16",
     .threads = 4,
     .fits = HOST_YES},
    {.what = "too large for the GPU",
     .cards = {RTX4090},
     .cores = 8,
     .gib = 32,
     .memory_gib = 23,
     .device = "cpu",
     .index = -1,
     .compute = "int8",
     .threads = 8,
     .fits = HOST_YES,
     .cause = "too-small"},
    {.what = "too large for both",
     .cards = {RTX4090},
     .cores = 8,
     .gib = 16,
     .memory_gib = 23,
     .index = -1,
     .fits = HOST_NO,
     .cause = "too-small"},
    {.what = "a lost driver",
     .cards = {LOST},
     .cores = 8,
     .gib = 32,
     .model = "turbo",
     .device = "cpu",
     .index = -1,
     .compute = "int8",
     .threads = 8,
     .fits = HOST_YES,
     .cause = "no-driver"},
    {.what = "a lost one is not counted",
     .cards = {LOST, RTX3060},
     .cores = 8,
     .gib = 32,
     .model = "turbo",
     .device = "cuda",
     .index = 0,
     .compute = "float16",
     .threads = 4,
     .fits = HOST_YES},
    {.what = "hidden",
     .cards = {RTX4090},
     .cores = 8,
     .gib = 32,
     .model = "turbo",
     .env = {"CUDA_VISIBLE_DEVICES=-1"},
     .device = "cpu",
     .index = -1,
     .compute = "int8",
     .threads = 8,
     .fits = HOST_YES,
     .cause = "hidden"},
    {.what = "by the beginning of a UUID",
     .cards = {GTX1080, RTX4090},
     .cores = 8,
     .gib = 32,
     .model = "turbo",
     .env = {"CUDA_VISIBLE_DEVICES=GPU-cc"},
     .device = "cuda",
     .index = 0,
     .compute = "float16",
     .threads = 4,
     .fits = HOST_YES},
    {.what = "by an index in an order that is not known",
     .cards = {GTX1080, RTX4090},
     .cores = 8,
     .gib = 32,
     .model = "large",
     .env = {"CUDA_VISIBLE_DEVICES=1"},
     .device = "cuda",
     .index = 0,
     .compute = "int8_float32",
     .threads = 4,
     .fits = HOST_YES},
    {.what = "ROCm",
     .cards = {RX7900},
     .cores = 8,
     .gib = 32,
     .app = CHOOSE_APP_TORCH,
     .model = "large-v3",
     .device = "rocm",
     .index = 0,
     .compute = "float16",
     .threads = 4,
     .fits = HOST_YES},
    {.what = "no wheel for ROCm",
     .cards = {RX7900},
     .cores = 8,
     .gib = 32,
     .model = "large-v3",
     .device = "cpu",
     .index = -1,
     .compute = "int8",
     .threads = 8,
     .fits = HOST_YES,
     .cause = "other-build"},
    {.what = "a target without kernels",
     .cards = {RX5700},
     .cores = 8,
     .gib = 32,
     .app = CHOOSE_APP_TORCH,
     .model = "tiny",
     .device = "cpu",
     .index = -1,
     .compute = "float32",
     .threads = 8,
     .fits = HOST_YES,
     .cause = "gfx-not-covered"},
    {.what = "an override that is safe",
     .cards = {RX6700},
     .cores = 8,
     .gib = 32,
     .app = CHOOSE_APP_TORCH,
     .model = "tiny",
     .device = "rocm",
     .index = 0,
     .compute = "float16",
     .threads = 4,
     .fits = HOST_YES},
    {.what = "the second of two",
     .cards = {RX6700, RX7900},
     .cores = 8,
     .gib = 32,
     .app = CHOOSE_APP_TORCH,
     .model = "tiny",
     .env = {"HIP_VISIBLE_DEVICES=1"},
     .device = "rocm",
     .index = 0,
     .compute = "float16",
     .threads = 4,
     .fits = HOST_YES},
    {.what = "no measurement of ONNX Runtime",
     .cards = {RTX4090},
     .cores = 8,
     .gib = 32,
     .app = CHOOSE_APP_ONNXRUNTIME,
     .model = "turbo",
     .device = "cuda",
     .index = 0,
     .compute = "float16",
     .threads = 4,
     .fits = HOST_UNKNOWN},
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
    return cmocka_run_group_tests(tests, start, finish);
}
