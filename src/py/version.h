/*
 * Versions and version specifiers of Python packages (PEP 440, as the "Version specifiers" page
 * of the Python packaging specifications has it today).
 *
 * A version is parsed into numbers and compared; a specifier set ("~=2.1, !=2.1.3") is parsed
 * once and asked about versions. Pre-releases are accepted wherever the ordering admits them: an
 * installed package is judged, none is being chosen. Functions are pure; slices point into the
 * text that was parsed, which must outlive them.
 *
 * Not supported: more than PY_RELEASE_MAX release segments, and numbers above 2^64 - 1. Such text
 * counts as "not a version".
 */
#ifndef GPUMEND_PY_VERSION_H
#define GPUMEND_PY_VERSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

/* Three states; PY_UNKNOWN is never to be shown as "no". */
enum py_answer { PY_NO, PY_YES, PY_UNKNOWN };

enum { PY_RELEASE_MAX = 16, PY_SPECIFIERS_MAX = 64 };

enum py_pre { PY_PRE_NONE, PY_PRE_ALPHA, PY_PRE_BETA, PY_PRE_RC };

struct py_version {
    uint64_t epoch;
    uint64_t release[PY_RELEASE_MAX];
    size_t n_release; // at least 1
    enum py_pre pre;
    uint64_t pre_number;
    bool has_post, has_dev;
    uint64_t post_number, dev_number;
    struct str local; // as written, without '+'; empty if there is none
};

/* Parses all of `text` (blanks around it are allowed); false if it is not a version. */
bool py_version_parse(struct str text, struct py_version *ret);

/* Negative, 0 or positive, in the total order of PEP 440: 1.0.dev1 < 1.0a1 < 1.0 < 1.0+local <
 * 1.0.post1. */
int py_version_cmp(const struct py_version *a, const struct py_version *b);

enum py_specifier_op {
    PY_OP_EQ,         // ==
    PY_OP_NE,         // !=
    PY_OP_COMPATIBLE, // ~=
    PY_OP_LE,
    PY_OP_LT,
    PY_OP_GE,
    PY_OP_GT,
    PY_OP_IDENTICAL, // ===
};

struct py_specifier {
    enum py_specifier_op op;
    bool prefix;               // "==2.1.*" and "!=2.1.*"
    struct str text;           // what stands behind the operator
    struct py_version version; // not set for PY_OP_IDENTICAL
};

struct py_specifiers {
    struct py_specifier *items; // all must hold; n == 0 admits every version
    size_t n;
};

/* Parses a list separated by commas; empty text and empty parts are allowed. GM_ERR_FORMAT when a
 * part is no specifier, GM_ERR_LIMIT above PY_SPECIFIERS_MAX parts. */
int py_specifiers_parse(struct arena *a, struct str text, struct py_specifiers *ret,
                        struct gm_err *err) GM_CHECK;

bool py_specifier_match(const struct py_specifier *s, const struct py_version *v, struct str text);

/* Whether the version written `text` is admitted. PY_UNKNOWN when `text` is not a version and the
 * set has anything but "===". */
enum py_answer py_specifiers_match(const struct py_specifiers *set, struct str text);

#endif
