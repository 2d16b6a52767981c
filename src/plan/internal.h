/* Shared by the files that make a plan; not for other rooms. */
#ifndef GPUMEND_PLAN_INTERNAL_H
#define GPUMEND_PLAN_INTERNAL_H

#include "plan/plan.h"
#include "model/replay.h"

enum { PLAN_TRIES_MAX = 12, PLAN_PRELOADS_MAX = 64 };

typedef VEC(const char *) plan_texts;

struct plan_work {
    struct model *m;
    struct arena *a;
    const struct diag_report *report; // of the target as it is
    const struct plan_options *o;
    struct plan *plan;
    bool *failing; // of m->processes: one that a finding shows in
};

/* ---- proof.c */

/* What a change comes to, by a replay of every process and the rules run over it. */
struct plan_verdict {
    struct model_replayed *replayed;
    struct diag_report report;
    VEC(const struct diag_finding *) gone;
    VEC(const struct diag_finding *) appeared;
    size_t n_errors; // of those that are gone
    bool worse;      // something appeared that is no milder than what is gone, or a request fails
};

/* False: it cannot be replayed. */
bool plan_judge(struct plan_work *x, const struct model_change *c, struct plan_verdict *ret);

/* Libraries that are installed and that something does not find with the change, and did not ask
 * for before. */
plan_texts plan_names_appeared(struct plan_work *x, const struct plan_verdict *v);

/* Fills the way's proof from the verdict; false if the change is worse or mends nothing. */
bool plan_prove(struct plan_work *x, const struct plan_verdict *v, struct plan_way *way);

/* Whether the first mends more than the second, or as much and leaves less. */
bool plan_is_better(const struct plan_verdict *v, const struct plan_verdict *than);
/* Whether it mends all that was found and nothing appears: no other can be better. */
bool plan_is_best(const struct plan_work *x, const struct plan_verdict *v);

/* What the failing processes lack with this change, each name once; false: cannot be replayed. */
struct plan_lack {
    struct diag_lack lack;
    const struct model_process *process; // the replayed one
};
typedef VEC(struct plan_lack) plan_lacks;
bool plan_still_lacks(struct plan_work *x, const struct model_change *c, plan_lacks *ret,
                      struct model_replayed **ret_replayed);

/* ---- environment.c */

const char *plan_getenv(const struct plan_work *x, const char *name);
/* The start environment with one variable set (value NULL: taken away) appended to `ret`. */
void plan_env_with(struct plan_work *x, const plan_texts *from, const char *name, const char *value,
                   plan_texts *ret);
plan_texts plan_env(struct plan_work *x);
/* `folders` before what LD_LIBRARY_PATH holds; NULL if a folder cannot be written there. */
const char *plan_path_with(struct plan_work *x, const plan_texts *folders);

/* Ways by variables of the start environment. `preloads` gives folders to try as well. */
void plan_add_environment(struct plan_work *x, const plan_texts *preloads);

/* ---- preload.c */

/* The file that serves a name, from a folder of `like` if there is one; NULL if there is none. */
const char *plan_file_for(struct plan_work *x, const char *name, const plan_texts *like);

/* The folders that hold a usable copy: the usual ones, and wherever a process has found one. */
struct plan_copy {
    const char *dir, *soname;
};
typedef VEC(struct plan_copy) plan_copies;
plan_copies plan_copies_of(struct plan_work *x, const char *name);

/* Libraries to load first, dependencies first, and links with the names that would be found before
 * them (shadow.c). Empty: none helps. */
typedef VEC(struct plan_link) plan_links;
struct plan_set {
    plan_texts paths;
    plan_links links;
};
/* `ret` mends most without links; `ret_shadowed` more than that with links, or is empty. */
void plan_find_preloads(struct plan_work *x, struct plan_set *ret, struct plan_set *ret_shadowed);
void plan_add_preload(struct plan_work *x, const struct plan_set *set);

/* ---- shadow.c */

plan_links plan_shadow_links(struct plan_work *x, const plan_texts *paths);
struct ldso_overlay plan_overlay_of(struct plan_work *x, const plan_links *links);
/* The search path with the shadow folder first; NULL if it cannot be written there. */
const char *plan_shadow_path(struct plan_work *x);
/* The steps that make the folder and put it on the path. */
void plan_shadow_steps(struct plan_work *x, const plan_links *links, struct plan_way *way);

/* ---- links.c, elf.c, hook.c: ways of the reach PLAN_FILES */

void plan_add_links(struct plan_work *x);
void plan_add_edit(struct plan_work *x);
void plan_add_hook(struct plan_work *x, const plan_texts *paths);

/* Whether a file lies in the environment, or beside the program that is the target. */
bool plan_is_inside(struct plan_work *x, const char *path);
/* The way from a folder to a path, "../nvidia/cudnn/lib"; links in `folder` are resolved first. */
const char *plan_relative(struct plan_work *x, const char *folder, const char *path);
/* "ln -s TARGET PATH" for each. */
const char *plan_link_command(struct plan_work *x, const plan_links *links);

/* ---- plan.c */

struct plan_way *plan_way_new(struct plan_work *x, enum plan_reach reach, const char *title);
void plan_way_add(struct plan_work *x, struct plan_way *way);
void plan_cannot(struct plan_work *x, const char *fmt, ...)
    __attribute__((format(GM_PRINTF, 2, 3)));
bool plan_has(const plan_texts *list, const char *text);

#endif
