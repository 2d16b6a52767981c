/*
 * A model once more, in another world: other variables at the start, libraries loaded first, links
 * and search paths in files that do not exist yet. What a repair would do is asked here, before
 * anything is changed.
 *
 *   model_replay(m, change, ...) -> another model, which diag_run() and the reports take like m
 */
#ifndef GPUMEND_MODEL_REPLAY_H
#define GPUMEND_MODEL_REPLAY_H

#include "model/model.h"

struct model_change {
    const char *const *env; // the whole start environment, "K=V"; NULL: as it is
    size_t n_env;
    /* Opened by path, in this order, from ctypes (a program: from its own code), before the first
     * step of the script, or right before the import of one of `modules` where there are any. */
    const char *const *preloads;
    size_t n_preloads;
    const char *const *modules; // top-level import names
    size_t n_modules;
    const struct ldso_overlay *overlay; // or NULL
    const struct ldso_cpu *cpu;         // another processor; NULL: as it is
};

struct model_replayed {
    struct model model;
    struct ldso_store store; // of the overlay
};

/*
 * Runs the processes with the change made; with only[i] false the i-th is left out (NULL: all).
 * False if nothing can be replayed: a live process. `change` must outlive the result, which lives
 * in the arena of m and shares with m all that was read.
 */
bool model_replay(const struct model *m, const struct model_change *change, const bool *only,
                  struct model_replayed *ret);

/* The process's script once more, in m as it is now; not appended. NULL if it cannot be tried (a
 * live process, or one that could not be modelled). Shared by model_try() and model_replay(). */
struct model_process *model_again(struct model *m, const struct model_process *p);

#endif
