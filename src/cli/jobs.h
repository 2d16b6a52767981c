/*
 * Whether somebody's job is on this node, before a command runs the GPU: what its processes show
 * (node/users.h), and what Slurm says where its daemon runs or started us. Slurm knows of a job
 * that was given a GPU and has not opened it yet; the processes do not.
 */
#ifndef GPUMEND_CLI_JOBS_H
#define GPUMEND_CLI_JOBS_H

#include <sys/types.h>

#include "base/arena.h"

/* NULL: nobody's. Otherwise why nothing may be run: a clause, in the arena or a constant. What
 * cannot be determined is a reason, too. Of a prolog of Slurm's, its own job does not count: it
 * waits for the prolog. Starts squeue(1). */
const char *cli_jobs_of_others(struct arena *a, const char *node);

/* The part that costs little, to ask again and again while `ours` and its children run the GPU:
 * NULL, or by whom it is used now. */
const char *cli_jobs_at_gpu(struct arena *a, pid_t ours);

#endif
