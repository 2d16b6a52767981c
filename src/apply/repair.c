#include "apply/repair.h"

#include <string.h>

#include "apply/imports.h"
#include "base/env.h"
#include "py/requirement.h"

enum { TRIALS_MAX = 8 }; // scripts that are tried; each is one start of the interpreter

/* What came of trying a repair. */
struct trial {
    enum apply_result result;
    const char *why; // one sentence, or NULL
    size_t n_scripts, n_requests;
};

/* ------------------------------------------------------------------ the model, once more */

static bool finding_has_text(const struct diag_finding *f, const char *culprit)
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
        if (g->cause == f->cause &&
            (finding_has_text(g, f->culprit) || finding_has_text(f, g->culprit))) {
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
static void set_start_env(const struct apply_order *o, const struct plan_way *way, bool by_start,
                          struct apply_repaired *now)
{
    struct arena *a = o->arena;
    now->env.n = 0;
    for (size_t i = 0; i < o->asked->n_env; i++) {
        bool changed = false;
        for (size_t k = 0; by_start && k < way->steps.n; k++) {
            const struct plan_step *s = &way->steps.items[k];
            changed |= apply_step_is_left(way, s) && env_value_of(o->asked->env[i], s->name);
        }
        if (!changed) {
            VEC_PUSH(a, &now->env, o->asked->env[i]);
        }
    }
    for (size_t k = 0; by_start && k < way->steps.n; k++) {
        const struct plan_step *s = &way->steps.items[k];
        if (apply_step_is_left(way, s) && s->value) {
            VEC_PUSH(a, &now->env, arena_printf(a, "%s=%s", s->name, s->value));
        }
    }
}

/* What of the mended findings still stands, as a sentence; NULL: none does. */
static const char *still_has(struct arena *a, const struct apply_repaired *now)
{
    const struct plan_way *way = now->way;
    for (size_t i = 0; i < way->mends.n; i++) {
        if (is_found(&now->report, way->mends.items[i])) {
            return arena_printf(a, "checked again, it still has: %s", way->mends.items[i]->summary);
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
static const char *breaks(struct arena *a, const struct apply_repaired *now)
{
    for (size_t i = 0; i < now->report.findings.n; i++) {
        const struct diag_finding *f = now->report.findings.items[i];
        bool new = f->severity == DIAG_ERROR && !is_found(now->before, f);
        for (size_t k = 0; new &&k < f->scripts.n; k++) {
            if (!had_error(now->before, f->scripts.items[k])) {
                return arena_printf(a, "it breaks what worked: %s", f->summary);
            }
        }
    }
    return NULL;
}

/* Looks at the target again, as it is now. NULL: it shows none of the mended findings any more, and
 * no program is broken that was not. */
static const char *replay(const struct apply_order *o, bool by_start, struct apply_repaired *now)
{
    struct gm_err err;
    struct model_target_options asked = *o->asked;
    now->by_start = by_start;
    set_start_env(o, now->way, by_start, now);
    asked.env = now->env.items;
    asked.n_env = now->env.n;
    asked.only_open = false;
    if (model_target_open(&now->target, o->arena, &asked, &err) < 0) {
        return arena_printf(o->arena, "the target can no longer be checked: %s", err.text);
    }
    diag_run(&now->target.model, &now->report);
    const char *wrong = still_has(o->arena, now);
    return wrong ? wrong : breaks(o->arena, now);
}

bool apply_has_error(const struct diag_report *report)
{
    for (size_t i = 0; i < report->findings.n; i++) {
        if (report->findings.items[i]->severity == DIAG_ERROR) {
            return true;
        }
    }
    return false;
}

/* What the way leaves to the start counts only where something is wrong without it. */
static const char *look_again(const struct apply_order *o, struct apply_repaired *now)
{
    const char *wrong = replay(o, false, now);
    if (!has_left_step(now->way) || (!wrong && !apply_has_error(&now->report))) {
        return wrong;
    }
    model_target_close(&now->target);
    now->target = (struct model_target){.root = ROOT_EMPTY};
    return replay(o, true, now);
}

/* ------------------------------------------------------------------ what is tried */

typedef VEC(struct apply_request) requests;
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
            VEC_PUSH(a, &list, (struct apply_request){r->name, r->caller, r->after});
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
                     (struct apply_request){t->load->name, t->caller->path, t->load->path});
        }
    }
    return list;
}

/* The process that a script stands for; NULL if the model has none of that name. */
static const struct model_process *process_by_words(struct model *m, const char *words)
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

static struct trial trial_cannot(const char *why)
{
    return (struct trial){.result = APPLY_CANNOT, .why = why};
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

static struct trial try_scripts(const struct apply_order *o, struct apply_repaired *now)
{
    struct model *m = &now->target.model;
    struct arena *a = o->arena;
    const struct plan_way *way = now->way;
    struct trial t = {.result = APPLY_VERIFIED};
    texts scripts = scripts_of(a, way);
    const struct kb_strs driver = driver_libraries(m);
    for (size_t i = 0; i < scripts.n; i++) {
        const char *why;
        const struct model_process *p = process_by_words(m, scripts.items[i]);
        if (!p) {
            continue; // a program that this environment has no longer
        }
        requests list = way->reach == PLAN_PIP ? modelled_requests(a, p)
                                               : proved_requests(a, way, scripts.items[i]);
        const struct apply_trial trial = {
            .interpreter = o->target->model.env->executable,
            .script = steps_of(m, p),
            .requests = list.items,
            .n_requests = list.n,
            .driver = driver.items,
            .n_driver = driver.n,
            .env = now->env.items,
            .n_env = now->env.n,
        };
        enum apply_result result = apply_try(a, &trial, &why);
        t.n_scripts++;
        t.n_requests += list.n;
        if (result != APPLY_VERIFIED && t.result != APPLY_FAILED) {
            t.result = result;
            t.why = arena_printf(a, "%s: %s", scripts.items[i], why);
        }
    }
    if (t.result == APPLY_VERIFIED && t.n_requests == 0) {
        return trial_cannot(t.n_scripts
                                ? "the imports work; no library request of them can be tried here"
                                : "the plan names no program to try");
    }
    return t;
}

static struct trial try_out(const struct apply_order *o, struct apply_repaired *now)
{
    struct gm_err err;
    struct model *m = &o->target->model;
    const char *wrong = look_again(o, now);
    if (wrong) {
        return (struct trial){.result = APPLY_FAILED, .why = wrong};
    }
    if (m->root->is_host && m->env && m->env->executable &&
        apply_start_check(o->arena, m->env, &err) < 0) {
        return trial_cannot(arena_strdup(o->arena, err.text));
    }
    return !m->root->is_host     ? trial_cannot("its files belong to another system than this one")
           : !m->env             ? trial_cannot("it is not a Python environment; start the program")
           : !m->env->executable ? trial_cannot("it has no interpreter")
                                 : try_scripts(o, now);
}

/* ------------------------------------------------------------------ from beginning to end */

const char *apply_command(const struct apply_order *o, const char *command, const char *option)
{
    const char *system = o->is_system ? *option ? "--system " : "--system" : "";
    return model_command(&o->target->model, command,
                         arena_printf(o->arena, "%s%s", system, option));
}

/* Tried, and then noted or taken back. */
static int session_settle(const struct apply_order *o, struct apply_session *done,
                          struct apply_repaired *ret, struct gm_err *err)
{
    const struct trial t = try_out(o, ret);
    struct gm_err undoing;
    ret->result = t.result;
    ret->why = t.why;
    ret->n_scripts = t.n_scripts;
    ret->n_requests = t.n_requests;
    if (t.result != APPLY_FAILED) {
        ret->id = done->id;
        return apply_verified(done, t.result == APPLY_VERIFIED ? "verified" : t.why, err);
    }
    if (apply_take_back(done, &undoing) < 0) {
        return gm_err_set(err, undoing.code,
                          "it does not help (%.200s), and taking it back failed: %.250s", t.why,
                          undoing.text);
    }
    return 0;
}

static struct apply_options options_of(const struct apply_order *o, const char *what)
{
    return (struct apply_options){
        .what = what,
        .packages = o->packages,
        .is_system = o->is_system,
        .quiet = o->quiet,
        .env = o->asked->env,
        .n_env = o->asked->n_env,
    };
}

static int carry_through(const struct apply_order *o, const struct plan_way *way,
                         const struct apply_options *options, struct apply_repaired *ret,
                         struct gm_err *err)
{
    struct apply_session done;
    int rc = apply_way(&o->target->model, way, options, &done, err);
    if (rc == 0) {
        ret->way = way;
        rc = session_settle(o, &done, ret, err);
    }
    apply_close(&done);
    return rc;
}

static struct apply_repaired nothing_done(const struct diag_report *before)
{
    return (struct apply_repaired){.target = {.root = ROOT_EMPTY}, .before = before};
}

int apply_fix(const struct apply_order *o, const struct plan *plan,
              const struct diag_report *before, struct apply_repaired *ret, struct gm_err *err)
{
    const struct apply_options options = options_of(o, "fix");
    const char *why;
    *ret = nothing_done(before);
    const struct plan_way *way = apply_best(&o->target->model, plan, &options, &why);
    if (way) {
        return carry_through(o, way, &options, ret, err);
    }
    return plan->ways.n ? gm_err_set(err, GM_ERR_UNSUPPORTED, "nothing can be applied: %s", why)
                        : 0;
}

/* The hook that is there, with its journal or without: a new one takes its place. */
static int take_hook_away(const struct apply_order *o, struct gm_err *err)
{
    unsigned done;
    const char *site;
    int rc = apply_undo(&o->target->model, false, 0, "enable", &done, err);
    return rc < 0 ? rc : apply_remove_hook(&o->target->model, &site, err);
}

/* Why no hook is put in. */
static int refuse_hook(const struct apply_order *o, const struct diag_report *report,
                       const struct plan *plan, const char *site_of_hook, struct gm_err *err)
{
    const struct model *m = &o->target->model;
    if (site_of_hook) {
        return gm_err_set(err, GM_ERR_UNSUPPORTED,
                          "%s has a hook, and without it none would be made now; it stays as it "
                          "is (%s removes it)",
                          site_of_hook, model_command(m, "disable", ""));
    }
    if (report->verdict == DIAG_OK) {
        return gm_err_set(err, GM_ERR_UNSUPPORTED,
                          "check finds no error here, so there is nothing to load");
    }
    return gm_err_set(err, GM_ERR_UNSUPPORTED,
                      "no hook helps here%s%s (%s lists the repairs that do)",
                      plan->cannot.n ? ": " : "", plan->cannot.n ? plan->cannot.items[0] : "",
                      model_command(m, "fix", o->options));
}

int apply_enable(const struct apply_order *o, struct apply_repaired *ret, struct gm_err *err)
{
    struct model *m = &o->target->model;
    struct diag_report *before = arena_alloc(o->arena, sizeof *before);
    struct plan *plan = arena_alloc(o->arena, sizeof *plan);
    const struct apply_options options = options_of(o, "enable");
    *ret = nothing_done(before);
    const char *site = apply_hook_site(m);
    if (!site) {
        return gm_err_set(err, GM_ERR_UNSUPPORTED,
                          "a hook needs a Python environment with its own site-packages");
    }
    bool is_there = model_hook_stands(m->root, o->arena, site);
    diag_run(m, before);
    plan_make(m, before, &(struct plan_options){.manner = PLAN_IN_PROCESS}, plan);
    const struct plan_way *way = plan_hook_way(plan);
    if (!way) {
        return refuse_hook(o, before, plan, is_there ? site : NULL, err);
    }
    int rc = is_there ? take_hook_away(o, err) : 0;
    return rc < 0 ? rc : carry_through(o, way, &options, ret, err);
}

void apply_repaired_close(struct apply_repaired *r)
{
    model_target_close(&r->target);
}

/* ------------------------------------------------------------------ opening, taking back */

static int recover_early(const struct apply_order *o, unsigned *ret_count, struct gm_err *err)
{
    struct model_target early;
    struct model_target_options asked = *o->asked;
    asked.only_open = true;
    int rc = model_target_open(&early, o->arena, &asked, err);
    rc = rc < 0 ? rc : apply_recover(&early.model, o->is_system, ret_count, err);
    model_target_close(&early);
    return rc;
}

int apply_open(const struct apply_order *o, bool without_hook, unsigned *ret_recovered,
               struct gm_err *err)
{
    struct model_target_options asked = *o->asked;
    const char **env = arena_array(o->arena, asked.n_env + 1, sizeof *env);
    for (size_t i = 0; i < asked.n_env; i++) {
        env[i] = asked.env[i];
    }
    env[asked.n_env] = "GPUMEND_HOOK=0";
    asked.env = without_hook ? env : asked.env;
    asked.n_env += without_hook;
    *ret_recovered = 0;
    int rc = recover_early(o, ret_recovered, err);
    return rc < 0 ? rc : model_target_open(o->target, o->arena, &asked, err);
}

int apply_fix_undo(const struct apply_order *o, unsigned id, unsigned *ret_id, struct gm_err *err)
{
    int rc = apply_undo(&o->target->model, o->is_system, id, NULL, ret_id, err);
    return rc == 0 && id && !*ret_id ? gm_err_set(err, GM_ERR_USAGE, "there is no journal %u (%s)",
                                                  id, apply_command(o, "fix", "--list"))
                                     : rc;
}

int apply_disable(const struct apply_order *o, unsigned *ret_id, bool *ret_removed,
                  struct gm_err *err)
{
    const char *site = NULL;
    int rc = apply_undo(&o->target->model, o->is_system, 0, "enable", ret_id, err);
    rc = rc < 0 || *ret_id ? rc : apply_remove_hook(&o->target->model, &site, err);
    *ret_removed = rc == 0 && site;
    return rc;
}
