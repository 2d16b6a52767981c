#include "cli/container.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/target.h"
#include "container/settings.h"
#include "report/container.h"

enum { O_CHECK = 1, O_REFRESH, O_WRITE, O_FOLDER };

static const struct cli_option options[] = {
    CLI_OPTION_ROOT,
    CLI_OPTION_HOST,
    CLI_OPTION_IMPORT,
    CLI_OPTION_ENV,
    CLI_OPTION_UNSET,
    CLI_OPTION_KB,
    {"write", NULL, "cdi: write the specification of each vendor into the folder", O_WRITE},
    {"refresh", NULL, "cdi: write those again that gpumend has written", O_REFRESH},
    {"check", NULL, "cdi: say what is wrong with the specifications that engines read", O_CHECK},
    {"folder", "DIR", "cdi: where to write (/etc/cdi)", O_FOLDER},
    CLI_OPTION_JSON,
};

struct container {
    struct cli_target t;
    struct model_target target;
    const char *what;  // "cdi", "check", or the name of a format
    const char *image; // with "check"
    struct container_cdi cdi;
};

static int take_option(void *command, int id, const char *value)
{
    struct container *c = command;
    switch (id) {
    case O_FOLDER:
        c->cdi.folder = value;
        return CLI_OK;
    case O_CHECK:
        c->cdi.check = true;
        return CLI_OK;
    case O_REFRESH:
        c->cdi.refresh = true;
        return CLI_OK;
    case O_WRITE:
        c->cdi.write = true;
        return CLI_OK;
    case CLI_ARGUMENT:
        if (!c->what) {
            c->what = value;
            return CLI_OK;
        }
        if (!c->image && strcmp(c->what, "check") == 0) {
            c->image = value;
            return CLI_OK;
        }
        break;
    default:
        break;
    }
    return cli_target_take(&c->t, id, value);
}

/* ------------------------------------------------------------------ settings */

static int print(struct container *c, struct root *host, enum ctr_format format)
{
    struct model *m = &c->target.model;
    struct diag_report report;
    struct ctr_settings settings;
    struct ctr_question q = {.model = m,
                             .report = &report,
                             .host_root = host,
                             .host = m->host,
                             .format = format,
                             .rootless = getuid() != 0};
    if (!m->host) {
        return cli_fail(CLI_CANNOT, "container: the host cannot be looked at: %s", m->host_why);
    }
    diag_run(m, &report);
    ctr_settings(&q, &settings);
    if (c->t.json) {
        return out_json_dump(stdout, report_container_json(m->arena, &settings, format)) < 0
                   ? cli_fail(CLI_CANNOT, "cannot write the output")
                   : CLI_OK;
    }
    struct out out;
    out_init(&out, stdout);
    report_container_text(&out, m->arena, &settings, format);
    return CLI_OK;
}

static int settings(struct container *c, enum ctr_format format)
{
    struct gm_err err;
    struct root host = ROOT_EMPTY;
    c->t.asked.host_path = c->t.asked.host_path ? c->t.asked.host_path : "/";
    if (root_open(&host, c->t.asked.host_path, &err) < 0) {
        return cli_fail(CLI_CANNOT, "container: %s", str_printable(&c->t.arena, err.text));
    }
    int rc = model_target_open(&c->target, &c->t.arena, &c->t.asked, &err);
    int status = rc < 0
                     ? cli_fail(CLI_CANNOT, "container: %s", str_printable(&c->t.arena, err.text))
                     : print(c, &host, format);
    model_target_close(&c->target);
    root_close(&host);
    return status;
}

/* ------------------------------------------------------------------ the command */

static int cdi(struct container *c)
{
    struct container_cdi *q = &c->cdi;
    q->host = c->t.asked.host_path ? c->t.asked.host_path : "/";
    q->folder = q->folder ? q->folder : cdi_folders[0];
    q->json = c->t.json;
    if (c->t.asked.target || c->t.asked.root_path) {
        return cli_fail(CLI_USAGE, "container: cdi describes a machine and takes no TARGET and no "
                                   "--root; --host DIR names another machine's file system");
    }
    if (q->check + q->refresh + q->write > 1) {
        return cli_fail(CLI_USAGE, "container: --check, --refresh and --write are three things");
    }
    if ((q->refresh || q->write) && strcmp(q->host, "/") != 0) {
        return cli_fail(CLI_USAGE, "container: only this machine's specification can be written");
    }
    return container_cdi(&c->t.arena, q);
}

static int carry_out(void *command)
{
    struct container *c = command;
    enum ctr_format format;
    if (c->what && strcmp(c->what, "cdi") == 0) {
        return cdi(c);
    }
    if (!c->what || (strcmp(c->what, "check") != 0 && !ctr_format_find(c->what, &format))) {
        return cli_fail(CLI_USAGE, "container: say what to do: check, docker, podman, compose, "
                                   "kubernetes, apptainer or cdi");
    }
    if (c->cdi.check || c->cdi.refresh || c->cdi.write || c->cdi.folder) {
        return cli_fail(CLI_USAGE, "container: --check, --refresh, --write and --folder belong to "
                                   "cdi");
    }
    if (strcmp(c->what, "check") != 0) {
        return settings(c, format);
    }
    if (!c->image || c->t.asked.root_path) {
        return cli_fail(CLI_USAGE, c->image ? "container: check takes a folder as IMAGE, not --root"
                                            : "container: check: say which IMAGE");
    }
    return container_check(&c->t, c->image);
}

/* Asked before the options are read, as --env may stand before it. */
static bool is_about_image(int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "check") == 0) {
            return true;
        }
    }
    return false;
}

static int run(const struct cli_command *self, int argc, char **argv)
{
    static const struct cli_target_calls calls = {.take = take_option, .run = carry_out};
    struct container *c = calloc(1, sizeof *c);
    if (!c) {
        return cli_fail(CLI_CANNOT, "out of memory");
    }
    c->t.elsewhere = is_about_image(argc, argv);
    int rc = cli_target_run(&c->t, self, argc, argv, &calls, c);
    free(c);
    return rc;
}

const struct cli_command cli_container = {
    .name = "container",
    .arguments = "check IMAGE|docker|podman|compose|kubernetes|apptainer|cdi [options] [TARGET]",
    .summary = "what gives a container the GPUs here and what its application needs",
    .text =
        "`container check IMAGE` is `check` for an image, judged on this host: IMAGE is what\n"
        "`docker save` or `podman save` wrote, an OCI archive or layout, or the folder of an\n"
        "unpacked root file system, or the name of an image in the storage of podman or docker.\n"
        "Nothing is unpacked and no engine is asked. The environment is what the image's\n"
        "configuration sets; without a TARGET the Python that the image starts is looked at, or\n"
        "its program where it has none.\n\n"
        "With the name of an engine: the settings that an application needs on this host, each\n"
        "with its reason, as a command line, a compose fragment or a Pod manifest. TARGET is\n"
        "what `check` takes; with --root DIR it lies in the image, whose file system is DIR.\n"
        "Libraries that the image lacks and the host has are mounted; what neither has is a\n"
        "line for the Dockerfile.\n\n"
        "`container cdi` prints a Container Device Interface specification for the GPUs here,\n"
        "one document a vendor: podman, docker, containerd and CRI-O then know the devices\n"
        "nvidia.com/gpu=0, nvidia.com/gpu=all and so on. It has no hooks and is of the lowest\n"
        "version that has its fields, so that old engines load it. --write puts it where\n"
        "engines look; what gpumend did not write is never written over.\n"
        "--check reads the specifications of every folder that engines read, whoever wrote\n"
        "them, and says which are refused or stale: exit status 1 if one is.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .run = run,
};
