/* `enable` puts the start-up hook into an environment, `disable` takes it away again. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/act.h"
#include "cli/cli.h"
#include "mend/hookfile.h"

enum { O_IMPORT = 1, O_ROOT, O_ENV, O_UNSET, O_JSON };

static const struct cli_option enable_options[] = {
    {"import", "A,B", "what the program imports, in this order (default: every order)", O_IMPORT},
    {"root", "DIR", "the environment is in the file system below DIR", O_ROOT},
    {"env", "K=V", "set a variable of the start environment", O_ENV},
    {"unset", "K", "remove a variable of the start environment", O_UNSET},
    {"json", NULL, "print JSON (docs/json.md)", O_JSON},
};

static const struct cli_option disable_options[] = {
    {"root", "DIR", "the environment is in the file system below DIR", O_ROOT},
    {"json", NULL, "print JSON (docs/json.md)", O_JSON},
};

struct enable {
    const char *command;
    struct arena arena;
    struct model_target target;
    struct model_target_options asked;
    struct cli_env env;
    bool json;
};

static int take_option(struct enable *c, int id, const char *value)
{
    switch (id) {
    case O_IMPORT: c->asked.imports = value; return CLI_OK;
    case O_ROOT: c->asked.root_path = value; return CLI_OK;
    case O_UNSET: cli_env_unset(&c->env, value); return CLI_OK;
    case O_JSON: c->json = true; return CLI_OK;
    case O_ENV:
        return cli_env_set(&c->env, &c->arena, value)
                   ? CLI_OK
                   : cli_fail(CLI_USAGE, "enable: --env wants NAME=VALUE, not %s", value);
    case CLI_ARGUMENT:
        if (c->asked.target) {
            return cli_fail(CLI_USAGE, "%s: one TARGET at a time (%s, %s)", c->command,
                            c->asked.target, value);
        }
        c->asked.target = value;
        return CLI_OK;
    default: return CLI_USAGE;
    }
}

/* The way that consists of a hook alone; NULL if the plan has none. */
static const struct mend_way *hook_way(const struct mend_plan *plan)
{
    for (size_t i = 0; i < plan->ways.n; i++) {
        const struct mend_way *way = &plan->ways.items[i];
        if (way->steps.n == 1 && way->steps.items[0].kind == MEND_HOOK) {
            return way;
        }
    }
    return NULL;
}

static int enable(struct enable *c, const struct act *act)
{
    struct model *m = &c->target.model;
    struct diag_report report;
    struct mend_plan plan = {0};
    const struct mend_options o = {.manner = MEND_IN_PROCESS};
    const char *site = mend_hook_site(m);
    if (!site) {
        return cli_fail(CLI_CANNOT, "enable: a hook wants a Python environment with site-packages "
                                    "of its own");
    }
    if (model_hook_read(m->root, &c->arena, site, NULL)) {
        return cli_fail(CLI_CANNOT, "enable: %s has a hook already (gpumend disable takes it away)",
                        str_printable(&c->arena, site));
    }
    diag_run(m, &report);
    mend_plan_make(m, &report, &o, &plan);
    const struct mend_way *way = hook_way(&plan);
    if (way) {
        return act_apply(act, way);
    }
    if (report.verdict == DIAG_OK) {
        return cli_fail(CLI_CANNOT, "enable: check finds no error here, so there is nothing to load");
    }
    return cli_fail(CLI_CANNOT, "enable: no hook helps here%s%s (gpumend fix lists the ways that do)",
                    plan.cannot.n ? ": " : "",
                    plan.cannot.n ? str_printable(&c->arena, plan.cannot.items[0]) : "");
}

static int run_with(struct enable *c)
{
    struct gm_err err;
    const struct act act = {.command = c->command,
                            .arena = &c->arena,
                            .target = &c->target,
                            .asked = &c->asked,
                            .json = c->json};
    bool to_enable = strcmp(c->command, "enable") == 0;
    c->asked.cwd = cli_cwd(&c->arena);
    c->asked.uid = getuid();
    c->asked.env = c->env.vars.items;
    c->asked.n_env = c->env.vars.n;
    c->asked.only_open = !to_enable;
    int rc = CLI_OK;
    if (to_enable) {
        rc = act_open(&act);
    } else if (model_target_open(&c->target, &c->arena, &c->asked, &err) < 0) {
        rc = cli_fail(CLI_CANNOT, "disable: %s", str_printable(&c->arena, err.text));
    }
    if (rc == CLI_OK) {
        rc = to_enable ? enable(c, &act) : act_undo(&act, 0, "enable");
    }
    model_target_close(&c->target);
    return rc;
}

static int run(const struct cli_command *self, int argc, char **argv)
{
    struct enable *c = calloc(1, sizeof *c);
    if (!c) {
        return cli_fail(CLI_CANNOT, "out of memory");
    }
    c->command = self->name;
    c->target.root = ROOT_EMPTY;
    arena_init(&c->arena, ARENA_LIMIT_DEFAULT, NULL, NULL);
    cli_env_init(&c->env, &c->arena);
    struct cli_args args = {.command = self, .argc = argc, .argv = argv};
    int rc = CLI_OK, id = CLI_END;
    while (rc == CLI_OK && (id = cli_next(&args)) != CLI_END && id != CLI_HELP && id != CLI_WRONG) {
        rc = take_option(c, id, args.value);
    }
    if (rc == CLI_OK && id == CLI_END) {
        rc = run_with(c);
    } else if (id == CLI_WRONG) {
        rc = CLI_USAGE;
    }
    arena_release(&c->arena);
    free(c);
    return rc;
}

const struct cli_command cli_enable = {
    .name = "enable",
    .arguments = "[TARGET] [options]",
    .summary = "puts a start-up hook into an environment that loads the right libraries in time",
    .text = "TARGET is a Python environment's folder or an interpreter; without it the active\n"
            "environment. Programs of the environment then need no change: right before the first\n"
            "import of a package that needs them, the libraries of the plan are loaded. Two files are\n"
            "added to site-packages; GPUMEND_HOOK=0 switches the hook off for a start. The hook is\n"
            "tried out by the environment's own interpreter, and taken back if it does not help.",
    .options = enable_options,
    .n_options = sizeof enable_options / sizeof *enable_options,
    .run = run,
};

const struct cli_command cli_disable = {
    .name = "disable",
    .arguments = "[TARGET] [options]",
    .summary = "takes the start-up hook out of an environment again",
    .text = "TARGET is as for enable. The environment is then byte for byte what it was before.",
    .options = disable_options,
    .n_options = sizeof disable_options / sizeof *disable_options,
    .run = run,
};
