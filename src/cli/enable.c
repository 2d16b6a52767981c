/* `enable` puts the start-up hook into an environment, `disable` takes it away again. */
#include <stdlib.h>
#include <string.h>

#include "cli/act.h"
#include "cli/target.h"
#include "apply/hookfile.h"

static const struct cli_option enable_options[] = {
    CLI_OPTION_IMPORT, {"root", "DIR", "the environment is in the file system below DIR", CLI_ROOT},
    CLI_OPTION_ENV,    CLI_OPTION_UNSET,
    CLI_OPTION_JSON,
};

static const struct cli_option disable_options[] = {
    {"root", "DIR", "the environment is in the file system below DIR", CLI_ROOT},
    CLI_OPTION_JSON,
};

struct enable {
    struct cli_target t;
    struct model_target target;
};

/* The hook that is there, with its journal or without: a new one takes its place. */
static int take_away(const struct act *act)
{
    struct gm_err err;
    unsigned done;
    bool removed;
    if (apply_undo(&act->target->model, false, 0, "enable", &done, &err) < 0) {
        return cli_fail(CLI_CANNOT, "enable: %s", str_printable(act->arena, err.text));
    }
    return act_remove_hook(act, &removed);
}

/* Opened as if the hook that is there were not: the new one is planned from the target itself. */
static int open_without_hook(struct enable *c, const struct act *act)
{
    const char *const *env = c->t.asked.env;
    size_t n_env = c->t.asked.n_env;
    const char **without = arena_array(&c->t.arena, n_env + 1, sizeof *without);
    for (size_t i = 0; i < n_env; i++) {
        without[i] = env[i];
    }
    without[n_env] = "GPUMEND_HOOK=0";
    c->t.asked.env = without;
    c->t.asked.n_env = n_env + 1;
    int rc = act_open(act);
    c->t.asked.env = env;
    c->t.asked.n_env = n_env;
    return rc;
}

static int enable(struct enable *c, struct act *act)
{
    struct model *m = &c->target.model;
    struct diag_report report;
    struct plan plan = {0};
    const struct plan_options o = {.manner = PLAN_IN_PROCESS};
    const char *site = apply_hook_site(m);
    if (!site) {
        return cli_fail(CLI_CANNOT, "enable: a hook needs a Python environment with its own "
                                    "site-packages");
    }
    bool is_there = model_hook_read(m->root, &c->t.arena, site, NULL);
    diag_run(m, &report);
    plan_make(m, &report, &o, &plan);
    const struct plan_way *way = plan_hook_way(&plan);
    act->report = &report;
    if (way) {
        int rc = is_there ? take_away(act) : CLI_OK;
        return rc == CLI_OK ? act_apply(act, way) : rc;
    }
    if (is_there) {
        return cli_fail(CLI_CANNOT,
                        "enable: %s has a hook, and without it none would be made "
                        "now; it "
                        "stays as it is (%s removes it)",
                        str_printable(&c->t.arena, site),
                        str_printable(&c->t.arena, model_command(m, "disable", "")));
    }
    if (report.verdict == DIAG_OK) {
        return cli_fail(CLI_CANNOT,
                        "enable: check finds no error here, so there is nothing to load");
    }
    return cli_fail(CLI_CANNOT, "enable: no hook helps here%s%s (%s lists the ways that do)",
                    plan.cannot.n ? ": " : "",
                    plan.cannot.n ? str_printable(&c->t.arena, plan.cannot.items[0]) : "",
                    str_printable(&c->t.arena, model_command(m, "fix", act->options)));
}

static int run_with(void *command)
{
    struct enable *c = command;
    struct gm_err err;
    struct act act = {.command = c->t.command,
                      .arena = &c->t.arena,
                      .target = &c->target,
                      .asked = &c->t.asked,
                      .options = cli_target_options(&c->t),
                      .json = c->t.json};
    bool to_enable = strcmp(c->t.command, "enable") == 0;
    c->t.asked.only_open = !to_enable;
    int rc = CLI_OK;
    if (to_enable) {
        rc = open_without_hook(c, &act);
    } else if (model_target_open(&c->target, &c->t.arena, &c->t.asked, &err) < 0) {
        rc = cli_fail(CLI_CANNOT, "disable: %s", str_printable(&c->t.arena, err.text));
    }
    if (rc == CLI_OK) {
        rc = to_enable ? enable(c, &act) : act_undo(&act, 0, "enable");
    }
    model_target_close(&c->target);
    return rc;
}

static int run(const struct cli_command *self, int argc, char **argv)
{
    static const struct cli_target_calls calls = {.run = run_with};
    struct enable *c = calloc(1, sizeof *c);
    if (!c) {
        return cli_fail(CLI_CANNOT, "out of memory");
    }
    c->target.root = ROOT_EMPTY;
    int rc = cli_target_run(&c->t, self, argc, argv, &calls, c);
    free(c);
    return rc;
}

const struct cli_command cli_enable = {
    .name = "enable",
    .arguments = "[TARGET] [options]",
    .summary = "adds a start-up hook to an environment that loads the right libraries in time",
    .text = "TARGET is a Python environment's folder or an interpreter; without it, the active\n"
            "environment. Programs of the environment need no change afterwards: right before the\n"
            "first import of a package that needs them, the hook loads the libraries of the plan. "
            "It\n"
            "consists of two files in site-packages; GPUMEND_HOOK=0 switches it off for one "
            "start.\n"
            "The environment's own interpreter tries the hook; if it does not help, it is removed.",
    .options = enable_options,
    .n_options = sizeof enable_options / sizeof *enable_options,
    .run = run,
};

const struct cli_command cli_disable = {
    .name = "disable",
    .arguments = "[TARGET] [options]",
    .summary = "removes the start-up hook from an environment",
    .text = "TARGET is as for enable. Afterwards the environment is byte for byte what it was "
            "before.",
    .options = disable_options,
    .n_options = sizeof disable_options / sizeof *disable_options,
    .run = run,
};
