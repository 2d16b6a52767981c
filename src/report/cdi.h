/* The words of `gpumend container cdi`. */
#ifndef GPUMEND_REPORT_CDI_H
#define GPUMEND_REPORT_CDI_H

#include "base/out.h"
#include "container/cdi_files.h"

/* Of each specification what is wrong with it, or that nothing is. */
void report_cdi_text(const struct out *o, struct arena *a, const struct cdi_files *f);

/* The reference belongs to the caller. docs/json.md, "container cdi". */
json_t *report_cdi_json(struct arena *a, const struct cdi_files *f);

/* The number of problems that keep a container from its GPUs. */
size_t report_cdi_errors(const struct cdi_files *f);

#endif
