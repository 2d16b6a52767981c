/* What a probe on this system is: which stages there are, and what its files show of a driver. */
#ifndef GPUMEND_PROBE_HERE_H
#define GPUMEND_PROBE_HERE_H

#include "probe/probe.h"

/* Why the stage is not run on this system, a clause; NULL: it is run. */
const char *probe_stage_absence(const struct probe_stage *s);

/* The target's library that the stage needs, by its stem; NULL: it finds what it needs by itself.
 */
const char *probe_stage_stem(const struct probe_stage *s);

/* Whether the vendor's driver has its library here, where the host's facts do not say so. */
bool probe_sees_driver(enum probe_vendor vendor);

/* What to do where the driver starts slowly, a sentence; NULL: nothing is known. */
const char *probe_slow_start_step(void);

#endif
