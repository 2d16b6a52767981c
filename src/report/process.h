/*
 * A process model as JSON (docs/json.md) and as text for people.
 */
#ifndef GPUMEND_REPORT_PROCESS_H
#define GPUMEND_REPORT_PROCESS_H

#include "base/out.h"
#include "ldso/process.h"

/* New references; texts that are not UTF-8 are escaped. */
json_t *report_objects_json(const struct ldso_process *p);
json_t *report_loads_json(const struct ldso_process *p);
json_t *report_request_json(struct ldso_process *p, struct ldso_request *r);
json_t *report_requests_json(struct ldso_process *p);
json_t *report_defects_json(const struct ldso_process *p);
json_t *report_loader_json(const struct ldso_process *p);

/* The link map, one object a line with who brought it and how. */
void report_objects_text(const struct out *o, const struct ldso_process *p);

/* One request, step by step, with its outcome in words. */
void report_request_text(const struct out *o, struct ldso_process *p, struct ldso_request *r);

/* "RUNPATH of libfoo.so", "LD_LIBRARY_PATH", "ld.so.cache", ... */
const char *report_via_text(struct arena *a, enum ldso_via via, const struct ldso_object *object);

#endif
