/* What a probe has seen of each device, for choose_best(). */
#ifndef GPUMEND_PROBE_CHOICE_H
#define GPUMEND_PROBE_CHOICE_H

#include "choose/choose.h"
#include "probe/probe.h"

struct probe_choice {
    VEC(struct choose_ran) items;
};

/* A device has passed where every stage that was run for it or for all has, but for the matrix
 * products: one that is wrong takes its number format away and no more. A runtime that counts no
 * device has one entry without an index, which says why. In the arena. */
void probe_choice(struct arena *a, const struct probe_report *r, struct probe_choice *ret);

/* What the stages show of the machine is believed before its files: GPUs on which a kernel came
 * back right become usable in `m` (host_after_run()). True: `m` changed, and is to be judged again.
 */
bool probe_believe(const struct probe_report *r, struct model *m);

#endif
