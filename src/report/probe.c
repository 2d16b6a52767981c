#include "report/probe.h"

#include <string.h>

#include "base/json.h"

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
    out_wrap(o, 13,
             str_printable(a, arena_printf(a, "%s: %s%s", title(a, run->stage, run->device),
                                           run->says, time)));
}

static void probe_paragraph(const struct out *o, struct arena *a, const char *text)
{
    out_wrap(o, 0, str_printable(a, text));
}

/* The first run that was not run because of the same stage. */
static size_t first_because(const struct probe_report *r, size_t i)
{
    size_t k = 0;
    while (!r->runs.items[k].because ||
           strcmp(r->runs.items[k].because, r->runs.items[i].because) != 0) {
        k++;
    }
    return k;
}

/* What was not run, once for each reason; the names where they are few. */
static void not_run_text(const struct out *o, struct arena *a, const struct probe_report *r)
{
    enum { NAMES_MAX = 6 };
    for (size_t i = 0; i < r->runs.n; i++) {
        const char *because = r->runs.items[i].because, *names = "";
        size_t n = 0;
        for (size_t k = i; because && first_because(r, i) == i && k < r->runs.n; k++) {
            const struct probe_run *run = &r->runs.items[k];
            if (run->because && strcmp(run->because, because) == 0) {
                names = arena_printf(a, "%s%s%s", names, n++ ? ", " : "", run->stage->name);
            }
        }
        if (n) {
            probe_paragraph(
                o, a,
                n <= NAMES_MAX ? arena_printf(a, "Not run because of %s: %s.", because, names)
                               : arena_printf(a, "Not run because of %s: %zu stages.", because, n));
        }
    }
}

static bool named_before(const struct probe_report *r, size_t i)
{
    for (size_t k = 0; k < i; k++) {
        const struct probe_run *run = &r->runs.items[k];
        if (run->no_library && strcmp(run->stage->stem, r->runs.items[i].stage->stem) == 0) {
            return true;
        }
    }
    return false;
}

/* Libraries that the target does not have. */
static void no_library_text(const struct out *o, struct arena *a, const struct probe_report *r)
{
    const char *names = NULL;
    for (size_t i = 0; i < r->runs.n; i++) {
        const struct probe_run *run = &r->runs.items[i];
        if (run->no_library && !named_before(r, i)) {
            names =
                arena_printf(a, "%s%s%s", names ? names : "", names ? ", " : "", run->stage->stem);
        }
    }
    if (names) {
        probe_paragraph(
            o, a, arena_printf(a, "Not tried, because the target loads none of them: %s.", names));
    }
}

/* The stages that this system does not have. */
static void absent_here_text(const struct out *o, struct arena *a, const struct probe_report *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->runs.n; i++) {
        n += r->runs.items[i].absent_here && r->runs.items[i].device <= 0;
    }
    if (n) {
        probe_paragraph(o, a,
                        arena_printf(a,
                                     "Not available on Windows: %zu stages, which need more than "
                                     "the drivers' own libraries.",
                                     n));
    }
}

/* The last lines of what the libraries wrote, which often say more than a code. */
static void output_text(const struct out *o, struct arena *a, const struct probe_run *run)
{
    enum { LINES_MAX = 6 };
    struct str rest = run->output, line, last[LINES_MAX];
    size_t n = 0;
    while (str_line(&rest, &line)) {
        if (str_trim(line).n) {
            last[n++ % LINES_MAX] = line;
        }
    }
    if (n) {
        probe_paragraph(o, a, n > LINES_MAX ? "The last lines that it wrote:" : "It wrote:");
    }
    for (size_t i = n > LINES_MAX ? n - LINES_MAX : 0; i < n; i++) {
        out_print(o, OUT_DIM, "  | %s\n", str_printable(a, str_dup(a, last[i % LINES_MAX])));
    }
}

/* What worked before: the last stage of the vendor that passed, not on another GPU. */
static const struct probe_run *last_passed(const struct probe_report *r, const struct probe_run *f)
{
    const struct probe_run *found = NULL;
    for (const struct probe_run *run = r->runs.items; run < f; run++) {
        if (run->outcome == PROBE_PASSED && run->stage->vendor == f->stage->vendor &&
            (run->device < 0 || f->device < 0 || run->device == f->device)) {
            found = run;
        }
    }
    return found;
}

static void failure_text(const struct out *o, struct arena *a, const struct probe_report *r,
                         const struct probe_run *f)
{
    const struct probe_run *before = last_passed(r, f);
    fputc('\n', o->file);
    probe_paragraph(o, a, arena_printf(a, "First failure: %s.", title(a, f->stage, f->device)));
    if (before) {
        probe_paragraph(o, a, arena_printf(a, "Last success: %s.", before->stage->shows));
    }
    if (f->outcome == PROBE_TIMED_OUT) {
        probe_paragraph(
            o, a,
            "It may hang or need more time (see --timeout SECONDS); it is not necessarily broken.");
    } else if (f->means) {
        probe_paragraph(o, a, f->means);
    }
    output_text(o, a, f);
}

static const char *verdict_text(const struct probe_report *r)
{
    bool gpu = false;
    for (size_t i = 0; i < r->runs.n; i++) {
        gpu |= r->runs.items[i].outcome == PROBE_PASSED && r->runs.items[i].device >= 0;
    }
    switch (r->verdict) {
    case PROBE_WORKS:
        return gpu ? "The GPU works: every stage that was run passed."
                   : "Every stage that was run passed; none of them used a GPU.";
    case PROBE_BUSY: return "The GPU is busy, not broken: try again when it is free.";
    case PROBE_CANNOT_TELL:
        return "gpumend cannot tell whether the GPU works: a stage gave no answer.";
    case PROBE_NO_DRIVER: return "No driver's library was found here, so no GPU could be tested.";
    case PROBE_BROKEN: break; // the first failure says what
    }
    return NULL;
}

void report_probe_sum(const struct out *o, struct arena *a, const struct probe_report *r)
{
    no_library_text(o, a, r);
    absent_here_text(o, a, r);
    not_run_text(o, a, r);
    if (r->first_failure) {
        failure_text(o, a, r, r->first_failure);
    }
    const char *verdict = verdict_text(r);
    for (size_t i = 0; i < r->findings.n; i++) {
        probe_paragraph(o, a, r->findings.items[i].says);
    }
    if (verdict) {
        fputc('\n', o->file);
        probe_paragraph(o, a, verdict);
    }
}

/* ------------------------------------------------------------------ JSON */

static json_t *probe_facts_json(struct arena *a, const probe_facts *facts)
{
    json_t *o = json_object();
    for (size_t i = 0; i < facts->n; i++) {
        json_put(o, str_printable(a, facts->items[i].key), out_json_text(a, facts->items[i].value));
    }
    return o;
}

static json_t *run_json(struct arena *a, const struct probe_run *run)
{
    json_t *o = json_object();
    bool ran = run->outcome != PROBE_NOT_RUN;
    json_put(o, "name", out_json_text(a, run->stage->name));
    json_put(o, "device", run->device < 0 ? json_null() : json_integer(run->device));
    json_put(o, "outcome", out_json_text(a, probe_outcome_name(run->outcome)));
    json_put(o, "code", run->code ? json_integer(run->code) : json_null());
    json_put(o, "code_name", out_json_text(a, run->code_name));
    json_put(o, "signal", run->signal ? json_integer(run->signal) : json_null());
    json_put(o, "because", out_json_text(a, run->because));
    json_put(o, "ms", ran ? json_integer(run->ms) : json_null());
    json_put(o, "says", out_json_text(a, run->says));
    json_put(o, "last_call", out_json_text(a, run->last_call));
    json_put(o, "means", out_json_text(a, run->means));
    json_put(o, "slow", json_boolean(run->slow));
    json_put(o, "facts", probe_facts_json(a, &run->facts));
    bool shown = run->outcome != PROBE_PASSED && run->output.n;
    json_put(o, "output", out_json_text(a, shown ? str_dup(a, run->output) : NULL));
    return o;
}

json_t *report_probe_json(const struct model *m, const struct probe_report *r,
                          const struct report_target *target)
{
    struct arena *a = m->arena;
    json_t *doc = json_object(), *stages = json_array(), *findings = json_array();
    for (size_t i = 0; i < r->runs.n; i++) {
        json_add(stages, run_json(a, &r->runs.items[i]));
    }
    for (size_t i = 0; i < r->findings.n; i++) {
        json_t *o = json_object();
        json_put(o, "id", out_json_text(a, r->findings.items[i].id));
        json_put(o, "says", out_json_text(a, r->findings.items[i].says));
        json_add(findings, o);
    }
    json_put(doc, "schema", json_integer(1));
    json_put(doc, "target", report_target_json(m, target));
    json_put(doc, "stages", stages);
    json_put(doc, "findings", findings);
    json_put(doc, "first_failure",
             out_json_text(a, r->first_failure ? r->first_failure->stage->name : NULL));
    json_put(doc, "verdict", out_json_text(a, probe_verdict_name(r->verdict)));
    return doc;
}
