/* `check --html FILE` and `why --html FILE`. */
#ifndef GPUMEND_CLI_HTML_H
#define GPUMEND_CLI_HTML_H

#include <jansson.h>

#include "cli/cli.h"

/* Writes the page to standard output, which cli_redirect_output() has made the file `name`, drops
 * its reference, and prints the verdict on standard error. CLI_OK, or CLI_CANNOT, which is said. */
int cli_html_write(const char *command, const char *name, struct arena *a, json_t *page);

#endif
