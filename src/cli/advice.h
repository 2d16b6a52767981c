/* What to do about the errors or, without one, the warnings that were found, as commands for the
 * user's shell. */
#ifndef GPUMEND_CLI_ADVICE_H
#define GPUMEND_CLI_ADVICE_H

#include "cli/target.h"
#include "report/check.h"
#include "report/plan.h"

/* Plans the repairs of a target on this machine, and names those that can be carried out as the
 * present user. Changes nothing. The texts live in t->arena. */
void cli_advise(struct cli_target *t, struct model_target *target, const struct diag_report *report,
                struct report_advice *ret);

/* What `fix --apply` would carry out of a plan here, as the present user; `is_system` as in
 * apply_options. Changes nothing. */
struct report_applied cli_applied(struct cli_target *t, struct model *m, const struct plan *plan,
                                  bool is_system);

/* All ways of repair in the model, whether or not they can be carried out here. */
void cli_plan(struct cli_target *t, struct model *m, const struct diag_report *report,
              struct plan *ret);

/* The folder that a plan may fill with links for this target, below the user's cache:
 * "~/.cache/gpumend/shadow/HASH"; NULL: the user has no cache, others could change it, or the model
 * has no target. */
const char *cli_shadow_folder(struct cli_target *t, const struct model *m);

#endif
