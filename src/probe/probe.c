/* Which stages are run, for which devices, in which order, and the verdict over all of them. */
#include "probe/here.h"
#include "probe/probe.h"
#include "probe/session.h"

enum { DEVICES_MAX = 64 };

const char *probe_verdict_name(enum probe_verdict v)
{
    static const char *const names[] = {[PROBE_WORKS] = "works",
                                        [PROBE_BUSY] = "busy",
                                        [PROBE_CANNOT_TELL] = "cannot-tell",
                                        [PROBE_NO_DRIVER] = "no-driver",
                                        [PROBE_BROKEN] = "broken"};
    return names[v];
}

/* ------------------------------------------------------------------ what is probed */

/* Where the target's loader finds a library of the driver, by the model; NULL: it does not, or the
 * target has no program to ask. */
static const char *predicted(const struct session *s, const char *name)
{
    struct model *m = s->m;
    const char *program = m->env ? m->env->executable : m->target_file;
    struct ldso_process *p = program ? ldso_process_new(m->store, s->a, &m->config) : NULL;
    struct gm_err ignored; // a program that cannot be modelled predicts nothing
    if (!p || ldso_start(p, program, &ignored) < 0) {
        return NULL;
    }
    const struct ldso_load *load = ldso_dlopen(p, NULL, name, LDSO_NOW);
    bool good = load && (load->outcome == LDSO_LOADED || load->outcome == LDSO_REUSED);
    return good ? load->path : NULL;
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
    nvidia |= s->libcuda != NULL || probe_sees_driver(PROBE_NVIDIA);
    amd |= probe_sees_driver(PROBE_AMD);
    nvidia |= h && (h->nvidia.module.state == HOST_YES || probe_driver_library(h, "libcuda.so.1"));
    amd |= h && (h->amd.kfd.state == HOST_YES || h->amd.kfd_node.present.state == HOST_YES);
    s->vendors[PROBE_ANY] = s->vendors[PROBE_CPU] = true;
    s->vendors[PROBE_NVIDIA] = nvidia || !amd;
    s->vendors[PROBE_AMD] = amd || !nvidia;
}

static size_t stage_index(const struct probe_stage *stage)
{
    return (size_t)(stage - probe_stages);
}

static void stage_want(bool *wanted, const struct probe_stage *stage)
{
    // A need stands before what needs it (a unit test says so), so this ends.
    if (!stage || wanted[stage_index(stage)]) {
        return;
    }
    wanted[stage_index(stage)] = true;
    stage_want(wanted, stage->needs ? probe_stage_find(stage->needs) : NULL);
    stage_want(wanted, stage->needs_too ? probe_stage_find(stage->needs_too) : NULL);
}

static const bool *choose_stages(struct session *s)
{
    bool *wanted = arena_array(s->a, probe_n_stages, sizeof *wanted);
    for (size_t i = 0; i < s->o->n_only; i++) {
        stage_want(wanted, probe_stage_find(s->o->only[i]));
    }
    for (size_t i = 0; i < s->o->n_modules; i++) {
        const char *name = arena_printf(s->a, "python-%s", s->o->modules[i]);
        stage_want(wanted, probe_stage_find(name));
    }
    for (size_t i = 0; i < probe_n_stages; i++) {
        const struct probe_stage *stage = &probe_stages[i];
        bool all = s->o->n_only == 0 && !stage->module && (stage->quick || !s->o->quick);
        wanted[i] = (wanted[i] || all) && (s->o->n_only || s->vendors[stage->vendor]);
    }
    return wanted;
}

static void clear_hiding(struct session *s)
{
    const char **bare = arena_array(s->a, s->m->config.n_env + 1, sizeof *bare);
    for (size_t i = 0; i < s->m->config.n_env; i++) {
        if (!probe_hides(s->m->config.env[i])) {
            bare[s->n_bare++] = s->m->config.env[i];
        }
    }
    s->bare = bare;
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
            if (!s->wanted[stage_index(first + i)]) {
                continue;
            }
            if (count >= 0 && device >= count) {
                probe_session_append(
                    s, (struct probe_run){.stage = first + i,
                                          .device = device,
                                          .outcome = PROBE_UNKNOWN,
                                          .says = arena_printf(s->a,
                                                               "there is no GPU %d: the "
                                                               "driver counts %d",
                                                               device, count)});
                continue;
            }
            probe_run_stage(s, first + i, count < 0 && s->o->device < 0 ? -1 : device);
        }
    }
}

static void run_all(struct session *s)
{
    for (size_t i = 0; i < probe_n_stages;) {
        const struct probe_stage *stage = &probe_stages[i];
        size_t n = 1;
        while (stage->per_device && i + n < probe_n_stages && probe_stages[i + n].per_device &&
               probe_stages[i + n].vendor == stage->vendor) {
            n++;
        }
        if (stage->per_device) {
            run_for_devices(s, stage, n);
        } else if (s->wanted[i]) {
            probe_run_stage(s, stage, -1);
        }
        i += n;
    }
}

/* ------------------------------------------------------------------ the sum */

static enum probe_verdict run_verdict(const struct probe_run *run)
{
    switch (run->outcome) {
    case PROBE_PASSED:
    case PROBE_NOT_RUN: return PROBE_WORKS;
    case PROBE_FAIL: return run->absent ? PROBE_NO_DRIVER : run->busy ? PROBE_BUSY : PROBE_BROKEN;
    case PROBE_CRASHED: return run->sent ? PROBE_CANNOT_TELL : PROBE_BROKEN;
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
        enum probe_verdict v = run_verdict(run);
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
    s.libcuda = predicted(&s, "libcuda.so.1");
    s.nvml = predicted(&s, "libnvidia-ml.so.1");
    find_vendors(&s);
    clear_hiding(&s);
    s.wanted = choose_stages(&s);
    run_all(&s);
    probe_helper_close(&s.helper);
    sum_up(ret);
    probe_find_hidden(&s);
    probe_find_slow(&s);
    probe_add_host_problems(&s);
    return 0;
}
