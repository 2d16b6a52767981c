/*
 * What was seen against what the model says of the same start and the same dlopens, and why they
 * differ. The model is asked at the end, with the files as they are then and from the callers as
 * the program has them: what `gpumend why` would answer.
 *
 * Each difference is tried in the model once more under the one circumstance that is suspected;
 * only if it then says what was seen (or, for a variable that was set in vain, something else) is
 * the circumstance named. Else the difference stands as not explained.
 *
 * No difference is what was not compared: dlopens that the program did not make in this run, other
 * namespaces (dlmopen), RTLD_NOLOAD, a library that is loaded again after a dlclose, what a caller
 * asks for that the model does not have, what was under way at the end. These are counted. Where
 * lines of the trace were lost nothing is compared, and a note says so.
 */
#ifndef GPUMEND_WATCH_COMPARE_H
#define GPUMEND_WATCH_COMPARE_H

#include "base/root.h"
#include "model/model.h"
#include "watch/trace.h"

/* Where a request ends. */
struct watch_answer {
    bool known, found;
    const char *path; // with found
};

struct watch_difference {
    const struct watch_process *process;
    const char *name, *caller; // caller NULL: the start
    int64_t time_us;
    struct watch_answer seen, model;
    bool only_told;      // no fault: it worked for a reason that the model did not have
    const char *cause;   // identifier of a cause (diag/cause.h); NULL: not explained
    const char *summary; // one sentence
    VEC(const char *) evidence;
    const char *to_do;          // one sentence, or NULL
    VEC(const char *) likewise; // further names with the same cause
};

struct watch_comparison {
    /* All that the program did was recorded and read: a start was seen and no line was lost. */
    bool complete;
    uint64_t n_lost; // lines
    size_t n_processes, n_requests, n_same, n_not_compared;
    /* Loads that `check` knows of: those that the program made, of these those that ended as
     * foreseen, and those that it did not make in this run. */
    size_t n_foreseen, n_as_foreseen, n_not_made;
    VEC(struct watch_difference) differences;
    VEC(const char *) notes; // processes that could not be modelled, one sentence each
};

/* The comparison lives in the arena. */
void watch_compare(const struct watch_trace *t, struct arena *a, struct root *root,
                   struct watch_comparison *ret);

/* Compares with what `check` foresees: `m` has the processes of the program (launch_model()). After
 * watch_compare(), whose answers say whether what was loaded before explains a difference. */
void watch_compare_foreseen(const struct watch_trace *t, struct arena *a, const struct model *m,
                            struct watch_comparison *ret);

#endif
