#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cli/limit.h"
#include "cli/target.h"
#include "report/setup.h"

enum { O_FOR = 1, O_INTO, O_MODEL, O_PYTHON, O_SCRIPT };

static const struct cli_option options[] = {
    {"for", "MACHINE", "rtx-3060-linux, rx-7900-xtx-windows, jetson-agx-orin, cpu-linux, or a tree",
     O_FOR},
    {"into", "DIR", "the environment that the plan makes (default: APP-env)", O_INTO},
    {"model", "NAME", "the size of Whisper that has to fit (default: large-v3)", O_MODEL},
    {"python", "VER",
     "the Python of the environment, e.g. 3.12 (default: the machine's, if it fits)", O_PYTHON},
    {"script", "FORM", "print sh, powershell or dockerfile, which carries the plan out", O_SCRIPT},
    CLI_OPTION_ROOT,
    CLI_OPTION_KB,
    CLI_OPTION_LIMIT,
    CLI_OPTION_JSON,
};

struct setup {
    struct cli_target t;
    struct model_target target;
    const char *app, *machine;
    struct setup_question question;
    bool script;
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

static int setup_look(struct setup *c, struct setup_machine *ret, struct gm_err *err)
{
    struct arena *a = &c->t.arena;
    bool named = c->machine && !is_tree(c->machine);
    c->t.asked.only_open = c->t.asked.takes_windows = true;
    if (c->machine && !named) {
        c->t.asked.root_path = c->machine;
        cli_target_leave_shell(&c->t);
    }
    int rc = model_target_open(&c->target, a, &c->t.asked, err);
    if (rc < 0) {
        return rc;
    }
    c->question.kb = &c->target.kb;
    if (named) {
        return setup_machine_named(&c->target.kb, a, c->machine, ret, err);
    }
    const char *root = c->t.asked.root_path;
    setup_machine_read(&c->target.model,
                       root ? arena_printf(a, "the machine at %s", root) : "this machine", ret);
    return 0;
}

static int setup_run_with(void *command)
{
    struct setup *c = command;
    struct setup_machine machine;
    struct setup_plan plan;
    struct gm_err err;
    if (!c->app) {
        return cli_fail(CLI_USAGE, "setup: name an application (gpumend setup --help lists them)");
    }
    if (c->machine && c->t.asked.root_path) {
        return cli_fail(CLI_USAGE, "setup: --for cannot be combined with --root");
    }
    if (c->script && c->t.json) {
        return cli_fail(CLI_USAGE, "setup: --script cannot be combined with --json");
    }
    bool image = c->script && c->form == REPORT_SETUP_DOCKERFILE;
    if (image && !c->question.folder) {
        c->question.folder = str_concat(&c->t.arena, "/opt/", c->app, "-env");
    }
    cli_only_look((struct sandbox){0});
    c->question.app = c->app;
    c->question.a = &c->t.arena;
    c->question.machine = &machine;
    int rc = setup_look(c, &machine, &err);
    rc = rc < 0 ? rc : setup_plan_make(&c->question, &plan, &err);
    if (rc == 0 && image && plan.steps.n) {
        c->question.python = plan.pins.python; // that of the image
        rc = setup_plan_make(&c->question, &plan, &err);
    }
    rc = rc == 0 ? setup_print(c, &plan)
                 : cli_fail(rc == GM_ERR_USAGE ? CLI_USAGE : CLI_CANNOT, "setup: %s",
                            str_printable(&c->t.arena, err.text));
    model_target_close(&c->target);
    return rc;
}

static int setup_run(const struct cli_command *self, int argc, char **argv)
{
    static const struct cli_target_calls calls = {.take = setup_take_option, .run = setup_run_with};
    struct setup *c = calloc(1, sizeof *c);
    if (!c) {
        return cli_fail(CLI_CANNOT, "out of memory");
    }
    int rc = cli_target_run(&c->t, self, argc, argv, &calls, c);
    free(c);
    return rc;
}

const struct cli_command cli_setup = {
    .name = "setup",
    .arguments = "APP [--for MACHINE] [options]",
    .summary = "says how to get an application to compute on the GPU of a machine, step by step",
    .text =
        "Prints the verdict for this machine, then the steps: the driver, the environment, the\n"
        "releases that fit one another and the GPU, the compute type, and the proof. It changes\n"
        "nothing. APP is faster-whisper, whisperx, speaches, ctranslate2, torch, onnxruntime,\n"
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
