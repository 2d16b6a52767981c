/* A process of the model of Windows' loader, as JSON (docs/json.md) and as text for people. */
#ifndef GPUMEND_REPORT_WINDOWS_H
#define GPUMEND_REPORT_WINDOWS_H

#include "base/out.h"
#include "winldr/process.h"

/* The loads with what they hide, the requests with their steps, the modules. New reference. */
json_t *report_windows_json(const struct winldr_process *p);

/* One load: its result, the request that decides, and its steps. */
void report_windows_load(const struct out *o, const struct winldr_process *p,
                         const struct winldr_load *load);

#endif
