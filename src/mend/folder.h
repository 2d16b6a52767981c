/*
 * Folders of the user's own, below $XDG_CACHE_HOME/gpumend: what another user could have put there
 * must not be believed, since it decides what a program loads.
 */
#ifndef GPUMEND_MEND_FOLDER_H
#define GPUMEND_MEND_FOLDER_H

#include "base/arena.h"
#include "base/err.h"

/* "$XDG_CACHE_HOME/gpumend", else "$HOME/.cache/gpumend"; NULL if neither is an absolute path
 * (XDG Base Directory Specification 0.8). Values may be NULL. */
const char *mend_cache_folder(struct arena *a, const char *xdg_cache_home, const char *home);

/* Opens a folder and makes it (mode 0700), with what is above it, where it is missing. The fd is
 * close-on-exec. GM_ERR_LOOK if it cannot be had, is a link, belongs to another user, or may be
 * written by others. */
int mend_own_folder(const char *path, struct gm_err *err) GM_CHECK;

#endif
