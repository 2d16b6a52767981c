/*
 * Windows' calls with the types of the rest of gpumend: paths and texts are UTF-8 with '/' or '\',
 * errors are numbers of errno. The folder include/ declares the functions of POSIX that are written
 * with them, so that the rooms need not know the system.
 */
#ifndef GPUMEND_BASE_WINDOWS_SYS_H
#define GPUMEND_BASE_WINDOWS_SYS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <wchar.h>

/* A path for the system's wide functions, also one beyond 260 characters; from malloc(). NULL and
 * errno. What is not UTF-8 is no path: EILSEQ. */
wchar_t *sys_wide_path(const char *path);

/* A text for the system's wide functions, from malloc(). NULL and errno. */
wchar_t *sys_wide(const char *text);

/* UTF-8 of a text of the system, from malloc(). An unpaired surrogate, which a name may have, is
 * written as three bytes, as if it were a character (WTF-8), and sys_wide_path() takes it back.
 * NULL and errno. */
char *sys_narrow(const wchar_t *text);

/* errno for the last error of the system. */
int sys_errno(void);

/* stat() of a link itself; reparse points that are no links (files kept in a cloud) are followed.
 */
int sys_lstat(const char *path, struct sys_stat *ret);

#endif
