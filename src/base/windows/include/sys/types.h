/* The C runtime's sys/types.h with identities of files in full, and numbers of users and groups. */
#ifndef GPUMEND_BASE_WINDOWS_INCLUDE_SYS_TYPES_H
#define GPUMEND_BASE_WINDOWS_INCLUDE_SYS_TYPES_H

#define dev_t  crt_dev_t
#define ino_t  crt_ino_t
#define mode_t crt_mode_t
#include_next <sys/types.h>
#undef dev_t
#undef ino_t
#undef mode_t

typedef unsigned long long dev_t;
typedef unsigned long long ino_t;
typedef unsigned mode_t;
typedef unsigned uid_t;
typedef unsigned gid_t;

#endif
