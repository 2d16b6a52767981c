/*
 * Children of the embedded helper (inject/probe/helper.h), one for each stage.
 *
 *   probe_helper_open()  ->  probe_child_run() for each stage  ->  probe_helper_close()
 *
 * The helper's bytes lie in a memory file of this process and are started from there; nothing is
 * written to a disk where the kernel offers that. A child has its own process group, /dev/null as
 * standard input, no core dump, and dies with this process. Its output is kept up to a bound. At
 * its deadline it is sent SIGTERM, half a second later SIGKILL, and then waited for two seconds at
 * most: one that the kernel does not let go (state D: a driver that hangs) is left behind and
 * named. What it started ends with it, in a session of its own as well: this process is their
 * subreaper meanwhile, unless it has other children or is the first of a container.
 *
 * Everything handed out lives in the arena.
 */
#ifndef GPUMEND_PROBE_RUNNER_H
#define GPUMEND_PROBE_RUNNER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

struct probe_helper {
    int fd;          // the helper's image, close-on-exec; -1: not open
    const char *why; // it cannot be started here: one sentence; or NULL
};
#define PROBE_HELPER_EMPTY ((struct probe_helper){.fd = -1})

/* Never fails: a helper that cannot be had makes every stage unknown, with `why`. `env` is searched
 * for XDG_RUNTIME_DIR and TMPDIR, where the kernel has no memory files. */
void probe_helper_open(struct arena *a, const char *const *env, size_t n_env,
                       struct probe_helper *ret);
void probe_helper_close(struct probe_helper *h);

enum probe_outcome {
    PROBE_PASSED,
    PROBE_FAIL,    // the library answered with an error, or with a wrong result
    PROBE_CRASHED, // the child ended by a signal, or without a word
    PROBE_TIMED_OUT,
    PROBE_NOT_RUN, // because of another stage, or as there is nothing to run it with
    PROBE_UNKNOWN, // it could not be tried
};
const char *probe_outcome_name(enum probe_outcome outcome); // "passed", "timed-out", ...

struct probe_fact {
    const char *key, *value;
};

typedef VEC(struct probe_fact) probe_facts;

struct probe_child {
    const char *program; // another one than the helper, which speaks as it does; NULL: the helper
    const char *const *arguments; // "key=value" (helper.h)
    size_t n_arguments;
    const char *const *env; // "K=V"
    size_t n_env;
    unsigned deadline_ms;
    int stop_fd; // readable: the child is ended at once; -1: none
};

struct probe_answer {
    enum probe_outcome outcome; // PROBE_NOT_RUN: the stage found nothing to run
    long code;                  // of a failure; 0: there is none
    const char *code_name;      // as the helper gave it, or NULL
    const char *text;           // the helper's sentence; for an outcome that it did not see, ours
    int signal;                 // that ended it, or 0
    bool sent;                  // it is none that faulty code raises
    const char *last_call;      // into a library, or NULL
    probe_facts facts;
    struct str output; // standard output and error, cut at a bound
    unsigned ms;       // from its start to its end
    bool stopped;      // by stop_fd
    pid_t left;        // a child that could not be ended; 0: none
    char left_state;   // of /proc/PID/stat, or '?'
};

/* Starts the helper and waits as said above. */
void probe_child_run(struct arena *a, const struct probe_helper *h, const struct probe_child *c,
                     struct probe_answer *ret);

/* The first value of a key, or NULL. */
const char *probe_fact(const probe_facts *facts, const char *key);

#endif
