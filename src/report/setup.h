/* A plan of `gpumend setup`: as text, as JSON, and as a script that carries it out. */
#ifndef GPUMEND_REPORT_SETUP_H
#define GPUMEND_REPORT_SETUP_H

#include "base/out.h"
#include "setup/setup.h"

void report_setup_text(const struct out *o, struct arena *a, const struct setup_plan *plan);

enum report_setup_form { REPORT_SETUP_SH, REPORT_SETUP_POWERSHELL, REPORT_SETUP_DOCKERFILE };

/* The steps that can be carried out without a person: environment, packages, libraries; the others
 * are comments. A Dockerfile takes the plan's interpreter from the image `python`. */
void report_setup_script(const struct out *o, struct arena *a, const struct setup_plan *plan,
                         enum report_setup_form form);

/* A new reference. */
json_t *report_setup_json(struct arena *a, const struct setup_plan *plan);

#endif
