#include "probe/probe.h"

#include <string.h>

enum { DEVICES_MAX = 64 };

struct session {
    const struct probe_options *o;
    struct model *m;
    struct arena *a;
    struct probe_report *r;
    struct probe_helper helper;
    struct kb_errors errors;
    bool vendors[PROBE_VENDORS]; // that are probed
    const bool *wanted;          // by index in probe_stages
};

const char *probe_verdict_name(enum probe_verdict v)
{
    static const char *const names[] = {
        [PROBE_WORKS] = "works", [PROBE_BUSY] = "busy", [PROBE_CANNOT_TELL] = "cannot-tell",
        [PROBE_NO_DRIVER] = "no-driver", [PROBE_BROKEN] = "broken"};
    return names[v];
}

/* ------------------------------------------------------------------ what is probed */

static const struct host_library *driver_library(const struct host *h, const char *name)
{
    for (size_t i = 0; h && i < h->nvidia.libraries.n; i++) {
        if (strcmp(h->nvidia.libraries.items[i].name, name) == 0) {
            return &h->nvidia.libraries.items[i];
        }
    }
    return NULL;
}

/* What the machine shows of a vendor; a host that could not be read shows all. */
static void find_vendors(struct session *s)
{
    const struct host *h = s->m->host;
    bool nvidia = !h, amd = !h;
    for (size_t i = 0; h && i < h->gpus.n; i++) {
        nvidia |= h->gpus.items[i].vendor == HOST_NVIDIA;
        amd |= h->gpus.items[i].vendor == HOST_AMD;
    }
    nvidia |= h && (h->nvidia.module.state == HOST_YES || driver_library(h, "libcuda.so.1"));
    amd |= h && (h->amd.kfd.state == HOST_YES || h->amd.kfd_node.present.state == HOST_YES);
    s->vendors[PROBE_ANY] = s->vendors[PROBE_CPU] = true;
    s->vendors[PROBE_NVIDIA] = nvidia || !amd;
    s->vendors[PROBE_AMD] = amd || !nvidia;
}

static size_t index_of(const struct probe_stage *stage)
{
    return (size_t)(stage - probe_stages);
}

static void want(bool *wanted, const struct probe_stage *stage)
{
    // A need stands before what needs it (a unit test says so), so this ends.
    if (!stage || wanted[index_of(stage)]) {
        return;
    }
    wanted[index_of(stage)] = true;
    want(wanted, stage->needs ? probe_stage_find(stage->needs) : NULL);
    want(wanted, stage->needs_too ? probe_stage_find(stage->needs_too) : NULL);
}

static const bool *choose_stages(struct session *s)
{
    bool *wanted = arena_array(s->a, probe_stages_n, sizeof *wanted);
    for (size_t i = 0; i < s->o->n_only; i++) {
        want(wanted, probe_stage_find(s->o->only[i]));
    }
    for (size_t i = 0; i < probe_stages_n; i++) {
        const struct probe_stage *stage = &probe_stages[i];
        bool all = s->o->n_only == 0 && (stage->quick || !s->o->quick);
        wanted[i] = (wanted[i] || all) && (s->o->n_only || s->vendors[stage->vendor]);
    }
    return wanted;
}

/* ------------------------------------------------------------------ one stage */

/* The run of a stage that is the device's, or for all devices; NULL if there was none. */
static const struct probe_run *run_of(const struct session *s, const char *name, int device)
{
    const struct probe_run *found = NULL;
    for (size_t i = 0; name && i < s->r->runs.n; i++) {
        const struct probe_run *run = &s->r->runs.items[i];
        if (strcmp(run->stage->name, name) == 0 && (run->device < 0 || run->device == device)) {
            found = run;
        }
    }
    return found;
}

static const struct kb_error *error_row(const struct session *s, const struct probe_run *run)
{
    for (size_t i = 0; i < s->errors.n; i++) {
        const struct kb_error *e = &s->errors.rows[i];
        bool same = run->code_name ? strcmp(e->name, run->code_name) == 0
                                   : (int)e->api + 1 == (int)run->stage->api && e->code == run->code;
        if (same) {
            return e;
        }
    }
    return NULL;
}

/* "cuInit failed: CUDA_ERROR_NO_DEVICE (100), the driver sees no GPU" */
static void name_code(const struct session *s, struct probe_run *run)
{
    if (run->outcome != PROBE_FAIL || run->code == 0) {
        return;
    }
    const struct kb_error *row = error_row(s, run);
    run->code_name = row && !run->code_name ? row->name : run->code_name;
    run->says = arena_printf(s->a, "%s: %s%s%ld%s%s%s", run->says,
                             run->code_name ? run->code_name : "error", run->code_name ? " (" : " ",
                             run->code, run->code_name ? ")" : "", row && row->meaning ? ", " : "",
                             row && row->meaning ? row->meaning : "");
}

static void append(struct session *s, struct probe_run run)
{
    VEC_PUSH(s->a, &s->r->runs, run);
    if (s->o->on_end) {
        s->o->on_end(s->o->arg, &s->r->runs.items[s->r->runs.n - 1]);
    }
}

typedef VEC(const char *) texts;

static void add_argument(struct session *s, texts *list, const char *key, const char *value)
{
    if (value) {
        VEC_PUSH(s->a, list, arena_printf(s->a, "%s=%s", key, value));
    }
}

static void driver_arguments(struct session *s, texts *list)
{
    const struct host_library *cuda = driver_library(s->m->host, "libcuda.so.1");
    add_argument(s, list, "lib", cuda ? cuda->path : NULL);
}

/* The target's file for the stage: "/opt/v/libcublas.so.12" for "libcublas.so"; NULL: none. */
static const char *target_library(const struct session *s, const struct probe_stage *stage)
{
    for (size_t i = 0; i < s->o->n_libraries; i++) {
        const struct probe_library *l = &s->o->libraries[i];
        if (l->vendor == stage->vendor &&
            str_eq(model_stem(path_base(l->path)), model_stem(stage->library))) {
            return l->path;
        }
    }
    return NULL;
}

static texts arguments_of(struct session *s, const struct probe_stage *stage, int device)
{
    texts list = {0};
    add_argument(s, &list, "stage", stage->name);
    if (device >= 0) {
        add_argument(s, &list, "device", arena_printf(s->a, "%d", device));
    }
    if (stage->library) {
        add_argument(s, &list, "lib", target_library(s, stage));
        for (size_t i = 0; i < s->o->n_libraries; i++) {
            bool its = s->o->libraries[i].vendor == stage->vendor;
            add_argument(s, &list, "load", its ? s->o->libraries[i].path : NULL);
        }
    } else if (stage->vendor == PROBE_NVIDIA) {
        driver_arguments(s, &list);
    }
    return list;
}

static struct probe_run run_child(struct session *s, const struct probe_stage *stage, int device)
{
    texts arguments = arguments_of(s, stage, device);
    struct probe_child child = {
        .arguments = arguments.items,
        .n_arguments = arguments.n,
        .env = s->m->config.env,
        .n_env = s->m->config.n_env,
        .deadline_ms = s->o->timeout_ms ? s->o->timeout_ms : probe_stage_deadline_ms(stage),
        .stop_fd = s->o->stop_fd,
    };
    struct probe_answer answer;
    probe_child_run(s->a, &s->helper, &child, &answer);
    s->r->stopped |= answer.stopped;
    return (struct probe_run){
        .stage = stage,
        .device = device,
        .outcome = answer.outcome,
        .code = answer.code,
        .code_name = answer.code_name,
        .signal = answer.signal,
        .ms = answer.ms,
        .says = answer.text,
        .last_call = answer.last_call,
        .busy = probe_fact(&answer.facts, "busy") != NULL,
        .absent = probe_fact(&answer.facts, "absent") != NULL,
        .facts = answer.facts,
        .output = answer.output,
        .left = answer.left,
    };
}

static struct probe_run not_run(const struct probe_stage *stage, int device, const char *because,
                                const char *says)
{
    return (struct probe_run){.stage = stage, .device = device, .outcome = PROBE_NOT_RUN,
                              .because = because, .says = says};
}

/* The run that did not pass and without which the stage is not run; NULL: there is none. */
static const struct probe_run *missing_need(const struct session *s, const struct probe_stage *stage,
                                            int device)
{
    const char *const names[] = {stage->needs, stage->needs_too};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct probe_run *need = run_of(s, names[i], device);
        if (need && need->outcome != PROBE_PASSED) {
            return need;
        }
    }
    return NULL;
}

static void run_stage(struct session *s, const struct probe_stage *stage, int device)
{
    const struct probe_run *need = missing_need(s, stage, device);
    if (s->r->stopped) {
        return;
    }
    if (stage->library && !target_library(s, stage)) {
        append(s, not_run(stage, device, NULL,
                          arena_printf(s->a, "the target loads no %s: there is nothing to run",
                                       stage->library)));
        return;
    }
    if (need) {
        const char *because = need->because ? need->because : need->stage->name;
        append(s, not_run(stage, device, because,
                          arena_printf(s->a, "not run because of %s", because)));
        return;
    }
    if (s->o->on_start) {
        s->o->on_start(s->o->arg, stage, device);
    }
    struct probe_run run = run_child(s, stage, device);
    name_code(s, &run);
    append(s, run);
}

/* ------------------------------------------------------------------ all stages */

/* How many devices a vendor's runtime counts, by the last stage that said so; -1: not known. */
static int device_count(const struct session *s, enum probe_vendor vendor)
{
    int count = -1;
    for (size_t i = 0; i < s->r->runs.n; i++) {
        const struct probe_run *run = &s->r->runs.items[i];
        const char *text = run->stage->vendor == vendor ? probe_fact(&run->facts, "count") : NULL;
        uint64_t value;
        if (text && run->outcome == PROBE_PASSED && str_u64(str_of(text), &value)) {
            count = (int)(value < DEVICES_MAX ? value : DEVICES_MAX);
        }
    }
    return count;
}

static void run_for_devices(struct session *s, const struct probe_stage *first, size_t n)
{
    int count = device_count(s, first->vendor);
    int from = s->o->device >= 0 ? s->o->device : 0;
    int to = count < 0 || s->o->device >= 0 ? from + 1 : count;
    for (int device = from; device < to; device++) {
        for (size_t i = 0; i < n; i++) {
            if (!s->wanted[index_of(first + i)]) {
                continue;
            }
            if (count >= 0 && device >= count) {
                append(s, (struct probe_run){.stage = first + i, .device = device,
                                             .outcome = PROBE_UNKNOWN,
                                             .says = arena_printf(s->a, "there is no GPU %d: the "
                                                                  "driver counts %d", device,
                                                                  count)});
                continue;
            }
            run_stage(s, first + i, count < 0 && s->o->device < 0 ? -1 : device);
        }
    }
}

static void run_all(struct session *s)
{
    for (size_t i = 0; i < probe_stages_n;) {
        const struct probe_stage *stage = &probe_stages[i];
        size_t n = 1;
        while (stage->per_device && i + n < probe_stages_n && probe_stages[i + n].per_device &&
               probe_stages[i + n].vendor == stage->vendor) {
            n++;
        }
        if (stage->per_device) {
            run_for_devices(s, stage, n);
        } else if (s->wanted[i]) {
            run_stage(s, stage, -1);
        }
        i += n;
    }
}

/* ------------------------------------------------------------------ the sum */

static enum probe_verdict verdict_of(const struct probe_run *run)
{
    switch (run->outcome) {
    case PROBE_PASSED:
    case PROBE_NOT_RUN: return PROBE_WORKS;
    case PROBE_FAIL:
        return run->absent ? PROBE_NO_DRIVER : run->busy ? PROBE_BUSY : PROBE_BROKEN;
    case PROBE_CRASHED: return PROBE_BROKEN;
    case PROBE_TIMED_OUT:
    case PROBE_UNKNOWN: return PROBE_CANNOT_TELL;
    }
    return PROBE_CANNOT_TELL;
}

static void sum_up(struct probe_report *r)
{
    for (size_t i = 0; i < r->runs.n; i++) {
        const struct probe_run *run = &r->runs.items[i];
        bool bad = run->outcome == PROBE_FAIL || run->outcome == PROBE_CRASHED ||
                   run->outcome == PROBE_TIMED_OUT;
        enum probe_verdict v = verdict_of(run);
        r->verdict = v > r->verdict ? v : r->verdict;
        if (bad && !r->first_failure) {
            r->first_failure = run;
        }
    }
}

int probe_run(const struct probe_options *o, struct probe_report *ret, struct gm_err *err)
{
    struct session s = {.o = o, .m = o->model, .a = o->model->arena, .r = ret};
    *ret = (struct probe_report){0};
    int rc = kb_errors(s.m->kb, &s.errors, err);
    if (rc < 0) {
        return rc;
    }
    probe_helper_open(s.a, s.m->config.env, s.m->config.n_env, &s.helper);
    find_vendors(&s);
    s.wanted = choose_stages(&s);
    run_all(&s);
    probe_helper_close(&s.helper);
    sum_up(ret);
    return 0;
}
