/* A running process as target: its own start environment, its root, and what it has mapped. */
#ifndef GPUMEND_MODEL_LIVE_H
#define GPUMEND_MODEL_LIVE_H

#include "model/model.h"

/* What /proc says of a process, of which a model can be made later and elsewhere. */
struct model_live {
    int pid;
    const char *exe, *cwd;
    VEC(const char *) env;
    VEC(struct model_mapping) mappings; // files that look like libraries, each once
    const char *container_engine, *container_id; // NULL: not known, or none
    VEC(const char *) late_folders;     // of its LD_LIBRARY_PATH, younger than the process
};

/* Reads /proc/PID (exe, cwd, environ, maps, stat). GM_ERR_LOOK: no such process, or it may not be
 * looked at. */
int model_live_read(struct arena *a, int pid, struct model_live *ret, struct gm_err *err) GM_CHECK;

/* Models the start of its program in the start environment it was given, and loads what else is
 * mapped, in the order of the addresses of the files' first appearance; then what each package of
 * kb/imports that is loaded opens at its next use, each in a process model of its own. m->root must be the
 * process's root. */
int model_add_live(struct model *m, const struct model_live *live, struct gm_err *err) GM_CHECK;

#endif
