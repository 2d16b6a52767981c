/* What `explain CAUSE` prints: the page of one cause as text and as JSON (docs/json.md). */
#ifndef GPUMEND_REPORT_CAUSE_H
#define GPUMEND_REPORT_CAUSE_H

#include "base/out.h"
#include "diag/cause.h"

void report_cause_text(const struct out *o, const struct diag_cause_row *cause);

/* The reference belongs to the caller; NULL when memory is gone. */
json_t *report_cause_json(const struct diag_cause_row *cause);

#endif
