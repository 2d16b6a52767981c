/*
 * A way of a plan carried out for good, behind a journal (src/apply/work.h).
 *
 *   apply_recover()           what was left half done earlier, before a plan is made
 *   apply_way()             the steps are done, and the place is still locked
 *   apply_verified() or       what trying it out said is noted, or
 *   apply_take_back()         everything is as it was
 *   apply_close()
 *
 *   apply_undo()  apply_list_journals()
 *
 * What can be carried out: links, folders of links, the start-up hook, edits of RPATH and RUNPATH
 * (by patchelf, on a copy), and packages (by the environment's own pip, or uv) if the options say
 * so. Not: variables of the start environment and preloads, which belong to one start, and steps
 * that are text. Nothing outside the environment (or beside the program, for a program) is touched
 * unless is_system is set.
 */
#ifndef GPUMEND_APPLY_APPLY_H
#define GPUMEND_APPLY_APPLY_H

#include "plan/plan.h"
#include "apply/work.h"

struct apply_options {
    const char *what;       // the command: "fix", "enable"
    bool packages;          // PLAN_PACKAGES is wanted
    bool is_system;         // files outside the environment may be changed
    bool quiet;             // the installer's output is not shown, and is part of its error
    const char *const *env; // of the programs that are run (patchelf, pip), "K=V"
    size_t n_env;
};

struct apply_session {
    struct apply_place place;
    struct apply_work work;
    unsigned id; // of the journal
};

/* NULL if every step can be carried out with these options; else the reason, one sentence. */
const char *apply_objection(struct model *m, const struct plan_way *way,
                            const struct apply_options *o);

/* Of the ways that can be carried out the first that mends most errors; NULL: none can, and
 * *ret_why (may be NULL) is the reason that is nearest to the user's question. */
const struct plan_way *apply_best(struct model *m, const struct plan *plan,
                                  const struct apply_options *o, const char **ret_why);

/* Whether the step stays for the start of the program: with packages, the variables that make them
 * findable. */
bool apply_step_is_left(const struct plan_way *way, const struct plan_step *step);

/* On failure everything is as it was, or the sentence says that it is not. *ret is to be closed
 * in any case. */
int apply_way(struct model *m, const struct plan_way *way, const struct apply_options *o,
              struct apply_session *ret, struct gm_err *err) GM_CHECK;
int apply_verified(struct apply_session *applied, const char *how, struct gm_err *err) GM_CHECK;
int apply_take_back(struct apply_session *applied, struct gm_err *err) GM_CHECK;
void apply_close(struct apply_session *applied);

/* Takes back journal `id` (0: the latest; with `what`: the latest of that command) of the target's
 * place. *ret_id 0: there is none. */
int apply_undo(struct model *m, bool is_system, unsigned id, const char *what, unsigned *ret_id,
               struct gm_err *err) GM_CHECK;

/* Removes a start-up hook that no journal lists (its folder was removed by hand), if its files are
 * as gpumend writes them. *ret_site: the folder that it stood in; NULL: there is none. */
int apply_remove_hook(struct model *m, const char **ret_site, struct gm_err *err) GM_CHECK;

/* What an earlier process left half done at the target's place is taken back; before the plan is
 * made, which would else be made of a tree that is neither. A target without a place has nothing.
 */
int apply_recover(struct model *m, bool is_system, unsigned *ret_count,
                  struct gm_err *err) GM_CHECK;

/* The journals of the target's place; reads only. */
int apply_list_journals(struct model *m, bool is_system, struct apply_list *ret,
                        struct gm_err *err) GM_CHECK;

/* The site-packages folder that a hook goes into; NULL if the target has none inside its prefix. */
const char *apply_hook_site(struct model *m);

#endif
