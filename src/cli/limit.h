/*
 * What a command that only looks may use up, so that no file can keep a machine busy or fill its
 * memory. At the limit the process ends with a line on stderr and status 3, "could not look"; what
 * was printed until then is not an answer. A command that acts has no limit: it must not end
 * halfway.
 *
 *   time    processor time of the process, not the clock: a slow disk, a pipe that waits, and other
 *           programs on the machine do not count, and the same input comes equally far everywhere
 *   memory  what is allocated; files that are mapped do not count, the kernel takes their pages
 *           back. JSON counts as arenas do: a document is whole, or the process ends
 *
 *   cli_limit_start()  when the command is known; reads --limit TIME[,MEMORY] among its words
 *   cli_limit_lift()   where it turns out to act
 */
#ifndef GPUMEND_CLI_LIMIT_H
#define GPUMEND_CLI_LIMIT_H

#include "cli/cli.h"

/* A minute suits every environment and program that was measured; logs and images are larger. */
enum { CLI_LIMIT_SECONDS = 60, CLI_LIMIT_SECONDS_LARGE = 600 };

#define CLI_OPTION_LIMIT                                                                           \
    {                                                                                              \
        "limit", "TIME[,MEM]", "processor time and memory that it may use (default: 60s,2GiB)",    \
            CLI_LIMIT                                                                              \
    }
#define CLI_OPTION_LIMIT_LARGE                                                                     \
    {                                                                                              \
        "limit", "TIME[,MEM]", "processor time and memory that it may use (default: 10m,2GiB)",    \
            CLI_LIMIT_LARGE                                                                        \
    }

/* From here on a command that has the option is limited; CLI_OK, or CLI_USAGE (said). */
int cli_limit_start(const struct cli_command *command, int argc, char **argv);

/* The processor time counts from here on, and for a child: a timer is not inherited. */
void cli_limit_restart(void);

/* The same in a child whose output counts only if it is whole: at a limit it ends with the status
 * CLI_LIMIT_STOPPED. */
enum { CLI_LIMIT_STOPPED = 100 };
void cli_limit_restart_below(void);

/* The command acts after all, or waits for what comes: CLI_OK, or CLI_USAGE (said) if --limit was
 * given for it. To be called before anything is started or changed. */
int cli_limit_lift(const char *what);

/* Starts an arena of a command with the limit of memory; beyond it the process ends as it does at
 * the limit of time. A command without the option has the default. */
void cli_arena_init(struct arena *a);

#endif
