#include "report/joined.h"

#include <string.h>

#include "report/probe.h"

static const struct diag_finding *explained_by(const struct probe_report *r, size_t i,
                                               const struct diag_report *findings)
{
    return findings ? probe_explained_by(r, &r->runs.items[i], findings) : NULL;
}

/* ------------------------------------------------------------------ text */

static size_t stages_count(const struct probe_report *r, enum probe_outcome outcome)
{
    size_t n = 0;
    for (size_t i = 0; i < r->runs.n; i++) {
        n += r->runs.items[i].outcome == outcome;
    }
    return n;
}

/* Of the stages that lack one library the first is told. */
static bool finding_is_told(const struct probe_report *r, size_t i, const struct diag_finding *f)
{
    const struct probe_run *run = &r->runs.items[i];
    for (size_t k = 0; k < i && run->no_library; k++) {
        if (r->runs.items[k].no_library &&
            strcmp(r->runs.items[k].stage->stem, run->stage->stem) == 0) {
            return false;
        }
    }
    return run->outcome != PROBE_PASSED && (run->outcome != PROBE_NOT_RUN || f);
}

/* What passed and what was not run is counted; the rest is told. */
void report_joined_text(const struct out *o, const struct model *m, const struct probe_report *r,
                        const struct diag_report *findings)
{
    struct arena *a = m->arena;
    size_t passed = stages_count(r, PROBE_PASSED), not_run = stages_count(r, PROBE_NOT_RUN);
    fputc('\n', o->file);
    out_print(o, OUT_BOLD, "probe");
    fprintf(o->file, "    %zu stage%s passed, %zu not run\n", passed, passed == 1 ? "" : "s",
            not_run);
    for (size_t i = 0; i < r->runs.n; i++) {
        const struct probe_run *run = &r->runs.items[i];
        const struct diag_finding *f = explained_by(r, i, findings);
        if (!finding_is_told(r, i, f)) {
            continue;
        }
        report_probe_line(o, a, run);
        if (f) {
            fprintf(o->file, "             ");
            out_wrap(o, 13, arena_printf(a, "explained by %s, above", diag_causes[f->cause].id));
        }
    }
    report_probe_sum(o, a, r);
}

/* ------------------------------------------------------------------ JSON */

json_t *report_joined_json(const struct model *m, const struct probe_report *r,
                           const struct diag_report *findings)
{
    static const struct report_target none = {.kind = "", .root = "/"};
    json_t *o = report_probe_json(m, r, &none);
    json_t *stages = json_object_get(o, "stages");
    (void)json_object_del(o, "schema");
    (void)json_object_del(o, "target");
    for (size_t i = 0; i < r->runs.n; i++) { // one item a run, in their order
        const struct diag_finding *f = explained_by(r, i, findings);
        (void)json_object_set_new_nocheck(
            json_array_get(stages, i), "explained_by",
            out_json_text(m->arena, f ? diag_causes[f->cause].id : NULL));
    }
    (void)json_object_set_new_nocheck(o, "says",
                                      out_json_text(m->arena, probe_sentence(m->arena, r)));
    return o;
}
