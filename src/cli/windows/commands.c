/* check, fix and snapshot on Windows: of this machine, or of a Windows tree below --root. */
#include <string.h>

#include "base/str.h"
#include "cli/date.h"
#include "cli/limit.h"
#include "cli/replace.h"
#include "cli/replayed.h"
#include "cli/target.h"
#include "cli/windows.h"
#include "cli/windows_snapshot.h"

enum { O_SNAPSHOT = 1, O_HTML };

static const struct cli_option check_options[] = {
    CLI_OPTION_ROOT,
    CLI_OPTION_ENV,
    CLI_OPTION_UNSET,
    {"snapshot", "FILE", "look at what gpumend snapshot wrote, or - for standard input",
     O_SNAPSHOT},
    {"html", "FILE", "write a page to FILE (-: standard output)", O_HTML},
    CLI_OPTION_LIMIT,
    CLI_OPTION_JSON,
};
static const struct cli_option fix_options[] = {CLI_OPTION_ROOT, CLI_OPTION_ENV, CLI_OPTION_UNSET,
                                                CLI_OPTION_LIMIT, CLI_OPTION_JSON};
static const struct cli_option snapshot_options_there[] = {CLI_OPTION_ROOT, CLI_OPTION_ENV,
                                                           CLI_OPTION_UNSET, CLI_OPTION_LIMIT};

struct tree_command {
    struct cli_target t;
    const char *snapshot_file, *html_file; // or NULL
    struct snapshot snapshot;
};

static int tree_take_option(void *command, int id, const char *value)
{
    struct tree_command *c = command;
    if (id == O_SNAPSHOT || id == O_HTML) {
        *(id == O_HTML ? &c->html_file : &c->snapshot_file) = value;
        return CLI_OK;
    }
    return cli_target_take(&c->t, id, value);
}

/* Prints what is wrong with the tree below an open root. */
static int check_root(struct tree_command *c, struct root *root, const struct cli_env *env,
                      struct snap *replayed)
{
    const struct cli_windows_check asked = {
        .target = c->t.asked.target,
        .root_path = c->t.asked.root_path ? c->t.asked.root_path : "/",
        .env = env,
        .replayed = replayed,
        .html = c->html_file,
        .json = c->t.json,
        .is_fix = strcmp(c->t.command, "fix") == 0,
    };
    int status = CLI_CANNOT;
    if (!cli_windows_check(&c->t.arena, root, &asked, &status)) {
        status =
            cli_fail(CLI_CANNOT, "%s: %s: it holds no Windows tree", c->t.command, asked.root_path);
    }
    return status;
}

static int check_snapshot(struct tree_command *c)
{
    struct root root;
    struct cli_env env = {0};
    if (cli_read_snapshot("check", c->snapshot_file, &c->t.arena, &c->snapshot) != CLI_OK) {
        return CLI_CANNOT;
    }
    if (strcmp(c->snapshot.kind, SNAPSHOT_WINDOWS) != 0) {
        return cli_fail(CLI_CANNOT, "check: a snapshot of Linux is checked by gpumend for Linux");
    }
    for (size_t i = 0; i < c->snapshot.env.n; i++) {
        VEC_PUSH(&c->t.arena, &env.vars, c->snapshot.env.items[i]);
    }
    c->t.asked.target = c->snapshot.path;
    root_replay(&root, &c->snapshot.files, c->snapshot.root ? c->snapshot.root : "/");
    int status = check_root(c, &root, &env, &c->snapshot.files);
    root_close(&root);
    pages_stop();
    return status;
}

static int tree_check(void *command)
{
    struct tree_command *c = command;
    struct gm_err err;
    struct root root = ROOT_EMPTY;
    if (c->html_file && c->t.json) {
        return cli_fail(CLI_USAGE, "check: either --html or --json");
    }
    if (c->html_file && cli_redirect_output("check", c->html_file) != CLI_OK) {
        return CLI_CANNOT;
    }
    if (c->snapshot_file) {
        return check_snapshot(c);
    }
    if (root_open(&root, c->t.asked.root_path ? c->t.asked.root_path : "/", &err) < 0) {
        return cli_fail(CLI_CANNOT, "%s: %s", c->t.command, str_printable(&c->t.arena, err.text));
    }
    struct cli_env env = c->t.asked.root_path ? cli_target_given(&c->t) : c->t.env;
    int status = check_root(c, &root, &env, NULL);
    root_close(&root);
    return status;
}

static int tree_snapshot(void *command)
{
    struct tree_command *c = command;
    struct gm_err err;
    struct root root = ROOT_EMPTY;
    int rc = root_open(&root, c->t.asked.root_path ? c->t.asked.root_path : "/", &err);
    rc = rc < 0 ? rc : cli_windows_snapshot(&c->t, &root, &c->snapshot, &err);
    root_close(&root);
    c->snapshot.made = cli_date(&c->t.arena);
    json_t *doc = rc < 0 ? NULL : snapshot_encode(&c->snapshot, &err);
    if (!doc) {
        return cli_fail(CLI_CANNOT, "snapshot: %s", str_printable(&c->t.arena, err.text));
    }
    rc = out_json_write(stdout, doc, JSON_COMPACT);
    json_decref(doc);
    return rc == 0 && fputc('\n', stdout) != EOF
               ? CLI_OK
               : cli_fail(CLI_CANNOT, "snapshot: cannot write the output");
}

static int tree_run(const struct cli_command *self, int argc, char **argv)
{
    static const struct cli_target_calls check = {.take = tree_take_option, .run = tree_check};
    static const struct cli_target_calls take = {.take = tree_take_option, .run = tree_snapshot};
    struct tree_command c = {0};
    bool snapshot = strcmp(self->name, "snapshot") == 0;
    return cli_target_run(&c.t, self, argc, argv, snapshot ? &take : &check, &c);
}

#define TEXT_OF_TARGET                                                                             \
    "TARGET is the folder of a Python environment; without it, those in their usual places\n"      \
    "are looked at. Wine-tested; not yet run on Windows (docs/windows.md)."

const struct cli_command cli_check = {
    .name = "check",
    .arguments = "[TARGET] [options]",
    .summary = "finds which library lookup fails or picks the wrong file, why, and what to do",
    .text = TEXT_OF_TARGET,
    .options = check_options,
    .n_options = sizeof check_options / sizeof *check_options,
    .run = tree_run,
};

const struct cli_command cli_fix = {
    .name = "fix",
    .arguments = "[TARGET] [options]",
    .summary = "prints the repairs for what check finds, tried in the model, as commands to paste",
    .text = TEXT_OF_TARGET "\nNothing is changed.",
    .options = fix_options,
    .n_options = sizeof fix_options / sizeof *fix_options,
    .run = tree_run,
};

const struct cli_command cli_snapshot = {
    .name = "snapshot",
    .arguments = "[TARGET] [options]",
    .summary = "writes all that check reads into one document, to be checked elsewhere",
    .text = TEXT_OF_TARGET,
    .options = snapshot_options_there,
    .n_options = sizeof snapshot_options_there / sizeof *snapshot_options_there,
    .run = tree_run,
};
