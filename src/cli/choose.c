#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/cli.h"
#include "model/target.h"
#include "report/choose.h"

enum { O_MODEL = 1, O_MEMORY, O_APP, O_REQUIRE, O_EXPORT, O_ROOT, O_ENV, O_UNSET, O_KB, O_JSON };

static const struct cli_option options[] = {
    {"model", "NAME", "whisper:large-v3 and the other sizes of Whisper (tiny, turbo, ...)",
     O_MODEL},
    {"memory-gib", "N", "what the model takes on the device, where it is not in the table",
     O_MEMORY},
    {"app", "NAME", "ctranslate2, torch or onnxruntime (default: the first installed)", O_APP},
    {"require-gpu", NULL, "that no GPU can be used is an error", O_REQUIRE},
    {"export", "sh", "print lines that a shell can eval", O_EXPORT},
    {"root", "DIR", "look at the file system below DIR (a container's, another machine's)", O_ROOT},
    {"env", "K=V", "set a variable of the start environment", O_ENV},
    {"unset", "K", "remove a variable of the start environment", O_UNSET},
    {"kb", "DIR", "knowledge base files that replace the built-in ones", O_KB},
    {"json", NULL, "print JSON (docs/json.md)", O_JSON},
};

struct choose {
    struct arena arena;
    struct model_target target;
    struct model_target_options asked;
    struct mend_choose_options wanted;
    struct cli_env env;
    bool json, shell;
};

/* "4", "1.5" or "0.25" in GiB; false for anything else, and for more than a machine holds. */
static bool parse_gib(const char *text, uint64_t *ret)
{
    struct str rest = str_of(text), whole = str_cut(&rest, '.');
    uint64_t units = 0, part = 0, scale = 1;
    if (!str_u64(whole, &units) || units > 1048576) {
        return false;
    }
    if (rest.s && (rest.n > 6 || !str_u64(rest, &part))) {
        return false;
    }
    for (size_t i = 0; rest.s && i < rest.n; i++) {
        scale *= 10;
    }
    *ret = (units << 30) + (part << 30) / scale;
    return *ret > 0;
}

static bool parse_app(const char *text, enum mend_app *ret)
{
    for (int i = 0; i < MEND_APPS; i++) {
        if (strcmp(text, mend_app_name((enum mend_app)i)) == 0) {
            *ret = (enum mend_app)i;
            return true;
        }
    }
    return false;
}

static int take_wish(struct choose *c, int id, const char *value)
{
    switch (id) {
    case O_MODEL:
        c->wanted.model = value;
        return CLI_OK;
    case O_MEMORY:
        return parse_gib(value, &c->wanted.memory_bytes)
                   ? CLI_OK
                   : cli_fail(CLI_USAGE, "choose: --memory-gib wants a number such as 4.5, not %s",
                              value);
    case O_APP:
        c->wanted.app_given = parse_app(value, &c->wanted.app);
        return c->wanted.app_given
                   ? CLI_OK
                   : cli_fail(CLI_USAGE,
                              "choose: --app wants ctranslate2, torch or onnxruntime, not %s",
                              value);
    case O_EXPORT:
        c->shell = strcmp(value, "sh") == 0;
        return c->shell ? CLI_OK : cli_fail(CLI_USAGE, "choose: --export wants sh, not %s", value);
    case O_REQUIRE:
        c->wanted.require_gpu = true;
        return CLI_OK;
    default:
        return CLI_USAGE;
    }
}

static int take_option(struct choose *c, int id, const char *value)
{
    switch (id) {
    case O_ROOT:
        c->asked.root_path = value;
        return CLI_OK;
    case O_KB:
        c->asked.kb_path = value;
        return CLI_OK;
    case O_JSON:
        c->json = true;
        return CLI_OK;
    case O_UNSET:
        cli_env_unset(&c->env, value);
        return CLI_OK;
    case O_ENV:
        return cli_env_set(&c->env, &c->arena, value)
                   ? CLI_OK
                   : cli_fail(CLI_USAGE, "choose: --env wants NAME=VALUE, not %s", value);
    case CLI_ARGUMENT:
        if (c->asked.target) {
            return cli_fail(CLI_USAGE, "choose: one TARGET at a time (%s, %s)", c->asked.target,
                            value);
        }
        c->asked.target = value;
        return CLI_OK;
    default:
        return take_wish(c, id, value);
    }
}

static int print(struct choose *c, const struct mend_choice *choice)
{
    static const enum cli_status status[] = {
        [DIAG_OK] = CLI_OK, [DIAG_BROKEN] = CLI_FINDINGS, [DIAG_CANNOT_TELL] = CLI_OK};
    struct out out;
    out_init(&out, stdout);
    if (c->json) {
        const char *root = c->asked.root_path ? c->asked.root_path : "/";
        if (out_json_dump(stdout, report_choose_json(&c->arena, choice, root)) < 0) {
            return cli_fail(CLI_CANNOT, "cannot write the output");
        }
    } else if (c->shell && !choice->chosen) {
        (void)cli_fail(CLI_FINDINGS, "choose: %s", str_printable(&c->arena, choice->reason));
    } else if (c->shell) {
        report_choose_shell(&out, &c->arena, choice);
    } else {
        report_choose_text(&out, &c->arena, choice);
    }
    return status[choice->verdict];
}

/* Runs the application's script in the model, and judges it. */
static int look(struct choose *c, struct mend_choice *ret, struct gm_err *err)
{
    struct diag_report report = {0};
    enum mend_app app;
    struct model *m = &c->target.model;
    int rc = model_target_open(&c->target, &c->arena, &c->asked, err);
    if (rc < 0) {
        return rc;
    }
    if (!m->env && c->asked.target) {
        return gm_err_set(err, GM_ERR_USAGE, "%s is no Python environment", c->asked.target);
    }
    if (mend_choose_app(m, &c->wanted, &app)) {
        const char *module = mend_app_module(app);
        model_add_default_scripts(m, &module, 1);
        diag_run(m, &report);
    }
    return mend_choose(m, &report, &c->wanted, ret, err);
}

static int run_with(struct choose *c)
{
    struct mend_choice choice;
    struct gm_err err;
    c->asked.cwd = cli_cwd(&c->arena);
    c->asked.uid = getuid();
    c->asked.env = c->wanted.variables.env = c->env.vars.items;
    c->asked.n_env = c->wanted.variables.n_env = c->env.vars.n;
    c->asked.only_open = true;
    // What a captured tree says of its own environment counts where nothing else is said.
    c->wanted.variables.host = c->asked.root_path ? &c->target.host : NULL;
    int rc = look(c, &choice, &err);
    rc = rc == GM_ERR_USAGE ? cli_fail(CLI_USAGE, "choose: %s", str_printable(&c->arena, err.text))
         : rc < 0           ? cli_fail(CLI_CANNOT, "choose: %s", str_printable(&c->arena, err.text))
                            : print(c, &choice);
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

static int choose_run(const struct cli_command *self, int argc, char **argv)
{
    struct choose *c = calloc(1, sizeof *c);
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

const struct cli_command cli_choose = {
    .name = "choose",
    .arguments = "[TARGET] [options]",
    .summary = "which device, compute type and number of threads will work here and fit",
    .text =
        "For an application at its start. TARGET is a Python environment as with check; what is\n"
        "installed there must be able to use the GPU, else the CPU is chosen, and one sentence\n"
        "says why. Nothing is run: what only the driver could tell stays unknown, and what other\n"
        "programs use of the memory is not seen. Exit status 1: nothing will work, or with\n"
        "--require-gpu no GPU.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .run = choose_run,
};
