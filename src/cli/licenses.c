#include "cli/licenses.h"

#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

#include "cli/cli.h"

int cli_licenses(void)
{
    unsigned char *text = malloc(cli_licenses_full_size);
    uLongf n = (uLongf)cli_licenses_full_size;
    if (!text || uncompress(text, &n, cli_licenses_text, (uLong)cli_licenses_text_size) != Z_OK) {
        free(text);
        return cli_fail(CLI_CANNOT, "no memory");
    }
    (void)fwrite(text, 1, n, stdout); // cli_finish() looks at the stream
    free(text);
    return cli_finish(CLI_OK);
}
