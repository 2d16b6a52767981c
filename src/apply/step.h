/*
 * One step of a repair: whether it can be carried out, and how. A table has a row for each kind of
 * step; what it changes goes through the work, which can take it back.
 */
#ifndef GPUMEND_APPLY_STEP_H
#define GPUMEND_APPLY_STEP_H

#include "apply/apply.h"

/* What a step needs while it is carried out. */
struct apply_doing {
    struct model *m;
    const struct apply_options *o;
    struct apply_work *w; // not for apply_step_objection()
    const struct plan_step *step;
};

/* Why the step cannot be carried out, wherever it is; NULL: it can. */
const char *apply_step_objection(const struct apply_doing *d);

/* Of a step without an objection. */
int apply_step_carry_out(const struct apply_doing *d, struct gm_err *err) GM_CHECK;

#endif
