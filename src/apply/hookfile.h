/*
 * The start-up hook of a Python environment: three files in its site-packages that make an
 * unmodified program load libraries right before its first import of a module.
 *
 *     gpumend-hook.pth     read by the site module at every start; imports the module, without
 *                          leaving bytecode of it
 *     gpumend-hook.start   read in place of that line since Python 3.15 (PEP 829), which leaves
 *                          bytecode; it goes with the module
 *     _gpumend_hook.py     plain Python (3.6 and later), needs nothing of gpumend
 *
 * The libraries are loaded by ctypes.CDLL: RTLD_NOW, RTLD_LOCAL. A library of the environment is
 * named relative to site-packages, so that the environment can be moved. GPUMEND_HOOK=0 switches
 * the hook off for a start; GPUMEND_HOOK_VERBOSE=1 makes it say on standard error what failed.
 */
#ifndef GPUMEND_APPLY_HOOKFILE_H
#define GPUMEND_APPLY_HOOKFILE_H

#include "model/hook.h"

/* The line that MODEL_HOOK_PTH consists of, and that of MODEL_HOOK_START. */
struct str apply_hook_pth(void);
struct str apply_hook_start(void);

/* What the hook loads before the first import of one of the modules, and where it is put. */
struct apply_hook {
    const char *prefix, *site; // absolute and without links
    const char *const *modules;
    size_t n_modules;
    const char *const *paths; // absolute
    size_t n_paths;
};

/* The text of MODEL_HOOK_MODULE, in the arena. */
struct str apply_hook_module(struct arena *a, const struct apply_hook *hook);

#endif
