/*
 * The bounds of cli/limit.h as the system keeps them.
 */
#ifndef GPUMEND_CLI_BOUND_H
#define GPUMEND_CLI_BOUND_H

#include <stdint.h>

/* Calls on_time() when the process has used this much processor time; it must not return. It may
 * interrupt any code, or run beside it. */
void bound_time(uint64_t seconds, void (*on_time)(void));

/* Memory that is allocated outside the arenas, where the system can bound it. */
void bound_memory(uint64_t bytes);

/* Takes both back; for a process that did not set them, nothing. */
void bound_lift(void);

#endif
