#include "cli/act.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/folder.h"
#include "cli/probing.h"
#include "probe/join.h"
#include "probe/verify.h"
#include "py/requirement.h"
#include "report/joined.h"

enum { TRIALS_MAX = 8 }; // scripts that are tried; each is one start of the interpreter

/* What came of trying a repair. */
struct trial {
    enum probe_result result;
    const char *why; // one sentence, or NULL
    size_t scripts, requests;
};

/* ------------------------------------------------------------------ the model, once more */

/* The target as it is after the change. */
struct looked {
    struct model_target target;
    struct diag_report report;
    struct cli_env env; // it was looked at for a start with these
    bool by_start;      // they hold what the way leaves to the start, and it takes them
};

static bool has_text(const struct diag_finding *f, const char *culprit)
{
    for (size_t i = 0; i < f->likewise.n; i++) {
        if (strcmp(f->likewise.items[i], culprit) == 0) {
            return true;
        }
    }
    return strcmp(f->culprit, culprit) == 0;
}

/* Whether the report says the same of the same culprit. */
static bool is_found(const struct diag_report *report, const struct diag_finding *f)
{
    for (size_t i = 0; i < report->findings.n; i++) {
        const struct diag_finding *g = report->findings.items[i];
        if (g->cause == f->cause && (has_text(g, f->culprit) || has_text(f, g->culprit))) {
            return true;
        }
    }
    return false;
}

static bool has_left_step(const struct plan_way *way)
{
    for (size_t i = 0; i < way->steps.n; i++) {
        if (apply_step_is_left(way, &way->steps.items[i])) {
            return true;
        }
    }
    return false;
}

/* The start environment, with the variables that the way leaves to the start if `by_start`. */
static struct cli_env start_env(const struct act *act, const struct plan_way *way, bool by_start)
{
    struct cli_env env = {0};
    for (size_t i = 0; i < act->asked->n_env; i++) {
        VEC_PUSH(act->arena, &env.vars, act->asked->env[i]);
    }
    for (size_t i = 0; i < way->steps.n && by_start; i++) {
        const struct plan_step *s = &way->steps.items[i];
        if (!apply_step_is_left(way, s)) {
            continue;
        }
        cli_env_unset(&env, s->name);
        if (s->value) {
            VEC_PUSH(act->arena, &env.vars, arena_printf(act->arena, "%s=%s", s->name, s->value));
        }
    }
    return env;
}

/* What of the mended findings still stands, as a sentence; NULL: none does. */
static const char *still_has(const struct act *act, const struct plan_way *way,
                             const struct looked *now)
{
    for (size_t i = 0; i < way->mends.n; i++) {
        if (is_found(&now->report, way->mends.items[i])) {
            return arena_printf(act->arena, "looked at again, it still has: %s",
                                way->mends.items[i]->summary);
        }
    }
    return NULL;
}

static bool had_error(const struct diag_report *before, const char *script)
{
    for (size_t i = 0; i < before->findings.n; i++) {
        const struct diag_finding *f = before->findings.items[i];
        for (size_t k = 0; f->severity == DIAG_ERROR && k < f->scripts.n; k++) {
            if (strcmp(f->scripts.items[k], script) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* An error of a program that had none before, as a sentence; NULL: there is none. */
static const char *breaks(const struct act *act, const struct looked *now)
{
    for (size_t i = 0; i < now->report.findings.n; i++) {
        const struct diag_finding *f = now->report.findings.items[i];
        bool new = f->severity == DIAG_ERROR && !is_found(act->report, f);
        for (size_t k = 0; new &&k < f->scripts.n; k++) {
            if (!had_error(act->report, f->scripts.items[k])) {
                return arena_printf(act->arena, "it breaks what worked: %s", f->summary);
            }
        }
    }
    return NULL;
}

/* Looks at the target again, as it is now. NULL: it shows none of the mended findings any more, and
 * no program is broken that was not. */
static const char *replay(const struct act *act, const struct plan_way *way, bool by_start,
                          struct looked *now)
{
    struct gm_err err;
    struct model_target_options asked = *act->asked;
    *now = (struct looked){.target = {.root = ROOT_EMPTY}, .by_start = by_start};
    now->env = start_env(act, way, by_start);
    asked.env = now->env.vars.items;
    asked.n_env = now->env.vars.n;
    asked.only_open = false;
    if (model_target_open(&now->target, act->arena, &asked, &err) < 0) {
        return arena_printf(act->arena, "the target cannot be looked at any more: %s", err.text);
    }
    diag_run(&now->target.model, &now->report);
    const char *wrong = still_has(act, way, now);
    return wrong ? wrong : breaks(act, now);
}

static bool has_error(const struct looked *now)
{
    for (size_t i = 0; i < now->report.findings.n; i++) {
        if (now->report.findings.items[i]->severity == DIAG_ERROR) {
            return true;
        }
    }
    return false;
}

/* What the way leaves to the start counts only where something is wrong without it. */
static const char *look_again(const struct act *act, const struct plan_way *way, struct looked *now)
{
    const char *wrong = replay(act, way, false, now);
    if (!has_left_step(way) || (!wrong && !has_error(now))) {
        return wrong;
    }
    model_target_close(&now->target);
    return replay(act, way, true, now);
}

/* ------------------------------------------------------------------ what is tried */

typedef VEC(struct probe_request) requests;
typedef VEC(const char *) texts;

static void add_once(struct arena *a, texts *list, const char *text)
{
    for (size_t i = 0; i < list->n; i++) {
        if (strcmp(list->items[i], text) == 0) {
            return;
        }
    }
    if (list->n < TRIALS_MAX) {
        VEC_PUSH(a, list, text);
    }
}

static texts scripts_of(struct arena *a, const struct plan_way *way)
{
    texts scripts = {0};
    for (size_t i = 0; i < way->proof.n; i++) {
        if (way->proof.items[i].script) {
            add_once(a, &scripts, way->proof.items[i].script);
        }
    }
    for (size_t i = 0; i < way->mends.n; i++) {
        for (size_t k = 0; k < way->mends.items[i]->scripts.n; k++) {
            add_once(a, &scripts, way->mends.items[i]->scripts.items[k]);
        }
    }
    return scripts;
}

static requests proved_requests(struct arena *a, const struct plan_way *way, const char *script)
{
    requests list = {0};
    for (size_t i = 0; i < way->proof.n; i++) {
        const struct plan_request *r = &way->proof.items[i];
        if (r->after && r->script && strcmp(r->script, script) == 0) {
            VEC_PUSH(a, &list, (struct probe_request){r->name, r->caller, r->after});
        }
    }
    return list;
}

/* With packages the model could not foretell files; it knows them now. */
static requests modelled_requests(struct arena *a, const struct model_process *p)
{
    requests list = {0};
    for (size_t k = 0; k < p->attempts.n; k++) {
        const struct model_attempt *t = &p->attempts.items[k];
        if (t->required && !t->failed && t->load && t->load->path && t->caller) {
            VEC_PUSH(a, &list,
                     (struct probe_request){t->load->name, t->caller->path, t->load->path});
        }
    }
    return list;
}

/* The process that a script stands for; NULL if the model has none of that name. */
static const struct model_process *process_of(struct model *m, const char *words)
{
    for (size_t i = 0; i < m->processes.n; i++) {
        if (strcmp(diag_script_words(m, m->processes.items[i]), words) == 0) {
            return m->processes.items[i];
        }
    }
    return NULL;
}

/* "import a; use a; also b": what an application imports only when it is used is imported in the
 * child too, since a hook acts when its package is imported, and a library may be found only
 * through the module that loads it. */
static const char *steps_of(struct model *m, const struct model_process *p)
{
    struct arena *a = m->arena;
    const char *text = "";
    for (size_t k = 0; k < p->n_script; k++) {
        text = arena_printf(a, "%s%s%s", text, k ? "; " : "", p->script[k]);
    }
    for (size_t i = 0; i < p->imported.n; i++) {
        for (size_t k = 0; k < m->imports.n; k++) {
            const struct kb_import *row = &m->imports.rows[k];
            if (py_name_eq(str_of(row->package), str_of(p->imported.items[i]))) {
                text = arena_printf(a, "%s; also %s", text, row->module);
            }
        }
    }
    return text;
}

static struct trial cannot(const char *why)
{
    return (struct trial){.result = PROBE_CANNOT, .why = why};
}

/* Globs of the libraries that the driver brings. */
static struct kb_strs driver_libraries(const struct model *m)
{
    for (size_t i = 0; i < m->families.n; i++) {
        if (strcmp(m->families.rows[i].id, "driver") == 0) {
            return m->families.rows[i].members;
        }
    }
    return (struct kb_strs){0};
}

static struct trial try_scripts(const struct act *act, const struct plan_way *way,
                                struct looked *looked)
{
    struct model *now = &looked->target.model;
    struct arena *a = act->arena;
    struct trial t = {.result = PROBE_VERIFIED};
    texts scripts = scripts_of(a, way);
    const struct kb_strs driver = driver_libraries(now);
    for (size_t i = 0; i < scripts.n; i++) {
        const char *why;
        const struct model_process *p = process_of(now, scripts.items[i]);
        if (!p) {
            continue; // a program that this environment has no longer
        }
        requests list = way->reach == PLAN_PIP ? modelled_requests(a, p)
                                               : proved_requests(a, way, scripts.items[i]);
        const struct probe_trial trial = {
            .interpreter = act->target->model.env->executable,
            .script = steps_of(now, p),
            .requests = list.items,
            .n_requests = list.n,
            .driver = driver.items,
            .n_driver = driver.n,
            .env = looked->env.vars.items,
            .n_env = looked->env.vars.n,
        };
        enum probe_result result = probe_verify(a, &trial, &why);
        t.scripts++;
        t.requests += list.n;
        if (result != PROBE_VERIFIED && t.result != PROBE_FAILED) {
            t.result = result;
            t.why = arena_printf(a, "%s: %s", scripts.items[i], why);
        }
    }
    if (t.result == PROBE_VERIFIED && t.requests == 0) {
        return cannot(t.scripts ? "the imports work; no library request of them can be tried here"
                                : "the plan names no program to try");
    }
    return t;
}

static struct trial try_out(const struct act *act, const struct plan_way *way, struct looked *now)
{
    struct gm_err err;
    struct model *m = &act->target->model;
    const char *wrong = look_again(act, way, now);
    if (wrong) {
        return (struct trial){.result = PROBE_FAILED, .why = wrong};
    }
    if (m->root->is_host && m->env && m->env->executable &&
        folder_safe_program(act->arena, m->env->executable, &err) < 0) {
        return cannot(arena_strdup(act->arena, err.text));
    }
    return !m->root->is_host     ? cannot("its files belong to another system than this one")
           : !m->env             ? cannot("it is not a Python environment; start the program")
           : !m->env->executable ? cannot("it has no interpreter")
                                 : try_scripts(act, way, now);
}

/* ------------------------------------------------------------------ what is said */

static const char *const result_names[] = {
    [PROBE_VERIFIED] = "verified", [PROBE_FAILED] = "failed", [PROBE_CANNOT] = "not-verified"};

/* What came of it all. */
struct outcome {
    const struct plan_way *way;
    const struct trial *trial;
    const struct looked *now;
    unsigned id;                      // of the journal; 0: it was undone
    const struct probe_report *probe; // NULL: nothing was run, and `no_probe` says why
    const char *no_probe;             // or NULL
};

/* Errors that stand now, and what the way leaves to the start of the program. */
static bool is_partly(const struct outcome *o)
{
    return o->now->by_start || has_error(o->now);
}

static json_t *left_json(const struct act *act, const struct outcome *o)
{
    json_t *list = json_array();
    for (size_t i = 0; o->id && i < o->now->report.findings.n; i++) {
        const struct diag_finding *f = o->now->report.findings.items[i];
        if (f->severity == DIAG_ERROR) {
            (void)json_array_append_new(list, out_json_text(act->arena, f->summary));
        }
    }
    return list;
}

static json_t *start_json(const struct act *act, const struct outcome *o)
{
    json_t *variables = json_object();
    for (size_t i = 0; o->id && o->now->by_start && i < o->way->steps.n; i++) {
        const struct plan_step *s = &o->way->steps.items[i];
        if (apply_step_is_left(o->way, s)) {
            (void)json_object_set_new_nocheck(variables, s->name,
                                              out_json_text(act->arena, s->value));
        }
    }
    return variables;
}

static json_t *outcome_json(const struct act *act, const struct outcome *o)
{
    json_t *doc = json_object();
    const struct trial *t = o->trial;
    (void)json_object_set_new(doc, "schema", json_integer(1));
    (void)json_object_set_new(doc, "did", json_string("apply"));
    (void)json_object_set_new(doc, "journal", o->id ? json_integer(o->id) : json_null());
    (void)json_object_set_new(doc, "title", out_json_text(act->arena, o->way->title));
    (void)json_object_set_new(doc, "result", json_string(result_names[t->result]));
    (void)json_object_set_new(doc, "why", out_json_text(act->arena, t->why));
    (void)json_object_set_new(doc, "taken_back", json_boolean(!o->id));
    (void)json_object_set_new(doc, "requests_tried", json_integer((json_int_t)t->requests));
    (void)json_object_set_new(doc, "left", left_json(act, o));
    (void)json_object_set_new(doc, "start", start_json(act, o));
    (void)json_object_set_new(
        doc, "probe",
        o->probe ? report_joined_json(&o->now->target.model, o->probe, &o->now->report)
                 : json_null());
    (void)json_object_set_new(doc, "probe_why", out_json_text(act->arena, o->no_probe));
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
    struct arena *a = act->arena;
    const char *system = act->is_system ? *option ? "--system " : "--system" : "";
    const char *options = arena_printf(a, "%s%s", system, option);
    return str_printable(a, model_command(&act->target->model, command, options));
}

/* `fix` with all that this target was looked at with: the same plan. */
static const char *plan_command(const struct act *act, const char *option)
{
    return command_of(act, "fix",
                      arena_printf(act->arena, "%s%s%s", act->options,
                                   *act->options && *option ? " " : "", option));
}

static void say_label(const struct out *o, enum out_style style, const char *label)
{
    out_print(o, style, "%s", label);
    fprintf(o->file, "%*s", (int)(10 - strlen(label)), "");
}

static void say_trial(const struct act *act, const struct out *o, const struct outcome *of)
{
    const struct trial *t = of->trial;
    if (t->result != PROBE_VERIFIED) {
        out_print(o, OUT_YELLOW, "not verified  ");
        out_wrap(o, 14, str_printable(act->arena, t->why));
        return;
    }
    say_label(o, is_partly(of) ? OUT_YELLOW : OUT_GREEN, is_partly(of) ? "partly" : "repaired");
    fprintf(o->file,
            "tried out by the environment's interpreter: %zu program%s, %zu library "
            "request%s\n",
            t->scripts, t->scripts == 1 ? "" : "s", t->requests, t->requests == 1 ? "" : "s");
}

/* What the way leaves to the start: by files instead, or by the variable. */
static void say_start(const struct act *act, const struct out *o, const struct outcome *of)
{
    bool first = true;
    for (size_t i = 0; i < of->way->steps.n; i++) {
        const struct plan_step *s = &of->way->steps.items[i];
        if (!apply_step_is_left(of->way, s)) {
            continue;
        }
        if (first) {
            say_label(o, OUT_YELLOW, "to do");
            out_wrap(o, 10, str_printable(act->arena, s->text));
            fprintf(o->file, "            %s\n", plan_command(act, "--apply"));
            fprintf(o->file, "          or, for one start,\n");
        }
        first = false;
        fprintf(o->file, "            %s\n",
                s->command ? str_printable(act->arena, s->command) : "gpumend run -- COMMAND");
    }
}

static void say_left(const struct act *act, const struct out *o, const struct outcome *of)
{
    bool any = false;
    for (size_t i = 0; i < of->now->report.findings.n; i++) {
        const struct diag_finding *f = of->now->report.findings.items[i];
        if (f->severity == DIAG_ERROR) {
            say_label(o, OUT_RED, "still");
            out_wrap(o, 10, str_printable(act->arena, f->summary));
            any = true;
        }
    }
    if (any) {
        fprintf(o->file, "            %s\n", plan_command(act, ""));
        fprintf(o->file, "          lists the ways that are left\n");
    }
}

/* Whether the GPU works now, with what was changed. */
static void say_probe(const struct act *act, const struct out *o, const struct outcome *of)
{
    struct arena *a = act->arena;
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
    out_wrap(&o, 10, str_printable(act->arena, of->way->title));
    say_trial(act, &o, of);
    if (of->now->by_start) {
        say_start(act, &o, of);
    }
    say_left(act, &o, of);
    say_probe(act, &o, of);
    say_label(&o, OUT_PLAIN, "undo");
    printf("%s (journal %u)\n",
           enabled ? command_of(act, "disable", "") : command_of(act, "fix", "--undo"), of->id);
}

static int failed(const struct act *act, struct apply_session *done, const struct outcome *of)
{
    struct gm_err err;
    struct out o;
    out_init(&o, stdout);
    const char *why = str_printable(act->arena, of->trial->why);
    if (apply_take_back(done, &err) < 0) {
        return cli_fail(CLI_CANNOT, "%s: it does not help (%s), and taking it back failed: %s",
                        act->command, why, str_printable(act->arena, err.text));
    }
    if (act->json) {
        return dump(outcome_json(act, of), CLI_FINDINGS);
    }
    say_label(&o, OUT_RED, "failed");
    out_wrap(&o, 10, why);
    printf("          It was undone: everything is as it was before.\n");
    return CLI_FINDINGS;
}

/* After a repair the GPU is run with what the target would load now; into `report`. */
static void probe_now(const struct act *act, struct looked *now, struct probe_report *report,
                      struct outcome *of)
{
    struct gm_err err;
    const struct model *m = &now->target.model;
    const struct cli_probing p = {.model = &now->target.model, .named = act->asked->target != NULL};
    if (strcmp(act->command, "fix") != 0) {
        of->no_probe = arena_printf(act->arena, "%s does not run the GPU", act->command);
    } else if (!m->root->is_host) {
        of->no_probe = "its files belong to another system than this one";
    } else if (!probe_is_worth_it(m)) {
        of->no_probe = "cannot tell without a driver";
    } else if (cli_probing_run(&p, report, &err) < 0) {
        of->no_probe = arena_strdup(act->arena, err.text);
    } else {
        of->probe = report;
        of->no_probe = NULL;
    }
}

/* A GPU that does not work is an error, whatever was mended; what cannot be told is none. */
static int status_of(const struct outcome *of)
{
    const struct probe_report *p = of->probe;
    bool broken = p && (p->verdict == PROBE_BROKEN || p->verdict == PROBE_BUSY);
    return of->trial->result != PROBE_VERIFIED ? CLI_CANNOT
           : is_partly(of) || broken           ? CLI_FINDINGS
                                               : CLI_OK;
}

static int settled(const struct act *act, struct apply_session *done, const struct plan_way *way,
                   struct looked *now)
{
    struct gm_err err;
    struct trial t = try_out(act, way, now);
    struct outcome of = {.way = way, .trial = &t, .now = now, .no_probe = "it was undone"};
    struct probe_report report;
    if (t.result == PROBE_FAILED) {
        return failed(act, done, &of);
    }
    if (apply_verified(done, t.result == PROBE_VERIFIED ? "verified" : t.why, &err) < 0) {
        return cli_fail(CLI_CANNOT, "%s: %s", act->command, str_printable(act->arena, err.text));
    }
    of.id = done->id;
    probe_now(act, now, &report, &of);
    int status = status_of(&of);
    if (act->json) {
        return dump(outcome_json(act, &of), status);
    }
    say_outcome(act, &of);
    return status;
}

int act_apply(const struct act *act, const struct plan_way *way)
{
    struct gm_err err;
    struct apply_session done;
    struct looked now = {.target = {.root = ROOT_EMPTY}};
    const struct apply_options o = {
        .what = act->command,
        .packages = act->packages,
        .is_system = act->is_system,
        .env = act->asked->env,
        .n_env = act->asked->n_env,
    };
    int rc = apply_way(&act->target->model, way, &o, &done, &err);
    rc = rc < 0 ? cli_fail(CLI_CANNOT, "%s: %s", act->command, str_printable(act->arena, err.text))
                : settled(act, &done, way, &now);
    model_target_close(&now.target);
    apply_close(&done);
    return rc;
}

static int recover(const struct act *act, unsigned *ret_count)
{
    struct gm_err err;
    struct model_target early;
    struct model_target_options asked = *act->asked;
    asked.only_open = true;
    int rc = model_target_open(&early, act->arena, &asked, &err);
    rc = rc < 0 ? rc : apply_recover(&early.model, act->is_system, ret_count, &err);
    model_target_close(&early);
    return rc < 0
               ? cli_fail(CLI_CANNOT, "%s: %s", act->command, str_printable(act->arena, err.text))
               : CLI_OK;
}

int act_open(const struct act *act)
{
    struct gm_err err;
    unsigned count = 0;
    int rc = recover(act, &count);
    if (rc != CLI_OK) {
        return rc;
    }
    if (count) {
        fprintf(stderr, "gpumend: %u interrupted before, undone first\n", count);
    }
    return model_target_open(act->target, act->arena, act->asked, &err) == 0
               ? CLI_OK
               : cli_fail(CLI_CANNOT, "%s: %s", act->command, str_printable(act->arena, err.text));
}

/* The place that is asked about, for a sentence. */
static const char *place_of(const struct act *act)
{
    const struct model *m = &act->target->model;
    const char *path = m->env && m->env->prefix ? m->env->prefix : m->target_file;
    return act->is_system ? "the system" : path ? str_printable(act->arena, path) : "this target";
}

int act_remove_hook(const struct act *act, bool *ret_removed)
{
    struct gm_err err;
    const char *site = NULL;
    *ret_removed = false;
    if (apply_remove_hook(&act->target->model, &site, &err) < 0) {
        return cli_fail(CLI_CANNOT, "%s: %s", act->command, str_printable(act->arena, err.text));
    }
    *ret_removed = site != NULL;
    return CLI_OK;
}

int act_undo(const struct act *act, unsigned id, const char *what)
{
    struct gm_err err;
    unsigned done;
    bool removed = false;
    if (apply_undo(&act->target->model, act->is_system, id, what, &done, &err) < 0) {
        return cli_fail(CLI_CANNOT, "%s: %s", act->command, str_printable(act->arena, err.text));
    }
    if (id && !done) {
        return cli_fail(CLI_USAGE, "%s: there is no journal %u (%s)", act->command, id,
                        command_of(act, "fix", "--list"));
    }
    int rc = what && !done ? act_remove_hook(act, &removed) : CLI_OK;
    if (rc != CLI_OK) {
        return rc;
    }
    rc = done || what ? CLI_OK : CLI_CANNOT; // without a hook disable has nothing left to do
    if (act->json) {
        json_t *doc = json_pack("{s:i, s:s, s:o}", "schema", 1, "did", "undo", "journal",
                                done ? json_integer(done) : json_null());
        return dump(doc, rc);
    }
    if (done) {
        printf("undone      journal %u: everything is as it was before\n", done);
    } else if (removed) {
        printf("removed     the start-up hook of %s, which no journal lists\n", place_of(act));
    } else {
        printf("nothing was applied to %s that could be undone\n", place_of(act));
    }
    return rc;
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
    if (apply_list_journals(&act->target->model, act->is_system, &list, &err) < 0) {
        return cli_fail(CLI_CANNOT, "%s: %s", act->command, str_printable(act->arena, err.text));
    }
    if (act->json) {
        json_t *array = json_array();
        for (size_t i = 0; i < list.items.n; i++) {
            (void)json_array_append_new(array, listed_json(act->arena, &list.items.items[i]));
        }
        return dump(json_pack("{s:i, s:s, s:o}", "schema", 1, "did", "list", "journals", array),
                    CLI_OK);
    }
    for (size_t i = 0; i < list.items.n; i++) {
        say_listed(act->arena, &list.items.items[i]);
    }
    if (!list.items.n) {
        printf("nothing is applied here\n");
    }
    return CLI_OK;
}
