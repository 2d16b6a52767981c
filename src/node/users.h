/*
 * Who uses the GPUs of this machine, by the device files that its processes hold open: whoever is
 * about to run something on a GPU asks this first, and again while it runs.
 *
 *   node_users()  in use, free, or unknown, and by whom
 *
 * A GPU program holds its driver's device files for as long as it has a context (NVIDIA:
 * /dev/nvidiaN, /dev/nvidiactl and, to compute, /dev/nvidia-uvm; AMD: /dev/kfd). They are known by
 * their names, and in a container that calls them otherwise by their major numbers (/proc/devices).
 *
 * "Free" needs all of it: every process is visible (the machine's own PID namespace), the open
 * files of each can be listed (root), and no bound was reached. Anything less is "unknown".
 *
 * Not seen: that a job was given a GPU which it has not opened yet (cli/jobs.h asks Slurm; where
 * Kubernetes hands GPUs out the answer is "unknown"), a process of another virtual machine, and a
 * thread that keeps files of its own (unshare(CLONE_FILES)) while its process has others open.
 */
#ifndef GPUMEND_NODE_USERS_H
#define GPUMEND_NODE_USERS_H

#include <sys/types.h>

#include "base/arena.h"
#include "base/root.h"

enum node_use { NODE_FREE, NODE_IN_USE, NODE_USE_UNKNOWN };

struct node_users {
    enum node_use use;
    const char *says; // "process 4711 (python3) holds /dev/nvidia0"; NULL: free. In the arena.
    bool has_slurmd;  // Slurm's daemon runs here
};

/* `ours` and its descendants do not count; 0: all count. */
void node_users(struct root *r, struct arena *a, pid_t ours, struct node_users *ret);

#endif
