/*
 * The verdict of this node in the forms of the engines that act on it. Children look and, with
 * --probe, run the GPU (cli/node_child.h); this process writes the document's form, and drains.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "cdi/files.h"
#include "cli/cli.h"
#include "cli/drain.h"
#include "cli/limit.h"
#include "cli/node_child.h"
#include "cli/replace.h"
#include "kb/kb.h"
#include "node/node.h"

enum {
    O_ROOT = 1,
    O_CHECK,
    O_PROBE,
    O_OUT,
    O_NODE,
    O_GPUS,
    O_DEADLINE,
    O_EXPIRE,
    O_STATE,
    O_HEARTBEAT,
    O_DRAIN,
    O_DRAIN_COUNT,
    O_DRAIN_LIMIT,
};

enum {
    DEADLINE_DEFAULT = 30,
    EXPIRE_DEFAULT = 10800,
    HEARTBEAT_DEFAULT = 3600,
    NUMBER_MAX = 604800
};

/* What engines read at most: NPD of a line; Slurm keeps longer reasons, people do not read them. */
enum { NPD_BYTES = 80, REASON_BYTES = 160 };

static const struct cli_option options[] = {
    {"root", "DIR", "look at the node whose file system is DIR (a pod that has its host's)",
     O_ROOT},
    {"check", "TARGET", "check this environment or program, too; may be given again", O_CHECK},
    {"probe", NULL,
     "run the GPUs up to a first kernel, too, unless somebody's job is or may be on this node",
     O_PROBE},
    {"out", "FILE", "write FILE, as a whole or not at all (default: standard output)", O_OUT},
    {"node", "NAME", "name of the node (default: SLURMD_NODENAME, NODE_NAME, or its host name)",
     O_NODE},
    {"gpus", "N", "fewer usable GPUs than N are a fault (default: 0)", O_GPUS},
    {"deadline", "SECONDS",
     "give up looking, and then probing, after this time each: the verdict is unknown (default: "
     "30)",
     O_DEADLINE},
    {"expire", "SECONDS", "nfd: for how long the labels count (default: 10800)", O_EXPIRE},
    {"state", "FILE", "ndjson: print only what differs from the last line, which FILE keeps",
     O_STATE},
    {"heartbeat", "SECONDS", "ndjson: print a line at least this often (default: 3600)",
     O_HEARTBEAT},
    {"drain", NULL, "slurm: drain the node if it is broken, resume it if it is ok again", O_DRAIN},
    {"drain-count", "FILE", "slurm: counts the drains of all nodes; needed for --drain",
     O_DRAIN_COUNT},
    {"drain-limit", "N", "slurm: nodes that may be drained in an hour (default: 4)", O_DRAIN_LIMIT},
};

struct export
{
    struct arena arena;
    const struct form *form;
    struct node_asked asked;
    VEC(const char *) targets;
    const char *out, *node, *state, *drain_count;
    uint64_t deadline, expire, heartbeat, drain_limit;
    bool drain, probe;
    int64_t now;
};

struct form {
    const char *name;
    int (*print)(struct export *e, const json_t *doc);
};

/* ------------------------------------------------------------------ forms */

static const char *time_text(struct arena *a, int64_t seconds)
{
    struct tm parts;
    char text[32];
    time_t time = (time_t)seconds;
    size_t n =
        gmtime_r(&time, &parts) ? strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts) : 0;
    return arena_strndup(a, text, n);
}

static int write_text(struct export *e, const char *text)
{
    struct gm_err err;
    if (!text) {
        return cli_fail(CLI_CANNOT, "out of memory");
    }
    if (!e->out) {
        return fputs(text, stdout) == EOF ? cli_fail(CLI_CANNOT, "cannot write the output")
                                          : CLI_OK;
    }
    return cli_replace_file(&e->arena, e->out, text, &err) == 0
               ? CLI_OK
               : cli_fail(CLI_CANNOT, "export: %s", str_printable(&e->arena, err.text));
}

static int print_prometheus(struct export *e, const json_t *doc)
{
    return write_text(e, node_prometheus(&e->arena, doc, e->now));
}

static int print_nfd(struct export *e, const json_t *doc)
{
    const char *expires = time_text(&e->arena, e->now + (int64_t)e->expire);
    return write_text(e, node_nfd(&e->arena, doc, expires));
}

/* 0 and 1 are "no problem" and "a problem" to node-problem-detector, anything else "unknown". */
static int print_npd(struct export *e, const json_t *doc)
{
    const char *verdict = node_verdict(doc);
    const char *line = arena_printf(&e->arena, "%s\n", node_sentence(&e->arena, doc, NPD_BYTES));
    int rc = write_text(e, line);
    return rc != CLI_OK                     ? rc
           : strcmp(verdict, "ok") == 0     ? CLI_OK
           : strcmp(verdict, "broken") == 0 ? CLI_FINDINGS
                                            : CLI_CANNOT;
}

static void drain_or_resume(struct export *e, bool is_broken, const char *sentence)
{
    struct arena *a = &e->arena;
    struct gm_err err;
    const char *done = NULL;
    const struct cli_drain d = {
        .node = e->node, .count_file = e->drain_count, .limit = e->drain_limit, .now = e->now};
    int rc = is_broken ? cli_drain_node(a, &d, sentence, &done, &err)
                       : cli_drain_resume(a, &d, &done, &err);
    if (rc < 0) {
        (void)cli_fail(CLI_OK, "export: %s was not %s: %s", str_printable(a, e->node),
                       is_broken ? "drained" : "resumed", str_printable(a, err.text));
    } else if (done) {
        (void)cli_fail(CLI_OK, "export: %s: %s", str_printable(a, e->node), done);
    }
}

/* Slurm drains a node whose prolog fails: only a node that is known to be broken is a failure.
 * With --drain the drain was made here, or is not to be made, and the status is 0. */
static int print_slurm(struct export *e, const json_t *doc)
{
    const char *sentence = node_sentence(&e->arena, doc, REASON_BYTES);
    bool is_broken = strcmp(node_verdict(doc), "broken") == 0;
    bool is_ok = strcmp(node_verdict(doc), "ok") == 0;
    int rc = write_text(e, arena_printf(&e->arena, "%s\n", sentence));
    if (e->drain && (is_broken || is_ok)) {
        drain_or_resume(e, is_broken, sentence);
    }
    (void)rc; // a full disk is not the node's fault, and was said
    return is_broken && !e->drain ? CLI_FINDINGS : CLI_OK;
}

/* What --state keeps: "IDENTITY SECONDS". False: there is none that can be read. */
static bool read_state(struct export *e, struct str *ret_identity, uint64_t *ret_time)
{
    char text[128];
    struct stat st;
    int fd = open(e->state, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a FIFO may have no writer
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
    bool is_file = file && fstat(fileno(file), &st) == 0 && S_ISREG(st.st_mode);
    size_t n = is_file ? fread(text, 1, sizeof text, file) : 0;
    if (file) {
        (void)fclose(file); // was only read
    }
    struct str rest = str_trim((struct str){arena_strndup(&e->arena, text, n), n});
    *ret_identity = str_cut(&rest, ' ');
    return rest.s && str_u64(rest, ret_time);
}

static int print_ndjson(struct export *e, const json_t *doc)
{
    struct arena *a = &e->arena;
    struct str last;
    struct gm_err err;
    uint64_t time = 0;
    const char *identity = node_identity(a, doc);
    if (e->state && read_state(e, &last, &time) && str_is(last, identity) &&
        (int64_t)time <= e->now && e->now - (int64_t)time < (int64_t)e->heartbeat) {
        return CLI_OK;
    }
    const char *line = node_line(a, doc);
    int rc = write_text(e, line ? arena_printf(a, "%s\n", line) : NULL);
    /* Kept after the line is out: a line more is better than one that never came. */
    if (rc != CLI_OK || !e->state || fflush(stdout) != 0) {
        return rc;
    }
    const char *kept = arena_printf(a, "%s %lld\n", identity, (long long)e->now);
    return cli_replace_file(a, e->state, kept, &err) == 0
               ? CLI_OK
               : cli_fail(CLI_CANNOT, "export: %s", str_printable(a, err.text));
}

static int print_slurm_features(struct export *e, const json_t *doc)
{
    struct arena *a = &e->arena;
    struct kb kb;
    struct kb_drivers drivers;
    struct gm_err err;
    if (kb_open(&kb, a, NULL, NULL, &err) < 0 || kb_drivers(&kb, &drivers, &err) < 0) {
        return cli_fail(CLI_CANNOT, "export: %s", str_printable(a, err.text));
    }
    return write_text(e, arena_printf(a, "%s\n", node_slurm_features(a, doc, &drivers)));
}

static int print_slurm_extra(struct export *e, const json_t *doc)
{
    const char *line = node_slurm_extra(&e->arena, doc);
    return write_text(e, line ? arena_printf(&e->arena, "%s\n", line) : NULL);
}

static const struct form forms[] = {
    {"prometheus", print_prometheus},
    {"nfd", print_nfd},
    {"npd", print_npd},
    {"slurm", print_slurm},
    {"slurm-features", print_slurm_features},
    {"slurm-extra", print_slurm_extra},
    {"ndjson", print_ndjson},
};

#define FORM_NAMES "prometheus, nfd, npd, slurm, slurm-features, slurm-extra or ndjson"

static const struct form *form_of(const char *name)
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (strcmp(forms[i].name, name) == 0) {
            return &forms[i];
        }
    }
    return NULL;
}

/* ------------------------------------------------------------------ the command line */

static int take_number(const char *name, const char *value, uint64_t min, uint64_t *ret)
{
    return str_u64(str_of(value), ret) && *ret >= min && *ret <= NUMBER_MAX
               ? CLI_OK
               : cli_fail(CLI_USAGE, "export: --%s expects a number from %llu to %d, not %s", name,
                          (unsigned long long)min, NUMBER_MAX, value);
}

static int take_target(struct export *e, const char *value)
{
    const char *cwd = cli_cwd(&e->arena);
    if (e->targets.n == NODE_TARGETS_MAX) {
        return cli_fail(CLI_USAGE, "export: at most %d times --check", NODE_TARGETS_MAX);
    }
    const char *path =
        value[0] == '/' || !strchr(value, '/') ? value : path_join(&e->arena, cwd, value);
    VEC_PUSH(&e->arena, &e->targets, path);
    return CLI_OK;
}

static int take_format(struct export *e, const char *value)
{
    if (e->form) {
        return cli_fail(CLI_USAGE, "export: one format at a time (%s, %s)", e->form->name, value);
    }
    e->form = form_of(value);
    return e->form ? CLI_OK : cli_fail(CLI_USAGE, "export: unknown format %s: " FORM_NAMES, value);
}

static int export_take_option(struct export *e, int id, const char *value)
{
    switch (id) {
    case O_ROOT: e->asked.root_path = value; return CLI_OK;
    case O_CHECK: return take_target(e, value);
    case O_PROBE: e->probe = true; return CLI_OK;
    case O_OUT: e->out = value; return CLI_OK;
    case O_NODE: e->node = value; return CLI_OK;
    case O_GPUS: return take_number("gpus", value, 0, &e->asked.gpus_min);
    case O_DEADLINE: return take_number("deadline", value, 1, &e->deadline);
    case O_EXPIRE: return take_number("expire", value, 1, &e->expire);
    case O_STATE: e->state = value; return CLI_OK;
    case O_HEARTBEAT: return take_number("heartbeat", value, 1, &e->heartbeat);
    case O_DRAIN: e->drain = true; return CLI_OK;
    case O_DRAIN_COUNT: e->drain_count = value; return CLI_OK;
    case O_DRAIN_LIMIT:
        return take_number("drain-limit", value, 1, &e->drain_limit) == CLI_OK &&
                       e->drain_limit <= CLI_DRAINS_MAX
                   ? CLI_OK
                   : CLI_USAGE;
    case CLI_ARGUMENT: return take_format(e, value);
    default: return CLI_USAGE;
    }
}

/* Options of one form are refused with another: nobody asks for a drain by mistake. */
static int check_words(const struct export *e)
{
    const char *form = e->form ? e->form->name : "";
    if (!e->form) {
        return cli_fail(CLI_USAGE, "export: which format? " FORM_NAMES);
    }
    if ((e->drain || e->drain_count) && strcmp(form, "slurm") != 0) {
        return cli_fail(CLI_USAGE, "export: --drain is for the format slurm");
    }
    if (e->drain && (!e->drain_count || e->asked.root_path)) {
        return cli_fail(CLI_USAGE, e->drain_count ? "export: --drain is for this node, without "
                                                    "--root"
                                                  : "export: --drain needs --drain-count FILE, a "
                                                    "file that all nodes share");
    }
    if (e->probe && e->asked.root_path) {
        return cli_fail(CLI_USAGE, "export: --probe is for this node, without --root");
    }
    if (e->probe && starts_with(form, "slurm-")) {
        return cli_fail(CLI_USAGE, "export: --probe is not for %s", form);
    }
    if (e->state && strcmp(form, "ndjson") != 0) {
        return cli_fail(CLI_USAGE, "export: --state is for the format ndjson");
    }
    return CLI_OK;
}

/* What an engine calls the node; else its host name. */
static const char *node_name(struct arena *a)
{
    const char *slurm = getenv("SLURMD_NODENAME"), *kubernetes = getenv("NODE_NAME");
    char host[256] = "";
    if (slurm && *slurm) {
        return slurm;
    }
    if (kubernetes && *kubernetes) {
        return kubernetes;
    }
    return gethostname(host, sizeof host - 1) == 0 ? arena_strdup(a, host) : "";
}

static int export_node(struct export *e)
{
    struct arena *a = &e->arena;
    struct timespec now;
    int64_t begin = clock_ms();
    (void)clock_gettime(CLOCK_REALTIME, &now); // cannot fail for this clock
    e->now = now.tv_sec;
    e->node = e->node ? e->node : node_name(a);
    e->asked.targets = e->targets.items;
    e->asked.n_targets = e->targets.n;
    e->asked.cwd = cli_cwd(a);
    e->asked.uid = getuid();
    e->asked.on_host = cdi_files_note;
    const struct cli_node n = {
        .asked = e->asked, .name = e->node, .deadline_s = e->deadline, .probe = e->probe};
    json_t *doc = cli_node_document(a, &n);
    node_sign(a, doc, e->node, time_text(a, e->now), (double)(clock_ms() - begin) / 1000);
    int rc = e->form->print(e, doc);
    json_decref(doc);
    return rc;
}

static int export_run(const struct cli_command *self, int argc, char **argv)
{
    struct cli_args args = {.command = self, .argc = argc, .argv = argv};
    struct export e = {.deadline = DEADLINE_DEFAULT,
                       .expire = EXPIRE_DEFAULT,
                       .heartbeat = HEARTBEAT_DEFAULT,
                       .drain_limit = CLI_DRAINS_DEFAULT};
    int rc = CLI_OK, id;
    cli_arena_init(&e.arena);
    while (rc == CLI_OK && (id = cli_next(&args)) != CLI_END) {
        if (id == CLI_HELP) {
            arena_release(&e.arena);
            return CLI_OK;
        }
        rc = id == CLI_WRONG ? CLI_USAGE : export_take_option(&e, id, args.value);
    }
    rc = rc == CLI_OK ? check_words(&e) : rc;
    rc = rc == CLI_OK ? export_node(&e) : rc;
    arena_release(&e.arena);
    return rc;
}

const struct cli_command cli_export = {
    .name = "export",
    .arguments = "FORMAT [options]",
    .summary = "writes the verdict of this node for Prometheus, Kubernetes and Slurm",
    .text =
        "FORMAT is one of\n"
        "  prometheus  a file for node_exporter's textfile collector\n"
        "  nfd         a feature file for node-feature-discovery: labels\n"
        "  npd         one line and a status for node-problem-detector\n"
        "  slurm       one line and a status for a prolog or HealthCheckProgram\n"
        "  slurm-features, slurm-extra\n"
        "              a node's Features and its Extra, which gpumend needs compares\n"
        "  ndjson      one line of JSON (docs/json.md)\n"
        "\n"
        "export looks at the GPUs and drivers as devices does, and with --check at "
        "environments,\n"
        "in a process of its own: if that crashes or hangs, the verdict is \"unknown\". With\n"
        "--drain it starts scontrol, with --probe the GPUs and, where Slurm is, squeue; otherwise\n"
        "it starts nothing. It never drains a node that it cannot judge, and never resumes one\n"
        "that others drained (docs/fleet.md).\n"
        "\n"
        "Exit status: npd 0 ok, 1 broken, 3 unknown; slurm 1 broken, otherwise 0 (with --drain\n"
        "always 0); other formats 0 whatever the verdict, 3 if it could not be written.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .run = export_run,
};
