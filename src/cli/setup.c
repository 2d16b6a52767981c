#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cli/limit.h"
#include "cli/replayed.h"
#include "cli/setup_apply.h"
#include "cli/target.h"
#include "report/setup.h"

enum { O_FOR = 1, O_INTO, O_MODEL, O_PYTHON, O_SCRIPT, O_ENV, O_SNAPSHOT, O_APPLY, O_UNDO };

static const struct cli_option options[] = {
    {"for", "MACHINE", "rtx-3060-linux, rx-7900-xtx-windows, jetson-agx-orin, cpu-linux, or a tree",
     O_FOR},
    {"snapshot", "FILE", "the machine that gpumend snapshot wrote down, or - for standard input",
     O_SNAPSHOT},
    {"env", "ENV", "compare with this environment (default: the active one, ./.venv or ./venv)",
     O_ENV},
    {"into", "DIR", "the environment that the plan makes (default: APP-env)", O_INTO},
    {"model", "NAME", "the size of Whisper that has to fit (default: large-v3)", O_MODEL},
    {"python", "VER",
     "the Python of the environment, e.g. 3.12 (default: the machine's, if it fits)", O_PYTHON},
    {"script", "FORM", "print sh, powershell or dockerfile, which carries the plan out", O_SCRIPT},
    {"apply", NULL, "carry the plan out behind a journal: a new environment, or that of --env",
     O_APPLY},
    {"undo", NULL, "take back what --apply did in the environment", O_UNDO},
    CLI_OPTION_ROOT,
    CLI_OPTION_KB,
    CLI_OPTION_LIMIT,
    CLI_OPTION_JSON,
};

struct setup {
    struct cli_target t;
    struct model_target target;
    const char *app, *machine, *env, *snapshot_file;
    struct setup_question question;
    struct snapshot snapshot;
    bool script, apply, undo;
    enum report_setup_form form;
};

static int script_take(struct setup *c, const char *value)
{
    static const char *const names[] = {[REPORT_SETUP_SH] = "sh",
                                        [REPORT_SETUP_POWERSHELL] = "powershell",
                                        [REPORT_SETUP_DOCKERFILE] = "dockerfile"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], value) == 0) {
            c->script = true;
            c->form = (enum report_setup_form)i;
            return CLI_OK;
        }
    }
    return cli_fail(CLI_USAGE, "setup: --script expects sh, powershell or dockerfile, not %s",
                    str_printable(&c->t.arena, value));
}

static int setup_take_option(void *command, int id, const char *value)
{
    struct setup *c = command;
    switch (id) {
    case O_FOR: c->machine = value; return CLI_OK;
    case O_ENV: c->env = value; return CLI_OK;
    case O_SNAPSHOT: c->snapshot_file = value; return CLI_OK;
    case O_APPLY: c->apply = true; return CLI_OK;
    case O_UNDO: c->undo = true; return CLI_OK;
    case O_INTO: c->question.folder = value; return CLI_OK;
    case O_MODEL: c->question.model = value; return CLI_OK;
    case O_SCRIPT: return script_take(c, value);
    case O_PYTHON:
        c->question.python = value;
        return strncmp(value, "3.", 2) == 0 && value[2] &&
                       !value[2 + strspn(value + 2, "0123456789")]
                   ? CLI_OK
                   : cli_fail(CLI_USAGE, "setup: --python expects a version such as 3.12, not %s",
                              str_printable(&c->t.arena, value));
    case CLI_ARGUMENT:
        if (c->app) {
            return cli_fail(CLI_USAGE, "setup: give one APP, not also %s",
                            str_printable(&c->t.arena, value));
        }
        c->app = value;
        return CLI_OK;
    default: return cli_target_take(&c->t, id, value);
    }
}

static int script_print(struct setup *c, const struct setup_plan *plan)
{
    struct out out;
    if (!plan->steps.n) {
        return cli_fail(plan->verdict == SETUP_UNKNOWN ? CLI_CANNOT : CLI_FINDINGS, "setup: %s",
                        str_printable(&c->t.arena, plan->sentence));
    }
    if (plan->windows != (c->form == REPORT_SETUP_POWERSHELL)) {
        return cli_fail(CLI_USAGE, "setup: a plan for %s needs --script %s",
                        plan->windows ? "Windows" : "Linux", plan->windows ? "powershell" : "sh");
    }
    if (c->form == REPORT_SETUP_DOCKERFILE && setup_needs_tools(plan)) {
        return cli_fail(CLI_CANNOT,
                        "setup: %s is not installed from wheels of the package index "
                        "alone, and an image with what that takes is not known: "
                        "--script sh prints the steps",
                        plan->app);
    }
    out_init(&out, stdout);
    report_setup_script(&out, &c->t.arena, plan, c->form);
    return plan->gpu_lost ? CLI_FINDINGS : CLI_OK;
}

static int setup_print(struct setup *c, const struct setup_plan *plan)
{
    if (c->script) {
        return script_print(c, plan);
    }
    if (c->t.json) {
        if (out_json_dump(stdout, report_setup_json(&c->t.arena, plan)) < 0) {
            return cli_fail(CLI_CANNOT, "cannot write the output");
        }
    } else {
        struct out out;
        out_init(&out, stdout);
        report_setup_text(&out, &c->t.arena, plan);
    }
    return plan->verdict == SETUP_UNKNOWN                 ? CLI_CANNOT
           : plan->verdict == SETUP_NOT || plan->gpu_lost ? CLI_FINDINGS
                                                          : CLI_OK;
}

/* A name has no separator: what has one is the folder of a tree. */
static bool is_tree(const char *machine)
{
    return strchr(machine, '/') || strcmp(machine, ".") == 0 || strcmp(machine, "..") == 0;
}

/* The machine and its files, as the options name them. */
static int setup_open(struct setup *c, struct gm_err *err)
{
    c->t.asked.only_open = c->t.asked.takes_windows = true;
    if (c->snapshot_file) {
        const char *kb_path = c->t.asked.kb_path;
        c->t.asked = snapshot_options(&c->snapshot, false);
        c->t.asked.only_open = c->t.asked.takes_windows = true;
        c->t.asked.kb_path = kb_path;
    } else if (c->machine && is_tree(c->machine)) {
        c->t.asked.root_path = c->machine;
        cli_target_leave_shell(&c->t);
    }
    c->t.asked.target = c->env ? c->env : c->t.asked.target;
    return model_target_open(&c->target, &c->t.arena, &c->t.asked, err);
}

/* Whether the environment that was found without being named is one that the user works in. */
static bool is_at_hand(const struct py_env *env)
{
    static const char *const ways[] = {"VIRTUAL_ENV", "./.venv", "./venv"};
    for (size_t i = 0; env->chosen_by && i < sizeof ways / sizeof *ways; i++) {
        if (strcmp(env->chosen_by, ways[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* The environment that the plan is compared with; NULL: it makes a new one. */
static int take_env(struct setup *c, struct gm_err *err)
{
    struct py_env *env = c->target.model.env;
    // A script is carried out without being read: it changes what is named alone.
    bool elsewhere = c->machine || c->t.asked.root_path || c->snapshot_file || c->script;
    bool named = c->env != NULL;
    if (!named && (!env || elsewhere || c->question.folder || !is_at_hand(env))) {
        return 0;
    }
    const char *why = !env                 ? "it is not a Python environment"
                      : env->free_threaded ? "its Python is free-threaded, and wheels for that "
                                             "are not in the knowledge base"
                      : env->major < 0     ? "its Python's version is unknown"
                      : env->denied        ? "what is installed in it cannot be read"
                      : env->cut           ? "it has more distributions than are looked at"
                      : env->kind == PY_ENV_SYSTEM
                          ? "it is the system's Python, whose packages are the distribution's"
                          : NULL;
    if (why) {
        return named ? gm_err_set(err, GM_ERR_UNSUPPORTED, "%s: %s", c->env, why) : 0;
    }
    c->question.there = &c->target.model;
    c->question.folder = c->env ? c->env : env->prefix;
    c->question.python = arena_printf(&c->t.arena, "%d.%d", env->major, env->minor);
    return 0;
}

static int setup_look(struct setup *c, struct setup_machine *ret, struct gm_err *err)
{
    struct arena *a = &c->t.arena;
    int rc = setup_open(c, err);
    rc = rc < 0 ? rc : take_env(c, err);
    if (rc < 0) {
        return rc;
    }
    c->question.kb = &c->target.kb;
    if (c->machine && !is_tree(c->machine)) {
        return setup_machine_named(&c->target.kb, a, c->machine, ret, err);
    }
    const char *root = c->t.asked.root_path;
    setup_machine_read(&c->target.model,
                       c->snapshot_file ? arena_printf(a, "the machine of %s", c->snapshot_file)
                       : root           ? arena_printf(a, "the machine at %s", root)
                                        : "this machine",
                       ret);
    return 0;
}

/* Where --apply makes the environment. */
static int folder_named(struct setup *c, const char **folder, struct gm_err *err)
{
    if (!c->apply) {
        return 0;
    }
    const char *name = *folder ? *folder : arena_printf(c->question.a, "%s-env", c->app);
    return cli_setup_folder(&c->t, name, folder, err);
}

/* A plan for the environment that exists, or, where its Python has none, for a new one. */
static int setup_make(struct setup *c, struct setup_plan *ret, struct gm_err *err)
{
    struct setup_question *q = &c->question;
    int rc = folder_named(c, &q->folder, err);
    rc = rc < 0 ? rc : setup_plan_make(q, ret, err);
    if (rc < 0 || !q->there || ret->pins.items.n) {
        return rc;
    }
    struct setup_plan other;
    struct setup_question again = *q;
    again.there = NULL;
    again.python = NULL;
    again.folder = NULL;
    rc = folder_named(c, &again.folder, err);
    rc = rc < 0 ? rc : setup_plan_make(&again, &other, err);
    if (rc == 0 && other.pins.items.n) {
        VEC_PUSH(&c->t.arena, &other.notes,
                 arena_printf(&c->t.arena,
                              "%s has Python %s, and no releases for it are known that fit: this "
                              "plan makes a new environment.",
                              q->folder, q->python));
        *q = again;
        *ret = other;
    }
    return rc;
}

/* The Python of the image is that of the plan. */
static int setup_make_image(struct setup *c, struct setup_plan *ret, struct gm_err *err)
{
    c->question.image = true;
    if (!c->question.folder) {
        c->question.folder = str_concat(&c->t.arena, "/opt/", c->app, "-env");
    }
    int rc = setup_plan_make(&c->question, ret, err);
    if (rc == 0 && ret->steps.n) {
        c->question.python = ret->pins.python;
        rc = setup_plan_make(&c->question, ret, err);
    }
    return rc;
}

static bool setup_plan_runs(const struct setup_plan *plan)
{
    for (size_t i = 0; i < plan->steps.n; i++) {
        if (plan->steps.items[i].runs.n) {
            return true;
        }
    }
    return false;
}

/* What cannot be asked together; NULL: nothing. */
static const char *setup_clash(const struct setup *c)
{
    bool acts = c->apply || c->undo, image = c->script && c->form == REPORT_SETUP_DOCKERFILE;
    return c->machine && c->t.asked.root_path ? "--for cannot be combined with --root"
           : c->snapshot_file && (c->machine || c->t.asked.root_path || c->env)
               ? "--snapshot cannot be combined with --for, --root and --env"
           : c->script && c->t.json ? "--script cannot be combined with --json"
           : c->env && (c->question.folder || c->question.python)
               ? "--env cannot be combined with --into and --python"
           : c->env && image ? "--script dockerfile cannot be combined with --env"
           : acts && (c->machine || c->t.asked.root_path || c->snapshot_file)
               ? "--apply and --undo act on this machine alone, without --for, --root and "
                 "--snapshot"
           : acts && (c->script || (c->apply && c->undo)) ? "one of --apply, --undo and --script"
                                                          : NULL;
}

static int setup_answer(struct setup *c)
{
    struct setup_machine machine;
    struct setup_plan plan;
    struct gm_err err;
    c->question.app = c->app;
    c->question.a = &c->t.arena;
    c->question.machine = &machine;
    bool image = c->script && c->form == REPORT_SETUP_DOCKERFILE;
    int rc = setup_look(c, &machine, &err);
    rc = rc < 0 ? rc : image ? setup_make_image(c, &plan, &err) : setup_make(c, &plan, &err);
    if (rc == 0 && c->snapshot_file && c->snapshot.files.misses.n) {
        VEC_PUSH(&c->t.arena, &plan.notes,
                 arena_printf(&c->t.arena,
                              "The snapshot does not hold all that was asked of it: %s. What "
                              "depends on that is unknown.",
                              c->snapshot.files.misses.items[0]));
    }
    bool nothing = rc == 0 && c->apply && plan.there && !setup_plan_runs(&plan);
    // An environment that was only found is not changed: that one has to be named.
    if (rc == 0 && c->apply && plan.there && !c->env) {
        rc = gm_err_set(&err, GM_ERR_USAGE,
                        "%s is an environment already: --env %s changes it, --into DIR makes "
                        "another",
                        plan.there, str_shell_word(&c->t.arena, plan.there));
    }
    if (rc == 0 && c->apply && plan.steps.n && setup_needs_hands(&plan)) {
        rc = gm_err_set(&err, GM_ERR_UNSUPPORTED,
                        "%s is not installed from the package index alone, which is what --apply "
                        "can take back: carry out the steps that are printed without it",
                        c->app);
    }
    rc = rc < 0 ? cli_fail(rc == GM_ERR_USAGE ? CLI_USAGE : CLI_CANNOT, "setup: %s",
                           str_printable(&c->t.arena, err.text))
         : c->apply && plan.steps.n && !nothing ? cli_setup_apply(&c->t, &plan)
                                                : setup_print(c, &plan);
    model_target_close(&c->target);
    return rc;
}

static int setup_undo(struct setup *c)
{
    const char *folder = c->env               ? c->env
                         : c->question.folder ? c->question.folder
                                              : arena_printf(&c->t.arena, "%s-env", c->app);
    return cli_setup_undo(&c->t, folder);
}

static int setup_run_with(void *command)
{
    struct setup *c = command;
    if (!c->app) {
        return cli_fail(CLI_USAGE, "setup: name an application (gpumend setup --help lists them)");
    }
    const char *clash = setup_clash(c);
    if (clash) {
        return cli_fail(CLI_USAGE, "setup: %s", clash);
    }
    if (c->apply || c->undo) {
        int rc = cli_limit_lift(c->apply ? "setup --apply" : "setup --undo");
        return rc != CLI_OK ? rc : c->undo ? setup_undo(c) : setup_answer(c);
    }
    cli_only_look((struct sandbox){0});
    if (c->snapshot_file) {
        int rc = cli_read_snapshot("setup", c->snapshot_file, &c->t.arena, &c->snapshot);
        if (rc != CLI_OK) {
            return rc;
        }
    }
    return setup_answer(c);
}

static int setup_run(const struct cli_command *self, int argc, char **argv)
{
    static const struct cli_target_calls calls = {.take = setup_take_option, .run = setup_run_with};
    struct setup c = {0};
    return cli_target_run(&c.t, self, argc, argv, &calls, &c);
}

const struct cli_command cli_setup = {
    .name = "setup",
    .arguments = "APP [--for MACHINE] [options]",
    .summary = "says how to get an application to compute on the GPU of a machine, step by step",
    .text =
        "Prints the verdict for this machine, then the steps: the driver, the environment, the\n"
        "releases that fit one another and the GPU, the compute type, and the proof. It changes\n"
        "nothing without --apply. Where there is an environment, it says what of it is kept and\n"
        "what would change. APP is faster-whisper, whisperx, speaches, ctranslate2, torch, "
        "onnxruntime,\n"
        "openai-whisper, vllm, jax, tensorflow, cupy, bitsandbytes or llama-cpp-python.\n"
        "\n"
        "MACHINE is a GPU and a system (linux, ubuntu, debian, fedora, arch, wsl, container,\n"
        "windows), or the folder of a captured tree, which has a slash in it.\n"
        "\n"
        "Exit status 1: it cannot work, or only on the CPU though there is a GPU; 3: cannot tell.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .run = setup_run,
};
