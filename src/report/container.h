/* The words of `gpumend container FORM`. */
#ifndef GPUMEND_REPORT_CONTAINER_H
#define GPUMEND_REPORT_CONTAINER_H

#include "base/out.h"
#include "container/settings.h"

/* The settings in their form: a command line, a document or a unit on `o`; on `r`, which may be the
 * same, the reasons, how to try it, what fits, and the way back, as lines that begin with "#". */
void report_container_text(const struct out *o, const struct out *r, struct arena *a,
                           const struct container_settings *s, enum container_format format);

/* The reference belongs to the caller. docs/json.md, "container". */
json_t *report_container_json(struct arena *a, const struct container_settings *s,
                              enum container_format format);

#endif
