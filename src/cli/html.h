/* `check --html FILE` and `why --html FILE`. */
#ifndef GPUMEND_CLI_HTML_H
#define GPUMEND_CLI_HTML_H

#include <jansson.h>

#include "cli/cli.h"

/* FILE becomes standard output, which is all that a command that only looks may write to; "-": it
 * stays. CLI_OK, or CLI_CANNOT, which is said. */
int cli_html_open(const char *command, const char *name);

/* Writes the page, drops its reference, and names the verdict on standard error. CLI_OK, or
 * CLI_CANNOT, which is said. */
int cli_html_write(const char *command, const char *name, struct arena *a, json_t *page);

#endif
