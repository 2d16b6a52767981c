#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/limit.h"
#include "cdi/files.h"
#include "cli/probing.h"
#include "model/target.h"
#include "report/devices.h"
#include "report/devices_probe.h"

enum { O_ROOT = 1, O_PROBE, O_JSON };

static const struct cli_option options[] = {
    {"root", "DIR", "look at the file system below DIR (a captured tree, another machine's)",
     O_ROOT},
    {"probe", NULL, "ask the drivers too: free memory, processes, compute mode, CUDA", O_PROBE},
    CLI_OPTION_LIMIT,
    {"json", NULL, "print JSON (docs/json.md)", O_JSON},
};

struct devices {
    struct arena arena;
    const char *root_path;
    bool json, probe;
};

static int devices_print(struct devices *c, const struct host *host,
                         const struct probe_report *probed)
{
    struct out out;
    if (c->json) {
        json_t *doc = report_devices_json(&c->arena, host, c->root_path);
        if (probed) {
            json_put(doc, "probe", report_devices_probe_json(&c->arena, probed));
        }
        if (out_json_dump(stdout, doc) < 0) {
            return cli_fail(CLI_CANNOT, "cannot write the output");
        }
    } else {
        out_init(&out, stdout);
        report_devices_text(&out, &c->arena, host, c->root_path, probed);
    }
    switch (report_devices_verdict(host)) {
    case HOST_NO: return CLI_FINDINGS;
    case HOST_UNKNOWN: return CLI_CANNOT;
    case HOST_YES: break;
    }
    return CLI_OK;
}

/* Of this machine: what else bears on programs started here. */
static void devices_note(struct root *r, struct arena *a, struct host *h)
{
    cdi_files_note(r, a, h);
    host_judge_library_path(r, a, h, getenv("LD_LIBRARY_PATH"));
}

static int devices_look(struct devices *c)
{
    struct arena *a = &c->arena;
    struct root root = ROOT_EMPTY;
    struct gm_err err;
    struct host host;
    if (root_open(&root, c->root_path, &err) < 0) {
        return cli_fail(CLI_CANNOT, "devices: %s", str_printable(a, err.text));
    }
    int rc = host_collect(&root, a, &host, &err);
    if (rc < 0) {
        root_close(&root);
        return cli_fail(CLI_CANNOT, "devices: %s", str_printable(a, err.text));
    }
    host_judge(&host, a);
    if (strcmp(c->root_path, "/") == 0) {
        devices_note(&root, a, &host);
    } else {
        cdi_files_note(&root, a, &host);
    }
    root_close(&root);
    return devices_print(c, &host, NULL);
}

/* The machine as the model of a program that starts here sees it, and the stages that the drivers
 * answer. A program that ran is believed before the files (probe_believe). */
static int devices_probe(struct devices *c)
{
    struct model_target target = {0};
    struct probe_report report;
    struct cli_env env;
    struct gm_err err;
    cli_env_init(&env, &c->arena);
    const struct model_target_options asked = {.env = env.vars.items,
                                               .n_env = env.vars.n,
                                               .cwd = cli_cwd(&c->arena),
                                               .uid = getuid(),
                                               .on_host = devices_note,
                                               .only_open = true};
    int rc = model_target_open(&target, &c->arena, &asked, &err);
    if (rc == 0 && !target.model.host) {
        rc = gm_err_set(&err, GM_ERR_LOOK, "the machine could not be looked at");
    }
    if (rc == 0) {
        struct cli_probing p = {.model = &target.model};
        p.only = report_devices_stages(target.model.host, &p.n_only);
        rc = cli_probing_run(&p, &report, &err);
    }
    if (rc < 0) {
        rc = cli_fail(CLI_CANNOT, "devices: %s", str_printable(&c->arena, err.text));
    } else {
        bool nothing = report.verdict == PROBE_NO_DRIVER && target.model.host->gpus.n == 0;
        rc = devices_print(c, target.model.host, &report);
        rc = nothing ? rc : (int)cli_probing_status((enum cli_status)rc, &report);
    }
    model_target_close(&target);
    return rc;
}

static int devices_start(struct devices *c)
{
    if (!c->probe) {
        cli_only_look((struct sandbox){0});
        return devices_look(c);
    }
    if (strcmp(c->root_path, "/") != 0) {
        return cli_fail(CLI_USAGE, "devices: --probe asks the drivers of this machine: not with "
                                   "--root");
    }
    int rc = cli_limit_lift("devices --probe");
    return rc == CLI_OK ? devices_probe(c) : rc;
}

static int devices_run(const struct cli_command *self, int argc, char **argv)
{
    struct cli_args args = {.command = self, .argc = argc, .argv = argv};
    struct devices c = {.root_path = "/"};
    for (int id; (id = cli_next(&args)) != CLI_END;) {
        switch (id) {
        case O_ROOT: c.root_path = args.value; break;
        case O_PROBE: c.probe = true; break;
        case O_JSON: c.json = true; break;
        case CLI_HELP: return CLI_OK;
        case CLI_ARGUMENT:
            return cli_fail(CLI_USAGE, "devices: takes no argument, but %s was given", args.value);
        default: return CLI_USAGE;
        }
    }
    cli_arena_init(&c.arena);
    int status = devices_start(&c);
    arena_release(&c.arena);
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
        "With --probe the drivers are asked too, each in a child process, as with gpumend probe:\n"
        "free and total memory, the processes that compute, the compute mode, and the CUDA\n"
        "that the driver runs.\n"
        "\n"
        "Exit status 1: a GPU is present and cannot be used. Integrated graphics that the\n"
        "vendors' own builds do not support do not count.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .run = devices_run,
};
