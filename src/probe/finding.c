/*
 * What the answers of several stages say together: hidden GPUs, slow ones, problems of the host.
 */
#include <string.h>

#include "probe/here.h"
#include "probe/probe.h"
#include "probe/session.h"

/* CUDA Programming Guide, "CUDA Environment Variables"; ROCm documentation, "GPU isolation". */
static const char *const hiding[] = {"CUDA_VISIBLE_DEVICES=", "HIP_VISIBLE_DEVICES=",
                                     "ROCR_VISIBLE_DEVICES=", "GPU_DEVICE_ORDINAL="};

bool probe_hides(const char *assignment)
{
    for (size_t i = 0; i < sizeof hiding / sizeof *hiding; i++) {
        if (starts_with(assignment, hiding[i])) {
            return true;
        }
    }
    return false;
}

static void add_finding(struct session *s, const char *id, const char *says)
{
    VEC_PUSH(s->a, &s->r->findings, (struct probe_finding){id, says});
}

/* "CUDA_VISIBLE_DEVICES=1" of the start environment; more than one are joined. */
static const char *hiding_variables(const struct session *s)
{
    const char *text = NULL;
    for (size_t i = 0; i < s->m->config.n_env; i++) {
        const char *v = s->m->config.env[i];
        if (probe_hides(v)) {
            text = arena_printf(s->a, "%s%s%s%s", text ? text : "", text ? " and " : "", v,
                                v[strlen(v) - 1] == '=' ? "\"\"" : "");
        }
    }
    return text;
}

static long run_count(const struct probe_run *run)
{
    const char *text = probe_fact(&run->facts, "count");
    uint64_t value;
    return text && str_u64(str_of(text), &value) && value < 1024 ? (long)value : -1;
}

static bool sees(const struct session *s, const struct probe_run *run, const char *uuid)
{
    for (long i = 0; i < run_count(run); i++) {
        const char *other = probe_fact(&run->facts, arena_printf(s->a, "device.%ld.uuid", i));
        if (other && strcmp(uuid, other) == 0) {
            return true;
        }
    }
    return false;
}

/* The GPUs that one run names and the other does not: "NVIDIA A100 (GPU-1), ...". NULL: none, or
 * they have no UUIDs by which to tell. */
static const char *hidden_names(const struct session *s, const struct probe_run *all,
                                const struct probe_run *seen)
{
    const char *text = NULL;
    for (long i = 0; i < run_count(all); i++) {
        const char *uuid = probe_fact(&all->facts, arena_printf(s->a, "device.%ld.uuid", i));
        const char *name = probe_fact(&all->facts, arena_printf(s->a, "device.%ld.name", i));
        if (uuid && !sees(s, seen, uuid)) {
            text = arena_printf(s->a, "%s%s%s (%s)", text ? text : "", text ? ", " : "",
                                name ? name : "a GPU", uuid);
        }
    }
    return text;
}

/* Two inventories, one without and one with the variables of the start environment. */
static void compare_inventories(struct session *s, const struct probe_run *all,
                                const struct probe_run *seen)
{
    long there = run_count(all), visible = run_count(seen);
    const char *variables = hiding_variables(s), *names = hidden_names(s, all, seen);
    if (visible < 0 && seen->outcome == PROBE_FAIL) {
        visible = 0; // the start itself says that there is none
    }
    if (there < 0 || visible < 0 || (visible == there && !names)) {
        return;
    }
    add_finding(s, "devices-hidden",
                arena_printf(s->a,
                             "The driver has %ld GPU%s, but programs see %ld here: %s hides %s.",
                             there, there == 1 ? "" : "s", visible,
                             variables ? variables : "something in the environment",
                             names ? names : "the others"));
}

void probe_find_hidden(struct session *s)
{
    const struct probe_run *all = NULL;
    for (size_t i = 0; i < s->r->runs.n; i++) {
        const struct probe_run *run = &s->r->runs.items[i];
        if (run->stage->all_devices && run->outcome == PROBE_PASSED && run_count(run) >= 0) {
            all = run;
        } else if (all && run->stage->vendor == all->stage->vendor && run->device < 0 &&
                   !run->stage->all_devices && run->outcome != PROBE_NOT_RUN) {
            compare_inventories(s, all, run);
            all = NULL;
        }
    }
}

void probe_find_slow(struct session *s)
{
    const struct probe_run *start = probe_run_of(s, "driver-init", -1);
    const char *step = probe_slow_start_step();
    if (start && start->slow) {
        add_finding(s, "driver-starts-slowly",
                    arena_printf(s->a,
                                 "The driver's start (cuInit) took %.1f s, and every program "
                                 "that uses the GPU waits for it.%s%s",
                                 start->ms / 1000.0, step ? " " : "", step ? step : ""));
    }
}

void probe_add_host_problems(struct session *s)
{
    const struct probe_run *f = s->r->first_failure;
    const struct host *h = s->m->host;
    enum host_vendor vendor = f && f->stage->vendor == PROBE_AMD ? HOST_AMD : HOST_NVIDIA;
    for (size_t i = 0; f && f->stage->vendor != PROBE_CPU && h && i < h->gpus.n; i++) {
        const struct host_gpu *g = &h->gpus.items[i];
        for (size_t k = 0; g->vendor == vendor && k < g->problems.n; k++) {
            const struct host_problem *p = &g->problems.items[k];
            if (p->state != HOST_YES) {
                add_finding(s, p->id,
                            arena_printf(s->a, "%s: %s%s%s.", g->name, p->text,
                                         p->step ? "; next: " : "", p->step ? p->step : ""));
            }
        }
    }
}
