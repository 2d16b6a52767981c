#include "report/probe.h"

#include <string.h>

static void set(json_t *object, const char *key, json_t *value)
{
    (void)json_object_set_new_nocheck(object, key, value);
}

/* ------------------------------------------------------------------ text */

static const char *title(struct arena *a, const struct probe_stage *s, int device)
{
    return device < 0 ? s->title : arena_printf(a, "GPU %d: %s", device, s->title);
}

void report_probe_start(const struct out *o, struct arena *a, const struct probe_stage *s,
                        int device)
{
    fprintf(o->file, "  ...        %s", title(a, s, device));
}

void report_probe_line(const struct out *o, struct arena *a, const struct probe_run *run)
{
    static const enum out_style styles[] = {
        [PROBE_PASSED] = OUT_GREEN,     [PROBE_FAIL] = OUT_RED,    [PROBE_CRASHED] = OUT_RED,
        [PROBE_TIMED_OUT] = OUT_YELLOW, [PROBE_NOT_RUN] = OUT_DIM, [PROBE_UNKNOWN] = OUT_YELLOW};
    out_print(o, OUT_PLAIN, "  ");
    out_print(o, styles[run->outcome], "%-9s", probe_outcome_name(run->outcome));
    out_print(o, OUT_PLAIN, "  ");
    const char *time = run->outcome == PROBE_NOT_RUN ? "" : arena_printf(a, " (%u ms)", run->ms);
    out_wrap(o, 13, str_printable(a, arena_printf(a, "%s: %s%s", title(a, run->stage, run->device),
                                                  run->says, time)));
}

void report_probe_sum(const struct out *o, struct arena *a, const struct probe_report *r)
{
    const struct probe_run *f = r->first_failure;
    if (f) {
        out_wrap(o, 0, str_printable(a, arena_printf(a, "First failure: %s: %s. %s",
                                                     title(a, f->stage, f->device), f->says,
                                                     f->stage->means)));
    }
    for (size_t i = 0; i < r->findings.n; i++) {
        out_wrap(o, 0, str_printable(a, r->findings.items[i].says));
    }
}

/* ------------------------------------------------------------------ JSON */

static json_t *facts_json(struct arena *a, const probe_facts *facts)
{
    json_t *o = json_object();
    for (size_t i = 0; i < facts->n; i++) {
        set(o, str_printable(a, facts->items[i].key), out_json_text(a, facts->items[i].value));
    }
    return o;
}

static json_t *run_json(struct arena *a, const struct probe_run *run)
{
    json_t *o = json_object();
    bool ran = run->outcome != PROBE_NOT_RUN;
    set(o, "name", out_json_text(a, run->stage->name));
    set(o, "device", run->device < 0 ? json_null() : json_integer(run->device));
    set(o, "outcome", out_json_text(a, probe_outcome_name(run->outcome)));
    set(o, "code", run->code ? json_integer(run->code) : json_null());
    set(o, "code_name", out_json_text(a, run->code_name));
    set(o, "signal", run->signal ? json_integer(run->signal) : json_null());
    set(o, "because", out_json_text(a, run->because));
    set(o, "ms", ran ? json_integer(run->ms) : json_null());
    set(o, "says", out_json_text(a, run->says));
    set(o, "last_call", out_json_text(a, run->last_call));
    set(o, "facts", facts_json(a, &run->facts));
    return o;
}

json_t *report_probe_json(const struct model *m, const struct probe_report *r,
                          const struct report_target *target)
{
    struct arena *a = m->arena;
    json_t *doc = json_object(), *stages = json_array(), *findings = json_array();
    for (size_t i = 0; i < r->runs.n; i++) {
        (void)json_array_append_new(stages, run_json(a, &r->runs.items[i]));
    }
    for (size_t i = 0; i < r->findings.n; i++) {
        json_t *o = json_object();
        set(o, "id", out_json_text(a, r->findings.items[i].id));
        set(o, "says", out_json_text(a, r->findings.items[i].says));
        (void)json_array_append_new(findings, o);
    }
    set(doc, "schema", json_integer(1));
    set(doc, "target", report_target_json(m, target));
    set(doc, "stages", stages);
    set(doc, "findings", findings);
    set(doc, "first_failure",
        out_json_text(a, r->first_failure ? r->first_failure->stage->name : NULL));
    set(doc, "verdict", out_json_text(a, probe_verdict_name(r->verdict)));
    return doc;
}
