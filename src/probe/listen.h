/*
 * What a child of a probe says: its lines (inject/probe/helper.h) become an answer, and what the
 * vendors' libraries write is kept up to a bound. No I/O: the runner of each system reads.
 */
#ifndef GPUMEND_PROBE_LISTEN_H
#define GPUMEND_PROBE_LISTEN_H

#include "probe/runner.h"

enum {
    LISTENER_OUTPUT_MAX = 16384,
    LISTENER_LINE_MAX = 4096,
    LISTENER_CALL_MAX = 256,
    LISTENER_FACTS_MAX = 256,
};

struct listener {
    struct arena *a;
    struct probe_answer *answer;
    char line[LISTENER_LINE_MAX];
    size_t n;
    bool too_long, ended;         // ended: passed, failed, skipped or unknown was said
    char call[LISTENER_CALL_MAX]; // the last, escaped; however many there are, one is kept
    size_t n_call;
    char *output; // LISTENER_OUTPUT_MAX bytes
    size_t n_output;
};

void listener_init(struct listener *l, struct arena *a, struct probe_answer *answer);

/* Some bytes of the descriptor for what is said, and of the output. */
void listener_take_report(struct listener *l, const char *data, size_t n);
void listener_take_output(struct listener *l, const char *data, size_t n);

/* Nothing more comes: the last call and the output go into the answer. */
void listener_end(struct listener *l);

/* " in cuInit", or nothing. */
const char *listener_during(const struct listener *l);

#endif
