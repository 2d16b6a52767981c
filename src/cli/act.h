/* What `fix --apply`, `enable` and their opposites share: carry out, try out, say what came of it.
 */
#ifndef GPUMEND_CLI_ACT_H
#define GPUMEND_CLI_ACT_H

#include "cli/cli.h"
#include "apply/apply.h"
#include "model/target.h"

struct act {
    const char *command; // "fix", "enable", "disable"
    struct arena *arena;
    struct model_target *target;              // open; the plan was made of it
    const struct model_target_options *asked; // how it was opened
    const struct diag_report *report;         // that the plan was made of; NULL without a plan
    const char *options;                      // cli_target_options()
    bool packages, is_system, json;
};

/* Opens the target for a plan that is to be carried out: what was left half done is taken back
 * first. CLI_OK, or it is said. */
int act_open(const struct act *act);

/* Carries the way out, replays the model, tries it in a child, and takes it back if that shows that
 * it does not mend what it was to mend, or breaks a program that worked. CLI_OK: nothing is left to
 * do; CLI_FINDINGS: it was undone, or errors or a step of the start are left. */
int act_apply(const struct act *act, const struct plan_way *way);

/* Removes a start-up hook that no journal lists. */
int act_remove_hook(const struct act *act, bool *ret_removed);

/* Takes back journal `id` (0: the latest; with `what`: the latest of that command). */
int act_undo(const struct act *act, unsigned id, const char *what);

int act_list(const struct act *act);

#endif
