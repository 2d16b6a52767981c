/* The monotonic clock: for deadlines and for how long something took. It does not go back, and its
 * start is arbitrary. Code that runs inside other processes has its own (inject/README.md). */
#ifndef GPUMEND_BASE_CLOCK_H
#define GPUMEND_BASE_CLOCK_H

#include <stdint.h>

int64_t clock_ms(void);

#endif
