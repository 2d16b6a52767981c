/* Forced into every file by the build: functions that copy without a bound do not compile, and the
 * formats of our own functions that print are named. */
#ifndef GPUMEND_BASE_BANNED_H
#define GPUMEND_BASE_BANNED_H
#ifndef __ASSEMBLER__

#include <stdio.h>
#include <string.h>
#ifdef _WIN32 // its own functions use what is banned
#include <io.h>
#endif

#undef sprintf // a macro where glibc checks it and the compiler is clang
#pragma GCC poison strcpy strcat sprintf vsprintf strncpy strncat strtok gets

#ifdef __MINGW_PRINTF_FORMAT // the compiler's printf there is an older one, without %z
#define GM_PRINTF __MINGW_PRINTF_FORMAT
#else
#define GM_PRINTF printf
#endif

#endif
#endif
