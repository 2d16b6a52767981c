/*
 * Paths as Windows writes them, as texts: "C:\\Python312\\python.exe". UTF-8; both slashes
 * separate.
 *
 * Names are compared without regard to case as a volume of NTFS does (winldr/upcase.h).
 */
#ifndef GPUMEND_WINLDR_PATH_H
#define GPUMEND_WINLDR_PATH_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/str.h"

enum winldr_path_kind {
    WINLDR_PATH_RELATIVE, // "a.dll", "sub\\a.dll"
    WINLDR_PATH_ROOTED,   // "\\a.dll": of the current drive
    WINLDR_PATH_DRIVE,    // "C:\\a.dll"
    WINLDR_PATH_OF_DRIVE, // "C:a.dll": in the working directory of that drive
    WINLDR_PATH_UNC,      // "\\\\server\\share\\a.dll"
    WINLDR_PATH_DEVICE,   // "\\\\.\\C:\\a.dll", "//?/C:/a.dll"
    WINLDR_PATH_VERBATIM, // "\\\\?\\C:\\a.dll", "\\??\\C:\\a.dll": "/", "." and ".." are names
};

enum winldr_path_kind winldr_path_kind(const char *path);

/* Whether a loader treats it as more than a name. */
bool winldr_path_has_folder(const char *name);

/* The path from its drive, with '\\' between its parts, without "." and ".." and without what
 * Windows drops: one dot at the end of a folder's name, all dots and blanks at the end of the path
 * (learn.microsoft.com/dotnet/standard/io/file-path-formats, "Trim characters"; Wine
 * dlls/ntdll/tests/path.c). A relative path begins at `cwd`. A path of a device keeps its form
 * unless the device is a drive; so does one of a server, and one in the working directory of a
 * drive that `cwd` is not on. */
char *winldr_path_full(struct arena *a, const char *cwd, const char *path);

/* Whether the last part is a name of a device, with any extension: "NUL", "com1.dll". Which of them
 * stand for the device differs between releases of Windows. */
bool winldr_path_is_device(const char *path);

const char *winldr_path_base(const char *path);              // behind the last separator
char *winldr_path_folder(struct arena *a, const char *path); // "C:\\" for "C:\\a.dll"
char *winldr_path_join(struct arena *a, const char *folder, const char *name);
bool winldr_path_is_below(const char *path, const char *folder); // of full paths

bool winldr_name_is(const char *x, const char *y); // without regard to case
bool winldr_name_part_is(struct str x, struct str y);
/* Names that are equal in this sense have the same hash. */
uint64_t winldr_name_hash(struct str name);

bool winldr_name_in(const char *name, const char *const *list, size_t n);

#endif
