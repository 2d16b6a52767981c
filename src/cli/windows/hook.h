/* What enable and run share on Windows: which environment, and the start-up hook for it. */
#ifndef GPUMEND_CLI_WINDOWS_HOOK_H
#define GPUMEND_CLI_WINDOWS_HOOK_H

#include "cli/windows_tree.h"

struct cli_windows_hook {
    struct diag_windows *before; // judged
    struct diag_windows after;   // with the hook
    struct winldr_hook hook;
    bool is_found; // there is something for a hook to do
};

/* The value of a variable, by its name in any case; NULL: it is not set, or empty. */
const char *cli_windows_variable(const struct cli_env *env, const char *name);

/* Judges the environment and plans its hook. */
void cli_windows_plan(struct diag_windows *n, struct cli_windows_hook *ret);

/* What the hook does, in lines, and as members of a JSON document. */
void cli_windows_hook_text(const struct out *o, struct arena *a, const struct winldr_hook *hook);
json_t *cli_windows_hook_json(struct arena *a, const struct winldr_hook *hook);

/* The titles of the errors. */
json_t *cli_windows_errors_json(const struct diag_windows *n);

#endif
