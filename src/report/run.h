/* What `run --print` prints: the changes to an environment as lines of a shell, and as JSON. */
#ifndef GPUMEND_REPORT_RUN_H
#define GPUMEND_REPORT_RUN_H

#include "base/out.h"
#include "launch/launch.h"

struct report_run {
    const struct launch_program *program; // NULL: the command was not found
    const struct launch *launch;
    bool cached;
};

/* "export NAME=VALUE" and "unset NAME", every value quoted as a shell needs it, byte for byte; a
 * comment if there is none. */
void report_run_shell(FILE *file, struct arena *a, const struct launch *launch);

/* A new reference. */
json_t *report_run_json(struct arena *a, const struct report_run *r);

#endif
