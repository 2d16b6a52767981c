/*
 * The error of a failed call: a code and a sentence. Passed last; 0 is success, negative is
 * failure; the error is written on failure only. Callers add context on the way up.
 */
#ifndef GPUMEND_BASE_ERR_H
#define GPUMEND_BASE_ERR_H

#include <stdarg.h>

enum gm_err_code {
    GM_ERR_NONE = 0,
    GM_ERR_USAGE = -1,       // the caller asked for something that has no meaning
    GM_ERR_LOOK = -2,        // the file system would not let us look (missing, denied, I/O)
    GM_ERR_FORMAT = -3,      // the bytes are not what their format promises
    GM_ERR_LIMIT = -4,       // a bound on time, size or depth was reached
    GM_ERR_UNSUPPORTED = -5, // well-formed, and outside what gpumend models
    GM_ERR_MEMORY = -6,      // no memory, where no arena says so
};

struct gm_err {
    enum gm_err_code code;
    char text[512]; // one sentence without a final stop; truncated to fit
};

#define GM_CHECK __attribute__((warn_unused_result))

/* Sets the error and returns its code, so that `return gm_err_set(...)` reads well. err may be
 * NULL. */
int gm_err_set(struct gm_err *err, enum gm_err_code code, const char *fmt, ...)
    __attribute__((format(GM_PRINTF, 3, 4)));

/* Puts "context: " before the text and returns the error's code. */
int gm_err_wrap(struct gm_err *err, const char *fmt, ...) __attribute__((format(GM_PRINTF, 2, 3)));

#endif
