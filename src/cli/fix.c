#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/cli.h"
#include "mend/plan.h"
#include "model/target.h"
#include "report/plan.h"

enum { O_IMPORT = 1, O_ROOT, O_ENV, O_UNSET, O_GLIBC, O_CPU, O_KB, O_JSON };

static const struct cli_option options[] = {
    {"import", "A,B", "what the program imports, in this order (default: every order)", O_IMPORT},
    {"root", "DIR", "look at the file system below DIR (a container's, another machine's)", O_ROOT},
    {"env", "K=V", "set a variable of the start environment", O_ENV},
    {"unset", "K", "remove a variable of the start environment", O_UNSET},
    {"glibc", "VER", "behave as this glibc version, e.g. 2.41", O_GLIBC},
    {"cpu", "LEVEL", "x86-64-v1 to x86-64-v4 (default: this machine's)", O_CPU},
    {"kb", "DIR", "knowledge base files that replace the built-in ones", O_KB},
    {"json", NULL, "print JSON (docs/json.md)", O_JSON},
};

struct fix {
    struct arena arena;
    struct model_target target;
    struct model_target_options asked;
    struct ldso_cpu cpu;
    struct cli_env env;
    struct diag_report report;
    struct mend_plan plan;
    bool json;
};

static int take_option(struct fix *c, int id, const char *value)
{
    switch (id) {
    case O_IMPORT: c->asked.imports = value; return CLI_OK;
    case O_ROOT: c->asked.root_path = value; return CLI_OK;
    case O_KB: c->asked.kb_path = value; return CLI_OK;
    case O_JSON: c->json = true; return CLI_OK;
    case O_UNSET: cli_env_unset(&c->env, value); return CLI_OK;
    case O_ENV:
        return cli_env_set(&c->env, &c->arena, value)
                   ? CLI_OK
                   : cli_fail(CLI_USAGE, "fix: --env wants NAME=VALUE, not %s", value);
    case O_GLIBC:
        return cli_parse_glibc(value, &c->asked.glibc_minor)
                   ? CLI_OK
                   : cli_fail(CLI_USAGE, "fix: --glibc wants a version such as 2.41, not %s", value);
    case O_CPU:
        if (!ldso_cpu_parse(value, &c->cpu)) {
            return cli_fail(CLI_USAGE, "fix: --cpu wants x86-64-v1 to x86-64-v4, not %s", value);
        }
        c->asked.cpu = &c->cpu;
        return CLI_OK;
    case CLI_ARGUMENT:
        if (c->asked.target) {
            return cli_fail(CLI_USAGE, "fix: one TARGET at a time (%s, %s)", c->asked.target, value);
        }
        c->asked.target = value;
        return CLI_OK;
    default: return CLI_USAGE;
    }
}

/* A folder of its own for each target below the user's cache: "~/.cache/gpumend/shadow/HASH". */
static const char *shadow_folder(struct fix *c)
{
    struct model *m = &c->target.model;
    const char *cache = cli_env_get(&c->env, "XDG_CACHE_HOME"), *home = cli_env_get(&c->env, "HOME");
    if (!cache || cache[0] != '/') {
        cache = home && home[0] == '/' ? path_join(&c->arena, home, ".cache") : NULL;
    }
    const char *key = m->env && m->env->prefix ? m->env->prefix : m->target_file;
    return cache && key
               ? arena_printf(&c->arena, "%s/gpumend/shadow/%016lx", cache,
                              (unsigned long)str_hash(key, strlen(key)))
               : NULL;
}

static void make_plan(struct fix *c)
{
    struct mend_options o = {.manner = MEND_AT_START, .shadow_folder = shadow_folder(c)};
    diag_run(&c->target.model, &c->report);
    mend_plan_make(&c->target.model, &c->report, &o, &c->plan);
}

static int print(struct fix *c)
{
    struct model *m = &c->target.model;
    struct report_target shown = {
        .kind = c->target.kind,
        .path = c->asked.target,
        .root = c->asked.root_path ? c->asked.root_path : "/",
    };
    if (c->json) {
        if (out_json_dump(stdout, report_plan_json(m, &c->report, &c->plan, &shown)) < 0) {
            return cli_fail(CLI_CANNOT, "cannot write the output");
        }
    } else {
        struct out out;
        out_init(&out, stdout);
        report_plan_text(&out, m, &c->report, &c->plan, &shown);
    }
    return c->plan.ways.n || c->plan.left.n            ? CLI_FINDINGS
           : c->report.verdict == DIAG_CANNOT_TELL ? CLI_CANNOT
                                                   : CLI_OK;
}

static int run_with(struct fix *c)
{
    struct gm_err err;
    c->asked.cwd = cli_cwd(&c->arena);
    c->asked.uid = getuid();
    c->asked.env = c->env.vars.items;
    c->asked.n_env = c->env.vars.n;
    int rc = model_target_open(&c->target, &c->arena, &c->asked, &err);
    if (rc < 0) {
        rc = cli_fail(CLI_CANNOT, "fix: %s", str_printable(&c->arena, err.text));
    } else {
        make_plan(c);
        rc = print(c);
    }
    model_target_close(&c->target);
    return rc;
}

static bool has_root_option(int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--root") == 0 || starts_with(argv[i], "--root=")) {
            return true;
        }
    }
    return false;
}

static int fix_run(const struct cli_command *self, int argc, char **argv)
{
    struct fix *c = calloc(1, sizeof *c);
    if (!c) {
        return cli_fail(CLI_CANNOT, "out of memory");
    }
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

const struct cli_command cli_fix = {
    .name = "fix",
    .arguments = "[TARGET] [options]",
    .summary = "the ways to mend what check finds, tried in the model, as commands to paste",
    .text = "TARGET is a Python environment's folder, an interpreter, a program or a library; without\n"
            "it the active environment is looked at, as check does. Each way is replayed in the loader\n"
            "model first: the requests that failed are served, and none that was right goes wrong. The\n"
            "least invasive way comes first. Nothing is changed.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .run = fix_run,
};
