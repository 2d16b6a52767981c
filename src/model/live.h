/* A running process as target: its own start environment, its root, and what it has mapped. */
#ifndef GPUMEND_MODEL_LIVE_H
#define GPUMEND_MODEL_LIVE_H

#include "model/model.h"

/* Reads /proc/PID (exe, cwd, environ, maps, stat), models the start of its program in the start
 * environment it was given, and loads what else is mapped, in the order of the addresses of the
 * files' first appearance. m->root must be the process's root. GM_ERR_LOOK: no such process, or
 * it may not be looked at. */
int model_add_live(struct model *m, int pid, struct gm_err *err) GM_CHECK;

#endif
