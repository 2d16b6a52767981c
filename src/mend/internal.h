/* Shared by the files that make a plan; not for other rooms. */
#ifndef GPUMEND_MEND_INTERNAL_H
#define GPUMEND_MEND_INTERNAL_H

#include "mend/plan.h"
#include "model/replay.h"

enum { MEND_TRIES_MAX = 12, MEND_PRELOADS_MAX = 64 };

typedef VEC(const char *) mend_texts;

struct mend {
    struct model *m;
    struct arena *a;
    const struct diag_report *report; // of the target as it is
    const struct mend_options *o;
    struct mend_plan *plan;
    bool *failing; // of m->processes: one that a finding shows in
};

/* ---- proof.c */

/* What a change comes to, by a replay of every process and the rules run over it. */
struct mend_verdict {
    struct model_replayed *replayed;
    struct diag_report report;
    VEC(const struct diag_finding *) gone;
    VEC(const struct diag_finding *) appeared;
    size_t n_errors; // of those that are gone
    bool worse;      // something appeared that is no milder than what is gone, or a request fails
};

/* False: it cannot be replayed. */
bool mend_judge(struct mend *x, const struct model_change *c, struct mend_verdict *ret);

/* Fills the way's proof from the verdict; false if the change is worse or mends nothing. */
bool mend_prove(struct mend *x, const struct mend_verdict *v, struct mend_way *way);

/* Whether the first mends more than the second, or as much and leaves less. */
bool mend_is_better(const struct mend_verdict *v, const struct mend_verdict *than);

/* What the failing processes lack with this change, each name once; false: cannot be replayed. */
struct mend_lack {
    struct diag_lack lack;
    const struct model_process *process; // the replayed one
};
typedef VEC(struct mend_lack) mend_lacks;
bool mend_still_lacks(struct mend *x, const struct model_change *c, mend_lacks *ret,
                      struct model_replayed **ret_replayed);

/* ---- environment.c */

const char *mend_getenv(const struct mend *x, const char *name);
/* The start environment with one variable set (value NULL: taken away) appended to `ret`. */
void mend_env_with(struct mend *x, const mend_texts *from, const char *name, const char *value,
                   mend_texts *ret);
mend_texts mend_env(struct mend *x);
/* `folders` before what LD_LIBRARY_PATH holds; NULL if a folder cannot be written there. */
const char *mend_path_with(struct mend *x, const mend_texts *folders);

/* Ways by variables of the start environment. `preloads` gives folders to try as well. */
void mend_plan_environment(struct mend *x, const mend_texts *preloads);

/* ---- preload.c */

/* The file that serves a name, from a folder of `like` if there is one; NULL if there is none. */
const char *mend_file_for(struct mend *x, const char *name, const mend_texts *like);
/* Libraries to load first, dependencies first; empty: none helps. */
mend_texts mend_find_preloads(struct mend *x);
struct mend_step mend_preload_step(struct mend *x, const mend_texts *paths);
void mend_plan_preload(struct mend *x, const mend_texts *paths);

/* ---- plan.c */

struct mend_way *mend_way_new(struct mend *x, enum mend_reach reach, const char *title);
void mend_way_add(struct mend *x, struct mend_way *way);
void mend_cannot(struct mend *x, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool mend_has(const mend_texts *list, const char *text);

#endif
