/* A snapshot of a Windows tree: what its check reads. */
#ifndef GPUMEND_CLI_WINDOWS_SNAPSHOT_H
#define GPUMEND_CLI_WINDOWS_SNAPSHOT_H

#include "cli/target.h"
#include "snapshot/snapshot.h"

/* Checks the tree below the root and records it in `ret`. */
int cli_windows_snapshot(struct cli_target *t, struct root *root, struct snapshot *ret,
                         struct gm_err *err) GM_CHECK;

#endif
