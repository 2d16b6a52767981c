/*
 * An environment that is made by commands, or one that exists and is filled by them, behind a
 * journal in its own folder.
 *
 *   apply_environment_make()    runs the commands, in their order and in the root folder (Python
 *                               and uv would take files of the folder they are started in); if one
 *                               fails, all is taken back
 *   apply_verified()  apply_close()
 *   apply_environment_undo()    takes back every journal of the folder down to that of the setup,
 *                               and removes the folder if the setup made it
 *
 * A folder that is not empty is never taken for a new environment. The journals are those of
 * src/apply/work.h: `fix --undo` takes them back, too, and `check` sees one that has not ended.
 */
#ifndef GPUMEND_APPLY_ENVIRONMENT_H
#define GPUMEND_APPLY_ENVIRONMENT_H

#include "apply/apply.h"

struct apply_command {
    const char *const *words; // ends with NULL; the first is an absolute path, or a name on PATH
};

struct apply_environment {
    struct arena *arena;
    struct root *root;  // of this machine
    const char *folder; // absolute
    bool is_there;      // it is an environment already, and its owner named it
    const char *title;  // of the journal
    const struct apply_command *commands;
    size_t n_commands;
    const char *const *env; // of the commands, "K=V"
    size_t n_env;
    bool quiet; // their output is not shown, and is part of the error
};

/* GM_ERR_UNSUPPORTED: nothing was done, and the sentence says why (a folder with other content, a
 * program that is not installed or that others could replace). On other failures everything is as
 * it was, or the sentence says that it is not. *ret is to be closed in any case. */
int apply_environment_make(const struct apply_environment *e, struct apply_session *ret,
                           struct gm_err *err) GM_CHECK;

/* *ret_id: the setup's journal; 0: there is none, and nothing was done. */
int apply_environment_undo(struct arena *a, struct root *root, const char *folder, unsigned *ret_id,
                           struct gm_err *err) GM_CHECK;

#endif
