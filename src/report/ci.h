/* The findings of `check` for a service that runs checks on each change of a repository. */
#ifndef GPUMEND_REPORT_CI_H
#define GPUMEND_REPORT_CI_H

#include "report/check.h"

/* Commands of GitHub's workflow, one line a finding: ::error title=CAUSE::TEXT. Of a verdict that
 * cannot be given, the reasons as notices. Source: GitHub's "Workflow commands", and the escapes of
 * actions/toolkit, packages/core/src/command.ts. */
void report_github(FILE *file, const struct model *m, const struct diag_report *r);

/* A log in the Static Analysis Results Interchange Format 2.1.0 (OASIS, 27 March 2020); a new
 * reference. Results are findings, notifications what could not be looked at. */
json_t *report_sarif_json(const struct model *m, const struct diag_report *r);

#endif
