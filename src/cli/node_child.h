/*
 * This node's document (node/node.h) by children that may crash or hang: one only looks
 * (base/sandbox.h); with `probe` a second one, after it, runs the GPU, unless somebody's job is on
 * this node (cli/jobs.h). That is asked again while it runs: it is stopped where another process
 * opens a GPU.
 *
 * This process reads no foreign file but /proc. A child that crashes, takes too long or prints
 * anything else makes what it was asked "unknown".
 */
#ifndef GPUMEND_CLI_NODE_CHILD_H
#define GPUMEND_CLI_NODE_CHILD_H

#include "node/node.h"

struct cli_node {
    struct node_asked asked;
    const char *name;    // of the node, as Slurm calls it
    uint64_t deadline_s; // of each of the two
    bool probe;
};

/* A new reference to a whole document, without "node", "time" and "seconds". */
json_t *cli_node_document(struct arena *a, const struct cli_node *n);

#endif
