#include "cli/input.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

int cli_open_input(const char *path, const char **ret_why)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        *ret_why = strerror(errno);
    }
    return fd;
}
