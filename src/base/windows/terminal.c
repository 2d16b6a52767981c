#include "base/terminal.h"

#include <io.h>

#include "base/windows/api.h"

/* Windows 10 1511 and later; absent from the headers of older compilers. */
#ifndef ENABLE_VIRTUAL_TERMINAL_PROCESSING
#define ENABLE_VIRTUAL_TERMINAL_PROCESSING 4
#endif

bool terminal_of(FILE *file, struct terminal *ret)
{
    HANDLE console = (HANDLE)_get_osfhandle(_fileno(file));
    CONSOLE_SCREEN_BUFFER_INFO info;
    DWORD mode;
    if (!GetConsoleMode(console, &mode)) {
        return false;
    }
    *ret = (struct terminal){
        .colours = SetConsoleMode(console, mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING)};
    if (GetConsoleScreenBufferInfo(console, &info)) {
        ret->columns = (unsigned)(info.srWindow.Right - info.srWindow.Left + 1);
    }
    return true;
}
