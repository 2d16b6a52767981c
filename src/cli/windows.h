/* `why` and `check` for a Windows tree below --root (docs/windows.md). */
#ifndef GPUMEND_CLI_WINDOWS_H
#define GPUMEND_CLI_WINDOWS_H

#include "base/snap.h"
#include "cli/cli.h"

struct cli_windows_why {
    struct arena *arena;
    struct root *root;
    struct snap *replayed;               // the snapshot that is the root, or NULL
    const char *html;                    // the page's file, or NULL
    const char *name, *exe, *cwd, *path; // as given, or NULL; cwd and PATH as Windows has them
    const char *const *loads;
    size_t n_loads;
    bool json;
};

/* Whether the request is one of Windows: a DLL, an extension module or a program by its name. */
bool cli_windows_is_asked(const char *name, const char *exe);

int cli_windows_why(const struct cli_windows_why *w);

struct cli_windows_check {
    const char *target;        // an environment, or NULL: all that are found
    const char *root_path;     // as given
    const struct cli_env *env; // variables that are set in place of the registry's, or NULL
    struct snap *replayed;     // the snapshot that is the root, or NULL
    const char *html;          // the page's file, or NULL
    bool json;
    bool is_fix;         // prints the findings that have repairs, as fix does
    const char *refused; // an option that there is not for such a tree: only that is said; or NULL
};

/* Looks at the environments and prints what is wrong. False, and nothing printed: the root holds no
 * Windows tree. */
bool cli_windows_check(struct arena *a, struct root *root, const struct cli_windows_check *check,
                       int *ret_status);

#endif
