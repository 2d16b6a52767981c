/*
 * One start of a program with its repairs: from the command to the variables that its environment
 * needs, worked out in the model before anything is started.
 *
 *   launch_program_find() -> launch_plan() -> launch_folder() -> execve
 *
 * Of the ways that mend as much, one without LD_PRELOAD is taken: every program that the command
 * starts inherits the variables, and a preload would put the libraries into each of them. What no
 * variable can mend is said, and is no reason not to start.
 */
#ifndef GPUMEND_LAUNCH_LAUNCH_H
#define GPUMEND_LAUNCH_LAUNCH_H

#include "plan/plan.h"
#include "launch/program.h"
#include "model/target.h"

/* Among the changes where the program loads a library whose teardown has to be guarded
 * (launch/teardown.h): whoever starts it adds the guard's library to LD_PRELOAD, or drops this. */
#define LAUNCH_GUARD_VARIABLE "GPUMEND_GUARD"

struct launch_options {
    bool preload_only; // LD_PRELOAD alone
    bool no_preload;   // the search path alone
    bool keep_env;     // variables that are set stay as they are
    /* Where a folder of links may be made, absolute; NULL: nowhere. It need not exist. */
    const char *shadow_folder;
};

struct launch_change {
    const char *name, *value; // value NULL: taken away
};

/* What is gone or left: cause and sentence. */
struct launch_told {
    const char *cause, *text;
    bool of_program; // met in its own process; else a fault of the machine
};

struct launch {
    VEC(struct launch_change) changes;
    VEC(struct plan_link) links; // what must be in the shadow folder before the start
    VEC(struct launch_told) mends;
    VEC(struct launch_told) left; // errors that stand
    VEC(const char *) remarks;    // why something cannot be done here, one line each
};

/* Looks at the program (o->target and o->only_open are set here) and chooses. Never fails: a
 * program that cannot be looked at is a remark. `t` is opened, and the caller closes it; what is
 * returned lives in the arena. */
void launch_plan(struct model_target *t, struct arena *a, const struct model_target_options *o,
                 const struct launch_program *p, const struct launch_options *options,
                 struct launch *ret);

/* The same look alone: `t` is opened, and its model has the processes of the program in the
 * variables of o->env; none for a program that starts others, where no environment is active.
 * GM_ERR_LOOK and others: it cannot be looked at. The caller closes `t` in either case. */
int launch_model(struct model_target *t, struct arena *a, const struct model_target_options *o,
                 const struct launch_program *p, struct gm_err *err) GM_CHECK;

/* The changes of one way for a process that starts with `env`; NULL, or why it cannot be carried
 * out by variables with these options. */
const char *launch_way(struct arena *a, const struct plan_way *way, const char *const *env,
                       size_t n_env, const struct launch_options *options,
                       struct launch *ret) GM_CHECK;

/* Makes `folder` (mode 0700, this user's own) hold the links, and leaves those that are right.
 * GM_ERR_LOOK: it cannot be made, or belongs to another user. */
int launch_folder(const char *folder, const struct plan_link *links, size_t n,
                  struct gm_err *err) GM_CHECK;

/* The environment with the changes made: "K=V" texts, ended by NULL. */
char **launch_env(struct arena *a, const char *const *env, size_t n_env,
                  const struct launch_change *changes, size_t n);

#endif
