/* A probe within the report of another command: as text, and as the JSON key "probe". */
#ifndef GPUMEND_REPORT_JOINED_H
#define GPUMEND_REPORT_JOINED_H

#include "probe/join.h"
#include "report/check.h"

/* The section below a report. `findings`: those that may explain a stage, or NULL. */
void report_joined_text(const struct out *o, const struct model *m, const struct probe_report *r,
                        const struct diag_report *findings);

/* What `probe` prints, without the head, with one sentence that sums it up and for each stage the
 * cause that explains it, or null. A new reference. */
json_t *report_joined_json(const struct model *m, const struct probe_report *r,
                           const struct diag_report *findings);

#endif
