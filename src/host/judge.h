/*
 * What the questions about each vendor share (judge_nvidia.c, judge_amd.c, judge_intel.c): the
 * judge that collects problems, and the questions that are the same for every vendor (judge.c).
 */
#ifndef GPUMEND_HOST_JUDGE_H
#define GPUMEND_HOST_JUDGE_H

#include "host/host.h"

struct judge {
    const struct host *h;
    struct arena *arena;
    struct host_gpu *g;
};

typedef void question(struct judge *j);

/* Adds a problem of the GPU; `step` is what to do about it, or NULL. */
struct host_problem *host_judge_add(struct judge *j, const char *id, enum host_state state,
                                    const char *text, const char *step);

/* Adds that the driver that is bound to the GPU cannot be determined, and why. */
void host_judge_driver_unknown(struct judge *j);

/* Whether this kernel driver is bound to the GPU. */
bool host_gpu_is_bound(const struct host_gpu *g, const char *driver);

/* Whether the programs run in a container. */
bool host_judge_in_container(const struct judge *j);

/* The GPU is reserved for a virtual machine. */
void host_ask_passed_through(struct judge *j);

/* One node that is there and may not be used. */
bool host_ask_rights(struct judge *j, const struct host_node *n);

/* Each node of the GPU that is there and may not be used. */
void host_ask_all_rights(struct judge *j);

/* A variable hides the GPU from programs. */
void host_ask_visible(struct judge *j);

/* The driver's library of this name, or NULL. */
const struct host_library *host_judge_library(const struct host_nvidia *n, const char *name);

#endif
