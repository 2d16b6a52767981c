/* run that stays: what --trace, --trace-gpu, --restart and the guard of the teardown add to the
 * start of a program (docs/watch.md). */
#ifndef GPUMEND_CLI_RUN_WATCH_H
#define GPUMEND_CLI_RUN_WATCH_H

#include "cli/cli.h"
#include "launch/launch.h"
#include "inject/end_page.h"
#include "inject/loss_page.h"

enum {
    RUN_WATCH_FIRST = 100,
    O_TRACE = RUN_WATCH_FIRST,
    O_TRACE_FILE,
    O_TRACE_GPU,
    O_RESTART,
    O_FORGIVE_TEARDOWN,
    O_GUARD_TEARDOWN,
    O_NO_GUARD_TEARDOWN
};

/* Rows for the table of options of `run`. */
#define RUN_WATCH_OPTIONS                                                                          \
    {"trace", NULL,                                                                                \
     "show what the loader searches, opens and misses, and what differs from the model", O_TRACE}, \
        {"trace-gpu", NULL,                                                                        \
         "report the CUDA and HIP calls that fail, the first with its backtrace", O_TRACE_GPU},    \
        {"trace-file", "FILE", "append that as JSON lines to FILE instead", O_TRACE_FILE},         \
        {"restart", "WHEN",                                                                        \
         "on-crash or on-crash:N: start CMD again when it crashes, N times at most", O_RESTART},   \
        {"forgive-teardown", NULL, "ignore a crash of a GPU library after the end of CMD",         \
         O_FORGIVE_TEARDOWN},                                                                      \
        {"guard-teardown", NULL,                                                                   \
         "run thread-local destructors of GPU libraries where they can run", O_GUARD_TEARDOWN},    \
    {                                                                                              \
        "no-guard-teardown", NULL, "do not, even for libraries known to need it",                  \
            O_NO_GUARD_TEARDOWN                                                                    \
    }

struct run_watch {
    bool trace, trace_gpu, forgive_teardown, guard_teardown, no_guard_teardown;
    const char *trace_file; // as given, or NULL
    bool restart;
    unsigned restart_max; // with restart; 0: no bound

    /* Filled by run_watch_environment(). */
    const char *record;             // where the helpers write; NULL: nothing is recorded
    bool record_is_ours;            // to be removed at the end
    const char *unfit;              // why the libraries cannot be loaded into the program, or NULL
    const struct loss_page *losses; // where the helpers count what they cannot write; or NULL
    struct end_page *page;          // where the program says how far it has come; NULL: it cannot
};

/* What the program is started with. */
struct run_watch_start {
    struct arena *a;
    struct root *host;
    const struct cli_env *env;            // before the changes
    const char *cwd, *cache;              // cache: folder, or NULL
    char **words;                         // CMD and its arguments, ended by NULL
    const struct launch_program *program; // that CMD is; NULL: not found
    struct launch *launch;
};

/* One of the options from above. CLI_USAGE with a sentence on stderr. */
int run_watch_option(struct run_watch *w, struct arena *a, int id, const char *value);

/* Options that exclude one another or mean nothing; said on stderr. */
int run_watch_check(const struct run_watch *w);

/* Places the helper libraries and adds to the launch's changes the variables that load them:
 * LD_AUDIT, LD_PRELOAD and CUDA_INJECTION64_PATH in front of what they hold, and those of the
 * helpers, which begin with GPUMEND_. With `print` no record is made. Into a program that they are
 * not made for nothing is put, which is said: the options that need it are then off. CLI_OK, or
 * CLI_CANNOT with a sentence. */
int run_watch_environment(struct run_watch *w, const struct run_watch_start *s, bool print);

/* Whether this process has to stay beside the program. */
bool run_watch_stays(const struct run_watch *w);

/* Starts the program and stays until it ends; returns its exit status, or does not return where a
 * signal ended it: the same ends this process. *ret_errno is the errno of an exec that failed,
 * else 0. */
int run_watch_start(struct run_watch *w, const struct run_watch_start *s, int *ret_errno);

#endif
