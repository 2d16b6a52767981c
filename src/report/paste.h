/*
 * The report that people paste into an issue (`check --report`): Markdown with one line for a
 * reader, and a fenced block of "key  value" lines by section: the system, Python, GPUs, their
 * drivers, toolkits, libraries, packages, variables, findings.
 *
 * All of it comes from what a check has looked at and from further files below the same root:
 * nothing is executed. What could not be seen is "unknown", with the reason. Every foreign text is
 * redacted (snapshot_redact_text()), printable, and bounded; the fence is longer than any row of
 * backticks in the block, so that no value ends it.
 */
#ifndef GPUMEND_REPORT_PASTE_H
#define GPUMEND_REPORT_PASTE_H

#include "report/check.h"
#include "snapshot/snapshot.h"

/* `names`: made in the model's arena. Writes to `file`, where a failed write shows in ferror();
 * NULL: reads all that it would print. -1: out of memory. */
int report_paste(FILE *file, struct model *m, const struct diag_report *r,
                 const struct report_target *target, struct snapshot_redactor *names) GM_CHECK;

#endif
