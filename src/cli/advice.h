/* What to do about the errors or, without one, the warnings that were found, as commands for the
 * user's shell. */
#ifndef GPUMEND_CLI_ADVICE_H
#define GPUMEND_CLI_ADVICE_H

#include "cli/target.h"
#include "report/check.h"

/* Plans the repairs of a target on this machine, and names those that can be carried out as the
 * present user. Changes nothing. The texts live in t->arena. */
void cli_advise(struct cli_target *t, struct model_target *target, const struct diag_report *report,
                struct report_advice *ret);

/* All ways of repair in the model, whether or not they can be carried out here. */
void cli_plan(struct cli_target *t, struct model *m, const struct diag_report *report,
              struct plan *ret);

/* The folder that a plan may fill with links for this target, below the user's cache:
 * "~/.cache/gpumend/shadow/HASH"; NULL: the user has no cache, or the model no target. */
const char *cli_shadow_folder(struct cli_target *t, const struct model *m);

#endif
