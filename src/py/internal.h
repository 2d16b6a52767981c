/* What the files of this room share. */
#ifndef GPUMEND_PY_INTERNAL_H
#define GPUMEND_PY_INTERNAL_H

#include "py/env.h"

/* Adds a note; the last of PY_NOTES_MAX says that there were more. */
void py_note(struct py_env *env, const char *fmt, ...) __attribute__((format(GM_PRINTF, 2, 3)));

/* Notes that packages may be hidden from this user. */
void py_note_denied(struct py_env *env, const char *path);

bool py_is_dir(struct py_env *env, const char *path);
bool py_is_file(struct py_env *env, const char *path);

/* Makes a path absolute by the hinted working directory, and normalises it. */
char *py_absolute(struct arena *a, const char *path, const struct py_env_hints *hints);

/* Reads at most max_bytes from the start of a regular file; *ret_all tells whether that was all of
 * it (may be NULL). */
int py_read_head(struct py_env *env, const char *path, size_t max_bytes, struct str *ret,
                 bool *ret_all) GM_CHECK;

/* A negative errno in words. */
const char *py_why(int rc);

/* find.c: sets executable, prefix (if a folder was named) and chosen_by. */
int py_find(struct py_env *env, const char *target, const struct py_env_hints *hints,
            struct gm_err *err) GM_CHECK;

/* syspath.c: sets paths; needs the layout. */
void py_syspath(struct py_env *env, const struct py_env_hints *hints);

/* startup.c: .pth and .start files as site.py reads them. Python `3.minor` or later? */
bool py_is_since(const struct py_env *env, int minor);

/* Without its byte order mark. */
struct str py_startup_text(const struct py_env *env, struct str text);

/* The next line: str.splitlines() since 3.13, before that the lines of a text file. */
bool py_startup_line(const struct py_env *env, struct str *rest, struct str *ret_line);

/* str.strip(), whose blanks are Unicode's. */
struct str py_startup_trim(struct str s);

/* "pkg.mod:name", pkgutil.resolve_name(strict=True); of another line Python prints an error. */
bool py_is_entry_point(struct str line);

/* manager.c: sets manager and project; needs kind, prefix and made_by_uv. */
void py_manager(struct py_env *env);
const char *py_manager_pdm(struct py_env *env, const char *project);
/* Notes the lock of a tool in a folder in which its environment was not found. */
void py_manager_elsewhere(struct py_env *env, const char *project);

/* dist.c: sets dists; needs paths. */
void py_dists_list(struct py_env *env);

/* "python3.11", "python3.13t", "python3": the numbers in an interpreter's or a library folder's
 * name. False if it is no such name; *ret_minor is -1 if the name has none. */
bool py_name_version(const char *name, int *ret_major, int *ret_minor, bool *ret_free_threaded);

#endif
