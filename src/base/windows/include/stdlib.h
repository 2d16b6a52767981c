/* The C runtime's stdlib.h, whose macro environ is the name of variables of ours. */
#ifndef GPUMEND_BASE_WINDOWS_INCLUDE_STDLIB_H
#define GPUMEND_BASE_WINDOWS_INCLUDE_STDLIB_H

#include_next <stdlib.h>

#undef environ

#endif
