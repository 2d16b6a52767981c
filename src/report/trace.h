/* What `run --trace` shows: events as they come, in the words of `why`, and at the end what differs
 * from the model. */
#ifndef GPUMEND_REPORT_TRACE_H
#define GPUMEND_REPORT_TRACE_H

#include "base/out.h"
#include "watch/compare.h"

void report_trace_event(const struct out *o, const struct watch_event *event);

void report_trace_text(const struct out *o, struct arena *a, const struct watch_comparison *c);

/* One line of JSON a difference and one for the sum (docs/json.md), each given to `write`. */
void report_trace_json(struct arena *a, const struct watch_comparison *c,
                       void (*write)(void *arg, const char *line, size_t n), void *arg);

#endif
