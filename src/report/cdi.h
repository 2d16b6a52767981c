/* The words of `gpumend container cdi`. */
#ifndef GPUMEND_REPORT_CDI_H
#define GPUMEND_REPORT_CDI_H

#include "base/out.h"
#include "cdi/files.h"

/* Of each specification what is wrong with it, or that nothing is. */
void report_cdi_text(const struct out *o, struct arena *a, const struct cdi_files *f);

/* The reference belongs to the caller. docs/json.md, "container cdi". */
json_t *report_cdi_json(struct arena *a, const struct cdi_files *f);

/* The specifications that were built, and which files were written; takes the reference `wrote`, an
 * array of paths. The reference belongs to the caller. docs/json.md, "container cdi". */
json_t *report_cdi_specs_json(struct arena *a, const struct cdi_specs *specs, json_t *wrote);

/* The worst that was found: CDI_WARNING where nothing keeps a container from its GPUs, CDI_OPEN
 * where it cannot be determined. */
enum cdi_severity report_cdi_worst(const struct cdi_files *f);

#endif
