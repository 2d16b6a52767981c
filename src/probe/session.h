/*
 * One call of the probe: shared by the order of stages (probe.c), the run of one (run.c), and what
 * they say together (finding.c).
 */
#ifndef GPUMEND_PROBE_SESSION_H
#define GPUMEND_PROBE_SESSION_H

#include "probe/probe.h"
#include "probe/stage.h"

struct session {
    const struct probe_options *o;
    struct model *m;
    struct arena *a;
    struct probe_report *r;
    struct probe_helper helper;
    struct kb_errors errors;
    bool vendors[PROBE_VENDORS]; // that are probed
    const bool *wanted;          // by index in probe_stages
    const char *libcuda, *nvml;  // where the target's loader finds them, or NULL
    const char *const *bare;     // the start environment without what hides devices
    size_t n_bare;
};

/* The library of NVIDIA's driver of this name, or NULL. */
const struct host_library *probe_driver_library(const struct host *h, const char *name);

/* The run of a stage that is the device's, or for all devices; NULL if there was none. */
const struct probe_run *probe_run_of(const struct session *s, const char *name, int device);

/* Adds the result of a stage, and tells the caller. */
void probe_session_append(struct session *s, struct probe_run run);

/* Runs one stage (for one device, or -1), or notes why it is not run. */
void probe_run_stage(struct session *s, const struct probe_stage *stage, int device);

/* Whether an assignment, "NAME=value", hides GPUs. */
bool probe_hides(const char *assignment);

/* Compares what is seen with and without the variables that hide GPUs. */
void probe_find_hidden(struct session *s);

/* Said once for all stages, by the driver's start where that was slow. */
void probe_find_slow(struct session *s);

/* What the machine's files say of the GPUs of a vendor whose stages failed, with the next step. */
void probe_add_host_problems(struct session *s);

#endif
