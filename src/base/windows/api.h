/*
 * The system's header, without what base/banned.h bans.
 */
#ifndef GPUMEND_BASE_WINDOWS_API_H
#define GPUMEND_BASE_WINDOWS_API_H

#define WIN32_LEAN_AND_MEAN
#define __STRALIGN_H_ // its macros name banned functions
#include <windows.h>

#endif
