#include "cli/act.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "apply/imports.h"
#include "cli/probing.h"
#include "probe/join.h"
#include "report/joined.h"

/* ------------------------------------------------------------------ what is said */

static const char *const result_names[] = {
    [APPLY_VERIFIED] = "verified", [APPLY_FAILED] = "failed", [APPLY_CANNOT] = "not-verified"};

/* What came of it all. */
struct outcome {
    struct apply_repaired done;
    const struct probe_report *probe; // NULL: nothing was run, and `no_probe` says why
    const char *no_probe;             // or NULL
};

/* Errors that stand now, and what the way leaves to the start of the program. */
static bool is_partly(const struct outcome *o)
{
    return o->done.by_start || apply_has_error(&o->done.report);
}

static json_t *left_json(const struct act *act, const struct outcome *o)
{
    json_t *list = json_array();
    for (size_t i = 0; o->done.id && i < o->done.report.findings.n; i++) {
        const struct diag_finding *f = o->done.report.findings.items[i];
        if (f->severity == DIAG_ERROR) {
            (void)json_array_append_new(list, out_json_text(act->order.arena, f->summary));
        }
    }
    return list;
}

static json_t *outcome_start_json(const struct act *act, const struct outcome *o)
{
    json_t *variables = json_object();
    for (size_t i = 0; o->done.id && o->done.by_start && i < o->done.way->steps.n; i++) {
        const struct plan_step *s = &o->done.way->steps.items[i];
        if (apply_step_is_left(o->done.way, s)) {
            (void)json_object_set_new_nocheck(variables, s->name,
                                              out_json_text(act->order.arena, s->value));
        }
    }
    return variables;
}

static json_t *outcome_json(const struct act *act, const struct outcome *o)
{
    json_t *doc = json_object();
    const struct apply_repaired *t = &o->done;
    (void)json_object_set_new(doc, "schema", json_integer(1));
    (void)json_object_set_new(doc, "did", json_string("apply"));
    (void)json_object_set_new(doc, "journal", o->done.id ? json_integer(o->done.id) : json_null());
    (void)json_object_set_new(doc, "title", out_json_text(act->order.arena, o->done.way->title));
    (void)json_object_set_new(doc, "result", json_string(result_names[t->result]));
    (void)json_object_set_new(doc, "why", out_json_text(act->order.arena, t->why));
    (void)json_object_set_new(doc, "taken_back", json_boolean(!o->done.id));
    (void)json_object_set_new(doc, "requests_tried", json_integer((json_int_t)t->n_requests));
    (void)json_object_set_new(doc, "left", left_json(act, o));
    (void)json_object_set_new(doc, "start", outcome_start_json(act, o));
    (void)json_object_set_new(
        doc, "probe",
        o->probe ? report_joined_json(&o->done.target.model, o->probe, &o->done.report)
                 : json_null());
    (void)json_object_set_new(doc, "probe_why", out_json_text(act->order.arena, o->no_probe));
    return doc;
}

static int dump(json_t *doc, int status)
{
    return out_json_dump(stdout, doc) < 0 ? cli_fail(CLI_CANNOT, "cannot write the output")
                                          : status;
}

/* The command for the target of this one: "gpumend fix /opt/v --undo". */
static const char *command_of(const struct act *act, const char *command, const char *option)
{
    return str_printable(act->order.arena, apply_command(&act->order, command, option));
}

/* `fix` with all that this target was looked at with: the same plan. */
static const char *plan_command(const struct act *act, const char *option)
{
    return command_of(act, "fix",
                      arena_printf(act->order.arena, "%s%s%s", act->order.options,
                                   *act->order.options && *option ? " " : "", option));
}

static void say_label(const struct out *o, enum out_style style, const char *label)
{
    out_print(o, style, "%s", label);
    fprintf(o->file, "%*s", (int)(10 - strlen(label)), "");
}

static void say_trial(const struct act *act, const struct out *o, const struct outcome *of)
{
    const struct apply_repaired *t = &of->done;
    if (t->result != APPLY_VERIFIED) {
        out_print(o, OUT_YELLOW, "not verified  ");
        out_wrap(o, 14, str_printable(act->order.arena, t->why));
        return;
    }
    say_label(o, is_partly(of) ? OUT_YELLOW : OUT_GREEN, is_partly(of) ? "partly" : "repaired");
    fprintf(o->file,
            "tried out by the environment's interpreter: %zu program%s, %zu library "
            "request%s\n",
            t->n_scripts, t->n_scripts == 1 ? "" : "s", t->n_requests,
            t->n_requests == 1 ? "" : "s");
}

/* What the way leaves to the start: by files instead, or by the variable. */
static void say_start(const struct act *act, const struct out *o, const struct outcome *of)
{
    bool first = true;
    for (size_t i = 0; i < of->done.way->steps.n; i++) {
        const struct plan_step *s = &of->done.way->steps.items[i];
        if (!apply_step_is_left(of->done.way, s)) {
            continue;
        }
        if (first) {
            say_label(o, OUT_YELLOW, "to do");
            out_wrap(o, 10, str_printable(act->order.arena, s->text));
            fprintf(o->file, "            %s\n", plan_command(act, "--apply"));
            fprintf(o->file, "          or, for one start,\n");
        }
        first = false;
        fprintf(o->file, "            %s\n",
                s->command ? str_printable(act->order.arena, s->command)
                           : "gpumend run -- COMMAND");
    }
}

/* What the way was known to leave, which only installing something mends. */
static void say_known(const struct act *act, const struct out *o, const struct outcome *of)
{
    struct arena *a = act->order.arena;
    for (size_t i = 0; i < of->done.report.findings.n; i++) {
        const struct diag_finding *f = of->done.report.findings.items[i];
        const struct diag_repair *r = f->repairs.n ? &f->repairs.items[0] : NULL;
        bool known = false;
        for (size_t k = 0; k < of->done.way->leaves.n && !known; k++) {
            known = strcmp(of->done.way->leaves.items[k]->culprit, f->culprit) == 0;
        }
        if (!known || f->severity != DIAG_WARNING) {
            continue;
        }
        say_label(o, OUT_YELLOW, "left");
        out_wrap(o, 10, str_printable(a, f->summary));
        if (r && r->command) {
            fprintf(o->file, "            %s\n", str_printable(a, r->command));
        }
    }
}

static void say_left(const struct act *act, const struct out *o, const struct outcome *of)
{
    bool any = false;
    for (size_t i = 0; i < of->done.report.findings.n; i++) {
        const struct diag_finding *f = of->done.report.findings.items[i];
        if (f->severity == DIAG_ERROR) {
            say_label(o, OUT_RED, "still");
            out_wrap(o, 10, str_printable(act->order.arena, f->summary));
            any = true;
        }
    }
    if (any) {
        fprintf(o->file, "            %s\n", plan_command(act, ""));
        fprintf(o->file, "          lists the repairs that are left\n");
    }
}

/* Whether the GPU works now, with what was changed. */
static void say_probe(const struct act *act, const struct out *o, const struct outcome *of)
{
    struct arena *a = act->order.arena;
    bool works = of->probe && of->probe->verdict == PROBE_WORKS;
    bool broken = of->probe && of->probe->first_failure && of->probe->verdict != PROBE_NO_DRIVER;
    const char *says = of->probe ? probe_sentence(a, of->probe) : of->no_probe;
    if (strcmp(act->command, "fix") != 0) {
        return;
    }
    say_label(o, works ? OUT_GREEN : broken ? OUT_RED : OUT_YELLOW, "probe");
    out_wrap(o, 10, str_printable(a, says));
    if (broken) {
        fprintf(o->file, "            %s\n", command_of(act, "probe", ""));
    }
}

static void say_outcome(const struct act *act, const struct outcome *of)
{
    struct out o;
    out_init(&o, stdout);
    bool enabled = strcmp(act->command, "enable") == 0;
    say_label(&o, OUT_PLAIN, "applied");
    out_wrap(&o, 10, str_printable(act->order.arena, of->done.way->title));
    say_trial(act, &o, of);
    if (of->done.by_start) {
        say_start(act, &o, of);
    }
    say_left(act, &o, of);
    say_known(act, &o, of);
    say_probe(act, &o, of);
    say_label(&o, OUT_PLAIN, "undo");
    printf("%s (journal %u)\n",
           enabled ? command_of(act, "disable", "") : command_of(act, "fix", "--undo"),
           of->done.id);
}

static int outcome_say_failed(const struct act *act, const struct outcome *of)
{
    struct out o;
    out_init(&o, stdout);
    say_label(&o, OUT_RED, "failed");
    out_wrap(&o, 10, str_printable(act->order.arena, of->done.why));
    printf("          It was undone: everything is as it was before.\n");
    return CLI_FINDINGS;
}

/* After a repair the GPU is run with what the target would load now; into `report`. */
static void probe_now(const struct act *act, struct probe_report *report, struct outcome *of)
{
    struct gm_err err;
    struct model *m = &of->done.target.model;
    const struct cli_probing p = {.model = m, .named = act->order.asked->target != NULL};
    if (strcmp(act->command, "fix") != 0) {
        of->no_probe = arena_printf(act->order.arena, "%s does not run the GPU", act->command);
    } else if (!m->root->is_host) {
        of->no_probe = "its files belong to another system than this one";
    } else if (!probe_is_worth_it(m)) {
        of->no_probe = "cannot tell without a driver";
    } else if (m->env && m->env->executable &&
               apply_start_check(act->order.arena, m->env, &err) < 0) {
        of->no_probe = arena_strdup(act->order.arena, err.text);
    } else if (cli_probing_run(&p, report, &err) < 0) {
        of->no_probe = arena_strdup(act->order.arena, err.text);
    } else {
        of->probe = report;
        of->no_probe = NULL;
    }
}

/* A GPU that does not work is an error, whatever was mended; what cannot be determined is none. */
static int outcome_status(const struct outcome *of)
{
    const struct probe_report *p = of->probe;
    bool broken = p && (p->verdict == PROBE_BROKEN || p->verdict == PROBE_BUSY);
    return of->done.result != APPLY_VERIFIED ? CLI_CANNOT
           : is_partly(of) || broken         ? CLI_FINDINGS
                                             : CLI_OK;
}

/* The GPU is run with what was changed, and all is said. */
static int conclude(const struct act *act, struct outcome *of)
{
    struct probe_report report;
    bool taken_back = of->done.result == APPLY_FAILED;
    if (!taken_back) {
        probe_now(act, &report, of);
    }
    int status = taken_back ? CLI_FINDINGS : outcome_status(of);
    if (act->json) {
        return dump(outcome_json(act, of), status);
    }
    if (taken_back) {
        return outcome_say_failed(act, of);
    }
    say_outcome(act, of);
    return status;
}

static int act_cannot(const struct act *act, const struct gm_err *err)
{
    return cli_fail(CLI_CANNOT, "%s: %s", act->command, str_printable(act->order.arena, err->text));
}

int act_fix(const struct act *act, const struct plan *plan, const struct diag_report *report,
            bool *ret_done)
{
    struct gm_err err;
    struct outcome of = {.no_probe = "it was undone"};
    int rc = apply_fix(&act->order, plan, report, &of.done, &err);
    *ret_done = rc < 0 || of.done.way;
    rc = rc < 0 ? act_cannot(act, &err) : of.done.way ? conclude(act, &of) : CLI_OK;
    apply_repaired_close(&of.done);
    return rc;
}

int act_enable(const struct act *act)
{
    struct gm_err err;
    struct outcome of = {.no_probe = "it was undone"};
    int rc =
        apply_enable(&act->order, &of.done, &err) < 0 ? act_cannot(act, &err) : conclude(act, &of);
    apply_repaired_close(&of.done);
    return rc;
}

int act_open(const struct act *act, bool without_hook)
{
    struct gm_err err;
    unsigned count = 0;
    int rc = apply_open(&act->order, without_hook, &count, &err);
    if (count) {
        fprintf(stderr, "gpumend: %u interrupted before, undone first\n", count);
    }
    return rc < 0 ? act_cannot(act, &err) : CLI_OK;
}

/* The place that is asked about, for a sentence. */
static const char *act_place(const struct act *act)
{
    const struct model *m = &act->order.target->model;
    const char *path = m->env && m->env->prefix ? m->env->prefix : m->target_file;
    return act->order.is_system ? "the system"
           : path               ? str_printable(act->order.arena, path)
                                : "this target";
}

/* `otherwise`: what is said where no journal was undone. */
static int say_undone(const struct act *act, unsigned id, const char *otherwise, int status)
{
    if (act->json) {
        json_t *doc = json_pack("{s:i, s:s, s:o}", "schema", 1, "did", "undo", "journal",
                                id ? json_integer(id) : json_null());
        return dump(doc, status);
    }
    if (id) {
        printf("undone      journal %u: everything is as it was before\n", id);
    } else {
        printf("%s\n", otherwise);
    }
    return status;
}

int act_undo(const struct act *act, unsigned id)
{
    struct gm_err err;
    unsigned done;
    if (apply_fix_undo(&act->order, id, &done, &err) < 0) {
        int rc = act_cannot(act, &err);
        return err.code == GM_ERR_USAGE ? CLI_USAGE : rc;
    }
    return say_undone(act, done,
                      arena_printf(act->order.arena,
                                   "nothing was applied to %s that could be undone",
                                   act_place(act)),
                      done ? CLI_OK : CLI_CANNOT);
}

int act_disable(const struct act *act)
{
    struct gm_err err;
    unsigned done;
    bool removed;
    if (apply_disable(&act->order, &done, &removed, &err) < 0) {
        return act_cannot(act, &err);
    }
    // Without a hook nothing is left to do; other repairs may be there.
    return say_undone(
        act, done,
        arena_printf(act->order.arena,
                     removed ? "removed     the start-up hook of %s, which no journal lists"
                             : "there is no start-up hook in %s",
                     act_place(act)),
        CLI_OK);
}

/* ------------------------------------------------------------------ the list */

static const char *when(struct arena *a, uint64_t at_s)
{
    time_t t = (time_t)at_s;
    struct tm tm;
    char text[32] = "";
    if (gmtime_r(&t, &tm)) {
        (void)strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm); // fits, or is empty
    }
    return arena_strdup(a, text);
}

static json_t *listed_json(struct arena *a, const struct apply_listed *l)
{
    const struct apply_journal *j = &l->journal;
    json_t *one = json_object();
    (void)json_object_set_new(one, "journal", json_integer(l->id));
    (void)json_object_set_new(
        one, "state",
        json_string(l->error ? "damaged" : apply_journal_state_name(apply_journal_state(j))));
    (void)json_object_set_new(one, "command", out_json_text(a, l->error ? NULL : j->what));
    (void)json_object_set_new(one, "title", out_json_text(a, l->error ? NULL : j->title));
    (void)json_object_set_new(one, "at",
                              l->error || !j->begun ? json_null() : json_string(when(a, j->at_s)));
    (void)json_object_set_new(one, "verified", out_json_text(a, l->error ? NULL : j->verified));
    (void)json_object_set_new(one, "error", out_json_text(a, l->error));
    return one;
}

static void say_listed(struct arena *a, const struct apply_listed *l)
{
    const struct apply_journal *j = &l->journal;
    if (l->error) {
        printf("%4u  damaged: %s\n", l->id, str_printable(a, l->error));
        return;
    }
    printf("%4u  %-16s  %s  %-7s %s\n", l->id, apply_journal_state_name(apply_journal_state(j)),
           j->begun ? when(a, j->at_s) : "-", j->what ? str_printable(a, j->what) : "",
           j->title ? str_printable(a, j->title) : "");
    if (j->applied && !j->verified) {
        printf("      not tried out: ended before that\n");
    }
    if (j->verified && strcmp(j->verified, "verified") != 0) {
        printf("      not verified: %s\n", str_printable(a, j->verified));
    }
}

int act_list(const struct act *act)
{
    struct gm_err err;
    struct apply_list list;
    if (apply_list_journals(&act->order.target->model, act->order.is_system, &list, &err) < 0) {
        return cli_fail(CLI_CANNOT, "%s: %s", act->command,
                        str_printable(act->order.arena, err.text));
    }
    if (act->json) {
        json_t *array = json_array();
        for (size_t i = 0; i < list.items.n; i++) {
            (void)json_array_append_new(array, listed_json(act->order.arena, &list.items.items[i]));
        }
        return dump(json_pack("{s:i, s:s, s:o}", "schema", 1, "did", "list", "journals", array),
                    CLI_OK);
    }
    for (size_t i = 0; i < list.items.n; i++) {
        say_listed(act->order.arena, &list.items.items[i]);
    }
    if (!list.items.n) {
        printf("nothing is applied here\n");
    }
    return CLI_OK;
}
