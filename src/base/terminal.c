#include "base/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

bool terminal_of(FILE *file, struct terminal *ret)
{
    const char *term = getenv("TERM");
    struct winsize size;
    if (!isatty(fileno(file))) {
        return false;
    }
    *ret = (struct terminal){.colours = term && strcmp(term, "dumb") != 0};
    if (ioctl(fileno(file), TIOCGWINSZ, &size) == 0) {
        ret->columns = size.ws_col;
    }
    return true;
}
