/* Windows ends the process by itself, and the children are in jobs that end with it. */
#include "cli/stop.h"

#include "cli/cli.h"

int cli_stop_listen(void)
{
    return -1;
}

int cli_stop_end(const char *command)
{
    return cli_fail(CLI_CANNOT, "%s: interrupted", command);
}
