/* probe: runs the GPU in stages and says the first that fails. */
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/stop.h"
#include "cli/target.h"
#include "probe/here.h"
#include "probe/libraries.h"
#include "py/module.h"
#include "report/probe.h"

enum { O_DEVICE = 1, O_STAGE, O_STAGES, O_TIMEOUT, O_QUICK, O_PYTHON, O_PYTHON_TIMEOUT };

static const struct cli_option options[] = {
    {"device", "N", "only the GPU with this number, as CUDA or HIP counts (default: all)",
     O_DEVICE},
    {"stage", "A,B", "only these stages and those they need", O_STAGE},
    {"stages", NULL, "print the names of the stages and run none", O_STAGES},
    {"timeout", "SECONDS", "the time limit for each stage (default: 15, AMD: 30)", O_TIMEOUT},
    {"quick", NULL, "stop after the first kernel; skip the environment's libraries", O_QUICK},
    {"python", "A,B",
     "the environment's interpreter uses torch, ctranslate2, onnxruntime on the "
     "GPU, "
     "or all of them that are installed (all)",
     O_PYTHON},
    {"python-timeout", "SECONDS", "the time limit for each of them (default: 120)",
     O_PYTHON_TIMEOUT},
    CLI_OPTION_IMPORT,
    CLI_OPTION_ENV,
    CLI_OPTION_UNSET,
    CLI_OPTION_KB,
    CLI_OPTION_JSON,
};

struct probe {
    struct cli_target t;
    struct model_target target;
    struct probe_options how;
    struct probe_libraries libraries;
    VEC(const char *) stages, modules;
    const char *python; // what --python asks for, or NULL
    struct out out;
    bool terminal, list;
};

/* ------------------------------------------------------------------ options */

static int probe_take_device(struct probe *c, const char *value)
{
    uint64_t n;
    if (!str_u64(str_of(value), &n) || n > 1023) {
        return cli_fail(CLI_USAGE, "probe: --device expects the number of a GPU, not %s",
                        str_printable(&c->t.arena, value));
    }
    c->how.device = (int)n;
    return CLI_OK;
}

/* "15", "0.5" */
static int take_timeout(struct probe *c, const char *option, const char *value, unsigned *ret_ms)
{
    struct str rest = str_of(value), whole = str_cut(&rest, '.');
    uint64_t seconds = 0, tenths = 0;
    bool good = str_u64(whole, &seconds) && seconds <= 3600;
    if (rest.s) {
        good &= rest.n == 1 && str_u64(rest, &tenths);
    }
    if (!good || seconds * 10 + tenths == 0) {
        return cli_fail(CLI_USAGE,
                        "probe: %s expects seconds up to 3600, such as 30 or 0.5, not %s", option,
                        str_printable(&c->t.arena, value));
    }
    *ret_ms = (unsigned)(seconds * 1000 + tenths * 100);
    return CLI_OK;
}

static const char *stage_names(struct arena *a)
{
    const char *text = "";
    for (size_t i = 0; i < probe_n_stages; i++) {
        text = arena_printf(a, "%s%s%s", text, i ? ", " : "", probe_stages[i].name);
    }
    return text;
}

static int take_stages(struct probe *c, const char *value)
{
    struct arena *a = &c->t.arena;
    for (struct str rest = str_of(value); rest.s;) {
        const char *name = str_dup(a, str_trim(str_cut(&rest, ',')));
        if (!probe_stage_find(name)) {
            return cli_fail(CLI_USAGE, "probe: there is no stage \"%s\"; there are %s",
                            str_printable(a, name), stage_names(a));
        }
        if (probe_stage_absence(probe_stage_find(name))) {
            return cli_fail(CLI_CANNOT, "probe: %s: %s", name,
                            probe_stage_absence(probe_stage_find(name)));
        }
        VEC_PUSH(a, &c->stages, name);
    }
    return CLI_OK;
}

static int probe_take_option(void *command, int id, const char *value)
{
    struct probe *c = command;
    switch (id) {
    case O_DEVICE: return probe_take_device(c, value);
    case O_STAGE: return take_stages(c, value);
    case O_STAGES: c->list = true; return CLI_OK;
    case O_TIMEOUT: return take_timeout(c, "--timeout", value, &c->how.timeout_ms);
    case O_PYTHON_TIMEOUT:
        return take_timeout(c, "--python-timeout", value, &c->how.module_timeout_ms);
    case O_PYTHON: c->python = value; return CLI_OK;
    case O_QUICK: c->how.quick = true; return CLI_OK;
    default: return cli_target_take(&c->t, id, value);
    }
}

/* The packages of --python, once the environment is open. */
static int find_modules(struct probe *c)
{
    struct arena *a = &c->t.arena;
    struct model *m = &c->target.model;
    bool all = c->python && strcmp(c->python, "all") == 0;
    if (c->python && !m->env) {
        return cli_fail(CLI_USAGE, "probe: --python needs a Python environment as TARGET");
    }
    for (size_t i = 0; all && i < probe_n_stages; i++) {
        struct py_module found = {0};
        if (probe_stages[i].module) {
            py_module_find(m->env, probe_stages[i].module, &found);
        }
        if (found.kind != PY_MODULE_NONE) {
            VEC_PUSH(a, &c->modules, probe_stages[i].module);
        }
    }
    for (struct str rest = all ? (struct str){0} : str_of(c->python); rest.s;) {
        const char *name = str_dup(a, str_trim(str_cut(&rest, ',')));
        if (!probe_stage_find(arena_printf(a, "python-%s", name))) {
            return cli_fail(CLI_USAGE,
                            "probe: --python knows torch, ctranslate2 and onnxruntime, "
                            "not \"%s\"",
                            str_printable(a, name));
        }
        VEC_PUSH(a, &c->modules, name);
    }
    c->how.modules = c->modules.items;
    c->how.n_modules = c->modules.n;
    c->how.modules_found = all;
    return CLI_OK;
}

/* ------------------------------------------------------------------ the run */

static void probe_on_start(void *arg, const struct probe_stage *s, int device)
{
    struct probe *c = arg;
    if (c->terminal) {
        report_probe_start(&c->out, &c->t.arena, s, device);
        fflush(c->out.file);
    }
}

/* What was not run because of another stage is summed up at the end. */
static void probe_on_end(void *arg, const struct probe_run *run)
{
    struct probe *c = arg;
    if (run->because || run->no_library || run->absent_here) {
        return;
    }
    if (c->terminal) {
        fputs("\r\033[K", c->out.file);
    }
    report_probe_line(&c->out, &c->t.arena, run);
    fflush(c->out.file);
}

static int print_sum(struct probe *c, const struct probe_report *r)
{
    static const enum cli_status status[] = {[PROBE_WORKS] = CLI_OK,
                                             [PROBE_BUSY] = CLI_FINDINGS,
                                             [PROBE_CANNOT_TELL] = CLI_CANNOT,
                                             [PROBE_NO_DRIVER] = CLI_FINDINGS,
                                             [PROBE_BROKEN] = CLI_FINDINGS};
    struct report_target shown = {.kind = c->target.kind, .path = c->t.asked.target, .root = "/"};
    if (c->t.json) {
        if (out_json_dump(stdout, report_probe_json(&c->target.model, r, &shown)) < 0) {
            return cli_fail(CLI_CANNOT, "cannot write the output");
        }
    } else {
        report_probe_sum(&c->out, &c->t.arena, r);
    }
    return r->first_failure ? CLI_FINDINGS : (int)status[r->verdict];
}

static int look_and_run(struct probe *c)
{
    struct probe_report report;
    struct gm_err err;
    if (cli_is_windows() && (c->t.asked.target || c->python)) {
        return cli_fail(CLI_CANNOT, "probe: on Windows only the drivers' own libraries are run: "
                                    "TARGET and --python are not available");
    }
    c->t.asked.takes_windows = cli_is_windows(); // the drivers' stages need nothing of a target
    int rc = model_target_open(&c->target, &c->t.arena, &c->t.asked, &err);
    if (rc == 0 && find_modules(c) != CLI_OK) {
        return CLI_USAGE;
    }
    if (rc == 0) {
        c->how.model = &c->target.model;
        c->how.only = c->stages.items;
        c->how.n_only = c->stages.n;
        probe_libraries(c->how.model, c->t.asked.target != NULL, &c->libraries);
        c->how.libraries = c->libraries.items.items;
        c->how.n_libraries = c->libraries.items.n;
        c->how.stop_fd = cli_stop_listen();
        rc = probe_run(&c->how, &report, &err);
    }
    if (rc < 0) {
        return cli_fail(CLI_CANNOT, "probe: %s", str_printable(&c->t.arena, err.text));
    }
    return report.stopped ? cli_stop_end("probe") : print_sum(c, &report);
}

static int probe_run_with(void *command)
{
    struct probe *c = command;
    if (c->list) {
        for (size_t i = 0; i < probe_n_stages; i++) {
            if (!probe_stage_absence(&probe_stages[i])) {
                printf("%s\n", probe_stages[i].name);
            }
        }
        return CLI_OK;
    }
    out_init(&c->out, stdout);
    c->terminal = !c->t.json && isatty(STDOUT_FILENO);
    c->how.arg = c;
    c->how.on_start = c->t.json ? NULL : probe_on_start;
    c->how.on_end = c->t.json ? NULL : probe_on_end;
    int rc = look_and_run(c);
    model_target_close(&c->target);
    return rc;
}

static int probe_run_command(const struct cli_command *self, int argc, char **argv)
{
    static const struct cli_target_calls calls = {.take = probe_take_option, .run = probe_run_with};
    struct probe c = {.how.device = -1, .target.root = ROOT_EMPTY};
    return cli_target_run(&c.t, self, argc, argv, &calls, &c);
}

const struct cli_command cli_probe = {
    .name = "probe",
    .arguments = "[TARGET] [options]",
    .summary = "tests whether the GPU works: runs it in stages and names the first that fails",
    .text =
        "Runs the driver, a kernel and then the libraries that TARGET (an environment or a\n"
        "program, as with check) would load. Each stage runs in its own child process, which "
        "may\n"
        "crash or hang without harm. probe names the first stage that fails, with the "
        "vendor's\n"
        "error code and what it rules out. It changes nothing. A GPU that others use "
        "exclusively\n"
        "is reported as busy.\n"
        "\n"
        "gpumend.exe runs the stages of the drivers (nvcuda.dll, amdhip64.dll), without TARGET\n"
        "and --python; other stages say that they are not available on Windows.\n"
        "\n"
        "Exit status 1: a stage failed; 3: gpumend cannot tell.",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .run = probe_run_command,
};
