/* The report for an issue, as several commands print it, and what takes names out of texts. */
#ifndef GPUMEND_CLI_PASTE_H
#define GPUMEND_CLI_PASTE_H

#include "report/paste.h"

/* Knows the names that the target's system, this one and gpumend's own environment know. Lives in
 * the model's arena. CLI_OK, or CLI_CANNOT, which is said. */
int cli_redactor(struct model_target *t, struct snapshot_redactor **ret);

/* Prints it without them; file NULL: reads what it would print. CLI_OK, or CLI_CANNOT, which is
 * said. */
int cli_paste(FILE *file, struct model_target *t, const struct diag_report *r,
              const struct report_target *shown);

#endif
