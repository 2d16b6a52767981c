/* What a probe says to the other commands: devices for choose and run, a sentence, which finding
 * explains a stage. The runs are made up; nothing is started. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "choose/device.h"
#include "probe/choice.h"
#include "probe/join.h"
#include "probe/meaning.h"

struct made {
    struct arena a;
    struct probe_report r;
};

static void begin(struct made *m)
{
    *m = (struct made){0};
    arena_init(&m->a, 0, NULL, NULL);
}

static struct probe_run *add(struct made *m, const char *stage, int device,
                             enum probe_outcome outcome, const char *says)
{
    const struct probe_stage *s = probe_stage_find(stage);
    assert_non_null(s);
    VEC_PUSH(&m->a, &m->r.runs,
             (struct probe_run){.stage = s, .device = device, .outcome = outcome, .says = says});
    return &m->r.runs.items[m->r.runs.n - 1];
}

static void fact(struct made *m, struct probe_run *run, const char *key, const char *value)
{
    VEC_PUSH(&m->a, &run->facts, (struct probe_fact){key, value});
}

/* ------------------------------------------------------------------ devices */

static const struct choose_ran *find(const struct probe_choice *c, enum choose_device_kind kind,
                                     long index)
{
    for (size_t i = 0; i < c->items.n; i++) {
        if (c->items.items[i].device == kind && c->items.items[i].index == index) {
            return &c->items.items[i];
        }
    }
    return NULL;
}

/* One product that is wrong takes its format away, in whichever library, and no more. */
static void products_are_formats(void **state)
{
    struct made m;
    struct probe_choice c;
    (void)state;
    begin(&m);
    fact(&m, add(&m, "visible-devices", -1, PROBE_PASSED, "2"), "device.1.pci", "0000:65:00.0");
    fact(&m, add(&m, "device-count", -1, PROBE_PASSED, "2"), "device.1.pci", "0000:01:00.0");
    add(&m, "kernel", 0, PROBE_FAIL, "wrong");
    fact(&m, add(&m, "memory-free", 1, PROBE_PASSED, "free"), "memory.free.mib", "1024");
    add(&m, "cublas-float32", 1, PROBE_PASSED, "right");
    add(&m, "cublas-float16", 1, PROBE_PASSED, "right");
    add(&m, "cublaslt-float16", 1, PROBE_FAIL, "wrong");
    add(&m, "cublas-int8", 1, PROBE_NOT_RUN, "nothing to run");
    add(&m, "cublas-bfloat16", 1, PROBE_CRASHED, "signal");
    probe_choice(&m.a, &m.r, &c);
    const struct choose_ran *bad = find(&c, CHOOSE_DEVICE_CUDA, 0),
                            *good = find(&c, CHOOSE_DEVICE_CUDA, 1);
    assert_true(bad && !bad->passed && strcmp(bad->why, "wrong") == 0);
    assert_true(good && good->passed);
    assert_int_equal(good->formats, CHOOSE_FORMAT_FLOAT32);
    assert_int_equal(good->free_bytes, 1024u << 20);
    assert_string_equal(good->bdf, "0000:65:00.0"); // as programs count, not as all are counted
    assert_non_null(find(&c, CHOOSE_DEVICE_ROCM, -1));
    arena_release(&m.a);
}

static void runtime_that_counts_none(void **state)
{
    struct made m;
    struct probe_choice c;
    (void)state;
    begin(&m);
    add(&m, "kfd", -1, PROBE_FAIL, "closed");
    add(&m, "hsa", -1, PROBE_NOT_RUN, "because of kfd")->because = "kfd";
    probe_choice(&m.a, &m.r, &c);
    const struct choose_ran *none = find(&c, CHOOSE_DEVICE_ROCM, -1);
    assert_true(none && !none->passed && strcmp(none->why, "closed") == 0);
    arena_release(&m.a);
}

/* ------------------------------------------------------------------ variables of a start */

static const struct choose_ran two[] = {{.device = CHOOSE_DEVICE_CUDA, .index = 0},
                                        {.device = CHOOSE_DEVICE_CUDA, .index = 1, .passed = true}};
static const struct choose_ran none[] = {
    {.device = CHOOSE_DEVICE_CUDA, .index = 0},
    {.device = CHOOSE_DEVICE_ROCM, .index = -1, .passed = true}};
static const struct choose_ran all[] = {{.device = CHOOSE_DEVICE_CUDA, .index = 0, .passed = true}};

/* What was run, the variable at the start and in the launch, keep_env; the variable after it. */
static const struct {
    const char *name;
    const struct choose_ran *ran;
    size_t n;
    const char *start, *launch;
    bool keep, shown;
    const char *after;
} shows[] = {
    {"nothing set", two, 2, NULL, NULL, false, true, "1"},
    {"a list", two, 2, "CUDA_VISIBLE_DEVICES=3, GPU-12 ,5", NULL, false, true, "GPU-12"},
    {"the launch's list counts", two, 2, "CUDA_VISIBLE_DEVICES=9", "4,7", false, true, "7"},
    {"none passed", none, 2, NULL, "0", false, true, "-1"},
    {"all passed", all, 1, "CUDA_VISIBLE_DEVICES=2", NULL, false, true, NULL},
    {"kept", two, 2, "CUDA_VISIBLE_DEVICES=0,1", NULL, true, false, NULL},
    {"kept, and nothing is set", two, 2, NULL, NULL, true, true, "1"},
    {"kept, and all passed", all, 1, "CUDA_VISIBLE_DEVICES=0", NULL, true, true, NULL},
};

static void show_passed(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof shows / sizeof *shows; i++) {
        struct arena a;
        struct launch launch = {0};
        arena_init(&a, 0, NULL, NULL);
        const char *const env[] = {shows[i].start};
        const struct model_target_options start = {.env = env, .n_env = shows[i].start != NULL};
        const struct choose_device_question q = {.start = &start, .keep_env = shows[i].keep};
        if (shows[i].launch) {
            VEC_PUSH(&a, &launch.changes,
                     (struct launch_change){"CUDA_VISIBLE_DEVICES", shows[i].launch});
        }
        bool shown = choose_device_show_passed(&a, &q, shows[i].ran, shows[i].n, &launch);
        size_t n = launch.changes.n;
        const char *after = n ? launch.changes.items[0].value : NULL;
        bool same =
            after && shows[i].after ? strcmp(after, shows[i].after) == 0 : after == shows[i].after;
        if (shown != shows[i].shown || !same || n > 1) {
            fail_msg("%s: %d, %s, %zu changes", shows[i].name, shown, after ? after : "none", n);
        }
        arena_release(&a);
    }
}

static const char *value_of(const struct launch *launch, const char *name)
{
    for (size_t i = 0; i < launch->changes.n; i++) {
        if (strcmp(launch->changes.items[i].name, name) == 0) {
            return launch->changes.items[i].value;
        }
    }
    return "unset";
}

/* HIP takes CUDA's variable where its own is not set: to count by, and to be hidden by. */
static void hip_and_cudas_variable(void **state)
{
    static const struct choose_ran rocm[] = {
        {.device = CHOOSE_DEVICE_ROCM, .index = 0},
        {.device = CHOOSE_DEVICE_ROCM, .index = 1, .passed = true}};
    static const struct choose_ran both[] = {
        {.device = CHOOSE_DEVICE_CUDA, .index = 0},
        {.device = CHOOSE_DEVICE_ROCM, .index = 0, .passed = true}};
    const char *const env[] = {"CUDA_VISIBLE_DEVICES=4,6"};
    const struct model_target_options set = {.env = env, .n_env = 1}, unset = {0};
    struct choose_device_question q = {.start = &set};
    struct launch launch = {0};
    struct arena a;
    (void)state;
    arena_init(&a, 0, NULL, NULL);
    assert_true(choose_device_show_passed(&a, &q, rocm, 2, &launch));
    assert_string_equal(value_of(&launch, "HIP_VISIBLE_DEVICES"), "6");
    assert_string_equal(value_of(&launch, "CUDA_VISIBLE_DEVICES"), "unset");
    launch = (struct launch){0};
    q.start = &unset;
    assert_true(choose_device_show_passed(&a, &q, both, 2, &launch));
    assert_string_equal(value_of(&launch, "CUDA_VISIBLE_DEVICES"), "-1");
    assert_string_equal(value_of(&launch, "HIP_VISIBLE_DEVICES"), "0");
    arena_release(&a);
}

/* ------------------------------------------------------------------ sentences and findings */

static void sentences(void **state)
{
    struct made m;
    (void)state;
    begin(&m);
    add(&m, "cpu", -1, PROBE_PASSED, "as promised");
    assert_string_equal(probe_sentence(&m.a, &m.r), "1 stage passed, none failed");
    m.r.verdict = PROBE_NO_DRIVER;
    assert_string_equal(probe_sentence(&m.a, &m.r), "cannot tell without a driver");
    add(&m, "memory", 2, PROBE_UNKNOWN, "there is no GPU 2");
    m.r.verdict = PROBE_CANNOT_TELL;
    assert_string_equal(probe_sentence(&m.a, &m.r),
                        "cannot tell: GPU 2: memory: there is no GPU 2");
    add(&m, "kernel", 0, PROBE_FAIL, "wrong");
    m.r.first_failure = &m.r.runs.items[2];
    m.r.verdict = PROBE_BROKEN;
    assert_string_equal(probe_sentence(&m.a, &m.r), "GPU 0: kernel: wrong");
    m.r = (struct probe_report){.verdict = PROBE_CANNOT_TELL, .stopped = true};
    assert_string_equal(probe_sentence(&m.a, &m.r), "the probe was stopped");
    arena_release(&m.a);
}

static const struct {
    const char *stage;
    enum probe_outcome outcome;
    bool no_library;
    enum diag_severity severity;
    enum diag_stage when;
    const char *culprit;
    bool explains;
} explanations[] = {
    {"cudnn", PROBE_FAIL, false, DIAG_ERROR, DIAG_STAGE_USE, "/v/lib/libcudnn_ops.so.9", true},
    {"cudnn", PROBE_PASSED, false, DIAG_ERROR, DIAG_STAGE_USE, "libcudnn_ops.so.9", false},
    {"cudnn", PROBE_FAIL, false, DIAG_WARNING, DIAG_STAGE_USE, "libcudnn.so.9", false},
    {"cudnn", PROBE_FAIL, false, DIAG_ERROR, DIAG_STAGE_USE, "libcublas.so.12", false},
    {"cublas-int8", PROBE_NOT_RUN, true, DIAG_ERROR, DIAG_STAGE_USE, "libcublas.so.12", true},
    {"cublas-int8", PROBE_NOT_RUN, false, DIAG_ERROR, DIAG_STAGE_USE, "libcublas.so.12", false},
    {"driver-init", PROBE_FAIL, false, DIAG_ERROR, DIAG_STAGE_MACHINE, "/dev/nvidiactl", true},
    {"driver-init", PROBE_FAIL, false, DIAG_ERROR, DIAG_STAGE_USE, "/dev/nvidiactl", false},
    {"driver-init", PROBE_CRASHED, false, DIAG_ERROR, DIAG_STAGE_MACHINE, NULL, true},
    {"cpu", PROBE_FAIL, false, DIAG_ERROR, DIAG_STAGE_MACHINE, "/dev/nvidiactl", false},
};

static void findings_explain(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof explanations / sizeof *explanations; i++) {
        struct made m;
        begin(&m);
        struct probe_run *run = add(&m, explanations[i].stage, -1, explanations[i].outcome, "says");
        run->no_library = explanations[i].no_library;
        struct diag_finding f = {.severity = explanations[i].severity,
                                 .stage = explanations[i].when,
                                 .culprit = explanations[i].culprit};
        struct diag_report findings = {0};
        VEC_PUSH(&m.a, &findings.findings, &f);
        if ((probe_explained_by(&m.r, run, &findings) == &f) != explanations[i].explains) {
            fail_msg("row %zu: %s and %s", i, explanations[i].stage,
                     explanations[i].culprit ? explanations[i].culprit : "nothing");
        }
        arena_release(&m.a);
    }
}

/* What is wrong with the machine says nothing where both vendors were tried. */
static void two_vendors(void **state)
{
    struct made m;
    (void)state;
    begin(&m);
    add(&m, "kfd", -1, PROBE_FAIL, "closed");
    struct probe_run *run = add(&m, "driver-init", -1, PROBE_FAIL, "999");
    struct diag_finding f = {.severity = DIAG_ERROR, .stage = DIAG_STAGE_MACHINE};
    struct diag_report findings = {0};
    VEC_PUSH(&m.a, &findings.findings, &f);
    assert_null(probe_explained_by(&m.r, run, &findings));
    arena_release(&m.a);
}

/* ------------------------------------------------------------------ the driver's versions */

static void versions_that_differ(void **state)
{
    struct made m;
    struct probe_driver d = {.library = "/usr/local/cuda/compat/libcuda.so.1",
                             .library_version = "580.95.05",
                             .module_version = "580.159.04"};
    (void)state;
    begin(&m);
    struct probe_run *run = add(&m, "driver-version", -1, PROBE_FAIL, "the versions differ");
    const char *says = probe_meaning(&m.a, run, &d);
    assert_non_null(strstr(says, "580.95.05 and 580.159.04"));
    assert_non_null(strstr(says, "restart the machine"));
    d.compat = true;
    d.own = "/usr/lib/libcuda.so.1";
    says = probe_meaning(&m.a, run, &d);
    assert_non_null(strstr(says, "package cuda-compat"));
    assert_non_null(strstr(says, d.own));
    assert_null(strstr(says, "restart"));
    d.module_version = NULL; // then the stage did not fail for the versions
    assert_null(strstr(probe_meaning(&m.a, run, &d), "cuda-compat"));
    arena_release(&m.a);
}

/* ------------------------------------------------------------------ what ran */

static void what_ran_is_believed(void **state)
{
    static const enum probe_outcome outcomes[] = {PROBE_PASSED, PROBE_FAIL};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct made m;
        struct host h = {0};
        struct model model = {.arena = &m.a, .host = &h};
        struct host_gpu gpu = {.bdf = "0000:01:00.0", .usable = HOST_NO};
        const struct host_problem p = {.id = "x", .text = "it is broken", .state = HOST_NO};
        begin(&m);
        VEC_PUSH(&m.a, &gpu.problems, p);
        VEC_PUSH(&m.a, &h.gpus, gpu);
        fact(&m, add(&m, "visible-devices", -1, PROBE_PASSED, "one"), "device.0.pci",
             "0000:01:00.0");
        add(&m, "kernel", 0, outcomes[i], "it ran, or not");
        assert_int_equal(probe_believe(&m.r, &model), outcomes[i] == PROBE_PASSED);
        assert_int_equal(model.host->gpus.items[0].usable,
                         outcomes[i] == PROBE_PASSED ? HOST_YES : HOST_NO);
        arena_release(&m.a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_formats),
        cmocka_unit_test(runtime_that_counts_none),
        cmocka_unit_test(show_passed),
        cmocka_unit_test(sentences),
        cmocka_unit_test(findings_explain),
        cmocka_unit_test(two_vendors),
        cmocka_unit_test(versions_that_differ),
        cmocka_unit_test(what_ran_is_believed),
        cmocka_unit_test(hip_and_cudas_variable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
