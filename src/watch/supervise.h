/*
 * A child that is watched: started, given the signals that this process gets, waited for, and
 * started again where the caller wants that.
 *
 * The child keeps this process's group, terminal and standard streams; it is what a shell started.
 * It gets SIGTERM when this process dies: whoever stops what he started stops the program.
 * Variables that name the process they are meant for (LISTEN_PID and WATCHDOG_PID of systemd) are
 * made to name the child where they named this process. The terminal's settings are put back when a
 * signal ended the child. Orphans that this process inherits, as process 1 of a container does, are
 * reaped.
 */
#ifndef GPUMEND_WATCH_SUPERVISE_H
#define GPUMEND_WATCH_SUPERVISE_H

#include <stdbool.h>

#include "base/err.h"
#include "inject/end_page.h"

struct watch_end {
    int not_started; // errno of the exec, or 0
    int status;      // exit status, or -1
    int signal;      // that ended it, or 0; or one that ended the wait before a new start
    bool core;       // it left a core file
    unsigned long lived_ms;
};

struct watch_child {
    char *const *argv;       // ended by NULL; argv[0] is looked for as execvp does
    char *const *env;        // "K=V", ended by NULL
    void (*restore)(void);   // in the child before the exec: gives signals back; or NULL
    void (*tick)(void *arg); // while the child lives about every 50 ms, and once after its end
    void *tick_arg;
    /* Shared with the child, which writes its process id into it before the exec; cleared before
     * each start. Or NULL. */
    struct end_page *page;
    /* After the child's end: whether it is to be started again, and after how long; or NULL. */
    bool (*again)(void *arg, const struct watch_end *end, unsigned *ret_delay_ms);
    void *again_arg;
};

/* GM_ERR_LOOK: no process could be made. That argv[0] cannot be executed is an answer. */
int watch_supervise(const struct watch_child *c, struct watch_end *ret,
                    struct gm_err *err) GM_CHECK;

#endif
