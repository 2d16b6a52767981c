/*
 * Shared by the files of a snapshot: its nodes (snap_nodes.c), the walk to one (snap_walk.c), and
 * the operations of recording and replaying (snap.c).
 */
#ifndef GPUMEND_BASE_SNAP_INTERNAL_H
#define GPUMEND_BASE_SNAP_INTERNAL_H

#include "base/root.h"
#include "base/snap.h"

/* Notes what a replay asks and the snapshot does not hold; returns -SNAP_NOT_HELD. */
int snap_miss(struct snap *s, const char *path, const char *what);

/* The node that a path names, or a negative errno. */
int snap_walk(struct snap *s, const char *path, bool follow_last, struct snap_node **ret);

#endif
