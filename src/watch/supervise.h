/*
 * A child that is watched: started, given the signals that this process gets, and waited for.
 *
 * The child keeps this process's group, terminal and standard streams; it is what a shell started.
 */
#ifndef GPUMEND_WATCH_SUPERVISE_H
#define GPUMEND_WATCH_SUPERVISE_H

#include <stdbool.h>

#include "base/err.h"

struct watch_child {
    char *const *argv; // ended by NULL; argv[0] is looked for as execvp does
    char *const *env;  // "K=V", ended by NULL
    void (*restore)(void);  // in the child before the exec: gives signals back; or NULL
    void (*tick)(void *arg); // while the child lives about every 50 ms, and once after its end
    void *tick_arg;
};

struct watch_end {
    int not_started; // errno of the exec, or 0
    int status;      // exit status, or -1
    int signal;      // that ended it, or 0
    bool core;       // it left a core file
};

/* GM_ERR_LOOK: no process could be made. That argv[0] cannot be executed is an answer. */
int watch_supervise(const struct watch_child *c, struct watch_end *ret, struct gm_err *err)
    GM_CHECK;

#endif
