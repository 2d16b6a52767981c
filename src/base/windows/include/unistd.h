/* What the C runtime's unistd.h lacks. */
#ifndef GPUMEND_BASE_WINDOWS_INCLUDE_UNISTD_H
#define GPUMEND_BASE_WINDOWS_INCLUDE_UNISTD_H

#include_next <unistd.h>

#include <io.h>
#include <sys/types.h>

#define _SC_PAGESIZE 1
#define _SC_CLK_TCK  2

unsigned getuid(void); // that of nobody, as no owner of a file has a number
unsigned getegid(void);
long sysconf(int name);
ssize_t pread(int fd, void *to, size_t n, long long offset);

int sys_access(const char *path, int mode); // the path is UTF-8
#define access(path, mode) sys_access(path, mode)

#endif
