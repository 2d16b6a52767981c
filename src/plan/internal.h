/* Shared by the files that make a plan; not for other rooms. */
#ifndef GPUMEND_PLAN_INTERNAL_H
#define GPUMEND_PLAN_INTERNAL_H

#include "plan/plan.h"
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

/* The folders that hold a usable copy: the usual ones, and wherever a process has found one. */
struct mend_copy {
    const char *dir, *soname;
};
typedef VEC(struct mend_copy) mend_copies;
mend_copies mend_copies_of(struct mend *x, const char *name);

/* Libraries to load first, dependencies first, and links with the names that would be found before
 * them (shadow.c). Empty: none helps. */
typedef VEC(struct mend_link) mend_links;
struct mend_set {
    mend_texts paths;
    mend_links links;
};
/* `ret` mends most without links; `ret_shadowed` more than that with links, or is empty. */
void mend_find_preloads(struct mend *x, struct mend_set *ret, struct mend_set *ret_shadowed);
void mend_plan_preload(struct mend *x, const struct mend_set *set);

/* ---- shadow.c */

mend_links mend_shadow_links(struct mend *x, const mend_texts *paths);
struct ldso_overlay mend_overlay_of(struct mend *x, const mend_links *links);
/* The search path with the shadow folder first; NULL if it cannot be written there. */
const char *mend_shadow_path(struct mend *x);
/* The steps that make the folder and put it on the path. */
void mend_shadow_steps(struct mend *x, const mend_links *links, struct mend_way *way);

/* ---- links.c, elf.c, hook.c: ways of the reach MEND_FILES */

void mend_plan_links(struct mend *x);
void mend_plan_edit(struct mend *x);
void mend_plan_hook(struct mend *x, const mend_texts *paths);

/* Whether a file lies in the environment, or beside the program that is the target. */
bool mend_is_inside(struct mend *x, const char *path);
/* The way from a folder to a path, "../nvidia/cudnn/lib"; links in `folder` are resolved first. */
const char *mend_relative(struct mend *x, const char *folder, const char *path);
/* "ln -s TARGET PATH" for each. */
const char *mend_link_command(struct mend *x, const mend_links *links);

/* ---- plan.c */

struct mend_way *mend_way_new(struct mend *x, enum mend_reach reach, const char *title);
void mend_way_add(struct mend *x, struct mend_way *way);
void mend_cannot(struct mend *x, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool mend_has(const mend_texts *list, const char *text);

#endif
