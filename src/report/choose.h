/*
 * A choice of device, compute type and threads as text, as JSON (docs/json.md), and as lines that a
 * POSIX shell can eval.
 */
#ifndef GPUMEND_REPORT_CHOOSE_H
#define GPUMEND_REPORT_CHOOSE_H

#include "base/out.h"
#include "choose/choose.h"

void report_choose_text(const struct out *o, struct arena *a, const struct choose_result *choice);

/* "export NAME=VALUE" lines; none when nothing was chosen. */
void report_choose_shell(const struct out *o, struct arena *a, const struct choose_result *choice);

/* A new reference. */
json_t *report_choose_json(struct arena *a, const struct choose_result *choice, const char *root);

#endif
