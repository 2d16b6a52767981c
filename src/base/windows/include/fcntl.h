/* open() with UTF-8 paths. */
#ifndef GPUMEND_BASE_WINDOWS_INCLUDE_FCNTL_H
#define GPUMEND_BASE_WINDOWS_INCLUDE_FCNTL_H

#include_next <fcntl.h>

/* Descriptors are not inherited, files never wait, and no terminal becomes ours. */
#define O_CLOEXEC  0
#define O_NOCTTY   0
#define O_NONBLOCK 0

/* For reading alone, as bytes; -1 and errno. */
int sys_open(const char *path, int flags);
#define open(path, flags) sys_open(path, flags)

#endif
