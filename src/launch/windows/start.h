/*
 * Starts a program of Windows in a job, so that whatever it starts ends with it, and waits for it.
 */
#ifndef GPUMEND_LAUNCH_WINDOWS_START_H
#define GPUMEND_LAUNCH_WINDOWS_START_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"

struct launch_windows {
    const char *program; // full path
    const char *const *words;
    size_t n_words;
    bool quiet;         // its output and its errors go nowhere
    unsigned limit_s;   // it is ended after that; 0: never
    unsigned long code; // set: how it ended
    bool is_late;       // set: it was ended
};

/* The full path of a program: a name is looked for in PATH alone, with .exe unless it has an
 * ending. NULL: it is not there. */
const char *launch_windows_find(struct arena *a, const char *name);

/* A variable of this process, and so of the programs that it starts; NULL removes it. */
bool launch_windows_set(const char *name, const char *value);

/* The folder for files that live as long as this process, new and empty; or NULL. */
const char *launch_windows_folder(struct arena *a);
void launch_windows_remove_folder(struct arena *a, const char *folder);

/* Waits for its end. The end key goes to the program alone. GM_ERR_LOOK: it does not start. */
int launch_windows_run(struct launch_windows *l, struct arena *a, struct gm_err *err) GM_CHECK;

#endif
