#include "cli/replayed.h"

#include <errno.h>
#include <string.h>

#include "base/str.h"
#include "cli/input.h"

/* A whole file, or standard input, up to a limit above that of any document. */
static int read_all(struct arena *a, FILE *file, struct str *ret)
{
    enum { MORE = 1 << 20, BYTES_MAX = 256 << 20 };
    char *data = arena_alloc(a, MORE);
    size_t n = 0, cap = MORE;
    for (size_t got; (got = fread(data + n, 1, cap - n, file)) > 0;) {
        n += got;
        if (n == cap && cap < BYTES_MAX) {
            char *more = arena_alloc(a, cap * 2);
            memcpy(more, data, n);
            data = more;
            cap *= 2;
        }
    }
    *ret = (struct str){data, n};
    return ferror(file) ? -1 : 0;
}

int cli_read_snapshot(const char *command, const char *name, struct arena *a, struct snapshot *ret)
{
    struct str text;
    struct gm_err err;
    const char *why = NULL;
    bool standard = strcmp(name, "-") == 0;
    int fd = standard ? -1 : cli_open_input(name, &why);
    FILE *file = standard ? stdin : fd >= 0 ? fdopen(fd, "rb") : NULL;
    int rc = file ? read_all(a, file, &text) : -1;
    why = why ? why : strerror(errno);
    if (file && !standard) {
        (void)fclose(file); // was only read
    }
    if (rc < 0) {
        return cli_fail(CLI_CANNOT, "%s: %s: %s", command, name, why);
    }
    rc = snapshot_decode(ret, a, text.s, text.n, &err);
    if (rc < 0) {
        return cli_fail(CLI_CANNOT, "%s: %s: %s", command, name, str_printable(a, err.text));
    }
    return CLI_OK;
}
