/* The auxiliary vector is asked on aarch64 alone. */
#ifndef GPUMEND_BASE_WINDOWS_INCLUDE_SYS_AUXV_H
#define GPUMEND_BASE_WINDOWS_INCLUDE_SYS_AUXV_H

#endif
