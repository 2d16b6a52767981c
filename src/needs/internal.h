/* What the expressions share. */
#ifndef GPUMEND_NEEDS_INTERNAL_H
#define GPUMEND_NEEDS_INTERNAL_H

#include "needs/needs.h"

typedef VEC(struct needs_range) needs_ranges;

/* The ranges as an expression has them, which only asks whether a GPU may be served: those that
 * follow one another and need the same driver are one. Without known code one without bounds. */
needs_ranges needs_ranges_for(struct arena *a, const struct needs *n);

/* Without an upper end. */
bool needs_range_is_open(const struct needs_range *r);

/* The driver that a range needs: the runtime's, or that of its PTX, whichever is newer. NULL: none,
 * or the driver alone does not decide. */
const char *needs_driver_for(const struct needs *n, const struct needs_range *r);

/* 550.54.14 as 550054014: see node/formats.c. */
unsigned long long needs_driver_number(const char *version);

/* Why there is no expression over facts of nodes; or NULL. */
const char *needs_no_expression(const struct needs *n);

/* The forms of needs/slurm.c. */
const char *needs_slurm_constraint(struct arena *a, const struct needs *n, const char **ret_why);
const char *needs_slurm_extra(struct arena *a, const struct needs *n, const char **ret_why);

/* The form of needs/variant.c. */
const char *needs_wheel_variant(struct arena *a, const struct needs *n, const char **ret_why);

/* Alternatives by memory: enough of it, and nodes of which it is unknown; one where none is asked.
 */
int needs_memory_cases(const struct needs *n);

#endif
