#ifndef GPUMEND_CLI_LICENSES_H
#define GPUMEND_CLI_LICENSES_H

/* Notices of what the executable holds that others wrote (LICENSES/), embedded by
 * scripts/licenses-embed and compressed by zlib: they are a hundred kilobytes that nearly nobody
 * asks for. */
#include <stddef.h>

extern const unsigned char cli_licenses_text[];
extern const size_t cli_licenses_text_size;
extern const size_t cli_licenses_full_size; // once it is expanded

/* Prints them. Returns a cli_status. */
int cli_licenses(void);

#endif
