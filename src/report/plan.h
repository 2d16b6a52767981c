/* What `fix` prints: a plan as text with commands to paste, and as JSON (docs/json.md). */
#ifndef GPUMEND_REPORT_PLAN_H
#define GPUMEND_REPORT_PLAN_H

#include "plan/plan.h"
#include "report/check.h"

/* What `fix --apply` would carry out here (apply_best()). */
struct report_applied {
    const struct plan_way *files;    // without other options; NULL: nothing
    const struct plan_way *packages; // with --packages
    const char *why;                 // why nothing can be carried out, a clause; or NULL
};

/* A new reference. */
json_t *report_plan_json(const struct model *m, const struct diag_report *r,
                         const struct plan *plan, const struct report_target *target);
void report_plan_text(const struct out *o, const struct model *m, const struct diag_report *r,
                      const struct plan *plan, const struct report_target *target,
                      const struct report_applied *applied);

/* Nothing to mend, something, or it cannot be determined. */
const char *report_plan_verdict(const struct diag_report *r);

#endif
