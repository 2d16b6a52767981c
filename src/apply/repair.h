/*
 * A repair from its beginning to its end: carried out, looked at again in the model, tried by the
 * environment's own interpreter, and taken back if it does not help. The commands and the C library
 * do it by these functions alone, so that both refuse the same with the same sentence.
 *
 *   apply_open()        what was left half done is taken back, then the target is opened
 *   apply_fix()  or  apply_enable()
 *   apply_repaired_close()
 *
 *   apply_fix_undo()  or  apply_disable(), on a target that was opened with only_open
 *
 * This runs code of the environment (apply/trial.h) and changes files (apply/apply.h).
 */
#ifndef GPUMEND_APPLY_REPAIR_H
#define GPUMEND_APPLY_REPAIR_H

#include "apply/apply.h"
#include "apply/trial.h"
#include "model/target.h"

struct apply_order {
    struct arena *arena;
    struct model_target *target;
    const struct model_target_options *asked; // how the target is opened
    const char *options;      // what the user asked it with, for the commands in texts
    bool packages, is_system; // as in struct apply_options
    bool quiet;               // the installer's output is not shown
};

/* What came of a repair. */
struct apply_repaired {
    const struct plan_way *way; // NULL: nothing was carried out, as there is none
    enum apply_result result;
    const char *why;                  // one sentence; NULL for APPLY_VERIFIED
    size_t n_scripts, n_requests;     // that were tried
    unsigned id;                      // of the journal; 0: it was taken back
    struct model_target target;       // as it is after the change
    struct diag_report report;        // of it
    bool by_start;                    // it was looked at with what the way leaves to the start,
                                      // and needs that
    VEC(const char *) env;            // the start environment it was looked at with
    const struct diag_report *before; // that the plan was made of
};

/* Opens o->target. *ret_recovered: how many interrupted changes were taken back first. With
 * `without_hook` it is opened as if its start-up hook were not there. */
int apply_open(const struct apply_order *o, bool without_hook, unsigned *ret_recovered,
               struct gm_err *err) GM_CHECK;

/*
 * Of the plan's ways the one that can be carried out and mends most errors. GM_ERR_UNSUPPORTED:
 * there are ways and none can be carried out. A way that did not help is no failure: `result` says
 * so. The plan was made of `before`, and `before` of o->target. *ret is to be closed in any case.
 */
int apply_fix(const struct apply_order *o, const struct plan *plan,
              const struct diag_report *before, struct apply_repaired *ret,
              struct gm_err *err) GM_CHECK;

/* Puts the start-up hook in, in place of one that is there. The target was opened without its
 * hook. GM_ERR_UNSUPPORTED: no hook is of use here, and the sentence says why. */
int apply_enable(const struct apply_order *o, struct apply_repaired *ret,
                 struct gm_err *err) GM_CHECK;

void apply_repaired_close(struct apply_repaired *r);

/* Whether the report has an error. */
bool apply_has_error(const struct diag_report *report);

/* Takes back journal `id` (0: the latest). GM_ERR_USAGE: there is no such journal. *ret_id 0: there
 * is nothing to take back. */
int apply_fix_undo(const struct apply_order *o, unsigned id, unsigned *ret_id,
                   struct gm_err *err) GM_CHECK;

/* Takes the start-up hook out, with its journal or without. *ret_id 0: no journal lists it.
 * *ret_removed: a hook without a journal was there. */
int apply_disable(const struct apply_order *o, unsigned *ret_id, bool *ret_removed,
                  struct gm_err *err) GM_CHECK;

/* "gpumend fix /opt/v --undo": the command for this target. */
const char *apply_command(const struct apply_order *o, const char *command, const char *option);

#endif
