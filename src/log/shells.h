/* Commands of the knowledge base for the shells of another system. */
#ifndef GPUMEND_LOG_SHELLS_H
#define GPUMEND_LOG_SHELLS_H

#include <stdbool.h>

#include "base/arena.h"

/* A command for every system as the shells of Windows read it: without its comment, which the
 * command prompt takes for arguments; "export NAME=VALUE" as PowerShell sets a variable; and by the
 * command prompt where it has "&&", which PowerShell 5.1 does not know. NULL if neither reads it.
 * In the arena, or `command` itself. */
const char *log_windows_command(struct arena *a, const char *command);

/* Whether it is a command that sh, bash and zsh read and fish does not: ${NAME:+...}, $((...)),
 * NAME=$(...), a loop of theirs, a file of assignments that is read in. */
bool log_is_for_sh(const char *command);

/* Whether it is a command (not NULL) that PowerShell alone reads. */
bool log_is_powershell(const char *command);

#endif
