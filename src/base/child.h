/*
 * One child process that may crash or hang: described by a struct, started, waited for, and
 * always gone when child_run() returns. It has no standard input (/dev/null), its own process
 * group, and dies with this process.
 */
#ifndef GPUMEND_BASE_CHILD_H
#define GPUMEND_BASE_CHILD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

struct child {
    const char *path;        // the program, absolute
    const char *const *argv; // ends with NULL
    const char *const *env;  // "K=V", n_env of them
    size_t n_env;
    const char *cwd;         // NULL: "/"
    unsigned deadline_ms;    // then it is killed, with its group; 0: none
    size_t memory_max_bytes; // RLIMIT_DATA; 0: none
    bool show;               // its output goes to our standard error instead of into `output`
    size_t output_max_bytes; // of `output`; what comes later is read and dropped
};

struct child_end {
    int status; // exit status, or -1
    int signal; // that ended it, or 0
    bool timed_out;
    struct str output; // standard output and standard error together, in the arena
};

/* GM_ERR_LOOK: it could not be started, and the sentence says why. */
int child_run(struct arena *a, const struct child *c, struct child_end *ret,
              struct gm_err *err) GM_CHECK;

/* The executable file `name` on the search path `path` ("dir:dir"); NULL if there is none. */
const char *child_find(struct arena *a, const char *path, const char *name);

#endif
