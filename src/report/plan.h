/* What `fix` prints: a plan as text with commands to paste, and as JSON (docs/json.md). */
#ifndef GPUMEND_REPORT_PLAN_H
#define GPUMEND_REPORT_PLAN_H

#include "plan/plan.h"
#include "report/check.h"

/* A new reference. */
json_t *report_plan_json(const struct model *m, const struct diag_report *r,
                         const struct plan *plan, const struct report_target *target);
void report_plan_text(const struct out *o, const struct model *m, const struct diag_report *r,
                      const struct plan *plan, const struct report_target *target);

/* Nothing to mend, something, or it cannot be determined. */
const char *report_plan_verdict(const struct diag_report *r);

#endif
