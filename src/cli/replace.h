/*
 * A file that readers see as it was or as it is now, never in part: it is written beside its place
 * under another name, and renamed.
 */
#ifndef GPUMEND_CLI_REPLACE_H
#define GPUMEND_CLI_REPLACE_H

#include "base/arena.h"
#include "base/err.h"

/* Mode 0644. GM_ERR_LOOK: it could not be written, and what was there is there still. */
int cli_replace_file(struct arena *a, const char *path, const char *text,
                     struct gm_err *err) GM_CHECK;

/* Standard output becomes the file that a command's option names, and only once the output is
 * whole: the command goes on in a child, whose output is kept in memory, and this process writes
 * the file, a new one beside it that takes its name, and ends with the child's status. After an
 * error the file is what it was, or is not there. "-" is standard output itself. A link is followed
 * only if it belongs to the user or root: in a folder that others may write to it could lead
 * anywhere. A file or pipe of another user in a sticky folder (/tmp) is left alone. CLI_OK in the
 * child, or CLI_CANNOT, which is said.
 */
int cli_redirect_output(const char *command, const char *path);

#endif
