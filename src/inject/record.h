/*
 * A line at the end of a file of the supervisor's or the user's, out of somebody else's process: a
 * full disk, a limit on the size of files and a pipe that nobody reads raise no signal there, and
 * what was not written is counted. System calls alone; nothing is allocated but the shared page.
 */
#ifndef GPUMEND_INJECT_RECORD_H
#define GPUMEND_INJECT_RECORD_H

#include <stdbool.h>
#include <stddef.h>

#include "inject/loss_page.h"

/* Maps the page that `path` names (LOSS_VARIABLE); NULL: there is none, or it cannot be had. */
struct loss_page *record_losses(const char *path);

/*
 * Appends the line, which ends with its line feed, in one write; where the file ends in the middle
 * of a line, behind a line feed of its own. `fd` may be a negative errno: that of an open which
 * failed. Returns 0, or the errno for which the line was lost, which is counted in the page where
 * there is one.
 */
int record_append(struct loss_page *losses, long fd, const char *line, size_t n);

#endif
