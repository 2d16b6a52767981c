#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/pages.h"
#include "base/str.h"
#include "cli/html.h"
#include "cli/limit.h"
#include "cli/replace.h"
#include "cli/why.h"
#include "cli/windows.h"

enum { O_EXE = 1, O_CALLER, O_LOAD, O_CWD, O_BATCH, O_TREE, O_INVERT, O_HTML, O_SNAPSHOT };

static const struct cli_option options[] = {
    {"exe", "FILE", "the program that is started (default: the caller)", O_EXE},
    {"caller", "FILE", "the object that asks: soname or path (default: the program)", O_CALLER},
    {"load", "NAME[@CALLER]", "dlopen NAME from CALLER first; may be given again", O_LOAD},
    CLI_OPTION_ENV,
    CLI_OPTION_UNSET,
    {"cwd", "DIR", "working directory of the program", O_CWD},
    {"root", "DIR", "look at the file system below DIR", CLI_ROOT},
    CLI_OPTION_GLIBC,
    CLI_OPTION_CPU,
    CLI_OPTION_PAGE_SIZE,
    {"batch", "FILE", "one object a line ('-': stdin): the closure of each", O_BATCH},
    {"tree", NULL, "show who needs whom", O_TREE},
    {"invert", "NAME", "with --tree: who needs NAME", O_INVERT},
    {"html", "FILE", "write a page to FILE (-: standard output)", O_HTML},
    {"snapshot", "FILE", "look at what gpumend snapshot wrote, or - for standard input",
     O_SNAPSHOT},
    CLI_OPTION_LIMIT,
    CLI_OPTION_JSON,
};

static int why_take_option(struct cli_why *w, int id, const char *value)
{
    switch (id) {
    case O_EXE: w->exe = value; return CLI_OK;
    case O_CALLER: w->caller = value; return CLI_OK;
    case O_LOAD: VEC_PUSH(&w->arena, &w->loads, value); return CLI_OK;
    case CLI_UNSET:
        w->env_given = true;
        cli_env_unset(&w->env, value);
        return CLI_OK;
    case O_CWD: w->cwd = value; return CLI_OK;
    case CLI_ROOT: w->root_path = value; return CLI_OK;
    case O_BATCH: w->batch = value; return CLI_OK;
    case O_TREE: w->tree = true; return CLI_OK;
    case O_HTML: w->html_file = value; return CLI_OK;
    case O_SNAPSHOT: w->snapshot_file = value; return CLI_OK;
    case O_INVERT: w->invert = value; return CLI_OK;
    case CLI_JSON: w->json = true; return CLI_OK;
    case CLI_ENV: w->env_given = true; return cli_take_env("why", &w->env, &w->arena, value);
    case CLI_GLIBC: return cli_take_glibc("why", value, &w->config.glibc_minor);
    case CLI_PAGE_SIZE: return cli_take_page_size("why", value, &w->config.page_size);
    case CLI_CPU: w->has_cpu = true; return cli_take_cpu("why", value, &w->cpu);
    case CLI_ARGUMENT:
        if (w->name) {
            return cli_fail(CLI_USAGE, "why: one NAME at a time (%s, %s)", w->name, value);
        }
        w->name = value;
        return CLI_OK;
    default: return CLI_USAGE;
    }
}

/* A program named without a slash is looked up in PATH, as a shell would. */
/* The root, the start environment and the machine are those that the snapshot was taken of. */
static int open_replayed(struct cli_why *w)
{
    if (cli_read_snapshot("why", w->snapshot_file, &w->arena, &w->snapshot) != CLI_OK) {
        return CLI_CANNOT;
    }
    struct model_target_options o = snapshot_options(&w->snapshot, false);
    w->env = (struct cli_env){0};
    for (size_t i = 0; i < o.n_env; i++) {
        VEC_PUSH(&w->arena, &w->env.vars, o.env[i]);
    }
    bool windows = strcmp(w->snapshot.kind, SNAPSHOT_WINDOWS) == 0;
    w->cwd = windows ? NULL : o.cwd ? o.cwd : "/";
    w->config.glibc_minor = w->config.glibc_minor ? w->config.glibc_minor : o.glibc_minor;
    w->config.page_size = w->config.page_size ? w->config.page_size : o.page_size;
    if (!w->has_cpu && o.cpu) {
        w->has_cpu = true;
        w->cpu = *o.cpu;
    }
    root_replay(&w->root, o.replay, o.root_path ? o.root_path : "/");
    return CLI_OK;
}

/* A DLL of another root: the loader of Windows decides. PATH is what --env says, as this shell's
 * means nothing there, unless it is the running Windows. */
static int answer_windows(struct cli_why *w)
{
    const char *path = cli_env_get(&w->env, "PATH"), *own = getenv("PATH");
    bool is_own = path && own && strcmp(path, own) == 0 && (w->root_path || !cli_is_windows());
    struct cli_windows_why asked = {
        .arena = &w->arena,
        .root = &w->root,
        .html = w->html_file,
        .name = w->name,
        .exe = w->exe ? w->exe : w->caller,
        .cwd = w->cwd,
        .path = is_own ? NULL : path,
        .loads = w->loads.items,
        .n_loads = w->loads.n,
        .json = w->json,
    };
    int rc = cli_windows_why(&asked);
    root_close(&w->root);
    return rc;
}

static int run_windows(struct cli_why *w)
{
    struct gm_err err;
    if (w->html_file && w->json) {
        return cli_fail(CLI_USAGE, "why: --html cannot be combined with --json");
    }
    if (w->html_file && cli_redirect_output("why", w->html_file) != CLI_OK) {
        return CLI_CANNOT;
    }
    cli_only_look((struct sandbox){0});
    if (root_open(&w->root, w->root_path ? w->root_path : "/", &err) < 0) {
        return cli_fail(CLI_CANNOT, "why: %s", err.text);
    }
    return answer_windows(w);
}

static int answer_in_root(struct cli_why *w)
{
    ldso_store_open(&w->store, &w->root, &w->arena);
    w->store.one_process = !w->batch;
    int rc = w->batch ? cli_why_batch(w) : cli_why_answer(w);
    if (w->snapshot_file && cli_why_say_misses(w)) { // before a program could be started
        rc = CLI_CANNOT;
    }
    ldso_store_leave(&w->store);
    root_close(&w->root);
    return rc;
}

static int why_run_with(struct cli_why *w)
{
    struct gm_err err;
    out_init(&w->out, stdout);
    bool elsewhere = w->root_path || cli_is_windows();
    if (elsewhere && !w->batch && !w->snapshot_file && cli_windows_is_asked(w->name, w->exe)) {
        return run_windows(w);
    }
    bool own_cwd = !w->cwd;
    if (w->snapshot_file && (w->root_path || w->batch || w->env_given || w->cwd)) {
        return cli_fail(CLI_USAGE,
                        "why: --snapshot cannot be combined with --root, --batch, --env, "
                        "--unset or --cwd");
    }
    if (own_cwd) {
        w->cwd = cli_cwd(&w->arena);
    }
    if (w->cwd[0] != '/') {
        w->cwd = path_join(&w->arena, cli_cwd(&w->arena), w->cwd);
    }
    if (!w->exe && !w->caller && !w->batch) {
        return cli_fail(
            CLI_USAGE,
            "why: say which program asks: --exe FILE, or --caller FILE (the library that "
            "wants it); gpumend check -v shows the requests of an environment");
    }
    if ((w->invert && !w->tree) || (w->tree && (w->json || w->batch))) {
        return cli_fail(CLI_USAGE, "why: %s",
                        w->tree ? "--tree cannot be combined with --json or --batch"
                                : "--invert belongs to --tree");
    }
    if (w->html_file && (w->batch || w->json || w->tree)) {
        return cli_fail(CLI_USAGE, "why: --html cannot be combined with --batch, --json or --tree");
    }
    if (w->html_file && cli_redirect_output("why", w->html_file) != CLI_OK) {
        return CLI_CANNOT;
    }
    if (w->snapshot_file) { // which asks nothing of this machine
        sandbox_enter(&(struct sandbox){0});
        int rc = open_replayed(w);
        bool windows = rc == CLI_OK && strcmp(w->snapshot.kind, SNAPSHOT_WINDOWS) == 0;
        rc = rc != CLI_OK ? rc : windows ? answer_windows(w) : answer_in_root(w);
        pages_stop();
        return rc;
    }
    cli_only_look((struct sandbox){0});
    if (root_open(&w->root, w->root_path ? w->root_path : "/", &err) < 0) {
        return cli_fail(CLI_CANNOT, "why: %s", err.text);
    }
    struct root_folder folder;
    root_keep_folder(&w->root, &folder);
    char *cwd =
        NULL; // a process knows its working directory without links, dots and doubled slashes
    if (!(own_cwd && w->root.is_host) && root_realpath(&w->root, &w->arena, w->cwd, &cwd) == 0) {
        w->cwd = cwd;
    }
    return answer_in_root(w);
}

static int why_run(const struct cli_command *self, int argc, char **argv)
{
    struct cli_why w = {.root = ROOT_EMPTY};
    cli_arena_init(&w.arena);
    cli_env_init(&w.env, &w.arena);
    struct cli_args args = {.command = self, .argc = argc, .argv = argv};
    int rc = CLI_OK;
    for (int id; rc == CLI_OK && (id = cli_next(&args)) != CLI_END;) {
        if (id == CLI_HELP || id == CLI_WRONG) {
            arena_release(&w.arena);
            return id == CLI_HELP ? CLI_OK : CLI_USAGE;
        }
        rc = why_take_option(&w, id, args.value);
    }
    if (rc == CLI_OK) {
        rc = why_run_with(&w);
    }
    arena_leave(&w.arena);
    return rc;
}

const struct cli_command cli_why = {
    .name = "why",
    .arguments = "[NAME] [options]",
    .summary = "shows how one library request is resolved, search step by search step",
    .text = "Starts a program in the model, performs the loads in order, and resolves NAME for "
            "the\n"
            "caller exactly as the program's own loader would: every place it searches, where "
            "that\n"
            "place comes from, and why the file there is accepted or rejected. Without NAME, why\n"
            "prints the closure alone. The environment is the one that gpumend was started with.\n"
            "Below --root, a NAME.dll or NAME.pyd is resolved as Windows does (NAME@FLAGS for the\n"
            "flags of LoadLibraryEx; --load dir:FOLDER is os.add_dll_directory).",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .run = why_run,
};
