/*
 * What a probe says to those who have other news of the same machine: a sentence for a line, and
 * which finding of a check explains a stage.
 */
#ifndef GPUMEND_PROBE_JOIN_H
#define GPUMEND_PROBE_JOIN_H

#include "diag/finding.h"
#include "probe/probe.h"

/* "GPU 0: memory" */
const char *probe_title(struct arena *a, const struct probe_run *run);

/* The sum in one sentence without its stop: that all passed, the first failure, what could not be
 * told; that there is no driver is "cannot tell without a driver". In the arena, or a constant. */
const char *probe_sentence(struct arena *a, const struct probe_report *r);

/* The error that makes a stage fail, or leaves it without its library: one about that library, by
 * the files' names; for a stage of the driver one about the machine, where one vendor alone was
 * probed. NULL: none, or the stage passed, or was not run because of another. */
const struct diag_finding *probe_explained_by(const struct probe_report *r,
                                              const struct probe_run *run,
                                              const struct diag_report *findings);

/* Whether the machine's files, or what the modelled processes load, show a GPU of NVIDIA or AMD or
 * a driver of theirs; a machine that could not be looked at may have one. Runs nothing. */
bool probe_is_worth_it(const struct model *m);

/* Whether the stage was run and did not pass: failed, crashed or timed out. */
bool probe_is_failure(const struct probe_run *run);

#endif
