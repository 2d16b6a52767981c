/* What is wrong with files of failures (kb/failures), all of it. */
#ifndef GPUMEND_LOG_LINT_H
#define GPUMEND_LOG_LINT_H

#include "log/log.h"

struct log_linted {
    size_t entries, patterns; // of the files; without files: that are built in
    size_t examples, near_misses;
    size_t problems;
};

/* Calls problem(arg, "FILE:LINE: SENTENCE") for each: a row that cannot be used, an entry without
 * two examples and a near miss, an example that it does not match, a near miss that it does. Where
 * rows cannot be used the rest is not looked at. `files` with n == 0: the rules that are built in,
 * whose examples stay in the source tree. */
void log_lint(struct kb *kb, struct arena *a, const struct node_files *files,
              void (*problem)(void *arg, const char *text), void *arg, struct log_linted *ret);

#endif
