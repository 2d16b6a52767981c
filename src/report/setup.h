/* A plan of `gpumend setup`: as text, as JSON, and as a script that carries it out. */
#ifndef GPUMEND_REPORT_SETUP_H
#define GPUMEND_REPORT_SETUP_H

#include "base/out.h"
#include "setup/setup.h"

void report_setup_text(const struct out *o, struct arena *a, const struct setup_plan *plan);

/* A new reference. */
json_t *report_setup_json(struct arena *a, const struct setup_plan *plan);

#endif
