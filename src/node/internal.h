/* What the forms of a node's document share: its facts as numbers and as the values of labels. */
#ifndef GPUMEND_NODE_INTERNAL_H
#define GPUMEND_NODE_INTERNAL_H

#include <jansson.h>
#include <stdbool.h>

#include "base/arena.h"
#include "node/node.h"

/* A fact of the document, borrowed; NULL: it has none of that name. */
const json_t *node_fact(const json_t *doc, const char *name);

/* The document's part about a probe; a new reference. */
json_t *node_probe_json(struct arena *a, enum node_probe_result result, const char *says);

/* A text as the value of a label. */
const char *node_label_value(struct arena *a, const char *text);

/* 550.90.07 as 550090007, "8.9" as 89, glibc 2.36 as 36; 0: not known, or no such text. */
long long node_driver_number(const char *version);
long long node_capability_number(const char *text);
long long node_glibc_minor(const json_t *doc);

/* Whether expressions cannot decide about this node's NVIDIA GPUs. */
bool node_nvidia_is_open(const json_t *doc);

/* Of the GPU that has most; 0: there is none, or it is unknown. */
long long node_memory_mib(const json_t *doc);
bool node_memory_is_open(const json_t *doc);

#endif
