/*
 * `check --watch`: repeats a look when a file that it read has changed, and prints what it finds
 * only when that is something else than before.
 *
 * Each look is a child, so that it is as confined and limited as any check, and what it needs ends
 * with it. When it has printed its answer the child stays and asks every second whether every path
 * that it looked at is as it was (launch/cache.h); what has no times of change (/proc, /sys, the
 * host of a
 * --root) is looked at again every 30 seconds. The parent compares the answers.
 */
#ifndef GPUMEND_CLI_CHECK_WATCH_H
#define GPUMEND_CLI_CHECK_WATCH_H

#include "cli/target.h"

/* Calls look(command) in a child again and again; a status, when Ctrl-C or SIGTERM ends it: that of
 * the last answer. CLI_USAGE ends it at once. */
int cli_check_watch(struct cli_target *t, int (*look)(void *command), void *command);

#endif
