/* The words of `gpumend container docker|podman|compose|kubernetes|apptainer`. */
#ifndef GPUMEND_REPORT_CONTAINER_H
#define GPUMEND_REPORT_CONTAINER_H

#include "base/out.h"
#include "container/settings.h"

/* The settings as a command line, a compose fragment or a Pod manifest, with the reasons. */
void report_container_text(const struct out *o, struct arena *a, const struct ctr_settings *s,
                           enum ctr_format format);

/* The reference belongs to the caller. docs/json.md, "container". */
json_t *report_container_json(struct arena *a, const struct ctr_settings *s,
                              enum ctr_format format);

#endif
