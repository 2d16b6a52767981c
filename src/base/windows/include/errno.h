/* The C runtime's errno.h and a number that it lacks. */
#ifndef GPUMEND_BASE_WINDOWS_INCLUDE_ERRNO_H
#define GPUMEND_BASE_WINDOWS_INCLUDE_ERRNO_H

#include_next <errno.h>

#define ESTALE 201

#endif
