/*
 * Snapshots of many nodes, each judged again in a child of its own: as many at once as there are
 * processors, each with a deadline, none of which can do more than look (base/sandbox.h). One that
 * crashes, hangs or is no snapshot is damage of its file and stops nothing.
 */
#ifndef GPUMEND_CLI_FLEET_REPLAY_H
#define GPUMEND_CLI_FLEET_REPLAY_H

#include <stdio.h>

#include "fleet/fleet.h"

/* Adds snapshots to a store, each in a child that can do nothing but read, and make files in the
 * store; 0, or how many were not added (said). */
size_t cli_fleet_add(struct arena *a, const char *store, const char *const *files, size_t n);

/* Also manifests of a store (fleet/store.h). The node's name is that of the file, without ".json".
 * Called before this process gives its own rights up, as it starts processes; it reads nothing but
 * what they print. */
void cli_fleet_replay(struct fleet *f, const char *const *files, size_t n);

/* Opens it for reading as fopen() does; a FIFO does not wait for a writer. */
FILE *cli_fleet_open(const char *path);

#endif
