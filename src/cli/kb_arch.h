/* `gpumend kb arch FILE...`: which GPU architectures files carry code for. */
#ifndef GPUMEND_CLI_KB_ARCH_H
#define GPUMEND_CLI_KB_ARCH_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/root.h"

/* Prints the table or the JSON; returns the exit status. `all` searches the files' data as well. */
int cli_kb_arch(struct arena *a, struct root *root, const char *const *paths, size_t n, bool all,
                bool json);

#endif
