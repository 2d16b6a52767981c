/* The two halves of `gpumend explain`: a cause's page (explain.c) and a log (explain_log.c). */
#ifndef GPUMEND_CLI_EXPLAIN_H
#define GPUMEND_CLI_EXPLAIN_H

#include "cli/cli.h"

struct explain_asked {
    const char *const *files; // "-" is standard input
    size_t n_files;
    const char *text; // instead of files, or NULL
    const char *kb;   // --kb, or NULL
    const char *root; // --root, or NULL
    bool json, follow, here, all;
};

/* Explains the logs and prints; returns the exit status: 1 if one shows a cause in the GPU runtime,
 * else 3 if one does not tell or cannot be read, else 0. */
int explain_logs(struct arena *a, const struct explain_asked *asked);

#endif
