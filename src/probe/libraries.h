/*
 * Which of the vendors' libraries the target would load, by the paths they would have there: out of
 * the processes of the model, so by the search order of the target's own packages.
 *
 *   model_target_open()  ->  probe_libraries()  ->  struct probe_options
 *
 * Several processes may be modelled (each package alone, and in pairs). The one that loads most of
 * what the stages use is taken, since it is one process that a stage stands for; what only another
 * one loads is added after it. A library comes after those that it is linked against, so that
 * whoever opens them in this order has every soname taken before it is asked for.
 *
 * Where no target was named and the environment loads none, the answer is what the loader finds by
 * the usual sonames, the newest first.
 */
#ifndef GPUMEND_PROBE_LIBRARIES_H
#define GPUMEND_PROBE_LIBRARIES_H

#include "model/model.h"
#include "probe/probe.h"

struct probe_libraries {
    VEC(struct probe_library) items;
    const struct model_process *process; // that most come from, or NULL: none
};

/* `named` says whether the caller named a target. In the model's arena. */
void probe_libraries(struct model *m, bool named, struct probe_libraries *ret);

#endif
