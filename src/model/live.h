/* A running process as target: its own start environment, its root, and what it has mapped. */
#ifndef GPUMEND_MODEL_LIVE_H
#define GPUMEND_MODEL_LIVE_H

#include "model/model.h"

/* A process that descends from the one that is looked at. */
struct model_child {
    int pid;
    const char *name;          // as the kernel has it (comm), or NULL: not known
    const char *exe;           // or NULL: it may not be looked at
    VEC(const char *) modules; // what it has mapped of site folders: "torch", each once
    const char *driver;        // a library of a GPU's driver or runtime that it has mapped, or NULL
    bool alike; // the same program as its ancestor's, with its LD_ variables, and no library more
};

/* What /proc says of a process, of which a model can be made later and elsewhere. */
struct model_live {
    int pid;
    const char *exe, *cwd;
    const char *argv0; // the first word of its command line, or NULL
    VEC(const char *) env;
    VEC(struct model_mapping) mappings;          // files that look like libraries, each once
    const char *container_engine, *container_id; // NULL: not known, or none
    VEC(const char *) late_folders;              // of its LD_LIBRARY_PATH, younger than the process
    const char *driver;                          // as in struct model_child
    VEC(struct model_child) children;            // and theirs, by depth; up to MODEL_CHILDREN_MAX
};

enum { MODEL_CHILDREN_MAX = 64 };

/* Reads the descendants of live->pid: /proc/N/stat of all processes, then comm, exe and maps of
 * these; without this process. `host`: the root "/". What may not be read is left out or NULL. */
void model_children_read(struct arena *a, struct root *host, struct model_live *live);

/* A library of a GPU's driver or runtime among these, or NULL. */
const char *model_driver_of(const char *path);

/* What shows that a process is a GPU program: a package of kb/imports, or the driver's library;
 * NULL: nothing does. */
const char *model_child_sign(const struct model *m, const struct model_child *c);

/* Whether all that matters was judged; m->unsure says where not. A process that has loaded no
 * package of kb/imports and no library of a GPU has shown nothing yet: it is the launcher of those
 * that descend from it, or has still to load them. One that has may have started others that use a
 * GPU; what a fork of it has loaded was judged with it. */
void model_judge_children(struct model *m, const struct model_live *live);

/* Reads /proc/PID (exe, cwd, environ, maps, stat) of `host`, the root "/". GM_ERR_LOOK: no such
 * process, or it may not be looked at. GM_ERR_LIMIT: it has mapped too many libraries. */
int model_live_read(struct arena *a, struct root *host, int pid, struct model_live *ret,
                    struct gm_err *err) GM_CHECK;

/* Models the start of its program in the start environment it was given, and loads what else is
 * mapped, in the order of the addresses of the files' first appearance; then what each package of
 * kb/imports that is loaded opens at its next use, each in a process model of its own. m->root must
 * be the process's root. */
int model_add_live(struct model *m, const struct model_live *live, struct gm_err *err) GM_CHECK;

#endif
