#include "cli/advice.h"

#include <string.h>

#include "base/str.h"
#include "apply/apply.h"
#include "base/folder.h"

const char *cli_shadow_folder(struct cli_target *t, const struct model *m)
{
    const char *cache = folder_of_cache(&t->arena, cli_env_get(&t->env, "XDG_CACHE_HOME"),
                                        cli_env_get(&t->env, "HOME"));
    const char *key = m->env && m->env->prefix ? m->env->prefix : m->target_file;
    /* A printed command makes it and puts it first in LD_LIBRARY_PATH. What is read from a snapshot
     * asks nothing of this machine. */
    bool asks = !t->asked.replay && cache;
    const char *safe = asks ? folder_safe_path(&t->arena, cache, NULL) : cache;
    return safe && key ? arena_printf(&t->arena, "%s/shadow/%016lx", safe,
                                      (unsigned long)str_hash(key, strlen(key)))
                       : NULL;
}

/* Another system's target, or another start than this shell's, is not what a command that is given
 * to this shell would repair. */
static bool is_here(const struct cli_target *t)
{
    const struct model_target_options *o = &t->asked;
    return !o->root_path && !o->pid && !o->replay && !o->host_path && !o->cpu && !o->glibc_minor &&
           !t->env_given;
}

/* "--import a,b /opt/env", with what was asked for. */
static const char *target_words(struct cli_target *t, const struct model *m)
{
    struct arena *a = &t->arena;
    const char *target = m->env && m->env->prefix ? m->env->prefix : m->target_file;
    const char *words = target ? diag_shell_word(a, target) : "";
    return t->asked.imports
               ? arena_printf(a, "--import %s %s", diag_shell_word(a, t->asked.imports), words)
               : words;
}

/* The program that COMMAND stands for is that of the environment that was judged. */
static void advise_for_start(struct cli_target *t, const struct model *m, const struct plan *plan,
                             struct report_repair *ret)
{
    struct arena *a = &t->arena;
    const struct plan_way *way = plan_best(plan, PLAN_FOR_ONE_START);
    size_t mends = way ? plan_way_worth(plan, way) : 0;
    if (!mends || (plan->for_warnings && way->unproved)) { // as `run` decides
        return;
    }
    *ret = (struct report_repair){.way = way, .mends = mends, .command = "gpumend run -- COMMAND"};
    if (!m->env) {
        ret->command = arena_printf(a, "gpumend run -- %s", diag_shell_word(a, m->target_file));
    } else if (t->asked.target && m->env->executable) {
        ret->remark = arena_printf(a, "your program, such as: %s app.py",
                                   diag_shell_word(a, m->env->executable));
    }
}

static void take_better(struct report_repair *best, const struct plan *plan,
                        const struct plan_way *way, const char *command)
{
    size_t mends = way ? plan_way_worth(plan, way) : 0;
    if (mends > best->mends) {
        *best = (struct report_repair){.way = way, .mends = mends, .command = command};
    }
}

struct report_applied cli_applied(struct cli_target *t, struct model *m, const struct plan *plan,
                                  bool is_system)
{
    struct apply_options o = {
        .what = "fix", .is_system = is_system, .env = t->asked.env, .n_env = t->asked.n_env};
    struct report_applied applied = {.files = apply_best(m, plan, &o, NULL)};
    o.packages = true;
    applied.packages = apply_best(m, plan, &o, &applied.why);
    return applied;
}

/* The least invasive first: one that reaches further has to mend more. */
static void advise_for_good(struct cli_target *t, struct model *m, const struct plan *plan,
                            struct report_repair *ret)
{
    const char *words = target_words(t, m);
    struct apply_options o = {.what = "fix", .env = t->asked.env, .n_env = t->asked.n_env};
    const struct plan_way *hook = plan_hook_way(plan);
    if (hook && !apply_objection(m, hook, &o)) {
        take_better(ret, plan, hook, arena_printf(&t->arena, "gpumend enable %s", words));
    }
    struct report_applied applied = cli_applied(t, m, plan, false);
    take_better(ret, plan, applied.files, arena_printf(&t->arena, "gpumend fix --apply %s", words));
    take_better(ret, plan, applied.packages,
                arena_printf(&t->arena, "gpumend fix --apply --packages %s", words));
}

void cli_plan(struct cli_target *t, struct model *m, const struct diag_report *report,
              struct plan *ret)
{
    struct plan_options o = {.manner = PLAN_AT_START, .shadow_folder = cli_shadow_folder(t, m)};
    plan_make(m, report, &o, ret);
}

static void advise(struct cli_target *t, struct model *m, const struct diag_report *report,
                   const struct plan_options *o, struct report_advice *ret)
{
    struct plan plan;
    *ret = (struct report_advice){0};
    plan_make(m, report, o, &plan);
    advise_for_start(t, m, &plan, &ret->start);
    advise_for_good(t, m, &plan, &ret->good);
}

/* What is met only once the repair is made is installed first: the repair then finds it. */
static void install_first(struct cli_target *t, const struct diag_report *report,
                          struct report_repair *ret)
{
    for (size_t i = report->findings.n; i > 0 && ret->way; i--) {
        const struct diag_finding *f = report->findings.items[i - 1];
        if (f->behind && f->repairs.n && f->repairs.items[0].command &&
            !plan_way_mends(ret->way, f)) {
            ret->command =
                arena_printf(&t->arena, "%s && %s", f->repairs.items[0].command, ret->command);
            ret->mends += f->severity == DIAG_ERROR;
        }
    }
}

static bool repairs_all(const struct report_repair *repair, const struct diag_report *report)
{
    return repair->mends == diag_count(report, DIAG_ERROR);
}

void cli_advise(struct cli_target *t, struct model_target *target, const struct diag_report *report,
                struct report_advice *ret)
{
    struct model *m = &target->model;
    struct plan_options o = {.manner = PLAN_AT_START,
                             .launch_only = true,
                             .hook = true,
                             .first = true,
                             .shadow_folder = cli_shadow_folder(t, m)};
    *ret = (struct report_advice){0};
    size_t errors = diag_count(report, DIAG_ERROR), warnings = diag_count(report, DIAG_WARNING);
    if (errors + warnings == 0 || !is_here(t) || (!m->env && !m->target_file)) {
        return;
    }
    advise(t, m, report, &o, ret);
    // What a start and a hook do not mend of warnings is a matter of these findings' own repairs.
    if (errors && (!repairs_all(&ret->start, report) || !repairs_all(&ret->good, report))) {
        o.launch_only = false; // takes several times as long
        advise(t, m, report, &o, ret);
    }
    install_first(t, report, &ret->good);
}
