/*
 * What gpumend does to a node of Slurm, by scontrol: it drains one that is broken, and resumes one
 * that it drained itself.
 *
 *   a node that is drained, down or failing for another's reason stays as it is
 *   "unknown" changes nothing, and neither does anything that goes wrong here
 *   at most `limit` drains an hour, counted over all nodes in one file, under a lock: where it
 *   cannot be locked, read or written, nothing is drained
 */
#ifndef GPUMEND_CLI_DRAIN_H
#define GPUMEND_CLI_DRAIN_H

#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"

/* How a drain reason of gpumend's begins. */
#define CLI_DRAIN_WORD "gpumend:"

enum { CLI_DRAINS_DEFAULT = 4, CLI_DRAINS_MAX = 1000 };

struct cli_drain {
    const char *node;
    const char *count_file;
    uint64_t limit;
    int64_t now; // seconds
};

/* The node is broken, or ok. *ret is one sentence about what was done. GM_ERR_LOOK and others:
 * nothing was done, and the sentence says why. */
int cli_drain_node(struct arena *a, const struct cli_drain *d, const char *reason, const char **ret,
                   struct gm_err *err) GM_CHECK;
int cli_drain_resume(struct arena *a, const struct cli_drain *d, const char **ret,
                     struct gm_err *err) GM_CHECK;

#endif
