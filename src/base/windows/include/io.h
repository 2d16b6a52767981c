/* The C runtime's io.h, whose tell() is the name of functions of ours. */
#ifndef GPUMEND_BASE_WINDOWS_INCLUDE_IO_H
#define GPUMEND_BASE_WINDOWS_INCLUDE_IO_H

#define tell crt_tell
#include_next <io.h>
#undef tell

#endif
