#include "cli/cli.h"
#include "cli/limit.h"
#include "cdi/files.h"
#include "report/devices.h"

enum { O_ROOT = 1, O_JSON };

static const struct cli_option options[] = {
    {"root", "DIR", "look at the file system below DIR (a captured tree, another machine's)",
     O_ROOT},
    CLI_OPTION_LIMIT,
    {"json", NULL, "print JSON (docs/json.md)", O_JSON},
};

static int devices_look(struct arena *a, const char *root_path, bool json)
{
    struct root root = ROOT_EMPTY;
    struct gm_err err;
    struct host host;
    struct out out;
    if (root_open(&root, root_path, &err) < 0) {
        return cli_fail(CLI_CANNOT, "devices: %s", str_printable(a, err.text));
    }
    int rc = host_collect(&root, a, &host, &err);
    if (rc < 0) {
        root_close(&root);
        return cli_fail(CLI_CANNOT, "devices: %s", str_printable(a, err.text));
    }
    host_judge(&host, a);
    cdi_files_note(&root, a, &host);
    root_close(&root);
    if (json) {
        if (out_json_dump(stdout, report_devices_json(a, &host, root_path)) < 0) {
            return cli_fail(CLI_CANNOT, "cannot write the output");
        }
    } else {
        out_init(&out, stdout);
        report_devices_text(&out, a, &host, root_path);
    }
    switch (report_devices_verdict(&host)) {
    case HOST_NO: return CLI_FINDINGS;
    case HOST_UNKNOWN: return CLI_CANNOT;
    case HOST_YES: break;
    }
    return CLI_OK;
}

static int devices_run(const struct cli_command *self, int argc, char **argv)
{
    struct cli_args args = {.command = self, .argc = argc, .argv = argv};
    const char *root_path = "/";
    bool json = false;
    for (int id; (id = cli_next(&args)) != CLI_END;) {
        switch (id) {
        case O_ROOT: root_path = args.value; break;
        case O_JSON: json = true; break;
        case CLI_HELP: return CLI_OK;
        case CLI_ARGUMENT:
            return cli_fail(CLI_USAGE, "devices: takes no argument, but %s was given", args.value);
        default: return CLI_USAGE;
        }
    }
    struct arena arena;
    cli_arena_init(&arena);
    cli_only_look((struct sandbox){0});
    int status = devices_look(&arena, root_path, json);
    arena_release(&arena);
    return status;
}

const struct cli_command cli_devices = {
    .name = "devices",
    .arguments = "[options]",
    .summary = "describes every GPU in one sentence, and whether programs can use it here",
    .text =
        "Prints for each GPU what it is, whether programs can use it here, and what to do if they\n"
        "cannot; then what the CPU offers. devices only reads files: it loads no vendor library\n"
        "and opens no device, so what only the driver knows stays unknown.\n"
        "\n"
        "Exit status 1: a GPU is present and cannot be used. Integrated graphics that the\n"
        "vendors' own builds do not support do not count.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .run = devices_run,
};
