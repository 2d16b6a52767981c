/*
 * Paths as Windows writes them, as texts: "C:\\Python312\\python.exe". UTF-8; both slashes
 * separate.
 *
 * Names are compared without regard to case, by a table of simple pairs: ASCII, Latin-1, Latin
 * Extended-A, Greek and Cyrillic. NTFS stores its own table in each volume ($UpCase), which has
 * more of them.
 */
#ifndef GPUMEND_WINLDR_PATH_H
#define GPUMEND_WINLDR_PATH_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/str.h"

enum winldr_path_kind {
    WINLDR_PATH_RELATIVE, // "a.dll", "sub\\a.dll", and "C:a.dll", which no loader here meets
    WINLDR_PATH_ROOTED,   // "\\a.dll": of the current drive
    WINLDR_PATH_DRIVE,    // "C:\\a.dll"
    WINLDR_PATH_OTHER,    // "\\\\server\\share\\a.dll", "\\\\?\\C:\\a.dll"
};

enum winldr_path_kind winldr_path_kind(const char *path);

/* Whether a loader treats it as more than a name. */
bool winldr_path_has_folder(const char *name);

/* The path from its drive, with '\\' between its parts, without "." and "..", without the dots and
 * blanks that Windows drops from the end of a part. A relative path begins at `cwd`. */
char *winldr_path_full(struct arena *a, const char *cwd, const char *path);

const char *winldr_path_base(const char *path);              // behind the last separator
char *winldr_path_folder(struct arena *a, const char *path); // "C:\\" for "C:\\a.dll"
char *winldr_path_join(struct arena *a, const char *folder, const char *name);
bool winldr_path_is_below(const char *path, const char *folder); // of full paths

bool winldr_name_is(const char *x, const char *y); // without regard to case
bool winldr_name_part_is(struct str x, struct str y);
bool winldr_name_in(const char *name, const char *const *list, size_t n);

#endif
