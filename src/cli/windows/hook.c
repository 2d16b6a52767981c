/* enable and disable on Windows: the start-up hook of an environment of this machine. */
#include "cli/windows/hook.h"

#include <string.h>

#include "apply/windows/hook.h"
#include "base/str.h"
#include "cli/target.h"
#include "launch/windows/start.h"
#include "py/env.h"
#include "winldr/path.h"

enum { TRIAL_S = 120 };

static const struct cli_option enable_options[] = {CLI_OPTION_ENV, CLI_OPTION_UNSET,
                                                   CLI_OPTION_JSON};
static const struct cli_option disable_options[] = {CLI_OPTION_JSON};

struct hook_command {
    struct cli_target t;
    struct root root;
    struct cli_windows_tree tree;
};

/* ------------------------------------------------------------------ the plan */

void cli_windows_plan(struct diag_windows *n, struct cli_windows_hook *ret)
{
    *ret = (struct cli_windows_hook){.before = n};
    diag_windows_judge(n);
    ret->is_found = diag_windows_plan_hook(n, &ret->hook, &ret->after);
}

static void print_paths(const struct out *o, struct arena *a, const char *what,
                        const winldr_texts *paths)
{
    for (size_t i = 0; i < paths->n; i++) {
        fprintf(o->file, "  %s %s\n", what, str_printable(a, paths->items[i]));
    }
}

void cli_windows_hook_text(const struct out *o, struct arena *a, const struct winldr_hook *hook)
{
    print_paths(o, a, "searches", &hook->searched);
    print_paths(o, a, "puts on PATH", &hook->on_path);
    print_paths(o, a, "loads", &hook->libraries);
}

json_t *cli_windows_hook_json(struct arena *a, const struct winldr_hook *hook)
{
    return json_pack("{s:o,s:o,s:o,s:o}", "modules",
                     out_json_texts(a, hook->modules.items, hook->modules.n), "searched",
                     out_json_texts(a, hook->searched.items, hook->searched.n), "on_path",
                     out_json_texts(a, hook->on_path.items, hook->on_path.n), "libraries",
                     out_json_texts(a, hook->libraries.items, hook->libraries.n));
}

json_t *cli_windows_errors_json(const struct diag_windows *n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n->findings.n; i++) {
        if (strcmp(n->findings.items[i].severity, "error") == 0) {
            (void)json_array_append_new(list, out_json_text(n->arena, n->findings.items[i].title));
        }
    }
    return list;
}

/* ------------------------------------------------------------------ which environment */

const char *cli_windows_variable(const struct cli_env *env, const char *name)
{
    for (size_t i = 0; i < env->vars.n; i++) {
        struct str rest = str_of(env->vars.items[i]);
        if (winldr_name_part_is(str_cut(&rest, '='), str_of(name)) && rest.s && rest.n) {
            return rest.s;
        }
    }
    return NULL;
}

/* TARGET, the active environment, or the only one that there is. */
static int open_environment(struct hook_command *c)
{
    struct gm_err err;
    const char *target = c->t.asked.target;
    target = target ? target : cli_windows_variable(&c->t.env, "VIRTUAL_ENV");
    target = target ? target : cli_windows_variable(&c->t.env, "CONDA_PREFIX");
    int rc = root_open(&c->root, "/", &err);
    rc = rc < 0 ? rc : cli_windows_open(&c->tree, &c->t.arena, &c->root, target, &c->t.env, &err);
    if (rc < 0) {
        return cli_fail(CLI_CANNOT, "%s: %s", c->t.command, str_printable(&c->t.arena, err.text));
    }
    if (c->tree.n == 0) {
        return cli_fail(CLI_CANNOT, "%s: %s", c->t.command,
                        target ? "the folder holds no Python environment" : "no Python was found");
    }
    if (c->tree.n > 1) {
        return cli_fail(CLI_USAGE, "%s: which environment? There are %zu; gpumend check lists them",
                        c->t.command, c->tree.n);
    }
    if (c->tree.all[0].py->is_frozen) {
        return cli_fail(CLI_CANNOT,
                        "%s: %s is a frozen program, whose Python runs no start-up hook",
                        c->t.command, str_printable(&c->t.arena, c->tree.all[0].py->folder));
    }
    return CLI_OK;
}

/* ------------------------------------------------------------------ the trial */

struct trial {
    size_t n, failed, mended, worse; // imports: all, failing now, failed before alone, now alone
    const char *why;                 // one that fails, or NULL
};

static const char *interpreter(const struct diag_windows *n)
{
    bool venv = strcmp(n->py->kind, "venv") == 0;
    return winldr_path_join(n->arena, n->py->folder, venv ? "Scripts\\python.exe" : "python.exe");
}

/* Whether `import MODULE` ends well. */
static bool try_import(struct diag_windows *n, const char *module, const char **ret_why)
{
    struct gm_err err;
    const char *words[] = {interpreter(n), "-c",
                           arena_printf(n->arena, PY_CODE_START "import %s", module)};
    struct launch_windows l = {
        .program = words[0], .words = words, .n_words = 3, .quiet = true, .limit_s = TRIAL_S};
    if (launch_windows_run(&l, n->arena, &err) < 0) {
        *ret_why = arena_strdup(n->arena, err.text);
        return false;
    }
    *ret_why = l.is_late ? arena_printf(n->arena, "import %s took more than %d s", module, TRIAL_S)
               : l.code  ? arena_printf(n->arena, "import %s fails (status %lu)", module, l.code)
                         : NULL;
    return !l.is_late && l.code == 0;
}

/* Each package's import, without the hook and with it. Bytecode is not written, so that the
 * environment stays as it is. */
static void try_hook(struct diag_windows *n, const struct winldr_hook *hook, struct trial *ret)
{
    *ret = (struct trial){0};
    (void)launch_windows_set("PYTHONDONTWRITEBYTECODE", "1"); // only bytecode would stay
    for (size_t i = 0; i < hook->modules.n; i++) {
        const char *why_before, *why;
        (void)launch_windows_set("GPUMEND_HOOK", "0");
        bool before = try_import(n, hook->modules.items[i], &why_before);
        (void)launch_windows_set("GPUMEND_HOOK", NULL);
        bool now = try_import(n, hook->modules.items[i], &why);
        ret->n++;
        ret->failed += !now;
        ret->mended += now && !before;
        ret->worse += before && !now;
        ret->why = ret->why ? ret->why : why;
    }
}

/* ------------------------------------------------------------------ enable */

static int print_enabled(struct hook_command *c, const struct cli_windows_hook *h,
                         const char *result, const char *why)
{
    struct arena *a = &c->t.arena;
    const struct diag_windows *now =
        h->is_found && strcmp(result, "failed") != 0 ? &h->after : h->before;
    size_t left = diag_windows_errors(now);
    struct out o;
    out_init(&o, stdout);
    if (c->t.json) {
        json_t *doc = json_pack("{s:i,s:s?,s:o,s:o,s:o,s:o}", "schema", 1, "result",
                                h->is_found ? result : NULL, "why", out_json_text(a, why),
                                "environment", out_json_text(a, h->before->py->folder), "hook",
                                h->is_found ? cli_windows_hook_json(a, &h->hook) : json_null(),
                                "left", cli_windows_errors_json(now));
        if (out_json_dump(stdout, doc) < 0) {
            return cli_fail(CLI_CANNOT, "cannot write the output");
        }
    } else if (!h->is_found) {
        fprintf(o.file, left ? "No start-up hook helps here; gpumend fix prints what does.\n"
                             : "Nothing is to be done.\n");
    } else {
        fprintf(o.file, "%s: the start-up hook %s\n", str_printable(a, h->before->py->folder),
                strcmp(result, "failed") == 0 ? "was taken back: it did not help"
                : why                         ? "is in place, and was not verified"
                                              : "is in place, and each import was tried with it");
        cli_windows_hook_text(&o, a, &h->hook);
        if (why) {
            fprintf(o.file, "  %s\n", str_printable(a, why));
        }
    }
    for (size_t i = 0; !c->t.json && i < now->findings.n; i++) {
        if (strcmp(now->findings.items[i].severity, "error") == 0) {
            fprintf(o.file, "left: %s\n", str_printable(a, now->findings.items[i].title));
        }
    }
    return left || strcmp(result, "failed") == 0 ? CLI_FINDINGS : CLI_OK;
}

static int enable(struct hook_command *c)
{
    struct arena *a = &c->t.arena;
    struct diag_windows *n = &c->tree.all[0];
    struct cli_windows_hook h;
    struct trial trial;
    struct gm_err err;
    cli_windows_plan(n, &h);
    if (!h.is_found) {
        return print_enabled(c, &h, "", NULL);
    }
    if (diag_windows_errors(&h.after) > diag_windows_errors(n)) {
        return cli_fail(CLI_CANNOT, "enable: in the model the hook does harm; nothing was changed");
    }
    struct str text = winldr_hook_text(a, &h.hook, n->py->site, NULL);
    if (apply_windows_hook_write(a, n->py->site, text, &err) < 0) {
        return cli_fail(CLI_CANNOT, "enable: %s", str_printable(a, err.text));
    }
    try_hook(n, &h.hook, &trial);
    bool in_vain = trial.failed && !trial.mended && trial.failed == trial.n;
    bool removed = false;
    if (!trial.worse && !in_vain) {
        return print_enabled(c, &h, trial.failed ? "not-verified" : "verified", trial.why);
    }
    if (apply_windows_hook_remove(a, n->py->site, &removed, &err) < 0) {
        return cli_fail(CLI_CANNOT, "enable: the hook did not help and could not be removed: %s",
                        str_printable(a, err.text));
    }
    return print_enabled(c, &h, "failed", trial.why);
}

static int disable(struct hook_command *c)
{
    struct arena *a = &c->t.arena;
    const struct winldr_python *py = c->tree.all[0].py;
    struct gm_err err;
    bool was_there;
    if (apply_windows_hook_remove(a, py->site, &was_there, &err) < 0) {
        return cli_fail(CLI_CANNOT, "disable: %s", str_printable(a, err.text));
    }
    if (c->t.json) {
        return out_json_dump(stdout,
                             json_pack("{s:i,s:o,s:b}", "schema", 1, "environment",
                                       out_json_text(a, py->folder), "removed", (int)was_there)) < 0
                   ? cli_fail(CLI_CANNOT, "cannot write the output")
                   : CLI_OK;
    }
    printf("%s: %s\n", str_printable(a, py->folder),
           was_there ? "the start-up hook is removed" : "there is no start-up hook");
    return CLI_OK;
}

static int hook_run_with(void *command)
{
    struct hook_command *c = command;
    int rc = open_environment(c);
    if (rc == CLI_OK) {
        rc = strcmp(c->t.command, "enable") == 0 ? enable(c) : disable(c);
    }
    cli_windows_close(&c->tree);
    root_close(&c->root);
    return rc;
}

static int hook_run(const struct cli_command *self, int argc, char **argv)
{
    static const struct cli_target_calls calls = {.run = hook_run_with};
    struct hook_command c = {.root = ROOT_EMPTY};
    return cli_target_run(&c.t, self, argc, argv, &calls, &c);
}

const struct cli_command cli_enable = {
    .name = "enable",
    .arguments = "[TARGET] [options]",
    .summary = "adds a start-up hook to an environment that loads the right libraries in time",
    .text =
        "TARGET is the folder of a Python environment; without it, the active one, or the only\n"
        "one that there is. Right before the first import of a package that needs it, the hook\n"
        "adds folders to Python's search (os.add_dll_directory) and to PATH, and loads DLLs by\n"
        "their paths, in order. It consists of three files in site-packages; GPUMEND_HOOK=0\n"
        "switches it off for one start. The environment's own interpreter tries the imports\n"
        "with it; if it does not help, it is removed. Wine-tested; not yet run on Windows.",
    .options = enable_options,
    .n_options = sizeof enable_options / sizeof *enable_options,
    .run = hook_run,
};

const struct cli_command cli_disable = {
    .name = "disable",
    .arguments = "[TARGET] [options]",
    .summary = "removes the start-up hook from an environment",
    .text = "TARGET is as for enable. Afterwards the environment is byte for byte what it was "
            "before.",
    .options = disable_options,
    .n_options = sizeof disable_options / sizeof *disable_options,
    .run = hook_run,
};
