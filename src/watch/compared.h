/*
 * A trace and the model side by side: shared by the file that asks the model (compare_replay.c),
 * the one that judges each difference (compare.c), and the one for the foreseen lookups
 * (compare_foreseen.c).
 */
#ifndef GPUMEND_WATCH_COMPARED_H
#define GPUMEND_WATCH_COMPARED_H

#include "model/model.h"
#include "watch/compare.h"
#include "watch/trace.h"

enum {
    PROCESSES_MAX = 64,
    LOADS_MAX = 20000,
};

/* Adds a sentence to the evidence of a difference. */
#define SAY(c, d, ...) VEC_PUSH((c)->a, &(d)->evidence, arena_printf((c)->a, __VA_ARGS__))

/* How the model is asked. */
struct circumstances {
    bool as_the_loader;   // from whom the loader took for the caller
    const char *path_set; // LD_LIBRARY_PATH at the start, instead of what it was; or NULL
    bool path_unset;
};

struct compared {
    struct arena *a;
    struct ldso_store store;
    struct watch_comparison *ret;
    size_t n_replayed;             // dlopens, in all processes and circumstances
    const struct watch_edit *edit; // of the last replay with a variable set
};

typedef VEC(const struct watch_load *) load_list;

/* One process in the model, and what it says of each dlopen. */
struct replayed {
    struct ldso_process *model; // NULL: it cannot be modelled
    load_list loads;            // with those before the fork, which come first
    size_t n_inherited;
    struct watch_answer *answers;
    size_t *objects_before; // how many objects the model had before each, and at the end
};

/* What an answer means, in words. */
const char *watch_compare_ends_at(struct compared *c, const struct watch_answer *answer);

/* Whether both answers say the same; a path that one of them lacks is no difference. */
bool watch_answer_is_same(const struct watch_answer *a, const struct watch_answer *b);

/* What the trace saw of a load. */
struct watch_answer watch_load_seen(const struct watch_load *l);

/* Two causes of one kind in a process are one finding with two names. Texts of the model may point
 * into files that are mapped as long as it lives. */
void watch_compare_add_difference(struct compared *c, const struct watch_difference *d);

bool watch_compare_list_has_path(const char *const *list, size_t n, const char *path);

/* The model does not remove a library again. */
bool watch_compare_closed_before(const struct watch_process *p, uint64_t before, const char *path);

/* Whether the process, or one that it was forked from, had closed a library by then. */
bool watch_compare_any_closed_before(const struct watch_process *p, uint64_t before);

/* Whether the model can be asked about the load: its outcome is known, and it searched. */
bool watch_load_is_compared(const struct watch_load *l);

/* What the model says of a dlopen; NULL: it was not asked. */
struct watch_answer watch_model_answer(const struct ldso_load *l);

/* The start, then the first `n` dlopens. False if the program cannot be modelled. */
bool watch_compare_replay(struct compared *c, const struct watch_process *p,
                          const struct circumstances *how, size_t n, struct replayed *ret,
                          struct gm_err *err);

#endif
