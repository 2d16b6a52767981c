#include <string.h>

#include "base/str.h"
#include "cli/limit.h"
#include "cli/probing.h"
#include "cli/target.h"
#include "probe/choice.h"
#include "report/choose.h"

enum { O_MODEL = 1, O_MEMORY, O_COMPUTE, O_APP, O_REQUIRE, O_EXPORT, O_PROBE };

static const struct cli_option options[] = {
    {"model", "NAME", "whisper:large-v3 and the other sizes of Whisper (tiny, turbo, ...)",
     O_MODEL},
    {"memory-gib", "N", "memory that a model needs on the device, if it is not in the table",
     O_MEMORY},
    {"compute-type", "TYPE", "this type and no other: float16, bfloat16, int8, int8_float16, ...",
     O_COMPUTE},
    {"app", "NAME", "ctranslate2, torch, onnxruntime or whisperx (default: the first installed)",
     O_APP},
    {"require-gpu", NULL, "fail if no GPU can be used", O_REQUIRE},
    {"probe", NULL, "run the GPUs first, and offer only what worked", O_PROBE},
    {"export", "sh", "print lines that a shell can eval", O_EXPORT},
    CLI_OPTION_ROOT,
    CLI_OPTION_ENV,
    CLI_OPTION_UNSET,
    CLI_OPTION_KB,
    CLI_OPTION_LIMIT,
    CLI_OPTION_JSON,
};

struct choose {
    struct cli_target t;
    struct model_target target;
    struct choose_options wanted;
    bool shell, probe;
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

/* whisperx is CTranslate2 with fewer compute types. */
static bool parse_app(const char *text, struct choose_options *o)
{
    o->whisperx = strcmp(text, "whisperx") == 0;
    o->app = CHOOSE_APP_CTRANSLATE2;
    for (int i = 0; i < CHOOSE_APPS; i++) {
        if (strcmp(text, choose_app_name((enum choose_app)i)) == 0) {
            o->app = (enum choose_app)i;
            return true;
        }
    }
    return o->whisperx;
}

/* Whether the type that is asked for is one that the application can be asked for. */
static bool type_fits_app(const struct choose_options *o)
{
    bool one =
        o->compute == CHOOSE_FLOAT16 || o->compute == CHOOSE_FLOAT32 || o->compute == CHOOSE_INT8;
    return !o->whisperx || !o->compute_given || one;
}

static int choose_take_option(void *command, int id, const char *value)
{
    struct choose *c = command;
    switch (id) {
    case O_MODEL: c->wanted.model = value; return CLI_OK;
    case O_MEMORY:
        return parse_gib(value, &c->wanted.memory_bytes)
                   ? CLI_OK
                   : cli_fail(CLI_USAGE,
                              "choose: --memory-gib expects a number such as 4.5, not %s", value);
    case O_COMPUTE:
        c->wanted.compute_given = choose_compute_parse(value, &c->wanted.compute);
        return c->wanted.compute_given
                   ? CLI_OK
                   : cli_fail(CLI_USAGE,
                              "choose: --compute-type expects float16, float32, bfloat16, int8, "
                              "int8_float16, int8_float32 or int8_bfloat16, not %s",
                              value);
    case O_APP:
        c->wanted.app_given = parse_app(value, &c->wanted);
        return c->wanted.app_given
                   ? CLI_OK
                   : cli_fail(CLI_USAGE,
                              "choose: --app expects ctranslate2, torch, onnxruntime or "
                              "whisperx, not %s",
                              value);
    case O_EXPORT:
        c->shell = strcmp(value, "sh") == 0;
        return c->shell ? CLI_OK
                        : cli_fail(CLI_USAGE, "choose: --export expects sh, not %s", value);
    case O_PROBE: c->probe = true; return CLI_OK;
    case O_REQUIRE: c->wanted.require_gpu = true; return CLI_OK;
    default: return cli_target_take(&c->t, id, value);
    }
}

static int choose_print(struct choose *c, const struct choose_result *choice)
{
    static const enum cli_status status[] = {
        [DIAG_OK] = CLI_OK, [DIAG_BROKEN] = CLI_FINDINGS, [DIAG_CANNOT_TELL] = CLI_OK};
    struct out out;
    out_init(&out, stdout);
    if (c->t.json) {
        const char *root = c->t.asked.root_path ? c->t.asked.root_path : "/";
        if (out_json_dump(stdout, report_choose_json(&c->t.arena, choice, root)) < 0) {
            return cli_fail(CLI_CANNOT, "cannot write the output");
        }
    } else if (c->shell && !choice->chosen) {
        (void)cli_fail(CLI_FINDINGS, "choose: %s", str_printable(&c->t.arena, choice->reason));
    } else if (c->shell) {
        report_choose_shell(&out, &c->t.arena, choice);
    } else {
        report_choose_text(&out, &c->t.arena, choice);
    }
    return status[choice->verdict];
}

/* The GPUs are run with the libraries that the application would load. */
static int run_gpus(struct choose *c, struct diag_report *findings, struct gm_err *err)
{
    struct probe_report report;
    struct probe_choice ran;
    const struct cli_probing p = {.model = &c->target.model, .named = c->t.asked.target != NULL};
    int rc = cli_probing_run(&p, &report, err);
    if (rc < 0) {
        return rc;
    }
    if (probe_believe(&report, &c->target.model) && c->target.model.processes.n) {
        diag_run(&c->target.model, findings);
    }
    probe_choice(&c->t.arena, &report, &ran);
    c->wanted.was_run = true;
    c->wanted.ran = ran.items.items;
    c->wanted.n_ran = ran.items.n;
    return 0;
}

/* A TARGET below the root of Windows cannot be opened here; whether that is why it failed. */
static bool is_windows_target(struct choose *c)
{
    struct gm_err err;
    struct model_target_options asked = c->t.asked;
    if (!asked.target || !asked.root_path) {
        return false;
    }
    asked.target = NULL;
    return model_target_open(&c->target, &c->t.arena, &asked, &err) == 0 && c->target.model.host &&
           c->target.model.host->windows.is_windows.state == HOST_YES;
}

/* "choose large-v3": a model that is named as the environment. The error is then about that. */
static bool model_meant(struct choose *c, struct gm_err *err)
{
    struct kb_models models;
    struct gm_err none;
    const char *name = c->t.asked.target;
    if (!name || strchr(name, '/') || !c->target.model.kb ||
        kb_models(c->target.model.kb, &models, &none) < 0 ||
        !(choose_model_find(&models, name) || strcmp(name, "whisper") == 0)) {
        return false;
    }
    (void)gm_err_set(err, GM_ERR_USAGE, "%s is a model, not a Python environment: use --model %s",
                     name, strcmp(name, "whisper") == 0 ? "whisper:large-v3" : name);
    return true;
}

/* Runs the application's script in the model, and judges it. */
static int choose_look(struct choose *c, struct choose_result *ret, struct gm_err *err)
{
    struct diag_report report = {0};
    enum choose_app app;
    struct model *m = &c->target.model;
    int rc = model_target_open(&c->target, &c->t.arena, &c->t.asked, err);
    if (rc < 0 && is_windows_target(c)) {
        return gm_err_set(err, GM_ERR_USAGE,
                          "the packages of a Windows tree are not looked at here: leave out %s, or "
                          "ask gpumend check --root %s %s",
                          c->t.asked.target, str_shell_word(&c->t.arena, c->t.asked.root_path),
                          str_shell_word(&c->t.arena, c->t.asked.target));
    }
    if (rc < 0) {
        return model_meant(c, err) ? GM_ERR_USAGE : rc;
    }
    if (!m->env && c->t.asked.target) {
        return gm_err_set(err, GM_ERR_USAGE, "%s is not a Python environment", c->t.asked.target);
    }
    if (choose_app_of(m, &c->wanted, &app)) {
        const char *module = choose_app_module(app);
        model_add_default_scripts(m, &module, 1);
        diag_run(m, &report);
    }
    rc = c->probe ? run_gpus(c, &report, err) : 0;
    return rc < 0 ? rc : choose_best(m, &report, &c->wanted, ret, err);
}

static int choose_run_with(void *command)
{
    struct choose *c = command;
    struct choose_result choice;
    struct gm_err err;
    if (c->probe && c->t.asked.root_path) {
        return cli_fail(CLI_USAGE, "choose: --probe runs on this machine: not with --root");
    }
    if (!type_fits_app(&c->wanted)) {
        return cli_fail(CLI_USAGE, "choose: whisperx takes float16, float32 and int8, not %s",
                        choose_compute_name(c->wanted.compute));
    }
    if (c->probe && cli_limit_lift("choose --probe") != CLI_OK) {
        return CLI_USAGE;
    }
    if (!c->probe) {
        cli_only_look((struct sandbox){0});
    }
    c->wanted.variables.env = c->t.asked.env;
    c->wanted.variables.n_env = c->t.asked.n_env;
    c->t.asked.only_open = c->t.asked.takes_windows = true;
    // What a captured tree says of its own environment counts where nothing else is said.
    c->wanted.variables.host = c->t.asked.root_path ? &c->target.host : NULL;
    int rc = choose_look(c, &choice, &err);
    rc = rc == 0 ? choose_print(c, &choice)
                 : cli_fail(rc == GM_ERR_USAGE ? CLI_USAGE : CLI_CANNOT, "choose: %s",
                            str_printable(&c->t.arena, err.text));
    model_target_close(&c->target);
    return rc;
}

static int choose_run(const struct cli_command *self, int argc, char **argv)
{
    static const struct cli_target_calls calls = {.take = choose_take_option,
                                                  .run = choose_run_with};
    struct choose c = {0};
    return cli_target_run(&c.t, self, argc, argv, &calls, &c);
}

const struct cli_command cli_choose = {
    .name = "choose",
    .arguments = "[TARGET] [options]",
    .summary = "picks the device, compute type and number of threads that work here and fit",
    .text = "Picks the device, the compute type and the number of threads that an application\n"
            "should use. TARGET is a Python environment, as with check. If the packages there\n"
            "cannot use the GPU, choose picks the CPU and says why in one sentence. It runs\n"
            "nothing: what only the driver knows stays unknown, and so does the memory that\n"
            "other programs use.\n"
            "\n"
            "With --probe, the GPUs run first, as with gpumend probe: choose ignores one that did "
            "not\n"
            "pass, and offers a compute type only if its matrix product was right. Exit status 1:\n"
            "nothing will work, or with --require-gpu no GPU.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .run = choose_run,
};
