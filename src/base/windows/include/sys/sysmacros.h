/* Numbers of devices, which no file has on Windows. */
#ifndef GPUMEND_BASE_WINDOWS_INCLUDE_SYS_SYSMACROS_H
#define GPUMEND_BASE_WINDOWS_INCLUDE_SYS_SYSMACROS_H

#define major(device)         ((unsigned)((device) >> 8))
#define minor(device)         ((unsigned)((device)&0xff))
#define makedev(major, minor) (((uint64_t)(major) << 8) | (minor))

#endif
