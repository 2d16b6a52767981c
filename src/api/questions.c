/* gm_check, gm_why, gm_choose, gm_plan, gm_explain: the answers of the rooms as plain structs. */
#include <string.h>

#include "api/internal.h"
#include "choose/choose.h"
#include "plan/plan.h"
#include "launch/program.h"
#include "report/process.h"

/* ------------------------------------------------------------------ check */

static enum gm_severity gm_severity_of(enum diag_severity severity)
{
    static const enum gm_severity severities[] = {
        [DIAG_NOTE] = GM_NOTE, [DIAG_WARNING] = GM_WARNING, [DIAG_ERROR] = GM_ERROR};
    return severities[severity];
}

static const struct gm_repair *repairs_of(struct gm_context *gm, const struct diag_finding *f)
{
    struct gm_repair *list = arena_array(&gm->results, f->repairs.n + 1, sizeof *list);
    for (size_t i = 0; i < f->repairs.n; i++) {
        const struct diag_repair *r = &f->repairs.items[i];
        list[i] = (struct gm_repair){diag_repair_kind_name(r->kind), api_text(gm, r->text),
                                     api_text(gm, r->command)};
    }
    return list;
}

static struct gm_finding gm_finding_of(struct gm_context *gm, const struct diag_finding *f)
{
    return (struct gm_finding){
        .cause = diag_causes[f->cause].id,
        .cause_class = api_text(gm, f->class),
        .severity = gm_severity_of(f->severity),
        .culprit = api_text(gm, f->culprit),
        .summary = api_text(gm, f->summary),
        .evidence = api_texts(gm, f->evidence.items, f->evidence.n),
        .n_evidence = f->evidence.n,
        .likewise = api_texts(gm, f->likewise.items, f->likewise.n),
        .n_likewise = f->likewise.n,
        .repairs = repairs_of(gm, f),
        .n_repairs = f->repairs.n,
    };
}

static int check_answer(struct gm_context *gm, const void *question, void *answer)
{
    static const enum gm_verdict verdicts[] = {
        [DIAG_OK] = GM_FINE, [DIAG_BROKEN] = GM_BROKEN, [DIAG_CANNOT_TELL] = GM_UNKNOWN};
    struct gm_check *ret = answer;
    struct diag_report report;
    int rc = api_open(gm, question, false);
    if (rc < 0) {
        return rc;
    }
    diag_run(&gm->target.model, &report);
    struct gm_finding *findings =
        arena_array(&gm->results, report.findings.n + 1, sizeof *findings);
    for (size_t i = 0; i < report.findings.n; i++) {
        findings[i] = gm_finding_of(gm, report.findings.items[i]);
    }
    *ret = (struct gm_check){
        .verdict = verdicts[report.verdict],
        .findings = findings,
        .n_findings = report.findings.n,
        .fine = api_texts(gm, report.fine.items, report.fine.n),
        .n_fine = report.fine.n,
        .notes = api_texts(gm, report.notes.items, report.notes.n),
        .n_notes = report.notes.n,
    };
    return GM_OK;
}

int gm_check(gm_context *gm, const struct gm_target *target, struct gm_check *ret)
{
    return api_call(gm, check_answer, target, ret, sizeof *ret);
}

/* ------------------------------------------------------------------ why */

struct why {
    const struct gm_target *target;
    const char *exe, *caller, *name;
};

/* The program that a shell would start for the word, without what it is told to run. */
static int find_exe(struct gm_context *gm, const char *exe, const char **ret)
{
    const struct ldso_config *c = &gm->target.model.config;
    struct launch_command command = {.words = &exe, .n = 1, .cwd = c->cwd};
    struct launch_program program = {0};
    for (size_t i = 0; i < c->n_env; i++) {
        if (starts_with(c->env[i], "PATH=")) {
            command.path = c->env[i] + 5;
        }
    }
    *ret = exe;
    if (!strchr(exe, '/')) {
        int rc = launch_program_find(&gm->target.root, &gm->work, &command, &program);
        if (rc < 0) {
            return gm_err_set(&gm->err, GM_ERR_USAGE, "%s: %s", exe, strerror(-rc));
        }
        *ret = program.file;
    }
    return GM_OK;
}

static const struct gm_search_step *steps_of(struct gm_context *gm, const struct ldso_request *r,
                                             size_t *ret_n)
{
    struct gm_search_step *list = arena_array(&gm->results, r->steps.n + 1, sizeof *list);
    size_t n = 0;
    for (size_t i = 0; i < r->steps.n; i++) {
        const struct ldso_step *s = &r->steps.items[i];
        if (s->path) {
            list[n++] = (struct gm_search_step){
                api_text(gm, s->path),
                api_text(gm, report_via_text(&gm->work, s->via, s->via_object)),
                ldso_result_name(s->result)};
        }
    }
    *ret_n = n;
    return list;
}

static int why(struct gm_context *gm, const void *question, void *answer)
{
    const struct why *q = question;
    struct gm_why *ret = answer;
    if (!q->exe || !q->name) {
        return gm_err_set(&gm->err, GM_ERR_USAGE, "which program asks, and for which name?");
    }
    const char *exe = NULL;
    struct gm_target opened;
    int rc = api_take(gm, &opened, sizeof opened, q->target);
    opened.size = sizeof opened;
    opened.path = q->exe;
    rc = rc < 0 ? rc : api_open(gm, &opened, true);
    rc = rc < 0 ? rc : find_exe(gm, q->exe, &exe);
    if (rc < 0) {
        return rc;
    }
    struct model *m = &gm->target.model;
    struct ldso_process *p = ldso_process_new(m->store, &gm->work, &m->config);
    rc = ldso_start(p, exe, &gm->err);
    if (rc < 0) {
        return rc;
    }
    if (p->start_failed || p->is_static) {
        return gm_err_set(&gm->err, GM_ERR_UNSUPPORTED, "%s: %s", exe,
                          p->is_static ? "statically linked: nothing can be loaded into it"
                                       : p->start_error);
    }
    struct ldso_object *caller = q->caller ? ldso_find_object(p, q->caller) : p->main;
    if (!caller) {
        return gm_err_set(&gm->err, GM_ERR_USAGE, "%s is not among the loaded objects", q->caller);
    }
    const struct ldso_load *load = ldso_dlopen(p, caller, q->name, LDSO_NOW);
    if (p->limit) {
        return gm_err_set(&gm->err, GM_ERR_LIMIT, "%s", p->limit);
    }
    if (!load) {
        return gm_err_set(&gm->err, GM_ERR_UNSUPPORTED, "%s does not start", exe);
    }
    ret->path = api_text(gm, load->path);
    ret->outcome = ldso_outcome_name(load->outcome);
    ret->says = api_text(gm, load->glibc_says);
    ret->steps = steps_of(gm, p->requests.items[load->request], &ret->n_steps);
    return GM_OK;
}

int gm_why(gm_context *gm, const struct gm_target *target, const char *exe, const char *caller,
           const char *name, struct gm_why *ret)
{
    struct why q = {target, exe, caller, name};
    return api_call(gm, why, &q, ret, sizeof *ret);
}

/* ------------------------------------------------------------------ choose */

struct choose {
    const struct gm_target *target;
    const struct gm_wish *wish;
};

static int take_wish(struct gm_context *gm, const struct gm_wish *given, struct choose_options *ret)
{
    struct gm_wish w;
    int rc = api_take(gm, &w, sizeof w, given);
    if (rc < 0) {
        return rc;
    }
    *ret = (struct choose_options){
        .model = w.model, .memory_bytes = w.memory_bytes, .require_gpu = w.require_gpu != 0};
    for (int i = 0; w.app && i < CHOOSE_APPS && !ret->app_given; i++) {
        ret->app_given = strcmp(w.app, choose_app_name((enum choose_app)i)) == 0;
        ret->app = (enum choose_app)i;
    }
    if (w.app && !ret->app_given) {
        return gm_err_set(&gm->err, GM_ERR_USAGE, "unknown application: %s", w.app);
    }
    return GM_OK;
}

static void fill_choice(struct gm_context *gm, const struct choose_result *c, struct gm_choice *ret)
{
    const struct choose_candidate *d = c->chosen;
    const char **exports = arena_array(&gm->results, c->exports.n + 1, sizeof *exports);
    for (size_t i = 0; i < c->exports.n; i++) {
        exports[i] = arena_printf(&gm->results, "%s=%s", c->exports.items[i].name,
                                  c->exports.items[i].value);
    }
    *ret = (struct gm_choice){
        .device = d ? choose_device_name(d->device) : NULL,
        .index = d && d->gpu ? (int)d->index : -1,
        .name = api_text(gm, d ? d->name : NULL),
        .argument = api_text(gm, c->argument),
        .compute_type = d ? choose_compute_name(d->compute) : NULL,
        .threads = c->threads,
        .fallback = c->fallback,
        .cause = api_text(gm, c->cause),
        .reason = api_text(gm, c->reason),
        .step = api_text(gm, c->step),
        .required_bytes = d ? d->required.bytes : 0,
        .available_bytes = d ? d->available_bytes : 0,
        .exports = exports,
        .n_exports = c->exports.n,
    };
}

static int choose_answer(struct gm_context *gm, const void *question, void *answer)
{
    const struct choose *q = question;
    struct choose_options wish;
    struct choose_result choice;
    struct diag_report report = {0};
    enum choose_app app;
    int rc = take_wish(gm, q->wish, &wish);
    rc = rc < 0 ? rc : api_open(gm, q->target, true);
    if (rc < 0) {
        return rc;
    }
    struct model *m = &gm->target.model;
    wish.variables.env = m->config.env;
    wish.variables.n_env = m->config.n_env;
    if (choose_app_of(m, &wish, &app)) {
        const char *module = choose_app_module(app);
        model_add_default_scripts(m, &module, 1);
        diag_run(m, &report);
    }
    rc = choose_best(m, &report, &wish, &choice, &gm->err);
    if (rc == 0) {
        fill_choice(gm, &choice, answer);
    }
    return rc;
}

int gm_choose(gm_context *gm, const struct gm_target *target, const struct gm_wish *wish,
              struct gm_choice *ret)
{
    struct choose q = {target, wish};
    return api_call(gm, choose_answer, &q, ret, sizeof *ret);
}

/* ------------------------------------------------------------------ plan */

static struct gm_step gm_step_of(struct gm_context *gm, const struct plan_step *s)
{
    return (struct gm_step){
        .kind = plan_step_name(s->kind),
        .text = api_text(gm, s->text),
        .command = api_text(gm, s->command),
        .name = api_text(gm, s->name),
        .value = api_text(gm, s->value),
        .paths = api_texts(gm, s->paths, s->n_paths),
        .n_paths = s->n_paths,
    };
}

static struct gm_way way_of(struct gm_context *gm, const struct plan_way *w)
{
    struct gm_step *steps = arena_array(&gm->results, w->steps.n + 1, sizeof *steps);
    for (size_t i = 0; i < w->steps.n; i++) {
        steps[i] = gm_step_of(gm, &w->steps.items[i]);
    }
    return (struct gm_way){
        plan_reach_name(w->reach), api_text(gm, w->title), steps, w->steps.n, w->mends.n,
        api_text(gm, w->unproved)};
}

static int plan_answer(struct gm_context *gm, const void *question, void *answer)
{
    struct gm_plan *ret = answer;
    struct diag_report report;
    struct plan made;
    int rc = api_open(gm, question, false);
    if (rc < 0) {
        return rc;
    }
    diag_run(&gm->target.model, &report);
    plan_make(&gm->target.model, &report, &(struct plan_options){.manner = PLAN_AT_START}, &made);
    struct gm_way *ways = arena_array(&gm->results, made.ways.n + 1, sizeof *ways);
    for (size_t i = 0; i < made.ways.n; i++) {
        ways[i] = way_of(gm, &made.ways.items[i]);
    }
    *ret = (struct gm_plan){ways, made.ways.n, made.left.n,
                            api_texts(gm, made.cannot.items, made.cannot.n), made.cannot.n};
    return GM_OK;
}

int gm_plan(gm_context *gm, const struct gm_target *target, struct gm_plan *ret)
{
    return api_call(gm, plan_answer, target, ret, sizeof *ret);
}

/* ------------------------------------------------------------------ explain */

static int explain(struct gm_context *gm, const void *question, void *answer)
{
    const char *id = question;
    const struct diag_cause_row *row = id ? diag_cause_by_id(id) : NULL;
    if (!row) {
        return id ? gm_err_set(&gm->err, GM_ERR_USAGE, "no cause is called %s", id)
                  : gm_err_set(&gm->err, GM_ERR_USAGE, "which cause?");
    }
    const struct diag_page *page = diag_page_by_id(row->id);
    *(struct gm_cause *)answer = (struct gm_cause){
        row->id, row->class, gm_severity_of(row->severity), row->title, page ? page->text : ""};
    return GM_OK;
}

int gm_explain(gm_context *gm, const char *cause, struct gm_cause *ret)
{
    return api_call(gm, explain, cause, ret, sizeof *ret);
}
