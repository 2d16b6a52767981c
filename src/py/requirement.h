/*
 * Requirements of Python packages (PEP 508): "torch[opt]>=2.1,<3; python_version < '3.12'", and
 * the evaluation of their markers without running Python.
 *
 * Slices point into the parsed text, which must outlive the result.
 */
#ifndef GPUMEND_PY_REQUIREMENT_H
#define GPUMEND_PY_REQUIREMENT_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "py/version.h"

enum { PY_EXTRAS_MAX = 64, PY_MARKER_DEPTH_MAX = 64 };

struct py_marker; // opaque; NULL holds always

struct py_requirement {
    struct str name; // as written
    struct str *extras;
    size_t n_extras;
    struct py_specifiers specifiers;
    struct str url; // empty unless "name @ url"
    struct str marker_text;
    const struct py_marker *marker;
};

/* The environment that markers are asked about. NULL means "not known", except for `extra`, where
 * NULL means "no extra was asked for". */
struct py_marker_env {
    const char *python_version;      // "3.11"
    const char *python_full_version; // "3.11.7"
    const char *sys_platform;        // "linux"
    const char *platform_system;     // "Linux"
    const char *platform_machine;    // "x86_64"
    const char *platform_release;
    const char *platform_version;
    const char *os_name; // "posix"
    const char *implementation_name;
    const char *implementation_version;
    const char *platform_python_implementation; // "CPython"
    const char *extra;
};

/* GM_ERR_FORMAT if the text is no requirement, GM_ERR_LIMIT if it is nested or long beyond the
 * bounds above. */
int py_requirement_parse(struct arena *a, struct str text, struct py_requirement *ret,
                         struct gm_err *err) GM_CHECK;

/* Parses a marker alone. */
int py_marker_parse(struct arena *a, struct str text, const struct py_marker **ret,
                    struct gm_err *err) GM_CHECK;

/* PY_UNKNOWN when the answer depends on a value that is not known, or on a comparison that has no
 * meaning ("~=" between words). */
enum py_answer py_marker_eval(struct arena *a, const struct py_marker *m,
                              const struct py_marker_env *env);

/* The normalised name of PEP 503: lower case, runs of "-", "_" and "." become one "-". */
char *py_name_normal(struct arena *a, struct str name);

/* Whether the text can be a distribution's name: letters, digits, and between them "-", "_" and "."
 * (core metadata specification, "Name"). Another one, such as "-rfile", would be an option of pip.
 */
bool py_name_valid(struct str name);

/* Whether two names are the same after normalisation. */
bool py_name_eq(struct str a, struct str b);

#endif
