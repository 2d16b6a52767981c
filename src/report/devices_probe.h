/*
 * What only the drivers know of the GPUs: free memory, processes, the compute mode and the CUDA of
 * the driver, from the stages of a probe.
 */
#ifndef GPUMEND_REPORT_DEVICES_PROBE_H
#define GPUMEND_REPORT_DEVICES_PROBE_H

#include "base/json.h"
#include "base/out.h"
#include "host/host.h"
#include "probe/probe.h"

/* The stages that answer it, of the vendors that the machine shows. The list is a constant. */
const char *const *report_devices_stages(const struct host *h, size_t *ret_n);

/* How many GPUs the drivers showed. */
size_t report_devices_probe_count(const struct probe_report *r);

void report_devices_probe_text(const struct out *o, struct arena *a, const struct probe_report *r);

/* A new reference. */
json_t *report_devices_probe_json(struct arena *a, const struct probe_report *r);

#endif
