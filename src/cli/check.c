#include <string.h>

#include "base/str.h"
#include "cli/advice.h"
#include "cli/check_watch.h"
#include "cli/html.h"
#include "cli/limit.h"
#include "cli/paste.h"
#include "cli/probing.h"
#include "cli/progress.h"
#include "cli/replace.h"
#include "cli/replayed.h"
#include "cli/target.h"
#include "cli/windows.h"
#include "cdi/files.h"
#include "diag/finding.h"
#include "probe/choice.h"
#include "report/check.h"
#include "report/ci.h"
#include "report/html.h"
#include "report/joined.h"

enum { O_SNAPSHOT = 1, O_PROBE, O_REPORT, O_GITHUB, O_SARIF, O_HTML, O_REDACT, O_WATCH, O_DEVICE };

static const struct cli_option options[] = {
    CLI_OPTION_IMPORT,
    CLI_OPTION_PID,
    CLI_OPTION_ROOT,
    {"host", "DIR", "with --root: judge it on the machine whose file system is DIR (/: this one)",
     CLI_HOST},
    CLI_OPTION_ENV,
    CLI_OPTION_UNSET,
    CLI_OPTION_GLIBC,
    CLI_OPTION_CPU,
    CLI_OPTION_PAGE_SIZE,
    {"device", "cpu", "the program computes on the CPU: what only use of a GPU meets is a note",
     O_DEVICE},
    CLI_OPTION_KB,
    {"snapshot", "FILE", "look at what gpumend snapshot wrote, or - for standard input",
     O_SNAPSHOT},
    {"probe", NULL, "run the GPU in stages as well, as gpumend probe does", O_PROBE},
    CLI_OPTION_VERBOSE,
    {"report", NULL, "print a report for an issue: Markdown, without names and secrets", O_REPORT},
    {"github", NULL, "print annotations for a workflow of GitHub", O_GITHUB},
    {"sarif", "FILE", "write a SARIF log to FILE (-: standard output)", O_SARIF},
    {"html", "FILE", "write a page to FILE (-: standard output)", O_HTML},
    {"redact", NULL, "with --html: without names, serial numbers and secrets", O_REDACT},
    {"watch", NULL, "look again when a file changes that was read, and print what is new", O_WATCH},
    CLI_OPTION_LIMIT,
    CLI_OPTION_JSON,
};

struct check {
    struct cli_target t;
    struct model_target target;
    const char *snapshot_file; // or NULL
    struct snapshot snapshot;
    const char *sarif_file, *html_file; // or NULL
    bool probe, report, github, redact, watch, for_cpu;
};

static int check_take_option(void *command, int id, const char *value)
{
    struct check *c = command;
    if (id == O_SNAPSHOT) {
        c->snapshot_file = value;
        return CLI_OK;
    }
    if (id == O_PROBE) {
        c->probe = true;
        return CLI_OK;
    }
    if (id == O_REPORT) {
        c->report = true;
        return CLI_OK;
    }
    if (id == O_GITHUB) {
        c->github = true;
        return CLI_OK;
    }
    if (id == O_WATCH) {
        c->watch = true;
        return CLI_OK;
    }
    if (id == O_DEVICE) {
        c->for_cpu = strcmp(value, "cpu") == 0;
        return c->for_cpu ? CLI_OK
                          : cli_fail(CLI_USAGE, "check: --device expects cpu, not %s",
                                     str_printable(&c->t.arena, value));
    }
    if (id == O_SARIF) {
        c->sarif_file = value;
        return CLI_OK;
    }
    if (id == O_HTML) {
        c->html_file = value;
        return CLI_OK;
    }
    if (id == O_REDACT) {
        c->redact = true;
        return CLI_OK;
    }
    return cli_target_take(&c->t, id, value);
}

/* What this gpumend asked for and the snapshot does not hold: a newer one made or reads it. A page
 * of a file may be missing that only the report reads, so one is made first. */
static void note_misses(struct check *c, struct diag_report *report,
                        const struct report_target *shown)
{
    struct arena *a = &c->t.arena;
    struct snap *files = &c->snapshot.files;
    json_decref(report_check_json(&c->target.model, report, shown));
    snap_note_pages(files);
    for (size_t i = 0; i < files->misses.n; i++) {
        VEC_PUSH(a, &report->notes,
                 arena_printf(a,
                              "not in the snapshot, so what depends on it cannot be determined: %s",
                              files->misses.items[i]));
    }
    if (files->misses.n && report->verdict == DIAG_OK) {
        report->verdict = DIAG_CANNOT_TELL;
    }
}

static int check_print_json(struct check *c, const struct diag_report *report,
                            const struct probe_report *probe, const struct report_target *shown)
{
    json_t *doc = report_check_json(&c->target.model, report, shown);
    if (probe) {
        (void)json_object_set_new_nocheck(doc, "probe",
                                          report_joined_json(&c->target.model, probe, report));
    }
    return out_json_dump(stdout, doc);
}

/* The stages beside the findings; NULL: they were not asked for. */
static int check_run_stages(struct check *c, struct probe_report *probe,
                            const struct probe_report **ret)
{
    struct gm_err err;
    const struct cli_probing p = {.model = &c->target.model, .named = c->t.asked.target != NULL};
    *ret = NULL;
    if (!c->probe) {
        return CLI_OK;
    }
    cli_progress_end();
    if (cli_probing_run(&p, probe, &err) < 0) {
        return cli_fail(CLI_CANNOT, "check: %s", str_printable(&c->t.arena, err.text));
    }
    *ret = probe;
    return CLI_OK;
}

static void check_print_text(struct check *c, const struct out *out,
                             const struct diag_report *report, const struct report_target *shown)
{
    struct report_advice advice;
    if (c->t.verbose) {
        cli_progress_end();
        report_check_text(out, &c->target.model, report, shown);
        return;
    }
    cli_progress_step("trying repairs");
    cli_advise(&c->t, &c->target, report, &advice);
    cli_progress_end();
    report_check_brief(out, &c->target.model, report, shown, &advice);
}

static const char *without_names(void *redactor, const char *text)
{
    return snapshot_redact_text(redactor, text);
}

static int write_page(struct check *c, const struct diag_report *report,
                      const struct report_target *shown)
{
    struct model *m = &c->target.model;
    struct report_advice advice;
    struct plan plan = {0};
    cli_progress_step("trying repairs");
    cli_advise(&c->t, &c->target, report, &advice);
    if (report->verdict == DIAG_BROKEN && !advice.start.way && !advice.good.way) {
        cli_plan(&c->t, m, report, &plan);
    }
    cli_progress_end();
    json_t *page = report_html_check(m, report, shown, &advice, &plan);
    struct snapshot_redactor *redactor;
    int rc = c->redact ? cli_redactor(&c->target, &redactor) : CLI_OK;
    if (rc == CLI_OK && c->redact && report_html_redact(page, without_names, redactor) < 0) {
        rc = cli_fail(CLI_CANNOT, "check: out of memory");
    }
    if (rc != CLI_OK) {
        json_decref(page);
        return rc;
    }
    return cli_html_write("check", c->html_file, &c->t.arena, page);
}

static int check_print(struct check *c)
{
    struct diag_report report;
    struct probe_report stages;
    const struct probe_report *probe;
    struct report_target shown = {
        .kind = c->target.kind,
        .path = c->t.asked.target,
        .root = c->t.asked.root_path ? c->t.asked.root_path : "/",
        .snapshot = c->snapshot_file,
        .made = c->snapshot.made,
        .made_by = c->snapshot.gpumend,
    };
    cli_progress_step("judging");
    c->target.model.for_cpu = c->for_cpu;
    diag_run(&c->target.model, &report);
    if (c->snapshot_file) {
        note_misses(c, &report, &shown);
    }
    int rc = check_run_stages(c, &stages, &probe);
    if (rc != CLI_OK) {
        return rc;
    }
    if (probe && probe_believe(probe, &c->target.model)) {
        diag_run(&c->target.model, &report);
    }
    if (c->html_file) {
        rc = write_page(c, &report, &shown);
        if (rc != CLI_OK) {
            return rc;
        }
    } else if (c->report) {
        cli_progress_end();
        rc = cli_paste(stdout, &c->target, &report, &shown);
        if (rc != CLI_OK) {
            return rc;
        }
    } else if (c->github) {
        report_github(stdout, &c->target.model, &report);
    } else if (c->sarif_file) {
        if (out_json_dump(stdout, report_sarif_json(&c->target.model, &report)) < 0) {
            return cli_fail(CLI_CANNOT, "cannot write the output");
        }
    } else if (c->t.json) {
        if (check_print_json(c, &report, probe, &shown) < 0) {
            return cli_fail(CLI_CANNOT, "cannot write the output");
        }
    } else {
        struct out out;
        out_init(&out, stdout);
        check_print_text(c, &out, &report, &shown);
        if (probe) {
            report_joined_text(&out, &c->target.model, probe, &report);
        }
    }
    static const enum cli_status status[] = {
        [DIAG_OK] = CLI_OK, [DIAG_BROKEN] = CLI_FINDINGS, [DIAG_CANNOT_TELL] = CLI_CANNOT};
    return probe ? (int)cli_probing_status(status[report.verdict], probe)
                 : (int)status[report.verdict];
}

static int open_snapshot(struct check *c)
{
    const struct model_target_options *o = &c->t.asked;
    const struct ldso_cpu *cpu = o->cpu;
    if (o->target || o->root_path || o->pid || o->imports || o->glibc_minor || c->t.env_given) {
        return cli_fail(CLI_USAGE,
                        "check: --snapshot cannot be combined with TARGET or its options");
    }
    if (cli_read_snapshot("check", c->snapshot_file, &c->t.arena, &c->snapshot) != CLI_OK) {
        return CLI_CANNOT;
    }
    struct arena *a = &c->t.arena;
    const char *kb = c->t.asked.kb_path; // of this machine, the rest of the other
    c->t.asked = snapshot_options(&c->snapshot, false);
    c->t.asked.on_host = cdi_files_note;
    c->t.asked.cpu = cpu ? cpu : c->t.asked.cpu;
    c->t.asked.kb_path = kb && kb[0] != '/' ? path_join(a, cli_cwd(a), kb) : kb;
    return CLI_OK;
}

static int look_and_print(struct check *c)
{
    struct gm_err err;
    if (!c->t.json && !c->github && !c->sarif_file) {
        cli_progress_begin("reading packages and libraries");
    }
    int rc = model_target_open(&c->target, &c->t.arena, &c->t.asked, &err);
    if (rc < 0) {
        cli_progress_end();
    }
    rc = rc == 0 ? check_print(c)
                 : cli_fail(CLI_CANNOT, "check: %s", str_printable(&c->t.arena, err.text));
    cli_progress_end();
    model_target_leave(&c->target);
    return rc;
}

/* The variables that the snapshot was taken with. */
static struct cli_env replayed_env(struct check *c)
{
    struct cli_env env = {0};
    for (size_t i = 0; i < c->snapshot.env.n; i++) {
        VEC_PUSH(&c->t.arena, &env.vars, c->snapshot.env.items[i]);
    }
    return env;
}

/* A Windows tree has another loader, and a document of its own. `replayed`: the snapshot that is
 * the root, or NULL. */
static bool look_at_windows(struct check *c, struct root *root, struct snap *replayed,
                            int *ret_status)
{
    struct cli_env given = replayed ? replayed_env(c) : cli_target_given(&c->t);
    const struct model_target_options *o = &c->t.asked;
    const char *refused = o->host_path    ? "--host"
                          : c->report     ? "--report"
                          : c->github     ? "--github"
                          : c->sarif_file ? "--sarif"
                          : c->redact     ? "--redact"
                          : c->for_cpu    ? "--device"
                                          : NULL;
    const struct cli_windows_check asked = {.target = o->target,
                                            .root_path = o->root_path ? o->root_path : "/",
                                            .env = &given,
                                            .replayed = replayed,
                                            .html = c->html_file,
                                            .json = c->t.json,
                                            .refused = refused};
    return cli_windows_check(&c->t.arena, root, &asked, ret_status);
}

static bool look_below_root(struct check *c, int *ret_status)
{
    struct gm_err err;
    struct root root = ROOT_EMPTY;
    const char *path = c->t.asked.root_path;
    if (!path || c->probe || root_open(&root, path, &err) < 0) {
        return false; // said by the look at a Linux tree
    }
    bool taken = look_at_windows(c, &root, NULL, ret_status);
    root_close(&root);
    return taken;
}

static int look_at_snapshot(struct check *c)
{
    int status = open_snapshot(c);
    if (status != CLI_OK) {
        return status;
    }
    if (strcmp(c->snapshot.kind, SNAPSHOT_WINDOWS) != 0) {
        return look_and_print(c);
    }
    struct root root = ROOT_EMPTY;
    root_replay(&root, &c->snapshot.files, c->snapshot.root ? c->snapshot.root : "/");
    if (!look_at_windows(c, &root, &c->snapshot.files, &status)) {
        status = cli_fail(CLI_CANNOT, "check: %s: it holds no Windows tree", c->snapshot_file);
    }
    root_close(&root);
    return status;
}

static int check_look(void *command)
{
    struct check *c = command;
    const char *file = c->sarif_file ? c->sarif_file : c->html_file;
    if (file && cli_redirect_output("check", file) != CLI_OK) {
        return CLI_CANNOT;
    }
    if (c->snapshot_file) { // which asks nothing of this machine
        sandbox_enter(&(struct sandbox){0});
    } else if (!c->probe) {
        cli_only_look((struct sandbox){.processes = c->t.asked.pid != 0});
    }
    int status = CLI_CANNOT;
    if (c->snapshot_file) {
        status = look_at_snapshot(c);
        pages_stop();
    } else if (!look_below_root(c, &status)) {
        status = look_and_print(c);
    }
    return status;
}

static int check_run_with(void *command)
{
    struct check *c = command;
    if (c->watch && (c->snapshot_file || c->probe || c->report || c->github || c->sarif_file ||
                     c->html_file || c->t.json)) {
        return cli_fail(CLI_USAGE, "check: --watch prints text, of files that change: not with "
                                   "--snapshot, --probe, --report, --github, --sarif, --html or "
                                   "--json");
    }
    if (c->t.asked.pid && (c->t.asked.target || c->t.asked.root_path || c->t.asked.imports)) {
        return cli_fail(CLI_USAGE,
                        "check: --pid cannot be combined with TARGET, --root or --import");
    }
    if (c->report && (c->t.json || c->probe)) {
        return cli_fail(CLI_USAGE, c->t.json ? "check: --report prints text for people; for "
                                               "programs, "
                                               "use check --json without it"
                                             : "check: --report runs nothing; use --probe without "
                                               "it");
    }
    if (c->github + (c->sarif_file != NULL) + (c->html_file != NULL) + c->report + c->t.json > 1 ||
        (c->probe && (c->github || c->sarif_file || c->html_file))) {
        return cli_fail(CLI_USAGE, "check: one of --github, --sarif, --html, --report and --json, "
                                   "and the first three without --probe");
    }
    if (c->for_cpu && c->probe) {
        return cli_fail(CLI_USAGE, "check: --probe runs the GPU: not with --device cpu");
    }
    if (c->redact && !c->html_file) {
        return cli_fail(CLI_USAGE, "check: --redact belongs to --html");
    }
    if (c->probe && (c->t.asked.root_path || c->snapshot_file || c->t.asked.pid)) {
        return cli_fail(CLI_USAGE, "check: --probe runs on this machine, for a TARGET that starts "
                                   "here: not with --root, --snapshot or --pid");
    }
    if (c->probe && cli_limit_lift("check --probe") != CLI_OK) {
        return CLI_USAGE;
    }
    return c->watch ? cli_check_watch(&c->t, check_look, c) : check_look(c);
}

static int check_run(const struct cli_command *self, int argc, char **argv)
{
    static const struct cli_target_calls calls = {.take = check_take_option, .run = check_run_with};
    struct check c = {0};
    return cli_target_run(&c.t, self, argc, argv, &calls, &c);
}

const struct cli_command cli_check = {
    .name = "check",
    .arguments = "[TARGET] [options]",
    .summary = "finds which library lookup fails or picks the wrong file, why, and what to do",
    .text = "TARGET is a Python environment's folder, an interpreter, a program or a library. "
            "Without\n"
            "TARGET, check looks at the active environment. In a Python environment, the model "
            "starts\n"
            "every known GPU package that a program would import, alone and in pairs, from its "
            "import\n"
            "to its first use. A failure in only one part of an application that otherwise works "
            "is a\n"
            "warning. With --root, the start environment is empty except for PATH and what --env\n"
            "sets. check runs nothing, unless --probe asks for it: then it runs the GPU in "
            "stages,\n"
            "and names beside a failed stage the finding that explains it.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .run = check_run,
};
