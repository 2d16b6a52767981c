/*
 * An answer of the knowledge base as JSON (docs/kb.md) and as text for people.
 */
#ifndef GPUMEND_REPORT_KB_H
#define GPUMEND_REPORT_KB_H

#include "base/out.h"
#include "kb/query.h"

/* {"schema": 1, "known", "answer", "source", "rows": [{"area", ...the row}], "read_as"}; a new
 * reference. */
json_t *report_kb_json(const struct kb_answer *answer);

/* How the question was read, the answer, and where its rows come from. */
void report_kb_text(const struct out *o, struct arena *a, const struct kb_answer *answer);

#endif
