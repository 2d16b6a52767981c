#include <string.h>

#include "base/str.h"
#include "cli/act.h"
#include "cli/advice.h"
#include "cli/limit.h"
#include "cli/target.h"
#include "cli/windows.h"
#include "plan/plan.h"
#include "report/plan.h"

enum { O_SELECT = 1, O_IN_PROCESS, O_APPLY, O_PACKAGES, O_SYSTEM, O_UNDO, O_LIST };

static const struct cli_option options[] = {
    CLI_OPTION_IMPORT,
    CLI_OPTION_ROOT,
    CLI_OPTION_ENV,
    CLI_OPTION_UNSET,
    CLI_OPTION_GLIBC,
    CLI_OPTION_CPU,
    CLI_OPTION_PAGE_SIZE,
    CLI_OPTION_KB,
    {"select", "N", "repair N alone (default: the one that fixes the most errors)", O_SELECT},
    {"in-process", NULL, "only repairs that a running process can make itself, by what it loads",
     O_IN_PROCESS},
    {"apply", NULL, "carry out a repair behind a journal, then try it and the GPU in children",
     O_APPLY},
    {"packages", NULL, "with --apply: packages of the environment may be changed", O_PACKAGES},
    {"system", NULL, "files outside the environment may be changed", O_SYSTEM},
    {"undo", NULL, "undo what was applied; a number after it selects the journal", O_UNDO},
    {"list", NULL, "what was applied here, by journal", O_LIST},
    CLI_OPTION_LIMIT,
    CLI_OPTION_JSON,
};

struct fix {
    struct cli_target t;
    struct model_target target;
    struct diag_report report;
    struct plan plan;
    enum { FIX_PRINT, FIX_IN_PROCESS, FIX_APPLY, FIX_UNDO, FIX_LIST } mode;
    uint64_t select, undo_id; // 0: not given
    bool packages, is_system;
};

/* The modes exclude one another. */
static int take_mode(struct fix *c, int mode)
{
    if (c->mode != FIX_PRINT && (int)c->mode != mode) {
        return cli_fail(CLI_USAGE, "fix: one of --in-process, --apply, --undo and --list");
    }
    c->mode = mode;
    return CLI_OK;
}

static int take_argument(struct fix *c, const char *value)
{
    bool could_be_id = c->mode == FIX_UNDO && !c->undo_id;
    if (could_be_id && str_u64(str_of(value), &c->undo_id) && c->undo_id) {
        return c->undo_id <= UINT32_MAX ? CLI_OK : cli_fail(CLI_USAGE, "fix: no journal %s", value);
    }
    return cli_target_take(&c->t, CLI_ARGUMENT, value);
}

static int fix_take_option(void *command, int id, const char *value)
{
    struct fix *c = command;
    switch (id) {
    case O_APPLY: return take_mode(c, FIX_APPLY);
    case O_UNDO: return take_mode(c, FIX_UNDO);
    case O_LIST: return take_mode(c, FIX_LIST);
    case O_IN_PROCESS: return take_mode(c, FIX_IN_PROCESS);
    case O_PACKAGES: c->packages = true; return CLI_OK;
    case O_SYSTEM: c->is_system = true; return CLI_OK;
    case O_SELECT:
        return str_u64(str_of(value), &c->select) && c->select
                   ? CLI_OK
                   : cli_fail(CLI_USAGE, "fix: --select expects the number of a repair, not %s",
                              value);
    case CLI_ARGUMENT: return take_argument(c, value);
    default: return cli_target_take(&c->t, id, value);
    }
}

static void make_plan(struct fix *c)
{
    struct plan_options o = {.manner = PLAN_AT_START,
                             .shadow_folder = cli_shadow_folder(&c->t, &c->target.model)};
    if (c->mode == FIX_IN_PROCESS) {
        o = (struct plan_options){.manner = PLAN_IN_PROCESS, .launch_only = true};
    }
    diag_run(&c->target.model, &c->report);
    plan_make(&c->target.model, &c->report, &o, &c->plan);
}

static int fix_print(struct fix *c)
{
    struct model *m = &c->target.model;
    struct report_target shown = {
        .kind = c->target.kind,
        .path = c->t.asked.target,
        .root = c->t.asked.root_path ? c->t.asked.root_path : "/",
        .options = cli_target_options(&c->t),
    };
    if (c->t.json) {
        if (out_json_dump(stdout, report_plan_json(m, &c->report, &c->plan, &shown)) < 0) {
            return cli_fail(CLI_CANNOT, "cannot write the output");
        }
    } else {
        struct out out;
        out_init(&out, stdout);
        struct report_applied applied = cli_applied(&c->t, m, &c->plan, c->is_system);
        report_plan_text(&out, m, &c->report, &c->plan, &shown, &applied);
    }
    return c->plan.ways.n || c->plan.left.n        ? CLI_FINDINGS
           : c->report.verdict == DIAG_CANNOT_TELL ? CLI_CANNOT
                                                   : CLI_OK;
}

static int fix_apply(struct fix *c, const struct act *act)
{
    bool done;
    int rc = act_fix(act, &c->plan, &c->report, &done);
    return done ? rc : fix_print(c); // there is nothing to repair, or no way: said there
}

static int do_it(struct fix *c, const struct act *act)
{
    if (c->mode == FIX_LIST) {
        return act_list(act);
    }
    if (c->mode == FIX_UNDO) {
        return act_undo(act, (unsigned)c->undo_id);
    }
    struct gm_err err;
    make_plan(c);
    if (plan_select(&c->plan, c->select, &err) < 0) {
        return cli_fail(CLI_USAGE, "fix: %s", err.text);
    }
    return c->mode == FIX_APPLY ? fix_apply(c, act) : fix_print(c);
}

static int fix_open_target(struct fix *c, const struct act *act)
{
    struct gm_err err;
    if (c->mode == FIX_APPLY) {
        return act_open(act, false);
    }
    return model_target_open(&c->target, &c->t.arena, &c->t.asked, &err) == 0
               ? CLI_OK
               : cli_fail(CLI_CANNOT, "fix: %s", str_printable(&c->t.arena, err.text));
}

/* The plan of a Windows tree below --root is printed; nothing of it is carried out from here. */
static bool fix_windows(struct fix *c, int *ret_status)
{
    struct gm_err err;
    struct root root = ROOT_EMPTY;
    const char *path = c->t.asked.root_path;
    if (!path || (c->mode != FIX_PRINT && c->mode != FIX_IN_PROCESS) ||
        root_open(&root, path, &err) < 0) {
        return false; // said by the look at a Linux tree
    }
    struct cli_env given = cli_target_given(&c->t);
    const struct cli_windows_check asked = {.target = c->t.asked.target,
                                            .root_path = path,
                                            .env = &given,
                                            .json = c->t.json,
                                            .is_fix = true,
                                            .refused = c->mode == FIX_IN_PROCESS ? "--in-process"
                                                       : c->select               ? "--select"
                                                                                 : NULL};
    bool taken = cli_windows_check(&c->t.arena, &root, &asked, ret_status);
    root_close(&root);
    return taken;
}

static int fix_run_with(void *command)
{
    struct fix *c = command;
    const struct act act = {
        .command = "fix",
        .order = {.arena = &c->t.arena,
                  .target = &c->target,
                  .asked = &c->t.asked,
                  .options = cli_target_options(&c->t),
                  .packages = c->packages,
                  .is_system = c->is_system},
        .json = c->t.json,
    };
    if ((c->mode == FIX_APPLY || c->mode == FIX_UNDO) &&
        cli_limit_lift(c->mode == FIX_APPLY ? "fix --apply" : "fix --undo") != CLI_OK) {
        return CLI_USAGE;
    }
    if (c->mode != FIX_APPLY && c->mode != FIX_UNDO) {
        cli_only_look((struct sandbox){0});
    }
    int status = CLI_CANNOT;
    if (fix_windows(c, &status)) {
        return status;
    }
    c->t.asked.only_open = c->mode == FIX_LIST || c->mode == FIX_UNDO;
    int rc = fix_open_target(c, &act);
    rc = rc == CLI_OK ? do_it(c, &act) : rc;
    model_target_close(&c->target);
    return rc;
}

static int fix_run(const struct cli_command *self, int argc, char **argv)
{
    static const struct cli_target_calls calls = {.take = fix_take_option, .run = fix_run_with};
    struct fix c = {.target.root = ROOT_EMPTY};
    return cli_target_run(&c.t, self, argc, argv, &calls, &c);
}

const struct cli_command cli_fix = {
    .name = "fix",
    .arguments = "[TARGET] [options]",
    .summary = "prints the repairs for what check finds, tried in the model, as commands to paste",
    .text = "TARGET is a Python environment's folder, an interpreter, a program or a library. "
            "Without\n"
            "TARGET, fix looks at the active environment, as check does. fix replays each repair "
            "in\n"
            "the loader model before it prints it: the failed requests must succeed, and no "
            "other\n"
            "request may fail. The least invasive repair comes first. Nothing changes without\n"
            "--apply, which carries out the repair that fixes the most errors, of those that can\n"
            "be made in the environment. It keeps a journal, and tries the repair with the\n"
            "environment's own interpreter; a repair that does not help is undone. At the end, "
            "the\n"
            "GPU runs in stages if there is one (gpumend probe).",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .run = fix_run,
};
