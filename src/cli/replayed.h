/* What `gpumend snapshot` wrote, for the commands that answer from it. */
#ifndef GPUMEND_CLI_REPLAYED_H
#define GPUMEND_CLI_REPLAYED_H

#include "cli/cli.h"
#include "snapshot/snapshot.h"

/* The document in a file, or of standard input ("-"); CLI_OK, or CLI_CANNOT, which is said. */
int cli_read_snapshot(const char *command, const char *file, struct arena *a, struct snapshot *ret);

#endif
