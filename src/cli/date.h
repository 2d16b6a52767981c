/* The time of a document that is written. */
#ifndef GPUMEND_CLI_DATE_H
#define GPUMEND_CLI_DATE_H

#include "base/arena.h"

/* "2026-05-01T12:00:00Z": SOURCE_DATE_EPOCH as reproducible builds have it, else now. NULL: a time
 * that has no date. */
const char *cli_date(struct arena *a);

#endif
