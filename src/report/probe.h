/* What `probe` prints: the stages and the sum, as text and as JSON (docs/json.md). */
#ifndef GPUMEND_REPORT_PROBE_H
#define GPUMEND_REPORT_PROBE_H

#include "base/out.h"
#include "probe/probe.h"
#include "report/check.h"

/* The line of a stage that runs now, without a line end, and of one that has ended. */
void report_probe_start(const struct out *o, struct arena *a, const struct probe_stage *s,
                        int device);
void report_probe_line(const struct out *o, struct arena *a, const struct probe_run *run);

/* What the stages say together: the first failure, what it rules out, the findings. */
void report_probe_sum(const struct out *o, struct arena *a, const struct probe_report *r);

json_t *report_probe_json(const struct model *m, const struct probe_report *r,
                          const struct report_target *target);

#endif
