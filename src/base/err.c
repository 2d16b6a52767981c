#include "base/err.h"

#include <stdio.h>
#include <string.h>

int gm_err_set(struct gm_err *err, enum gm_err_code code, const char *fmt, ...)
{
    if (err) {
        va_list ap;
        va_start(ap, fmt);
        err->code = code;
        (void)vsnprintf(err->text, sizeof err->text, fmt, ap); // truncation is documented
        va_end(ap);
    }
    return code;
}

int gm_err_wrap(struct gm_err *err, const char *fmt, ...)
{
    if (!err) {
        return GM_ERR_LOOK;
    }
    char inner[sizeof err->text];
    memcpy(inner, err->text, sizeof inner);
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof err->text) {
        (void)snprintf(err->text + n, sizeof err->text - (size_t)n, ": %s", inner);
    }
    return err->code;
}
