/* A JSON value as YAML text, by libyaml's emitter: what is in a string stays in it. */
#ifndef GPUMEND_REPORT_YAML_TEXT_H
#define GPUMEND_REPORT_YAML_TEXT_H

#include <jansson.h>

#include "base/arena.h"

/* The documents of an array, one after the other, with "---" between them. Strings that YAML could
 * take for anything else are quoted. The text lives in the arena; NULL: there is no memory. */
const char *report_yaml_text(struct arena *a, const json_t *documents);

#endif
