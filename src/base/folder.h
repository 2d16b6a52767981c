/*
 * Folders of the user's own, below $XDG_CACHE_HOME/gpumend: what another user could have put there
 * must not be believed, since it decides what a program loads.
 */
#ifndef GPUMEND_BASE_FOLDER_H
#define GPUMEND_BASE_FOLDER_H

#include <sys/stat.h>

#include "base/arena.h"
#include "base/err.h"

/* "$XDG_CACHE_HOME/gpumend", else "$HOME/.cache/gpumend"; NULL if neither is an absolute path
 * (XDG Base Directory Specification 0.8). Values may be NULL. */
const char *folder_of_cache(struct arena *a, const char *xdg_cache_home, const char *home);

/* Who besides root and this user may write to the folder that is open here, by its mode or its
 * access control list, as "anyone may write to it"; NULL: nobody. A group counts unless it is this
 * user's own, with no other member in /etc/group and /etc/passwd; who is in a group of a directory
 * service (LDAP) is unknown, and it counts. The text lives in the arena. */
const char *folder_other_writers(struct arena *a, int fd, const struct stat *st);

/* How another user could put something else in the place of a folder, whose path has no links, or
 * of one above it, as "/srv/shared: anyone may write to it"; NULL: nobody could. Each then belongs
 * to root or this user, and others may write to none but a sticky one, where what is this user's
 * stays. */
const char *folder_path_objection(struct arena *a, const char *path);

/* The path without links of a folder that is searched for programs or modules, if no other user can
 * put one there, or another folder in its place; NULL: they can, it is not there, or the path is
 * not absolute. A sticky folder lets anyone put theirs there. */
const char *folder_safe_search(struct arena *a, const char *path);

/* The path without links, if no other user can put something else in its place as long as it is in
 * use (folder_path_objection, for what of it is there). Makes nothing. NULL: GM_ERR_UNSUPPORTED,
 * and the sentence says which folder is in the way; GM_ERR_LOOK, it cannot be looked at. */
const char *folder_safe_path(struct arena *a, const char *path, struct gm_err *err);

/* How another user could put something else in the place of a file, as "/srv/bin: anyone may write
 * to it"; NULL: nobody could. Each folder and link by which the path leads to it, and the file
 * itself, then belong to root or this user and are not others' to write. */
const char *folder_program_objection(struct arena *a, const char *path);

/* Whether a program can be started without running what another user chose: 0, or
 * GM_ERR_UNSUPPORTED with a sentence that names what is in the way. */
int folder_safe_program(struct arena *a, const char *path, struct gm_err *err) GM_CHECK;

/* Opens a folder and makes it (mode 0700), with what is above it, where it is missing. The fd is
 * close-on-exec. The path is one of folder_safe_path(). GM_ERR_LOOK if the folder cannot be had, is
 * a link, belongs to another user, may be written by others, or another user could replace it. */
int folder_own(const char *path, struct gm_err *err) GM_CHECK;

#endif
