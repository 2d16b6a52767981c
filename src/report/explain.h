/*
 * What `explain LOG` prints: one log's cause as text and as JSON (docs/json.md). With the check of
 * this machine, where both agree is said, and of two readings the one that the machine bears out is
 * taken, unless the text is certain.
 */
#ifndef GPUMEND_REPORT_EXPLAIN_H
#define GPUMEND_REPORT_EXPLAIN_H

#include "base/out.h"
#include "diag/finding.h"
#include "diag/windows_log.h"
#include "log/log.h"

struct report_log {
    const char *file; // as asked for; NULL: there is one log only
    const struct log_result *result;
    const struct diag_report *here;      // the check of a machine, or NULL
    const char *machine;                 // which one: "this machine"
    const diag_windows_answers *windows; // what a Windows tree says of the loads, or NULL
    bool all_repairs;                    // otherwise the first few
    struct arena *arena;
};

/* The reading that is told, or NULL if the text does not tell. */
const struct log_candidate *report_log_best(const struct report_log *l);

/* One paragraph about it, or about what the text does not tell; and what to send or run to be sure,
 * or NULL. `best` may be NULL. */
const char *report_log_summary(const struct report_log *l, const struct log_candidate *best);
const char *report_log_decides(const struct report_log *l, const struct log_candidate *best);

/* Whether an earlier fact of the evidence stands in the same line as this one. */
bool report_log_quoted_before(const struct log_candidate *c, size_t index);

/* The class of a reading: of the cause, or "not-gpu-runtime". */
const char *report_log_class(const struct log_candidate *c);

void report_log_text(const struct out *o, const struct report_log *l);

/* One log as a JSON object; the reference belongs to the caller. */
json_t *report_log_json(const struct report_log *l);

#endif
