/* `setup --apply` and `setup --undo`: the plan of `setup` carried out in this machine's files. */
#ifndef GPUMEND_CLI_SETUP_APPLY_H
#define GPUMEND_CLI_SETUP_APPLY_H

#include "cli/target.h"
#include "setup/setup.h"

/* The folder by its real path: the commands are started elsewhere than in the folder that the user
 * is in, and /proc/self names another process there. What does not exist yet is made in a folder
 * that no other user can replace: GM_ERR_UNSUPPORTED names one that they can. */
int cli_setup_folder(struct cli_target *t, const char *folder, const char **ret,
                     struct gm_err *err) GM_CHECK;

/* Makes the environment, or changes that which exists, behind a journal, puts the start-up hook in
 * and tries the import. CLI_OK: nothing is left to do; CLI_FINDINGS: it was undone, or a step or an
 * error is left; CLI_CANNOT: it could not be done, or not tried. */
int cli_setup_apply(struct cli_target *t, const struct setup_plan *plan);

/* Takes back what it did in a folder. */
int cli_setup_undo(struct cli_target *t, const char *folder);

#endif
