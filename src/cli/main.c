#include <string.h>

#include "base/nearest.h"
#include "cli/cli.h"
#include "cli/licenses.h"
#include "cli/limit.h"
#include "version.h"

static const struct cli_command *const commands[] = {
    &cli_check,     &cli_fix,      &cli_enable,  &cli_disable, &cli_run,
    &cli_why,       &cli_explain,  &cli_devices, &cli_probe,   &cli_choose,
    &cli_container, &cli_snapshot, &cli_setup,   &cli_needs,   &cli_variants,
    &cli_export,    &cli_fleet,    &cli_kb,      &cli_mcp};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static void usage(FILE *file)
{
    fprintf(file, "gpumend finds out why a GPU program does not load or run, and what to do.\n\n"
                  "usage: gpumend COMMAND [options]\n\n");
    for (size_t i = 0; i < N_COMMANDS; i++) {
        fprintf(file, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
    }
    fprintf(
        file,
        "\n  gpumend COMMAND --help    prints the help of one command\n"
        "  gpumend --version         prints the version\n"
        "  gpumend --licenses        prints the licences of gpumend and of what it contains\n\n"
        "Looking executes nothing, changes nothing and sends nothing anywhere. Only fix --apply,\n"
        "setup --apply, --undo, enable, disable, run, probe, --probe, export, fleet add and\n"
        "container cdi --write act, and they say what they do.\n"
        "Exit status: 0 nothing wrong, 1 errors found, 2 wrong usage, 3 cannot tell.\n");
}

static int unknown_command(const char *word)
{
    struct nearest n;
    nearest_init(&n, word);
    for (size_t i = 0; i < N_COMMANDS; i++) {
        nearest_try(&n, commands[i]->name);
    }
    if (nearest_best(&n)) {
        return cli_fail(CLI_USAGE,
                        "unknown command %s; did you mean %s? (gpumend --help lists the "
                        "commands)",
                        word, nearest_best(&n));
    }
    (void)cli_fail(CLI_USAGE, "unknown command %s", word);
    usage(stderr);
    return CLI_USAGE;
}

int main(int argc, char **argv)
{
    cli_begin(&argc, &argv);
    if (argc < 2) {
        usage(stderr);
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        usage(stdout);
        return cli_finish(CLI_OK);
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("gpumend %s\n", GPUMEND_VERSION);
        return cli_finish(CLI_OK);
    }
    if (strcmp(argv[1], "--licenses") == 0) {
        return cli_licenses();
    }
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (strcmp(argv[1], commands[i]->name) == 0) {
            int status = cli_limit_start(commands[i], argc - 2, argv + 2);
            status = status ? status : commands[i]->run(commands[i], argc - 2, argv + 2);
            return cli_finish(status);
        }
    }
    return unknown_command(argv[1]);
}
