/* What `fix --apply`, `enable` and their opposites share: what is said of a repair. */
#ifndef GPUMEND_CLI_ACT_H
#define GPUMEND_CLI_ACT_H

#include "apply/repair.h"
#include "cli/cli.h"

struct act {
    const char *command; // "fix", "enable", "disable"
    struct apply_order order;
    bool json;
};

/* Opens the target for a plan that is to be carried out: what was left half done is taken back
 * first. CLI_OK, or it is said. */
int act_open(const struct act *act, bool without_hook);

/* Carries out the best way of the plan (apply/repair.h), runs the GPU, and says what came of it.
 * CLI_OK: nothing is left to do; CLI_FINDINGS: it was undone, or errors or a step of the start are
 * left. *ret_done false: the plan has no way, and nothing was said. */
int act_fix(const struct act *act, const struct plan *plan, const struct diag_report *report,
            bool *ret_done);

/* The same for the start-up hook. */
int act_enable(const struct act *act);

/* Takes back journal `id` (0: the latest). */
int act_undo(const struct act *act, unsigned id);

/* Takes the start-up hook out. */
int act_disable(const struct act *act);

int act_list(const struct act *act);

#endif
