/* stat() with UTF-8 paths and POSIX's fields: the C runtime's knows no identity of a file. */
#ifndef GPUMEND_BASE_WINDOWS_INCLUDE_SYS_STAT_H
#define GPUMEND_BASE_WINDOWS_INCLUDE_SYS_STAT_H

#include_next <sys/stat.h>

#include <stdint.h>
#include <time.h>

struct sys_stat {
    uint64_t st_dev, st_ino, st_rdev;
    unsigned st_mode, st_nlink, st_uid, st_gid;
    int64_t st_size;
    struct timespec st_mtim, st_ctim;
};

int sys_stat(const char *path, struct sys_stat *ret);
int sys_fstat(int fd, struct sys_stat *ret);

#undef stat
#undef fstat
#define stat  sys_stat
#define fstat sys_fstat

/* When a folder was made matters for a running process alone, and none is looked at here. */
struct statx {
    unsigned stx_mask;
    struct {
        int64_t tv_sec;
    } stx_btime;
};
#define STATX_BTIME         0x800
#define AT_FDCWD            -100
#define AT_SYMLINK_NOFOLLOW 0x100
int statx(int folder, const char *path, int flags, unsigned mask, struct statx *ret);

#define S_ISUID        04000
#define S_ISGID        02000
#define S_IFLNK        0120000
#define S_ISLNK(mode)  (((mode)&S_IFMT) == S_IFLNK)
#define S_IFSOCK       0140000
#define S_ISSOCK(mode) (((mode)&S_IFMT) == S_IFSOCK)

#endif
