#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/cli.h"
#include "diag/finding.h"
#include "model/live.h"
#include "report/check.h"

enum { O_IMPORT = 1, O_PID, O_ROOT, O_ENV, O_UNSET, O_GLIBC, O_CPU, O_KB, O_JSON };

static const struct cli_option options[] = {
    {"import", "A,B", "what the program imports, in this order (default: every order)", O_IMPORT},
    {"pid", "N", "look at a running process", O_PID},
    {"root", "DIR", "look at the file system below DIR (a container's, another machine's)", O_ROOT},
    {"env", "K=V", "set a variable of the start environment", O_ENV},
    {"unset", "K", "remove a variable of the start environment", O_UNSET},
    {"glibc", "VER", "behave as this glibc version, e.g. 2.41", O_GLIBC},
    {"cpu", "LEVEL", "x86-64-v1 to x86-64-v4 (default: this machine's)", O_CPU},
    {"kb", "DIR", "knowledge base files that replace the built-in ones", O_KB},
    {"json", NULL, "print JSON (docs/json.md)", O_JSON},
};

struct check {
    struct arena arena;
    struct root root;
    struct ldso_store store;
    struct kb kb;
    struct py_env py;
    struct model model;
    struct cli_env env;
    const char *target, *root_path, *kb_path, *import;
    int pid;
    bool json;
    struct report_target shown;
};

static bool parse_pid(const char *text, int *ret)
{
    uint64_t pid = 0;
    if (!str_u64(str_of(text), &pid) || pid == 0 || pid > 4194304) {
        return false;
    }
    *ret = (int)pid;
    return true;
}

static int take_option(struct check *c, int id, const char *value)
{
    switch (id) {
    case O_IMPORT: c->import = value; return CLI_OK;
    case O_ROOT: c->root_path = value; return CLI_OK;
    case O_KB: c->kb_path = value; return CLI_OK;
    case O_JSON: c->json = true; return CLI_OK;
    case O_UNSET: cli_env_unset(&c->env, value); return CLI_OK;
    case O_PID:
        return parse_pid(value, &c->pid) ? CLI_OK
                                         : cli_fail(CLI_USAGE, "check: --pid wants a process id, not %s", value);
    case O_ENV:
        return cli_env_set(&c->env, &c->arena, value)
                   ? CLI_OK
                   : cli_fail(CLI_USAGE, "check: --env wants NAME=VALUE, not %s", value);
    case O_GLIBC:
        return cli_parse_glibc(value, &c->model.config.glibc_minor)
                   ? CLI_OK
                   : cli_fail(CLI_USAGE, "check: --glibc wants a version such as 2.41, not %s", value);
    case O_CPU:
        if (!ldso_cpu_parse(value, &c->model.cpu)) {
            return cli_fail(CLI_USAGE, "check: --cpu wants x86-64-v1 to x86-64-v4, not %s", value);
        }
        c->model.config.cpu = &c->model.cpu;
        return CLI_OK;
    case CLI_ARGUMENT:
        if (c->target) {
            return cli_fail(CLI_USAGE, "check: one TARGET at a time (%s, %s)", c->target, value);
        }
        c->target = value;
        return CLI_OK;
    default: return CLI_USAGE;
    }
}

/* A path of the caller's becomes absolute inside the root. */
static const char *inside(struct check *c, const char *path)
{
    return path[0] == '/' ? path : path_join(&c->arena, c->model.config.cwd, path);
}

static struct py_env_hints hints_of(struct check *c)
{
    const struct cli_env *e = &c->env;
    return (struct py_env_hints){
        .path = cli_env_get(e, "PATH"),
        .home = cli_env_get(e, "HOME"),
        .virtual_env = cli_env_get(e, "VIRTUAL_ENV"),
        .conda_prefix = cli_env_get(e, "CONDA_PREFIX"),
        .pythonpath = cli_env_get(e, "PYTHONPATH"),
        .pythonhome = cli_env_get(e, "PYTHONHOME"),
        .pythonnousersite = cli_env_get(e, "PYTHONNOUSERSITE"),
        .pythonuserbase = cli_env_get(e, "PYTHONUSERBASE"),
        .pyenv_version = cli_env_get(e, "PYENV_VERSION"),
        .pyenv_root = cli_env_get(e, "PYENV_ROOT"),
        .cwd = c->model.config.cwd,
    };
}

/* "torch,ctranslate2" */
static void check_environment(struct check *c)
{
    VEC(const char *) imports = {0};
    for (struct str rest = str_of(c->import); rest.s;) {
        struct str name = str_trim(str_cut(&rest, ','));
        if (name.n) {
            VEC_PUSH(&c->arena, &imports, str_dup(&c->arena, name));
        }
    }
    for (size_t i = 0; i < c->py.notes_n; i++) {
        VEC_PUSH(&c->arena, &c->model.notes, c->py.notes[i]);
    }
    model_add_default_scripts(&c->model, imports.items, imports.n);
}

/* An environment, an interpreter, or any other ELF file. */
static int find_target(struct check *c)
{
    struct gm_err err;
    struct py_env_hints hints = hints_of(c);
    const char *target = c->target;
    struct stat st;
    if (target && (strchr(target, '/') || root_stat(&c->root, inside(c, target), &st) == 0)) {
        target = inside(c, target);
    }
    int rc = py_env_open(&c->root, &c->arena, target, &hints, &c->py, &err);
    if (rc == 0) {
        c->model.env = &c->py;
        c->shown.kind = "environment";
        return CLI_OK;
    }
    if (!c->target) {
        c->shown.kind = "machine";
        VEC_PUSH(&c->arena, &c->model.notes,
                 arena_printf(&c->arena, "no Python environment: %s", err.text));
        return CLI_OK;
    }
    if (rc != GM_ERR_UNSUPPORTED && rc != GM_ERR_FORMAT) {
        return cli_fail(CLI_CANNOT, "check: %s", str_printable(&c->arena, err.text));
    }
    c->shown.kind = "file";
    c->model.target_file = target;
    return CLI_OK;
}

static int look(struct check *c)
{
    struct model *m = &c->model;
    struct gm_err err;
    if (c->pid) {
        c->shown.kind = "process";
        if (model_add_live(m, c->pid, &err) < 0) {
            return cli_fail(CLI_CANNOT, "check: %s", str_printable(&c->arena, err.text));
        }
        return CLI_OK;
    }
    int rc = find_target(c);
    if (rc != CLI_OK) {
        return rc;
    }
    if (m->env) {
        check_environment(c);
    } else if (m->target_file) {
        struct model_process *p = model_add_file(m);
        if (p->error) {
            return cli_fail(CLI_CANNOT, "check: %s", str_printable(&c->arena, p->error));
        }
    }
    return CLI_OK;
}

static int print(struct check *c)
{
    struct diag_report report;
    diag_run(&c->model, &report);
    if (c->json) {
        if (out_json_dump(stdout, report_check_json(&c->model, &report, &c->shown)) < 0) {
            return cli_fail(CLI_CANNOT, "cannot write the output");
        }
    } else {
        struct out out;
        out_init(&out, stdout);
        report_check_text(&out, &c->model, &report, &c->shown);
    }
    static const enum cli_status status[] = {
        [DIAG_OK] = CLI_OK, [DIAG_BROKEN] = CLI_FINDINGS, [DIAG_CANNOT_TELL] = CLI_CANNOT};
    return status[report.verdict];
}

static int run_with(struct check *c)
{
    struct gm_err err;
    struct model *m = &c->model;
    if (c->pid && (c->target || c->root_path || c->import)) {
        return cli_fail(CLI_USAGE, "check: --pid stands alone, without TARGET, --root and --import");
    }
    m->config.cwd = c->root_path ? "/" : cli_cwd(&c->arena);
    m->config.uid = getuid();
    c->shown.root = c->root_path ? c->root_path : "/";
    c->shown.path = c->target;
    const char *root_path = c->pid ? arena_printf(&c->arena, "/proc/%d/root", c->pid)
                                   : c->shown.root;
    if (root_open(&c->root, root_path, &err) < 0) {
        return cli_fail(CLI_CANNOT, "check: %s", str_printable(&c->arena, err.text));
    }
    struct root host;
    if (root_open(&host, "/", &err) < 0) {
        return cli_fail(CLI_CANNOT, "check: %s", err.text);
    }
    const char *kb = c->kb_path && c->kb_path[0] != '/'
                         ? path_join(&c->arena, cli_cwd(&c->arena), c->kb_path) : c->kb_path;
    ldso_store_open(&c->store, &c->root, &c->arena);
    m->root = &c->root;
    m->arena = &c->arena;
    m->store = &c->store;
    m->kb = &c->kb;
    m->config.env = c->env.vars.items;
    m->config.n_env = c->env.vars.n;
    int rc = CLI_OK;
    if (kb_open(&c->kb, &c->arena, &host, kb, &err) < 0 || model_open(m, &err) < 0) {
        rc = cli_fail(CLI_CANNOT, "check: %s", str_printable(&c->arena, err.text));
    }
    rc = rc == CLI_OK ? look(c) : rc;
    rc = rc == CLI_OK ? print(c) : rc;
    ldso_store_close(&c->store);
    root_close(&host);
    root_close(&c->root);
    return rc;
}

static bool has_root_option(int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--root") == 0 || starts_with(argv[i], "--root=") ||
            strcmp(argv[i], "--pid") == 0 || starts_with(argv[i], "--pid=")) {
            return true;
        }
    }
    return false;
}

static int check_run(const struct cli_command *self, int argc, char **argv)
{
    struct check *c = calloc(1, sizeof *c);
    if (!c) {
        return cli_fail(CLI_CANNOT, "out of memory");
    }
    c->root = ROOT_EMPTY;
    arena_init(&c->arena, ARENA_LIMIT_DEFAULT, NULL, NULL);
    if (has_root_option(argc, argv)) {
        /* Another system's program does not start in this shell's environment. */
        (void)cli_env_set(&c->env, &c->arena,
                          "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    } else {
        cli_env_init(&c->env, &c->arena);
    }
    struct cli_args args = {.command = self, .argc = argc, .argv = argv};
    int rc = CLI_OK, id = CLI_END;
    while (rc == CLI_OK && (id = cli_next(&args)) != CLI_END && id != CLI_HELP && id != CLI_WRONG) {
        rc = take_option(c, id, args.value);
    }
    if (rc == CLI_OK && id == CLI_END) {
        rc = run_with(c);
    } else if (id == CLI_WRONG) {
        rc = CLI_USAGE;
    }
    arena_release(&c->arena);
    free(c);
    return rc;
}

const struct cli_command cli_check = {
    .name = "check",
    .arguments = "[TARGET] [options]",
    .summary = "which library request fails or ends at the wrong file, why, and what to do",
    .text = "TARGET is a Python environment's folder, an interpreter, a program or a library; without\n"
            "it the active environment is looked at. For a Python environment every known GPU package\n"
            "is started in the model, alone and in pairs, from its import to its first use. With\n"
            "--root the start environment is empty but for PATH and what --env sets.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .run = check_run,
};
