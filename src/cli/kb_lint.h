/* `gpumend kb lint`. */
#ifndef GPUMEND_CLI_KB_LINT_H
#define GPUMEND_CLI_KB_LINT_H

#include "base/arena.h"
#include "base/root.h"

/* Checks the files of failures in a folder (NULL: what is built in), prints what is wrong and
 * returns the exit status: 1 if anything is. */
int cli_kb_lint(struct arena *a, struct root *root, const char *folder);

#endif
