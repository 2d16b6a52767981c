/* A probe that another command makes of its target. */
#ifndef GPUMEND_CLI_PROBING_H
#define GPUMEND_CLI_PROBING_H

#include "cli/cli.h"
#include "probe/probe.h"

struct cli_probing {
    struct model *model;     // open; its processes say which libraries are run
    bool named;              // its target was named by the caller
    bool quick;              // up to the first kernel
    const char *const *only; // names of stages; none: as `quick` says
    size_t n_only;
};

/* On a terminal the stage that runs is shown on standard error, and wiped away again. */
int cli_probing_run(const struct cli_probing *p, struct probe_report *ret,
                    struct gm_err *err) GM_CHECK;

/* The status of a command that asked for a probe besides what it found itself. */
enum cli_status cli_probing_status(enum cli_status found, const struct probe_report *r);

#endif
