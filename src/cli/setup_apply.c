#include "cli/setup_apply.h"

#include <stdlib.h>
#include <string.h>

#include "apply/environment.h"
#include "apply/imports.h"
#include "apply/repair.h"
#include "base/folder.h"
#include "base/str.h"
#include "base/json.h"
#include "diag/finding.h"
#include "base/out.h"

/* What came of it. */
struct done {
    struct cli_target *t;
    const struct setup_plan *plan;
    const char *folder; // absolute
    struct apply_session session;
    enum apply_result result;
    const char *why;         // for a result that is not APPLY_VERIFIED
    unsigned id;             // of the journal; 0: it was taken back
    VEC(const char *) left;  // errors that check finds
    VEC(const char *) to_do; // steps for a person
};

static const char *absolute(struct cli_target *t, const char *path)
{
    return path[0] == '/' ? path : path_join(&t->arena, t->asked.cwd, path);
}

int cli_setup_folder(struct cli_target *t, const char *folder, const char **ret, struct gm_err *err)
{
    const char *path = absolute(t, folder), *above;
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') {
        n--;
    }
    path = arena_strndup(&t->arena, path, n);
    char *real = realpath(path, NULL);
    if (real) {
        *ret = arena_strdup(&t->arena, real);
        free(real);
        return 0;
    }
    above = folder_safe_path(&t->arena, path_dir(&t->arena, path), err);
    *ret = above ? path_join(&t->arena, above, path_base(path)) : NULL;
    return above ? 0 : err->code;
}

static int setup_fails(const struct done *d, const struct gm_err *err)
{
    return cli_fail(CLI_CANNOT, "setup: %s", str_printable(&d->t->arena, err->text));
}

/* ------------------------------------------------------------------ making it */

static size_t commands_of(const struct setup_plan *plan, struct arena *a,
                          struct apply_command **ret)
{
    size_t n = 0, at = 0;
    for (size_t i = 0; i < plan->steps.n; i++) {
        n += plan->steps.items[i].runs.n;
    }
    *ret = arena_array(a, n + 1, sizeof **ret);
    for (size_t i = 0; i < plan->steps.n; i++) {
        const struct setup_step *s = &plan->steps.items[i];
        for (size_t k = 0; k < s->runs.n; k++) {
            (*ret)[at++].words = s->runs.items[k].words;
        }
    }
    return n;
}

static const char *done_title(const struct done *d)
{
    return arena_printf(&d->t->arena, "%s for the %s", d->plan->app,
                        d->plan->verdict == SETUP_GPU ? "GPU" : "CPU");
}

/* The environment as it is now, with the application's import as its one script. */
static struct model_target_options asked_now(const struct done *d)
{
    struct model_target_options asked = d->t->asked;
    asked.target = d->folder;
    asked.imports = d->plan->row->module;
    asked.only_open = asked.takes_windows = false;
    return asked;
}

/* An environment that is there is changed by its own interpreter. */
static int environment_check(const struct done *d, struct gm_err *err)
{
    struct model_target target = {.root = ROOT_EMPTY};
    const struct model_target_options asked = asked_now(d);
    int rc = model_target_open(&target, &d->t->arena, &asked, err);
    const struct py_env *env = rc < 0 ? NULL : target.model.env;
    rc = env && env->executable ? apply_start_check(&d->t->arena, env, err) : rc;
    model_target_close(&target);
    return rc;
}

static int make_environment(struct done *d, struct root *root, struct gm_err *err)
{
    struct apply_command *commands = NULL;
    size_t n = commands_of(d->plan, &d->t->arena, &commands);
    const struct apply_environment e = {.arena = &d->t->arena,
                                        .root = root,
                                        .folder = d->folder,
                                        .is_there = d->plan->there != NULL,
                                        .title = done_title(d),
                                        .commands = commands,
                                        .n_commands = n,
                                        .env = d->t->asked.env,
                                        .n_env = d->t->asked.n_env,
                                        .quiet = d->t->json};
    int rc = e.is_there ? environment_check(d, err) : 0;
    return rc < 0 ? rc : apply_environment_make(&e, &d->session, err);
}

/* ------------------------------------------------------------------ trying it */

static void try_import(struct done *d)
{
    struct arena *a = &d->t->arena;
    const struct apply_trial trial = {
        .interpreter = path_join(a, d->folder, "bin/python"),
        .script = arena_printf(a, "import %s", d->plan->row->module),
        .env = d->t->asked.env,
        .n_env = d->t->asked.n_env,
    };
    d->result = apply_try(a, &trial, &d->why);
}

/* Notes how it ended, or takes all of it back. */
static int settle(struct done *d, struct gm_err *err)
{
    try_import(d);
    if (d->result != APPLY_FAILED) {
        d->id = d->session.id;
        return apply_verified(&d->session, d->result == APPLY_VERIFIED ? "verified" : d->why, err);
    }
    unsigned id;
    struct root root = ROOT_EMPTY;
    apply_close(&d->session);
    d->session = (struct apply_session){.place = APPLY_PLACE_EMPTY, .work = APPLY_WORK_EMPTY};
    int rc = root_open(&root, "/", err);
    rc = rc < 0 ? rc : apply_environment_undo(&d->t->arena, &root, d->folder, &id, err);
    root_close(&root);
    return rc;
}

static bool has_step(const struct setup_plan *plan, enum setup_step_kind kind)
{
    for (size_t i = 0; i < plan->steps.n; i++) {
        if (plan->steps.items[i].kind == kind) {
            return true;
        }
    }
    return false;
}

/* The start-up hook, where the plan has one. What it cannot do now is an error that check finds, or
 * a step that stays. */
static void put_hook(struct done *d)
{
    struct gm_err err;
    struct model_target target = {.root = ROOT_EMPTY};
    struct apply_repaired repaired = {.target = {.root = ROOT_EMPTY}};
    const struct model_target_options asked = asked_now(d);
    const struct apply_order order = {.arena = &d->t->arena,
                                      .target = &target,
                                      .asked = &asked,
                                      .options = "",
                                      .quiet = d->t->json};
    unsigned recovered;
    int rc = apply_open(&order, true, &recovered, &err);
    rc = rc < 0 ? rc : apply_enable(&order, &repaired, &err);
    const char *why = rc < 0 ? err.text : repaired.result != APPLY_VERIFIED ? repaired.why : NULL;
    bool stands = rc == 0 && repaired.id;
    if (why) {
        VEC_PUSH(&d->t->arena, &d->to_do,
                 arena_printf(&d->t->arena, "%s: %s",
                              stands ? "The start-up hook could not be tried"
                                     : "No start-up hook was put in",
                              why));
    }
    apply_repaired_close(&repaired);
    model_target_close(&target);
}

/* Errors that check finds in it, of a plan for the GPU; of one for the CPU it would judge the use
 * of a GPU that the plan does without. */
static void look_at_it(struct done *d)
{
    struct gm_err err;
    struct model_target target = {.root = ROOT_EMPTY};
    struct diag_report report = {0};
    const struct model_target_options asked = asked_now(d);
    int rc = model_target_open(&target, &d->t->arena, &asked, &err);
    if (rc < 0) {
        VEC_PUSH(&d->t->arena, &d->left, arena_strdup(&d->t->arena, err.text));
    } else {
        diag_run(&target.model, &report);
    }
    for (size_t i = 0; i < report.findings.n; i++) {
        const struct diag_finding *f = report.findings.items[i];
        if (f->severity == DIAG_ERROR) {
            VEC_PUSH(&d->t->arena, &d->left, f->summary);
        }
    }
    model_target_close(&target);
}

/* Steps of the machine that no environment replaces. */
static void note_to_do(struct done *d)
{
    for (size_t i = 0; i < d->plan->steps.n; i++) {
        const struct setup_step *s = &d->plan->steps.items[i];
        if (s->kind == SETUP_DRIVER && s->to_do) {
            VEC_PUSH(&d->t->arena, &d->to_do,
                     arena_printf(&d->t->arena, "%s%s%s", s->title, s->commands.n ? ": " : "",
                                  s->commands.n ? s->commands.items[0] : ""));
        }
    }
}

/* ------------------------------------------------------------------ what is said */

static const char *undo_command(const struct done *d)
{
    return arena_printf(&d->t->arena, "gpumend setup %s --undo --into %s", d->plan->app,
                        str_shell_word(&d->t->arena, d->folder));
}

static int status_of(const struct done *d)
{
    return !d->id                        ? CLI_FINDINGS
           : d->result != APPLY_VERIFIED ? CLI_CANNOT
           : d->left.n + d->to_do.n > 0  ? CLI_FINDINGS
                                         : CLI_OK;
}

static json_t *lines_json(struct arena *a, const char *const *items, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        json_add(list, out_json_text(a, items[i]));
    }
    return list;
}

static json_t *done_json(const struct done *d)
{
    static const char *const results[] = {
        [APPLY_VERIFIED] = "verified", [APPLY_FAILED] = "failed", [APPLY_CANNOT] = "not-verified"};
    struct arena *a = &d->t->arena;
    json_t *doc = json_object();
    json_put(doc, "schema", json_integer(1));
    json_put(doc, "did", json_string("apply"));
    json_put(doc, "journal", d->id ? json_integer(d->id) : json_null());
    json_put(doc, "title", out_json_text(a, done_title(d)));
    json_put(doc, "result", json_string(results[d->result]));
    json_put(doc, "why", out_json_text(a, d->why));
    json_put(doc, "taken_back", json_boolean(!d->id));
    json_put(doc, "requests_tried", json_integer(0));
    json_put(doc, "left", lines_json(a, d->left.items, d->left.n));
    json_put(doc, "to_do", lines_json(a, d->to_do.items, d->to_do.n));
    json_put(doc, "folder", out_json_text(a, d->folder));
    json_put(doc, "start", json_object());
    json_put(doc, "probe", json_null());
    json_put(doc, "probe_why", json_string("setup does not run the GPU"));
    return doc;
}

static void say_line(const struct done *d, const struct out *o, enum out_style style,
                     const char *label, const char *text)
{
    out_print(o, style, "%-10s", label);
    out_wrap(o, 10, str_printable(&d->t->arena, text));
}

static void say_done(const struct done *d)
{
    struct out o;
    struct arena *a = &d->t->arena;
    out_init(&o, stdout);
    if (!d->id) {
        say_line(d, &o, OUT_RED, "failed", d->why);
        say_line(d, &o, OUT_PLAIN, "", "It was undone: everything is as it was before.");
        return;
    }
    say_line(d, &o, OUT_PLAIN, d->plan->there ? "changed" : "made",
             arena_printf(a, "%s, Python %s", d->folder, d->plan->pins.python));
    say_line(d, &o, d->result == APPLY_VERIFIED ? OUT_GREEN : OUT_YELLOW,
             d->result == APPLY_VERIFIED ? "tried" : "not tried",
             d->result == APPLY_VERIFIED
                 ? arena_printf(a, "import %s succeeds", d->plan->row->module)
                 : d->why);
    for (size_t i = 0; i < d->left.n; i++) {
        say_line(d, &o, OUT_RED, "still", d->left.items[i]);
    }
    for (size_t i = 0; i < d->to_do.n; i++) {
        say_line(d, &o, OUT_YELLOW, "to do", d->to_do.items[i]);
    }
    if (d->plan->verdict == SETUP_GPU) {
        say_line(d, &o, OUT_PLAIN, "next",
                 arena_printf(a, "gpumend probe %s", str_shell_word(a, d->folder)));
    }
    say_line(d, &o, OUT_PLAIN, "undo", arena_printf(a, "%s (journal %u)", undo_command(d), d->id));
}

static int dump(json_t *doc, int status)
{
    return out_json_dump(stdout, doc) < 0 ? cli_fail(CLI_CANNOT, "cannot write the output")
                                          : status;
}

/* ------------------------------------------------------------------ the commands */

int cli_setup_apply(struct cli_target *t, const struct setup_plan *plan)
{
    struct gm_err err;
    struct root root = ROOT_EMPTY;
    struct done d = {.t = t,
                     .plan = plan,
                     .folder = absolute(t, plan->there ? plan->there : plan->folder),
                     .session = {.place = APPLY_PLACE_EMPTY, .work = APPLY_WORK_EMPTY}};
    int rc = root_open(&root, "/", &err);
    rc = rc < 0 ? rc : make_environment(&d, &root, &err);
    rc = rc < 0 ? rc : settle(&d, &err);
    apply_close(&d.session);
    root_close(&root);
    if (rc < 0) {
        return setup_fails(&d, &err);
    }
    if (d.id && has_step(plan, SETUP_LIBRARIES)) {
        put_hook(&d);
    }
    if (d.id && plan->verdict == SETUP_GPU) {
        look_at_it(&d);
    }
    note_to_do(&d);
    if (t->json) {
        return dump(done_json(&d), status_of(&d));
    }
    say_done(&d);
    return status_of(&d);
}

int cli_setup_undo(struct cli_target *t, const char *folder)
{
    struct gm_err err;
    struct root root = ROOT_EMPTY;
    unsigned id = 0;
    const char *path = absolute(t, folder);
    int rc = root_open(&root, "/", &err);
    rc = rc < 0 ? rc : apply_environment_undo(&t->arena, &root, path, &id, &err);
    root_close(&root);
    if (rc < 0) {
        return cli_fail(CLI_CANNOT, "setup: %s", str_printable(&t->arena, err.text));
    }
    if (t->json) {
        json_t *doc = json_object();
        json_put(doc, "schema", json_integer(1));
        json_put(doc, "did", json_string("undo"));
        json_put(doc, "journal", id ? json_integer(id) : json_null());
        return dump(doc, id ? CLI_OK : CLI_CANNOT);
    }
    if (!id) {
        return cli_fail(CLI_CANNOT, "setup: nothing in %s was made by setup --apply",
                        str_printable(&t->arena, path));
    }
    printf("undone    %s\n", str_printable(&t->arena, path));
    return CLI_OK;
}
