#include "cli/slurm.h"

#include <stdlib.h>

#include "base/folder.h"

enum { ANSWER_MS = 15000, ANSWER_BYTES_MAX = 256 << 10 };

int cli_slurm_ask(struct arena *a, const char *const *argv, struct str *ret, struct gm_err *err)
{
    extern char **environ;
    struct child_end end;
    const char *path = getenv("PATH");
    const char *program = path ? child_find(a, path, argv[0]) : NULL;
    size_t n_env = 0;
    if (!program) {
        return gm_err_set(err, GM_ERR_LOOK, "%s is not on PATH", argv[0]);
    }
    int safe = folder_safe_program(a, program, err);
    if (safe < 0) {
        return safe;
    }
    while (environ[n_env]) {
        n_env++;
    }
    const struct child c = {.path = program,
                            .argv = argv,
                            .env = (const char *const *)(uintptr_t)environ,
                            .n_env = n_env,
                            .deadline_ms = ANSWER_MS,
                            .output_max_bytes = ANSWER_BYTES_MAX};
    int rc = child_run(a, &c, &end, err);
    if (rc < 0) {
        return rc;
    }
    if (end.status != 0 || end.timed_out) {
        return gm_err_set(err, GM_ERR_LOOK, "%s: %s", argv[0],
                          end.timed_out ? "it did not answer"
                                        : str_printable(a, str_dup(a, str_trim(end.output))));
    }
    if (end.output.n >= ANSWER_BYTES_MAX) {
        return gm_err_set(err, GM_ERR_LOOK, "%s: it printed too much", argv[0]);
    }
    *ret = end.output;
    return 0;
}
