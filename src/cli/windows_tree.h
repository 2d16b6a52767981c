/* A Windows tree that a command looks at: its machine, its Pythons, and what is wrong with each
 * (docs/windows.md). */
#ifndef GPUMEND_CLI_WINDOWS_TREE_H
#define GPUMEND_CLI_WINDOWS_TREE_H

#include "cli/cli.h"
#include "diag/windows.h"

struct cli_windows_tree {
    struct winldr_files files;
    const char *target;      // of Windows, or NULL
    const struct host *host; // NULL: nothing of the machine is known
    struct kb kb;
    struct diag_windows *all; // one for each environment, not yet judged
    size_t n;
};

/* A path as it was given, of Windows or below the root, as Windows has it; NULL stays NULL. */
const char *cli_windows_target(const struct winldr_files *files, struct arena *a, const char *path);

/* `target`: an environment, of Windows or below the root; NULL: all that are found. `env` sets
 * variables of the program, whose values otherwise come from the registry; may be NULL. Returns 1,
 * 0 where the root has no Windows tree, or a negative error. cli_windows_close() follows in each
 * case. */
int cli_windows_open(struct cli_windows_tree *t, struct arena *a, struct root *root,
                     const char *target, const struct cli_env *env, struct gm_err *err) GM_CHECK;
void cli_windows_judge(struct cli_windows_tree *t);
void cli_windows_close(struct cli_windows_tree *t);

#endif
