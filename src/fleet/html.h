/*
 * A report about many nodes as one HTML file that needs no network and no scripts, made from
 * src/fleet/page.html. Its content policy admits the style that stands in it and nothing else. It
 * holds what the document of fleet_report() holds: what a snapshot was redacted of is not there.
 */
#ifndef GPUMEND_FLEET_HTML_H
#define GPUMEND_FLEET_HTML_H

#include <jansson.h>
#include <stdio.h>

#include "base/arena.h"

/* A failed write shows in ferror(). */
void fleet_html(FILE *file, struct arena *a, const json_t *doc);

#endif
