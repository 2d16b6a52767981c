/*
 * One machine as a fleet sees it: a small document with a verdict, the causes behind it, the facts
 * that decide what runs there, and its cohort; and that document in the forms that engines read.
 *
 *   node_look()   reads the machine, and checks the targets that are asked for
 *   node_cannot() the same document where looking failed: "unknown", and why
 *   node_line() ... node_npd()  its forms
 *
 * The document (docs/json/node.schema.json) is the only thing that passes from the process that
 * reads foreign files to the one that writes and acts (cli/export.c).
 *
 * What the environment of the looking process says of GPUs (CUDA_VISIBLE_DEVICES of a job) is not a
 * fact about the node, and neither is what a pod that looks at its host below a folder may open.
 */
#ifndef GPUMEND_NODE_NODE_H
#define GPUMEND_NODE_NODE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/err.h"
#include "host/host.h"
#include "ldso/store.h"
#include "model/model.h"

/* What came of running the GPU: NOT_RUN where somebody's job may be on it. */
enum node_probe_result {
    NODE_PROBE_WORKS,
    NODE_PROBE_BROKEN,
    NODE_PROBE_UNKNOWN,
    NODE_PROBE_NOT_RUN,
    NODE_PROBE_RESULTS
};
const char *node_probe_name(enum node_probe_result result); // "works", ..., "not-run"

struct node_probe {
    enum node_probe_result result;
    const char *says; // one sentence
    bool changed;     // it showed something of the machine that its files do not: judge again
};

enum { NODE_FINDINGS_MAX = 32, NODE_TARGETS_MAX = 16, NODE_BYTES_MAX = 256 << 10 };

struct node_asked {
    const char *root_path; // NULL: "/"
    const char *const *targets;
    size_t n_targets;
    uint64_t gpus_min; // fewer usable GPUs are a fault; 0: none is expected
    const char *cwd;
    uid_t uid;
    void (*on_host)(struct root *r, struct arena *a, struct host *h); // as in model_target_options
    /* Runs the GPU once the machine is known; NULL: nothing is run. */
    void (*probe)(void *arg, struct model *m, struct node_probe *ret);
    void *probe_arg;
};

/* A new reference, without "node", "time" and "seconds". GM_ERR_LOOK: nothing of the machine can be
 * seen. A target that cannot be looked at makes the verdict "unknown". */
int node_look(struct arena *a, const struct node_asked *asked, json_t **ret,
              struct gm_err *err) GM_CHECK;

struct snapshot;
/* The same of a snapshot, whose target is the only one; without "node", "time", "seconds". What
 * this gpumend asks for and the snapshot does not hold makes the verdict "unknown". */
int node_look_at_snapshot(struct arena *a, struct snapshot *s, json_t **ret,
                          struct gm_err *err) GM_CHECK;

/* The facts of a judged host, as "facts" has them; a new reference. `store` may be NULL: the C
 * library is then unknown. `elsewhere`: see above. */
json_t *node_facts(struct arena *a, const struct model *m, struct ldso_store *store,
                   bool elsewhere);

/* The first 12 digits of the SHA-256 of a text: names of cohorts. */
const char *node_digest(struct arena *a, const char *text);

/* The document of a node that could not be looked at. */
json_t *node_cannot(struct arena *a, const char *why);

/* Adds a probe's result to a document that was made without one. "unknown" takes "ok" away: it was
 * asked for, and gave no answer. */
void node_put_probe(struct arena *a, json_t *doc, enum node_probe_result result, const char *says);

/* Whether a document is one: every key has the type that the forms rely on. */
bool node_is_whole(const json_t *doc);

/* Adds who and when. `name` may hold any bytes. */
void node_sign(struct arena *a, json_t *doc, const char *name, const char *time, double seconds);

/* "driver-mismatch" of a broken node, or NULL; its verdict; one line without foreign bytes. */
const char *node_reason(const json_t *doc);
const char *node_verdict(const json_t *doc);
const char *node_sentence(struct arena *a, const json_t *doc, size_t bytes_max);

/* The forms, as texts. `now` is in seconds; `expires`: when what NFD reads is too old. */
const char *node_prometheus(struct arena *a, const json_t *doc, int64_t now);
const char *node_nfd(struct arena *a, const json_t *doc, const char *expires);
const char *node_line(struct arena *a, const json_t *doc);

struct kb_drivers;
/* One line each, without its end: what a node's Features and its Extra are in Slurm. */
const char *node_slurm_features(struct arena *a, const json_t *doc, const struct kb_drivers *d);
const char *node_slurm_extra(struct arena *a, const json_t *doc);

/* What does not change from one look to the next while the node is the same. */
const char *node_identity(struct arena *a, const json_t *doc);

#endif
