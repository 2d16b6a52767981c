#include "cli/container.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/nearest.h"
#include "base/str.h"
#include "cli/limit.h"
#include "cli/target.h"
#include "container/settings.h"
#include "choose/choose.h"
#include "report/container.h"

enum {
    O_CHECK = 1,
    O_REFRESH,
    O_WRITE,
    O_FOLDER,
    O_GPUS,
    O_MODEL,
    O_REPORT,
    O_PLATFORM,
    O_NO_VERIFY,
    O_DEVICE
};

static const struct cli_option options[] = {
    CLI_OPTION_ROOT,
    CLI_OPTION_HOST,
    CLI_OPTION_IMPORT,
    CLI_OPTION_ENV,
    CLI_OPTION_UNSET,
    CLI_OPTION_CPU,
    CLI_OPTION_PAGE_SIZE,
    {"device", "cpu", "check: the program is to compute on the CPU, as gpumend check --device",
     O_DEVICE},
    CLI_OPTION_KB,
    {"gpus", "LIST", "all (default), best, or a comma-separated list: 0, UUID, 0:1 (MIG)", O_GPUS},
    {"model", "NAME", "with --gpus best: the model that must fit (whisper:large-v3)", O_MODEL},
    {"platform", "OS/ARCH", "the platform of a multi-platform image (default: the host's)",
     O_PLATFORM},
    {"no-verify", NULL, "do not check the digests of an archive's or layout's files", O_NO_VERIFY},
    {"write", NULL, "cdi: write the specification of each vendor into the folder", O_WRITE},
    {"refresh", NULL, "cdi: write those again that gpumend has written", O_REFRESH},
    {"check", NULL, "cdi: say what is wrong with the specifications that engines read", O_CHECK},
    {"folder", "DIR", "cdi: where to write (/etc/cdi), or what to check", O_FOLDER},
    {"verbose", NULL, "check: print the evidence and all repairs (also -v)", CLI_VERBOSE},
    {"report", NULL, "check: print a report for an issue, as gpumend check --report", O_REPORT},
    CLI_OPTION_LIMIT_LARGE,
    CLI_OPTION_JSON,
};

struct container {
    struct cli_target t;
    const char *what;     // "cdi", "check", or the name of a format
    const char *words[2]; // IMAGE and TARGET, or one of them
    size_t n_words;
    bool report;
    struct cli_container_cdi cdi;
    enum container_format format;
    struct cli_container_image image;
    const char *gpus, *model; // as given, or NULL
    struct root host;
    struct container_pick pick;
    struct gm_err err; // of the last container_judge(); code 0: none
    struct container_settings settings;
};

static int container_take_option(void *command, int id, const char *value)
{
    struct container *c = command;
    switch (id) {
    case O_FOLDER:
        c->cdi.folder = value;
        c->cdi.is_folder = true;
        return CLI_OK;
    case O_GPUS: c->gpus = value; return CLI_OK;
    case O_MODEL: c->model = value; return CLI_OK;
    case O_PLATFORM: c->image.platform = value; return CLI_OK;
    case O_NO_VERIFY: c->image.no_verify = true; return CLI_OK;
    case O_DEVICE:
        c->image.for_cpu = strcmp(value, "cpu") == 0;
        return c->image.for_cpu ? CLI_OK
                                : cli_fail(CLI_USAGE, "container: --device expects cpu, not %s",
                                           str_printable(&c->t.arena, value));
    case O_CHECK: c->cdi.check = true; return CLI_OK;
    case O_REFRESH: c->cdi.refresh = true; return CLI_OK;
    case O_WRITE: c->cdi.write = true; return CLI_OK;
    case O_REPORT: c->report = true; return CLI_OK;
    case CLI_ARGUMENT:
        if (!c->what) {
            c->what = value;
            return CLI_OK;
        }
        if (c->n_words < 2) {
            c->words[c->n_words++] = value;
            return CLI_OK;
        }
        return cli_fail(CLI_USAGE, "container: give one IMAGE and one TARGET, not %s, %s and %s",
                        c->words[0], c->words[1], value);
    default: break;
    }
    return cli_target_take(&c->t, id, value);
}

/* ------------------------------------------------------------------ settings */

/* What `gpumend choose` would take for what the image has. */
static int pick_best(struct container *c, struct container_seen *seen, struct gm_err *err)
{
    struct model *m = &seen->target.model;
    struct choose_result choice;
    const struct choose_options wanted = {
        .model = c->model, .variables = {.env = seen->t->asked.env, .n_env = seen->t->asked.n_env}};
    int rc = choose_best(m, &seen->report, &wanted, &choice, err);
    if (rc == 0) {
        container_pick_one(
            m->host, m->arena, choice.chosen ? choice.chosen->gpu : NULL,
            arena_printf(m->arena, "Chosen as gpumend choose does: %s", choice.reason), &c->pick);
    }
    return rc;
}

static int pick_gpus(struct container *c, struct container_seen *seen, struct gm_err *err)
{
    struct model *m = &seen->target.model;
    if (c->gpus && strcmp(c->gpus, "best") == 0) {
        return pick_best(c, seen, err);
    }
    return container_pick_parse(m->host, m, c->format, c->gpus ? c->gpus : "all", &c->pick, err);
}

/* The path of this executable, or NULL. */
static const char *own_program(struct arena *a)
{
    char *path = arena_alloc(a, 4096);
    ssize_t n = readlink("/proc/self/exe", path, 4095);
    if (n <= 0) {
        return NULL;
    }
    path[n] = '\0';
    return path;
}

static void container_judge(void *arg, struct container_seen *seen)
{
    struct container *c = arg;
    c->err = (struct gm_err){0};
    if (!seen->target.model.host || pick_gpus(c, seen, &c->err) < 0) {
        return;
    }
    struct container_question q = {.model = &seen->target.model,
                                   .report = &seen->report,
                                   .host_root = &c->host,
                                   .host = seen->target.model.host,
                                   .format = c->format,
                                   .rootless = getuid() != 0,
                                   .image = seen->image,
                                   .image_path = c->image.given,
                                   .pick = &c->pick,
                                   .program = own_program(seen->target.model.arena)};
    container_settings(&q, &c->settings);
}

static int container_print(void *arg, struct container_seen *seen)
{
    struct container *c = arg;
    struct model *m = &seen->target.model;
    if (!m->host) {
        return cli_fail(CLI_CANNOT, "container: the host cannot be looked at: %s", m->host_why);
    }
    if (c->err.code) {
        return cli_fail(c->err.code == GM_ERR_USAGE ? CLI_USAGE : CLI_CANNOT, "container: %s",
                        str_printable(m->arena, c->err.text));
    }
    if (c->t.json) {
        json_t *doc = report_container_json(m->arena, &c->settings, c->format);
        return out_json_dump(stdout, doc) < 0 ? cli_fail(CLI_CANNOT, "cannot write the output")
                                              : CLI_OK;
    }
    struct out out, remarks;
    out_init(&out, stdout);
    out_init(&remarks,
             c->format == CONTAINER_DEVCONTAINER ? stderr : stdout); // JSON has no remarks
    report_container_text(&out, &remarks, m->arena, &c->settings, c->format);
    return CLI_OK;
}

/* IMAGE and TARGET, or one of them: with --root, an environment and a program are a TARGET. */
static int container_take_words(struct container *c)
{
    const char *name, *first = c->n_words ? image_split(&c->t.arena, c->words[0], &name) : NULL;
    bool is_target = c->t.asked.root_path || (c->n_words == 1 && !image_is_meant(first));
    if (c->n_words == 2 && c->t.asked.root_path) {
        return cli_fail(CLI_USAGE, "container: give IMAGE or --root, not both");
    }
    c->image.given = c->n_words && !is_target ? c->words[0] : NULL;
    c->t.asked.target = c->n_words && is_target ? c->words[0] : c->words[1];
    return CLI_OK;
}

static int settings(struct container *c)
{
    static const struct container_use use = {.judge = container_judge, .print = container_print};
    struct gm_err err;
    int status = container_take_words(c);
    if (status != CLI_OK) {
        return status;
    }
    cli_only_look((struct sandbox){0});
    if (!c->t.asked.root_path && !c->image.given) {
        cli_target_leave_shell(&c->t); // the shell's variables are not those of a container
    }
    c->host = ROOT_EMPTY;
    c->t.asked.host_path = c->t.asked.host_path ? c->t.asked.host_path : "/";
    if (root_open(&c->host, c->t.asked.host_path, &err) < 0) {
        return cli_fail(CLI_CANNOT, "container: %s", str_printable(&c->t.arena, err.text));
    }
    status = cli_container_look(&c->t, &c->image, &use, c);
    root_close(&c->host);
    return status;
}

/* ------------------------------------------------------------------ the command */

static int cdi(struct container *c)
{
    struct cli_container_cdi *q = &c->cdi;
    q->host = c->t.asked.host_path ? c->t.asked.host_path : "/";
    q->folder = q->folder ? q->folder : cdi_folders[0];
    if (*q->folder != '/') { // of this machine's, or of the host's root
        const char *from = strcmp(q->host, "/") == 0 ? cli_cwd(&c->t.arena) : "/";
        q->folder = path_join(&c->t.arena, from, q->folder);
    }
    q->json = c->t.json;
    if (c->n_words || c->t.asked.root_path) {
        return cli_fail(CLI_USAGE, "container: cdi describes a machine and takes no TARGET and no "
                                   "--root; --host DIR names another machine's file system");
    }
    if (c->image.platform || c->image.no_verify) {
        return cli_fail(CLI_USAGE, "container: --platform and --no-verify belong to an IMAGE");
    }
    if (q->check + q->refresh + q->write > 1) {
        return cli_fail(CLI_USAGE, "container: --check, --refresh and --write are three things");
    }
    if ((q->refresh || q->write) && strcmp(q->host, "/") != 0) {
        return cli_fail(CLI_USAGE, "container: only this machine's specification can be written");
    }
    if ((q->refresh || q->write) && cli_limit_lift("container cdi --write") != CLI_OK) {
        return CLI_USAGE;
    }
    if (!q->refresh && !q->write) {
        cli_only_look((struct sandbox){0});
    }
    return cli_container_cdi(&c->t.arena, q);
}

/* Nothing that this command does: NULL where no word was given. */
static int unknown_form(struct arena *a, const char *word)
{
    struct nearest n;
    nearest_init(&n, word ? word : "");
    nearest_try(&n, "check");
    nearest_try(&n, "cdi");
    for (enum container_format i = 0; i < CONTAINER_FORMATS; i++) {
        nearest_try(&n, container_format_name(i));
    }
    const char *best = word ? nearest_best(&n) : NULL;
    if (best) {
        return cli_fail(CLI_USAGE, "container: unknown form %s; did you mean %s?", word, best);
    }
    return cli_fail(CLI_USAGE, "container: %s%sexpected check, cdi, or a FORM (%s)",
                    word ? word : "", word ? " is not a form: " : "", container_format_names(a));
}

static int container_carry_out(void *command)
{
    struct container *c = command;
    if (c->what && strcmp(c->what, "cdi") == 0) {
        return cdi(c);
    }
    if (!c->what ||
        (strcmp(c->what, "check") != 0 && !container_format_find(c->what, &c->format))) {
        return unknown_form(&c->t.arena, c->what);
    }
    if (c->model && (!c->gpus || strcmp(c->gpus, "best") != 0)) {
        return cli_fail(CLI_USAGE, "container: --model needs --gpus best");
    }
    if (c->gpus && strcmp(c->what, "check") == 0) {
        return cli_fail(CLI_USAGE, "container: --gpus needs a FORM");
    }
    if (c->image.for_cpu && strcmp(c->what, "check") != 0) {
        return cli_fail(CLI_USAGE, "container: --device goes with check");
    }
    if (c->cdi.check || c->cdi.refresh || c->cdi.write || c->cdi.folder) {
        return cli_fail(CLI_USAGE, "container: --check, --refresh, --write and --folder belong to "
                                   "cdi");
    }
    if (c->report && (c->t.json || strcmp(c->what, "check") != 0)) {
        return cli_fail(CLI_USAGE, c->t.json ? "container: --report prints text for people; for "
                                               "programs, use check --json without it"
                                             : "container: --report goes with check");
    }
    if (strcmp(c->what, "check") != 0) {
        return settings(c);
    }
    if (!c->n_words || c->t.asked.root_path) {
        return cli_fail(CLI_USAGE, c->n_words
                                       ? "container: check takes a folder as IMAGE, not --root"
                                       : "container: check: say which IMAGE");
    }
    c->t.asked.target = c->words[1];
    c->image.given = c->words[0];
    cli_only_look((struct sandbox){0});
    return cli_container_check(&c->t, &c->image, c->report);
}

static int container_run(const struct cli_command *self, int argc, char **argv)
{
    static const struct cli_target_calls calls = {.take = container_take_option,
                                                  .run = container_carry_out};
    struct container c = {0};
    return cli_target_run(&c.t, self, argc, argv, &calls, &c);
}

const struct cli_command cli_container = {
    .name = "container",
    .arguments = "check|cdi|FORM [IMAGE] [TARGET] [options]",
    .summary = "checks images, and prints the settings that give a container the GPU",
    .text =
        "`container check IMAGE` is `check` for an image, judged for this host. IMAGE is an "
        "archive\n"
        "that `docker save` or `podman save` wrote, an OCI archive or layout, the folder of an\n"
        "unpacked root file system, or the name of an image in the storage of podman or docker.\n"
        "ARCHIVE:NAME (or :@N) is one of several images in it. It checks digests, unpacks nothing\n"
        "and asks no engine. The environment is the one that the image's configuration sets. "
        "Without\n"
        "TARGET it checks the Python that the image starts, or the program that it starts if "
        "there\n"
        "is no Python.\n\n"
        "`container FORM` prints the settings that an application needs on this host, each with "
        "its\n"
        "reason. FORM is docker, podman, compose, kubernetes (a Pod), kubernetes-deployment,\n"
        "kubernetes-claim (a DRA claim), quadlet, devcontainer, apptainer, enroot, pyxis, incus, "
        "lxc,\n"
        "nspawn, or dockerfile (which repairs the image itself). IMAGE is read as by `container\n"
        "check`. Without IMAGE, TARGET is what `check` takes: an application that is still to be\n"
        "packed, or one below --root DIR. A library that the image lacks and the host has is "
        "mounted;\n"
        "for one that neither has, a line for the Dockerfile is printed. After the form come the\n"
        "commands that test it, whether the host's driver supports the CUDA of the image, and how "
        "to\n"
        "undo it.\n\n"
        "`container cdi` prints a Container Device Interface specification for the GPUs here,\n"
        "one document a vendor: podman, docker, containerd and CRI-O then know the devices\n"
        "nvidia.com/gpu=0, nvidia.com/gpu=all and so on. It runs nvidia-cdi-hook if the host has\n"
        "it, and declares the lowest version that has its fields, so that old engines load it.\n"
        "--write puts it where engines look; a file that gpumend did not write is never changed.\n"
        "--check reads the specifications of every folder that engines read, whoever wrote them, "
        "or\n"
        "those in --folder DIR, and names those that engines refuse or that are stale: exit status "
        "1\n"
        "if there are any, 3 if it cannot tell. Installed engines are judged by their release; if "
        "it\n"
        "finds none, it names the known engines that do not load a file.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .run = container_run,
};
