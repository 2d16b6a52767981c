/* The commands that the executable for Windows does not have: each says so. */
#include "cli/cli.h"
#include "cli/setup_apply.h"

static int absent_run(const struct cli_command *self, int argc, char **argv)
{
    (void)argc, (void)argv;
    return cli_fail(CLI_CANNOT, "%s is not available on Windows; gpumend for Linux has it",
                    self->name);
}

#define ABSENT(command, word)                                                                      \
    const struct cli_command command = {                                                           \
        .name = word, .summary = "not available on Windows", .run = absent_run}

ABSENT(cli_container, "container");
ABSENT(cli_export, "export");
ABSENT(cli_fleet, "fleet");
ABSENT(cli_needs, "needs");
ABSENT(cli_variants, "variants");
ABSENT(cli_mcp, "mcp");

int cli_setup_folder(struct cli_target *t, const char *folder, const char **ret, struct gm_err *err)
{
    (void)t, (void)err;
    *ret = folder;
    return 0;
}

int cli_setup_apply(struct cli_target *t, const struct setup_plan *plan)
{
    (void)t, (void)plan;
    return cli_fail(CLI_CANNOT, "setup: --apply is not available on Windows; --script powershell "
                                "prints what it would do");
}

int cli_setup_undo(struct cli_target *t, const char *folder)
{
    (void)t, (void)folder;
    return cli_fail(CLI_CANNOT, "setup: --undo is not available on Windows");
}
