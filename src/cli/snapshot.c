#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cli/date.h"
#include "cli/limit.h"
#include "cli/target.h"
#include "cli/windows_snapshot.h"
#include "cli/windows_tree.h"
#include "diag/finding.h"
#include "report/paste.h"
#include "snapshot/snapshot.h"

enum { O_REDACT = 1, O_TREE };

static const struct cli_option options[] = {
    CLI_OPTION_IMPORT,
    CLI_OPTION_PID,
    CLI_OPTION_ROOT,
    CLI_OPTION_ENV,
    CLI_OPTION_UNSET,
    CLI_OPTION_GLIBC,
    CLI_OPTION_CPU,
    CLI_OPTION_PAGE_SIZE,
    {"kb", "DIR", "knowledge base that decides what is looked at; it is not stored", CLI_KB},
    {"redact", NULL, "remove names of users and machines, UUIDs and serial numbers", O_REDACT},
    CLI_OPTION_LIMIT,
    {"tree", "DIR", "write the files themselves below DIR, and no document", O_TREE},
};

struct take {
    struct cli_target t;
    struct snapshot snapshot;
    const char *tree;
    bool redact;
};

static int snapshot_take_option(void *command, int id, const char *value)
{
    struct take *c = command;
    switch (id) {
    case O_REDACT: c->redact = true; return CLI_OK;
    case O_TREE: c->tree = value; return CLI_OK;
    default: return cli_target_take(&c->t, id, value);
    }
}

/* ------------------------------------------------------------------ the check that is recorded */

/* What a check found, in a form that names do not change. */
struct outcome {
    enum diag_verdict verdict;
    VEC(enum diag_cause) causes;
};

/* A report reads strings of the files, too: all it would print is made, and dropped. */
static int make_reports(struct model_target *t, const struct diag_report *report)
{
    char *text = NULL;
    size_t n = 0;
    struct report_target shown = {.kind = t->kind, .root = "/"};
    json_decref(report_check_json(&t->model, report, &shown));
    FILE *nowhere = open_memstream(&text, &n);
    if (!nowhere) {
        return -1;
    }
    struct out out;
    out_init(&out, nowhere);
    report_check_text(&out, &t->model, report, &shown);
    (void)fclose(nowhere); // nothing is kept
    free(text);
    const struct snapshot_names none = {0};
    return report_paste(NULL, &t->model, report, &shown,
                        snapshot_redactor_new(t->model.arena, &none));
}

static int check_once(struct take *c, bool record, struct outcome *ret, struct gm_err *err)
{
    struct model_target t;
    struct diag_report report;
    struct model_target_options o = snapshot_options(&c->snapshot, record);
    o.kb_path = c->t.asked.kb_path;
    o.on_host = c->t.asked.on_host;
    int rc = model_target_open(&t, &c->t.arena, &o, err);
    if (rc == 0) {
        diag_run(&t.model, &report);
        rc = make_reports(&t, &report) < 0 ? gm_err_set(err, GM_ERR_LIMIT, "out of memory") : 0;
    }
    if (rc == 0) {
        snapshot_keep_cpu(&c->snapshot, &t);
        c->snapshot.kind = t.kind;
        *ret = (struct outcome){.verdict = report.verdict};
        for (size_t i = 0; i < report.findings.n; i++) {
            VEC_PUSH(&c->t.arena, &ret->causes, report.findings.items[i]->cause);
        }
        rc = record ? snap_finish(&c->snapshot.files, err) : 0;
    }
    model_target_close(&t);
    pages_stop();
    return rc;
}

static bool same_outcome(const struct outcome *a, const struct outcome *b)
{
    bool same = a->verdict == b->verdict && a->causes.n == b->causes.n;
    for (size_t i = 0; i < a->causes.n && same; i++) {
        same = a->causes.items[i] == b->causes.items[i];
    }
    return same;
}

/* ------------------------------------------------------------------ names */

static int redact(struct take *c, const struct outcome *before, struct gm_err *err)
{
    struct root real;
    struct snapshot_names names;
    struct outcome after;
    const char *path = c->t.asked.pid ? arena_printf(&c->t.arena, "/proc/%d/root", c->t.asked.pid)
                       : c->t.asked.root_path ? c->t.asked.root_path
                                              : "/";
    int rc = root_open(&real, path, err);
    if (rc < 0) {
        return rc;
    }
    rc = snapshot_find_names(&c->snapshot, &real, &names, err);
    root_close(&real);
    if (rc < 0) {
        return rc;
    }
    snapshot_redact(&c->snapshot, &names);
    rc = check_once(c, false, &after, err);
    if (rc == 0 && !same_outcome(before, &after)) {
        (void)cli_fail(CLI_OK, "snapshot: without the names the findings are others: one of them "
                               "is "
                               "also a word of a package or a library");
    }
    return rc;
}

/* ------------------------------------------------------------------ the result */

/* The target as the tree has it: that has no current folder but its root. */
static const char *target_in_tree(struct take *c)
{
    const struct snapshot *s = &c->snapshot;
    return s->path[0] == '/' ? s->path : path_join(&c->t.arena, s->cwd, s->path);
}

/* How a check of the tree is called that starts as this one did. */
static void print_command(struct take *c)
{
    const struct snapshot *s = &c->snapshot;
    struct arena *a = &c->t.arena;
    printf("gpumend check --root %s", diag_shell_word(a, c->tree));
    for (size_t i = 0; i < s->env.n; i++) {
        printf(" --env %s", diag_shell_word(a, s->env.items[i]));
    }
    if (s->imports) {
        printf(" --import %s", diag_shell_word(a, s->imports));
    }
    if (s->glibc_minor) {
        printf(" --glibc 2.%d", s->glibc_minor);
    }
    if (s->cpu.level) {
        printf(" --cpu x86-64-v%d", s->cpu.level);
    }
    if (s->path) {
        printf(" %s", diag_shell_word(a, target_in_tree(c)));
    }
    printf("\n");
}

static int snapshot_write_out(struct take *c, struct gm_err *err)
{
    if (c->tree) {
        int rc = snapshot_write_tree(&c->snapshot, c->tree, err);
        if (rc == 0) {
            print_command(c);
        }
        return rc;
    }
    json_t *doc = snapshot_encode(&c->snapshot, err);
    if (!doc) {
        return err->code;
    }
    int rc = out_json_write(stdout, doc, JSON_COMPACT);
    json_decref(doc);
    return rc == 0 && fputc('\n', stdout) != EOF
               ? 0
               : gm_err_set(err, GM_ERR_LOOK, "cannot write the output");
}

/* ------------------------------------------------------------------ a Windows tree */

static int take_windows(struct take *c, struct root *root)
{
    struct gm_err err;
    if (c->redact) {
        return cli_fail(CLI_CANNOT, "snapshot: --redact is not available for a Windows tree: its "
                                    "registry holds names that are not looked for");
    }
    int rc = cli_windows_snapshot(&c->t, root, &c->snapshot, &err);
    c->snapshot.made = cli_date(&c->t.arena);
    rc = rc < 0 ? rc : snapshot_write_out(c, &err);
    return rc == 0 ? CLI_OK
                   : cli_fail(CLI_CANNOT, "snapshot: %s", str_printable(&c->t.arena, err.text));
}

/* Whether the root has a Windows tree, of which a snapshot is then taken. */
static bool is_windows(struct take *c, int *ret_status)
{
    struct gm_err err;
    struct root root = ROOT_EMPTY;
    struct winldr_files files;
    const struct model_target_options *o = &c->t.asked;
    if (o->pid || !o->root_path || root_open(&root, o->root_path, &err) < 0) {
        return false; // said by the check of a Linux tree
    }
    winldr_files_open_root(&files, &root, &c->t.arena);
    bool is_tree = winldr_is_tree(&files, cli_windows_target(&files, &c->t.arena, o->target));
    winldr_files_close(&files);
    if (is_tree) {
        *ret_status = take_windows(c, &root);
    }
    root_close(&root);
    return is_tree;
}

static int snapshot_run_with(void *command)
{
    struct take *c = command;
    struct gm_err err;
    struct outcome found;
    const struct model_target_options *o = &c->t.asked;
    if (o->pid && (o->target || o->root_path || o->imports || c->tree)) {
        return cli_fail(CLI_USAGE, "snapshot: --pid cannot be combined with TARGET, --root, "
                                   "--import "
                                   "and --tree");
    }
    cli_only_look((struct sandbox){.tree = c->tree, .processes = o->pid != 0});
    int status = CLI_CANNOT;
    if (is_windows(c, &status)) {
        return status;
    }
    int rc = snapshot_begin(&c->snapshot, &c->t.arena, o, &err);
    rc = rc < 0 ? rc : check_once(c, true, &found, &err);
    c->snapshot.made = cli_date(&c->t.arena);
    rc = rc < 0 || !c->redact ? rc : redact(c, &found, &err);
    rc = rc < 0 ? rc : snapshot_write_out(c, &err);
    return rc == 0 ? CLI_OK
                   : cli_fail(CLI_CANNOT, "snapshot: %s", str_printable(&c->t.arena, err.text));
}

static int snapshot_run(const struct cli_command *self, int argc, char **argv)
{
    static const struct cli_target_calls calls = {.take = snapshot_take_option,
                                                  .run = snapshot_run_with};
    struct take c = {0};
    return cli_target_run(&c.t, self, argc, argv, &calls, &c);
}

const struct cli_command cli_snapshot = {
    .name = "snapshot",
    .arguments = "[TARGET] [options]",
    .summary = "writes all that check reads into one document, to be checked elsewhere",
    .text = "Prints a JSON document from which gpumend check finds the same on another machine\n"
            "(check reads it with its option snapshot). TARGET is what check takes. The document\n"
            "contains what check asked of the system and the answers, the pages of files that\n"
            "it read, and the environment variables that matter. With --tree, snapshot writes\n"
            "files for `gpumend check --root DIR` instead, and prints that command.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .run = snapshot_run,
};
