/*
 * The machine's devices as one plain sentence each, and as JSON (docs/json.md).
 */
#ifndef GPUMEND_REPORT_DEVICES_H
#define GPUMEND_REPORT_DEVICES_H

#include "base/out.h"
#include "host/host.h"
#include "probe/probe.h"

/* After host_judge(): no when a GPU that counts cannot be used, unknown when that cannot be
 * determined of one, or when the bus could not be looked at; else yes. */
enum host_state report_devices_verdict(const struct host *h);

/* "NVIDIA GeForce RTX 4090 (Ada Lovelace, compute capability 8.9) at 0000:01:00.0: driver
 * 550.90.07 ready" */
const char *report_device_sentence(struct arena *a, const struct host *h, const struct host_gpu *g);

/* "AMD EPYC 7742 64-Core Processor: 16 of 128 cores, AVX2, 1024 GiB of memory (limit 64 GiB)" */
const char *report_cpu_text(struct arena *a, const struct host_cpu *c);

/* The GPU that can be used first; ends with the command to run next. `root`: "/", or the folder
 * that was looked at. `probed`: what the drivers said, or NULL. */
void report_devices_text(const struct out *o, struct arena *a, const struct host *h,
                         const char *root, const struct probe_report *probed);

/* A new reference. */
json_t *report_devices_json(struct arena *a, const struct host *h, const char *root);

/* The same without "schema" and "root", as a part of another document. A new reference. */
json_t *report_devices_facts(struct arena *a, const struct host *h);

/* "NVIDIA GeForce RTX 3060 (sm_86), driver 550.54.14" for the head of a report: what
 * is there and whether it can be used, the GPUs of one kind together. */
void report_devices_head(struct arena *a, const struct host *h, host_texts *ret);

#endif
