#include "cli/html.h"

#include <errno.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "report/html.h"

int cli_html_write(const char *command, const char *name, struct arena *a, json_t *page)
{
    int rc = report_html(stdout, a, page);
    const char *verdict = json_text(page, "verdict");
    if (rc == 0 && strcmp(name, "-") != 0) {
        (void)cli_fail(CLI_OK, "%s: %s; the page is in %s", command, verdict ? verdict : "",
                       str_printable(a, name));
    }
    json_decref(page);
    if (rc < 0) {
        return cli_fail(CLI_CANNOT, "%s: out of memory", command);
    }
    return fflush(stdout) == 0 && !ferror(stdout)
               ? CLI_OK
               : cli_fail(CLI_CANNOT, "%s: cannot write the page: %s", command, strerror(errno));
}
