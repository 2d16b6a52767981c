/* One question to a program of Slurm's, as a child with the environment that this process has. */
#ifndef GPUMEND_CLI_SLURM_H
#define GPUMEND_CLI_SLURM_H

#include "base/child.h"

/* argv[0] is the program's name, found on PATH; argv ends with NULL. Its standard output and error
 * end up together in `ret`. GM_ERR_LOOK: it could not be started, did not answer, or failed, and
 * the sentence says why. */
int cli_slurm_ask(struct arena *a, const char *const *argv, struct str *ret,
                  struct gm_err *err) GM_CHECK;

#endif
