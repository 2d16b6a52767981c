/* The parts of `gpumend container`. */
#ifndef GPUMEND_CLI_CONTAINER_H
#define GPUMEND_CLI_CONTAINER_H

#include "cli/cli.h"
#include "container/cdi_files.h"

struct container_cdi {
    const char *host, *folder;
    bool json, check, refresh, write;
};

/* Returns the exit status. */
int container_cdi(struct arena *a, const struct container_cdi *q);

/* `container check IMAGE [TARGET]`, on the host in t->asked. Returns the exit status. */
struct cli_target;
int container_check(struct cli_target *t, const char *image);

#endif
