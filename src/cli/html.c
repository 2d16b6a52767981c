#include "cli/html.h"

#include <errno.h>
#include <string.h>

#include "base/str.h"
#include "cli/replace.h"
#include "report/html.h"

int cli_html_open(const char *command, const char *name)
{
    int rc = strcmp(name, "-") == 0 ? 0 : cli_redirect_output(name);
    return rc == 0 ? CLI_OK
                   : cli_fail(CLI_CANNOT, "%s: %s: %s", command, name,
                              rc == -ELOOP ? "it is a link of another user" : strerror(-rc));
}

int cli_html_write(const char *command, const char *name, struct arena *a, json_t *page)
{
    int rc = report_html(stdout, a, page);
    const char *verdict = json_string_value(json_object_get(page, "verdict"));
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
