/* run on Windows: starts a program in a job, with the hook that its Python needs. */
#include <stdlib.h>
#include <string.h>

#include "apply/windows/hook.h"
#include "base/str.h"
#include "cli/bound.h"
#include "cli/limit.h"
#include "cli/target.h"
#include "cli/windows/hook.h"
#include "launch/windows/start.h"
#include "winldr/path.h"

enum { NOT_EXECUTABLE = 126, NOT_FOUND = 127 };
enum { O_PRINT = 1, O_JSON, O_ABSENT };

#define ABSENT(name, value)                                                                        \
    {                                                                                              \
        name, value, "not available on Windows", O_ABSENT                                          \
    }

static const struct cli_option run_options[] = {
    {"print", NULL, "print what the hook does instead of starting CMD", O_PRINT},
    {"json", NULL, "print JSON instead of starting CMD (docs/json.md)", O_JSON},
    ABSENT("device", "D"),
    ABSENT("require-gpu", NULL),
    ABSENT("verify", NULL),
    ABSENT("trace", NULL),
    ABSENT("trace-gpu", NULL),
    ABSENT("trace-file", "FILE"),
    ABSENT("restart", "WHEN"),
    ABSENT("forgive-teardown", NULL),
    ABSENT("guard-teardown", NULL),
};

/* Behind the hook's text: Python imports sitecustomize by itself, and PYTHONPATH put this one in
 * front of the environment's own, which comes next. */
static const char go_on[] =
    "\n\ndef go_on(own=sys.modules[__name__]):\n"
    "    here = os.path.normcase(os.path.dirname(os.path.abspath(__file__)))\n"
    "    sys.path[:] = [p for p in sys.path if os.path.normcase(p) != here]\n"
    "    del sys.modules[__name__]\n"
    "    try:\n"
    "        import sitecustomize  # noqa: F401\n"
    "    except ImportError as error:\n"
    "        if error.name != \"sitecustomize\":\n"
    "            raise\n"
    "        sys.modules[__name__] = own\n"
    "\n\ngo_on()\n";

struct win_runner {
    struct arena arena;
    struct cli_env env;
    const char **words;
    size_t n_words;
    const char *program;
    struct root root;
    struct cli_windows_tree tree;
    struct diag_windows *python; // of the program, or NULL: it is none of an environment
    struct cli_windows_hook plan;
    bool print, json;
};

/* ------------------------------------------------------------------ the program */

/* The environment that a program in its folder, or in Scripts, belongs to. */
static int find_environment(struct win_runner *r)
{
    struct gm_err err;
    const char *folder = winldr_path_folder(&r->arena, r->program);
    bool scripts = winldr_name_is(winldr_path_base(folder), "Scripts");
    const char *target = scripts ? winldr_path_folder(&r->arena, folder) : folder;
    int rc = root_open(&r->root, "/", &err);
    rc = rc < 0 ? rc : cli_windows_open(&r->tree, &r->arena, &r->root, target, &r->env, &err);
    if (rc < 0) {
        return cli_fail(CLI_CANNOT, "run: %s", str_printable(&r->arena, err.text));
    }
    r->python = r->tree.n == 1 ? &r->tree.all[0] : NULL;
    return CLI_OK;
}

static bool is_batch(const char *path)
{
    size_t n = strlen(path);
    return n > 4 && (winldr_name_is(path + n - 4, ".bat") || winldr_name_is(path + n - 4, ".cmd"));
}

/* Whether this Python reads PYTHONPATH: not with -I, -E or -S among its own options, and not an
 * embedded one, whose ._pth replaces it. */
static const char *why_not_read(const struct win_runner *r)
{
    if (strcmp(r->python->py->kind, "embedded") == 0) {
        return "an embedded Python does not read PYTHONPATH";
    }
    if (r->python->py->is_frozen) {
        return "a frozen program does not read PYTHONPATH";
    }
    const char *base = winldr_path_base(r->program);
    bool is_python =
        winldr_name_part_is((struct str){base, strlen(base) < 6 ? 0 : 6}, STR("python"));
    for (size_t i = 1; is_python && i < r->n_words && r->words[i][0] == '-'; i++) {
        const char *word = r->words[i];
        if (word[1] == '-' || word[1] == 'c' || word[1] == 'm') {
            break;
        }
        if (word[1] == 'X' || word[1] == 'W') {
            i += word[2] == '\0'; // its value follows
            continue;
        }
        if (strpbrk(word, "IES")) {
            return arena_printf((struct arena *)&r->arena, "%s makes Python leave PYTHONPATH aside",
                                word);
        }
    }
    return NULL;
}

/* ------------------------------------------------------------------ the hook */

static bool put_in_front(struct win_runner *r, const char *name, const char *folder)
{
    const char *before = cli_windows_variable(&r->env, name);
    const char *value = before ? arena_printf(&r->arena, "%s;%s", folder, before) : folder;
    return launch_windows_set(name, value);
}

/* The folder of the hook; NULL: none is needed. */
static int prepare(struct win_runner *r, const char **ret_folder)
{
    struct arena *a = &r->arena;
    const struct winldr_hook *hook = &r->plan.hook;
    struct gm_err err;
    const char *why = why_not_read(r);
    *ret_folder = NULL;
    const char *on_path = NULL;
    for (size_t i = 0; i < hook->on_path.n; i++) {
        on_path = arena_printf(a, "%s%s%s", on_path ? on_path : "", on_path ? ";" : "",
                               hook->on_path.items[i]);
    }
    if (on_path && !put_in_front(r, "PATH", on_path)) {
        return cli_fail(CLI_CANNOT, "run: PATH cannot be set");
    }
    if (why) {
        fprintf(stderr,
                "gpumend: run: %s, so that nothing is loaded in advance; gpumend enable "
                "works there\n",
                str_printable(a, why));
        return CLI_OK;
    }
    const char *folder = launch_windows_folder(a);
    if (!folder) {
        return cli_fail(CLI_CANNOT, "run: no folder for the hook can be made");
    }
    *ret_folder = folder;
    struct str text = winldr_hook_text(a, hook, folder, r->python->py->folder);
    text = str_of(arena_printf(a, STR_FMT "%s", STR_ARG(text), go_on));
    return apply_windows_file(a, folder, "sitecustomize.py", text, &err) < 0
               ? cli_fail(CLI_CANNOT, "run: %s", str_printable(a, err.text))
           : !put_in_front(r, "PYTHONPATH", folder)
               ? cli_fail(CLI_CANNOT, "run: PYTHONPATH cannot be set")
               : CLI_OK;
}

static void say_what_is_left(const struct win_runner *r)
{
    const struct diag_windows *now = r->plan.is_found ? &r->plan.after : r->plan.before;
    for (size_t i = 0; i < now->findings.n; i++) {
        const struct diag_windows_finding *f = &now->findings.items[i];
        if (strcmp(f->severity, "error") == 0) {
            fprintf(stderr, "gpumend: run: %s (gpumend check says more)\n",
                    str_printable((struct arena *)&r->arena, f->title));
            return;
        }
    }
}

/* ------------------------------------------------------------------ the command */

static int print_plan(struct win_runner *r)
{
    struct arena *a = &r->arena;
    struct out o;
    out_init(&o, stdout);
    if (r->json) {
        json_t *doc = json_pack(
            "{s:i,s:o,s:o,s:o,s:o}", "schema", 1, "program", out_json_text(a, r->program),
            "environment", out_json_text(a, r->python ? r->python->py->folder : NULL), "hook",
            r->plan.is_found ? cli_windows_hook_json(a, &r->plan.hook) : json_null(), "left",
            r->python ? cli_windows_errors_json(r->plan.is_found ? &r->plan.after : r->plan.before)
                      : json_array());
        return out_json_dump(stdout, doc) < 0 ? cli_fail(CLI_CANNOT, "cannot write the output")
                                              : CLI_OK;
    }
    fprintf(o.file, r->plan.is_found ? "the hook\n" : "no hook is needed, or none helps\n");
    cli_windows_hook_text(&o, a, &r->plan.hook);
    return CLI_OK;
}

static int start_runner(struct win_runner *r)
{
    struct gm_err err;
    const char *folder = NULL;
    struct launch_windows l = {.program = r->program, .words = r->words, .n_words = r->n_words};
    int rc = r->plan.is_found ? prepare(r, &folder) : CLI_OK;
    if (rc == CLI_OK && r->python) {
        say_what_is_left(r);
    }
    bound_lift(); // the limit is that of gpumend's own work
    (void)fflush(stderr);
    if (rc == CLI_OK && launch_windows_run(&l, &r->arena, &err) < 0) {
        (void)cli_fail(CLI_CANNOT, "run: %s", str_printable(&r->arena, err.text));
        rc = NOT_EXECUTABLE;
    } else if (rc == CLI_OK) {
        rc = (int)l.code;
    }
    if (folder) {
        launch_windows_remove_folder(&r->arena, folder);
    }
    return rc;
}

static int run_words(struct win_runner *r)
{
    r->program = launch_windows_find(&r->arena, r->words[0]);
    if (!r->program) {
        (void)cli_fail(CLI_CANNOT, "run: %s: not found", str_printable(&r->arena, r->words[0]));
        return NOT_FOUND;
    }
    if (is_batch(r->program)) {
        (void)cli_fail(CLI_CANNOT,
                       "run: %s is a batch file, whose words the command prompt takes "
                       "apart by other rules; name the program that it starts",
                       str_printable(&r->arena, r->program));
        return NOT_EXECUTABLE;
    }
    int rc = find_environment(r);
    if (rc == CLI_OK && r->python) {
        cli_windows_plan(r->python, &r->plan);
    }
    return rc != CLI_OK ? rc : r->print || r->json ? print_plan(r) : start_runner(r);
}

static int win_run(const struct cli_command *self, int argc, char **argv)
{
    struct win_runner r = {.root = ROOT_EMPTY};
    struct cli_args args = {.command = self, .argc = argc, .argv = argv};
    int id;
    cli_arena_init(&r.arena);
    cli_env_init(&r.env, &r.arena);
    while ((id = cli_next(&args)) != CLI_END && id != CLI_ARGUMENT && id >= 0 && id != O_ABSENT) {
        *(id == O_JSON ? &r.json : &r.print) = true;
    }
    int rc = id == CLI_HELP ? CLI_OK : CLI_USAGE;
    if (id == O_ABSENT) {
        rc = cli_fail(CLI_CANNOT,
                      "run: of the options only --print and --json are available on Windows; "
                      "gpumend for Linux has the others");
    } else if (id == CLI_END) {
        rc = cli_fail(CLI_USAGE, "run: which command? (gpumend run [options] -- CMD ARGS)");
    } else if (id == CLI_ARGUMENT) {
        r.n_words = (size_t)(argc - args.next) + 1;
        r.words = arena_array(&r.arena, r.n_words, sizeof *r.words);
        for (size_t i = 0; i < r.n_words; i++) {
            r.words[i] = argv[(size_t)args.next - 1 + i];
        }
        rc = run_words(&r);
    }
    cli_windows_close(&r.tree);
    root_close(&r.root);
    arena_release(&r.arena);
    return rc;
}

const struct cli_command cli_run = {
    .name = "run",
    .arguments = "[options] -- CMD [ARGS]",
    .summary = "starts a program with the search path and preloads that it needs",
    .text =
        "CMD is a Python, or a program in the Scripts folder of an environment, such as "
        "whisper.exe;\n"
        "any other program is started unchanged. Before the first import of a package that "
        "needs\n"
        "it, CMD and the Pythons that it starts add folders to their search and load DLLs in\n"
        "order, by a sitecustomize module that PYTHONPATH leads to; nothing is changed in the\n"
        "environment. Whatever CMD starts ends with it. The exit status is that of CMD, 127 if\n"
        "it is not found and 126 if it cannot be started. Batch files are not started.\n"
        "Wine-tested; not yet run on Windows (docs/windows.md).",
    .options = run_options,
    .n_options = sizeof run_options / sizeof *run_options,
    .run = win_run,
};
