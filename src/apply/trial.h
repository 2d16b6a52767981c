/*
 * Tries a repair out: the environment's own interpreter makes the imports of a script in a child
 * process, and then the library requests that failed before, each by the real dlopen in the name
 * of the library that makes it. Only what passed this is called a repair.
 *
 *   struct apply_trial t = {.interpreter = "/opt/venv/bin/python", .script = "import a; use a",
 *                           .requests = r, .n_requests = n, .env = env, .n_env = n_env};
 *   switch (apply_try(&arena, &t, &why)) { ... }
 *
 * The child may crash or hang: it has a deadline and a limit of memory, no standard input, writes
 * no bytecode, and is gone when the function returns. This runs code of the environment, so it is
 * called by what acts (`fix --apply`, `enable`, `run`), never by what looks.
 *
 * Requests in the name of a library are made on x86-64 alone; elsewhere the imports are tried and
 * the answer is APPLY_CANNOT. The calls a GPU would be needed for are not made.
 */
#ifndef GPUMEND_APPLY_TRIAL_H
#define GPUMEND_APPLY_TRIAL_H

#include <stddef.h>

#include "base/arena.h"

struct apply_request {
    const char *name;     // as it is asked for
    const char *caller;   // path of the object that asks; NULL: the interpreter
    const char *expected; // path of the file that must answer it; links are resolved
};

struct apply_trial {
    const char *interpreter; // absolute
    const char *script;      // "import torch; use torch; also numpy": the imports are made, in this
                             // order; of "also" ones none has to succeed
    const struct apply_request *requests;
    size_t n_requests;
    const char *const *driver; // globs: libraries of the driver, without which nothing can be said
    size_t n_driver;
    const char *const *env; // the start environment, "K=V"
    size_t n_env;
    unsigned deadline_ms; // 0: APPLY_TRIAL_MS
};

enum { APPLY_TRIAL_MS = 120000 };

enum apply_result {
    APPLY_VERIFIED, // the imports worked and every request ended at its file
    APPLY_FAILED,   // one did not, or the process crashed
    APPLY_CANNOT, // it could not be tried: an import that fails for other reasons, no driver here,
                  // no time left
};

/* *ret_why is one sentence for APPLY_FAILED and APPLY_CANNOT, in the arena; else NULL. */
enum apply_result apply_try(struct arena *a, const struct apply_trial *t, const char **ret_why);

#endif
