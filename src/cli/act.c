#include "cli/act.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "probe/verify.h"

enum { TRIALS_MAX = 8 }; // scripts that are tried; each is one start of the interpreter

/* What came of trying a repair. */
struct trial {
    enum probe_result result;
    const char *why; // one sentence, or NULL
    size_t scripts, requests;
};

/* ------------------------------------------------------------------ the model, once more */

static bool has_hook(const struct mend_way *way)
{
    for (size_t i = 0; i < way->steps.n; i++) {
        if (way->steps.items[i].kind == MEND_HOOK) {
            return true;
        }
    }
    return false;
}

static bool still_found(const struct diag_report *report, const struct diag_finding *f)
{
    for (size_t i = 0; i < report->findings.n; i++) {
        const struct diag_finding *now = report->findings.items[i];
        if (now->cause == f->cause && strcmp(now->culprit, f->culprit) == 0) {
            return true;
        }
    }
    return false;
}

/* The start environment with the variables that the way leaves to the start. */
static struct cli_env start_env(const struct act *act, const struct mend_way *way)
{
    struct cli_env env = {0};
    for (size_t i = 0; i < act->asked->n_env; i++) {
        VEC_PUSH(act->arena, &env.vars, act->asked->env[i]);
    }
    for (size_t i = 0; i < way->steps.n; i++) {
        const struct mend_step *s = &way->steps.items[i];
        if (!mend_step_is_left(way, s)) {
            continue;
        }
        cli_env_unset(&env, s->name);
        if (s->value) {
            VEC_PUSH(act->arena, &env.vars, arena_printf(act->arena, "%s=%s", s->name, s->value));
        }
    }
    return env;
}

/* The target looked at again, as it is now. NULL: it shows none of the mended findings any more. */
static const char *replay(const struct act *act, const struct mend_way *way,
                          struct model_target *again)
{
    struct gm_err err;
    struct diag_report report;
    struct model_target_options asked = *act->asked;
    struct cli_env env = start_env(act, way);
    asked.env = env.vars.items;
    asked.n_env = env.vars.n;
    asked.only_open = false;
    if (model_target_open(again, act->arena, &asked, &err) < 0) {
        return arena_printf(act->arena, "the target cannot be looked at any more: %s", err.text);
    }
    diag_run(&again->model, &report);
    for (size_t i = 0; i < way->mends.n; i++) {
        if (still_found(&report, way->mends.items[i])) {
            return arena_printf(act->arena, "looked at again, it still has: %s",
                                way->mends.items[i]->summary);
        }
    }
    return NULL;
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

static texts scripts_of(struct arena *a, const struct mend_way *way)
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

static requests proved_requests(struct arena *a, const struct mend_way *way, const char *script)
{
    requests list = {0};
    for (size_t i = 0; i < way->proof.n; i++) {
        const struct mend_request *r = &way->proof.items[i];
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

/* "import a; use a" */
static const char *steps_of(struct arena *a, const struct model_process *p)
{
    const char *text = "";
    for (size_t k = 0; k < p->n_script; k++) {
        text = arena_printf(a, "%s%s%s", text, k ? "; " : "", p->script[k]);
    }
    return text;
}

static struct trial cannot(const char *why)
{
    return (struct trial){.result = PROBE_CANNOT, .why = why};
}

static struct trial try_scripts(const struct act *act, const struct mend_way *way,
                                struct model *now)
{
    struct arena *a = act->arena;
    struct trial t = {.result = PROBE_VERIFIED};
    texts scripts = scripts_of(a, way);
    struct cli_env env = start_env(act, way);
    for (size_t i = 0; i < scripts.n; i++) {
        const char *why;
        const struct model_process *p = process_of(now, scripts.items[i]);
        if (!p) {
            continue; // a program that this environment has no longer
        }
        requests list = way->reach == MEND_PIP ? modelled_requests(a, p)
                                               : proved_requests(a, way, scripts.items[i]);
        const struct probe_trial trial = {
            .interpreter = act->target->model.env->executable,
            .script = steps_of(a, p),
            .requests = list.items,
            .n_requests = list.n,
            .env = env.vars.items,
            .n_env = env.vars.n,
            .cwd = act->asked->cwd,
        };
        enum probe_result result = probe_verify(a, &trial, &why);
        t.scripts++;
        t.requests += list.n;
        if (result != PROBE_VERIFIED && t.result != PROBE_FAILED) {
            t.result = result;
            t.why = arena_printf(a, "%s: %s", scripts.items[i], why);
        }
    }
    return t.scripts ? t : cannot("the plan names no program to try");
}

static struct trial try_out(const struct act *act, const struct mend_way *way)
{
    struct model *m = &act->target->model;
    struct model_target again = {.root = ROOT_EMPTY};
    const char *wrong = has_hook(way) ? NULL : replay(act, way, &again);
    struct trial t = {.result = PROBE_FAILED, .why = wrong};
    if (!wrong) {
        t = !m->root->is_host          ? cannot("its files belong to another system than this one")
            : !m->env                  ? cannot("it is no Python environment; start the program")
            : !m->env->executable      ? cannot("it has no interpreter")
                                       : try_scripts(act, way, has_hook(way) ? m : &again.model);
    }
    if (!has_hook(way)) {
        model_target_close(&again);
    }
    return t;
}

/* ------------------------------------------------------------------ what is said */

static const char *const result_names[] = {[PROBE_VERIFIED] = "verified",
                                           [PROBE_FAILED] = "failed",
                                           [PROBE_CANNOT] = "not-verified"};

static json_t *outcome_json(const struct act *act, const struct mend_applied *done,
                            const struct mend_way *way, const struct trial *t, bool undone)
{
    json_t *doc = json_object();
    (void)json_object_set_new(doc, "schema", json_integer(1));
    (void)json_object_set_new(doc, "did", json_string("apply"));
    (void)json_object_set_new(doc, "journal", undone ? json_null() : json_integer(done->id));
    (void)json_object_set_new(doc, "title", out_json_text(act->arena, way->title));
    (void)json_object_set_new(doc, "result", json_string(result_names[t->result]));
    (void)json_object_set_new(doc, "why", out_json_text(act->arena, t->why));
    (void)json_object_set_new(doc, "taken_back", json_boolean(undone));
    (void)json_object_set_new(doc, "requests_tried", json_integer((json_int_t)t->requests));
    return doc;
}

static int dump(json_t *doc, int status)
{
    return out_json_dump(stdout, doc) < 0 ? cli_fail(CLI_CANNOT, "cannot write the output") : status;
}

static void say_outcome(const struct act *act, const struct mend_applied *done,
                        const struct mend_way *way, const struct trial *t)
{
    struct out o;
    out_init(&o, stdout);
    const char *undo = strcmp(act->command, "enable") == 0 ? "gpumend disable" : "gpumend fix --undo";
    printf("applied   %s\n", str_printable(act->arena, way->title));
    if (t->result == PROBE_VERIFIED) {
        out_print(&o, OUT_GREEN, "repaired  ");
        printf("tried by the environment's interpreter: %zu program%s, %zu request%s\n", t->scripts,
               t->scripts == 1 ? "" : "s", t->requests, t->requests == 1 ? "" : "s");
    } else {
        out_print(&o, OUT_YELLOW, "not verified  ");
        out_wrap(&o, 14, str_printable(act->arena, t->why));
        putchar('\n');
    }
    for (size_t i = 0; i < way->steps.n; i++) {
        const struct mend_step *s = &way->steps.items[i];
        if (mend_step_is_left(way, s)) {
            printf("still     %s\n", str_printable(act->arena, s->text));
            printf("            %s\n", s->command ? str_printable(act->arena, s->command) : "gpumend run");
            printf("          (gpumend fix --apply puts links or a hook there instead)\n");
        }
    }
    printf("journal   %u (%s takes it back)\n", done->id, undo);
}

static int failed(const struct act *act, struct mend_applied *done, const struct mend_way *way,
                  const struct trial *t)
{
    struct gm_err err;
    if (mend_take_back(done, &err) < 0) {
        return cli_fail(CLI_CANNOT, "%s: it does not help (%s), and taking it back failed: %s",
                        act->command, str_printable(act->arena, t->why),
                        str_printable(act->arena, err.text));
    }
    if (act->json) {
        return dump(outcome_json(act, done, way, t, true), CLI_FINDINGS);
    }
    printf("failed    %s\n", str_printable(act->arena, t->why));
    printf("          everything is as it was before\n");
    return CLI_FINDINGS;
}

static int settled(const struct act *act, struct mend_applied *done, const struct mend_way *way)
{
    struct gm_err err;
    struct trial t = try_out(act, way);
    if (t.result == PROBE_FAILED) {
        return failed(act, done, way, &t);
    }
    if (mend_verified(done, t.result == PROBE_VERIFIED ? "verified" : t.why, &err) < 0) {
        return cli_fail(CLI_CANNOT, "%s: %s", act->command, str_printable(act->arena, err.text));
    }
    int status = t.result == PROBE_VERIFIED ? CLI_OK : CLI_CANNOT;
    if (act->json) {
        return dump(outcome_json(act, done, way, &t, false), status);
    }
    say_outcome(act, done, way, &t);
    return status;
}

int act_apply(const struct act *act, const struct mend_way *way)
{
    struct gm_err err;
    struct mend_applied done;
    const struct mend_apply_options o = {
        .what = act->command,
        .packages = act->packages,
        .is_system = act->is_system,
        .env = act->asked->env,
        .n_env = act->asked->n_env,
    };
    int rc = mend_apply(&act->target->model, way, &o, &done, &err);
    rc = rc < 0 ? cli_fail(CLI_CANNOT, "%s: %s", act->command, str_printable(act->arena, err.text))
                : settled(act, &done, way);
    mend_applied_close(&done);
    return rc;
}

static int recover(const struct act *act, unsigned *ret_count)
{
    struct gm_err err;
    struct model_target early;
    struct model_target_options asked = *act->asked;
    asked.only_open = true;
    int rc = model_target_open(&early, act->arena, &asked, &err);
    rc = rc < 0 ? rc : mend_recover(&early.model, act->is_system, ret_count, &err);
    model_target_close(&early);
    return rc < 0 ? cli_fail(CLI_CANNOT, "%s: %s", act->command, str_printable(act->arena, err.text))
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
        fprintf(stderr, "gpumend: %u interrupted before, taken back first\n", count);
    }
    return model_target_open(act->target, act->arena, act->asked, &err) == 0
               ? CLI_OK
               : cli_fail(CLI_CANNOT, "%s: %s", act->command, str_printable(act->arena, err.text));
}

int act_undo(const struct act *act, unsigned id, const char *what)
{
    struct gm_err err;
    unsigned done;
    if (mend_undo(&act->target->model, act->is_system, id, what, &done, &err) < 0) {
        return cli_fail(CLI_CANNOT, "%s: %s", act->command, str_printable(act->arena, err.text));
    }
    if (id && !done) {
        return cli_fail(CLI_USAGE, "%s: there is no journal %u (gpumend fix --list)", act->command, id);
    }
    if (act->json) {
        json_t *doc = json_pack("{s:i, s:s, s:o}", "schema", 1, "did", "undo", "journal",
                                done ? json_integer(done) : json_null());
        return dump(doc, CLI_OK);
    }
    if (done) {
        printf("taken back  journal %u: everything is as it was before\n", done);
    } else {
        printf("nothing was applied here that could be taken back\n");
    }
    return CLI_OK;
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

static json_t *listed_json(struct arena *a, const struct mend_listed *l)
{
    const struct journal *j = &l->journal;
    json_t *one = json_object();
    (void)json_object_set_new(one, "journal", json_integer(l->id));
    (void)json_object_set_new(one, "state", json_string(l->error ? "damaged"
                                                                 : journal_state_name(journal_state(j))));
    (void)json_object_set_new(one, "command", out_json_text(a, l->error ? NULL : j->what));
    (void)json_object_set_new(one, "title", out_json_text(a, l->error ? NULL : j->title));
    (void)json_object_set_new(one, "at", l->error || !j->begun ? json_null()
                                                               : json_string(when(a, j->at_s)));
    (void)json_object_set_new(one, "verified", out_json_text(a, l->error ? NULL : j->verified));
    (void)json_object_set_new(one, "error", out_json_text(a, l->error));
    return one;
}

static void say_listed(struct arena *a, const struct mend_listed *l)
{
    const struct journal *j = &l->journal;
    if (l->error) {
        printf("%4u  damaged: %s\n", l->id, str_printable(a, l->error));
        return;
    }
    printf("%4u  %-16s  %s  %-7s %s\n", l->id, journal_state_name(journal_state(j)),
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
    struct mend_list list;
    if (mend_list_journals(&act->target->model, act->is_system, &list, &err) < 0) {
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
