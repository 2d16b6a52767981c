/*
 * What the interpreter of an environment may import, before it is started: a module of another user
 * would run with the rights of this one, and a start-up file (.pth, sitecustomize) runs though
 * nobody imports it.
 */
#ifndef GPUMEND_APPLY_IMPORTS_H
#define GPUMEND_APPLY_IMPORTS_H

#include "base/arena.h"
#include "base/err.h"
#include "py/env.h"

/* Whether the environment's interpreter can be started without running what another user chose: its
 * path (base/folder.h: folder_safe_program), pyvenv.cfg, and each file below sys.path belong to
 * root or this user and are not others' to write. 0, or GM_ERR_UNSUPPORTED with a sentence that
 * names the first that is in the way. The environment is one of this machine, with an interpreter.
 */
int apply_start_check(struct arena *a, const struct py_env *env, struct gm_err *err) GM_CHECK;

/* The environment of a program that looks for others itself, as uv does for interpreters and pip
 * for compilers: PATH and PYTHONPATH without the folders where another user could put one. In the
 * arena. */
const char *const *apply_start_env(struct arena *a, const char *const *env, size_t n_env);

#endif
