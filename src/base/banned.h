/* Functions that copy without a bound do not compile here; forced into every file by the build. */
#ifndef GPUMEND_BASE_BANNED_H
#define GPUMEND_BASE_BANNED_H
#ifndef __ASSEMBLER__

#include <stdio.h>
#include <string.h>

#undef sprintf // a macro where glibc checks it and the compiler is clang
#pragma GCC poison strcpy strcat sprintf vsprintf strncpy strncat strtok gets

#endif
#endif
