/* `enable` puts the start-up hook into an environment, `disable` takes it away again. */
#include <string.h>

#include "cli/act.h"
#include "cli/target.h"

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

static int enable_run_with(void *command)
{
    struct enable *c = command;
    struct gm_err err;
    const struct act act = {.command = c->t.command,
                            .order = {.arena = &c->t.arena,
                                      .target = &c->target,
                                      .asked = &c->t.asked,
                                      .options = cli_target_options(&c->t)},
                            .json = c->t.json};
    bool to_enable = strcmp(c->t.command, "enable") == 0;
    c->t.asked.only_open = !to_enable;
    int rc = CLI_OK;
    if (to_enable) {
        rc = act_open(&act, true);
    } else if (model_target_open(&c->target, &c->t.arena, &c->t.asked, &err) < 0) {
        rc = cli_fail(CLI_CANNOT, "disable: %s", str_printable(&c->t.arena, err.text));
    }
    if (rc == CLI_OK) {
        rc = to_enable ? act_enable(&act) : act_disable(&act);
    }
    model_target_close(&c->target);
    return rc;
}

static int enable_run(const struct cli_command *self, int argc, char **argv)
{
    static const struct cli_target_calls calls = {.run = enable_run_with};
    struct enable c = {.target.root = ROOT_EMPTY};
    return cli_target_run(&c.t, self, argc, argv, &calls, &c);
}

const struct cli_command cli_enable = {
    .name = "enable",
    .arguments = "[TARGET] [options]",
    .summary = "adds a start-up hook to an environment that loads the right libraries in time",
    .text = "TARGET is a Python environment's folder or an interpreter; without it, the active\n"
            "environment. Programs of the environment need no change afterwards: right before the\n"
            "first import of a package that needs them, the hook loads the libraries of the plan. "
            "It\n"
            "consists of three files in site-packages; GPUMEND_HOOK=0 switches it off for one "
            "start.\n"
            "The environment's own interpreter tries the hook; if it does not help, it is removed.",
    .options = enable_options,
    .n_options = sizeof enable_options / sizeof *enable_options,
    .run = enable_run,
};

const struct cli_command cli_disable = {
    .name = "disable",
    .arguments = "[TARGET] [options]",
    .summary = "removes the start-up hook from an environment",
    .text = "TARGET is as for enable. Afterwards the environment is byte for byte what it was "
            "before.",
    .options = disable_options,
    .n_options = sizeof disable_options / sizeof *disable_options,
    .run = enable_run,
};
