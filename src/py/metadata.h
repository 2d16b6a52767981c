/*
 * The files that describe an installed distribution (the packaging specifications "Core metadata"
 * and "Recording installed projects"; PEP 376, 427, 566, 610, 627):
 *
 *     METADATA, PKG-INFO   header block like a mail: name, version, requirements
 *     WHEEL                the same form: tags
 *     RECORD               CSV: path, hash, size of each installed file
 *     direct_url.json      where it was installed from; says whether it is editable
 *
 * Parsers only: text in, slices into that text out. Text must outlive the result. Broken lines are
 * skipped and counted, never an error. Any bytes are allowed; nothing is decoded.
 */
#ifndef GPUMEND_PY_METADATA_H
#define GPUMEND_PY_METADATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "py/version.h"

enum { PY_REQUIRES_MAX = 4096, PY_TAGS_MAX = 256, PY_DIRECT_URL_BYTES_MAX = 64 << 10 };

/*
 * Takes the next "Name: value" field from the header block. The value has its blanks trimmed; a
 * folded value (following lines that begin with a blank) is one slice with its line ends inside.
 * Lines that are no field are passed over and counted in *ret_skipped (may be NULL). False at the
 * empty line that ends the block, or at the end of the text.
 */
bool py_header_next(struct str *rest, struct str *ret_name, struct str *ret_value,
                    size_t *ret_skipped);

/* Length of the header block with the empty line that ends it, or 0 if `text` has no such line. */
size_t py_header_block(struct str text);

struct py_metadata {
    struct str metadata_version, name, version; // empty if absent; the first one counts
    struct str requires_python;                 // specifiers; empty if absent
    struct str *requires_dist;                  // requirements, in the order of the file
    size_t n_requires_dist;
    bool truncated; // more than PY_REQUIRES_MAX requirements; the rest is not listed
    size_t skipped; // lines that are no field
};

void py_metadata_parse(struct arena *a, struct str text, struct py_metadata *ret);

struct py_wheel {
    struct str *tags; // "cp311-cp311-manylinux_2_17_x86_64"
    size_t n_tags;
    enum py_answer purelib; // Root-Is-Purelib
    struct str generator;
    bool truncated; // more than PY_TAGS_MAX tags
};

void py_wheel_parse(struct arena *a, struct str text, struct py_wheel *ret);

struct py_record_row {
    struct str path; // relative to the site folder, or absolute; as written
    struct str hash; // "sha256=...", empty if none
    uint64_t size_bytes;
    bool has_size;
};

/*
 * Takes the next row of a RECORD; false at the end. A quoted path that holds doubled quotes is
 * copied into the arena, all else is sliced. A quote that is never closed runs to the end of the
 * text, as in Python's csv module. Rows without a path are passed over.
 */
bool py_record_next(struct arena *a, struct str *rest, struct py_record_row *ret);

struct py_direct_url {
    const char *url;         // in the arena
    const char *path;        // absolute path of a file: URL, percent escapes resolved; else NULL
    enum py_answer editable; // dir_info.editable
};

/* GM_ERR_FORMAT if it is not a JSON object with a URL, GM_ERR_LIMIT above
 * PY_DIRECT_URL_BYTES_MAX. */
int py_direct_url_parse(struct arena *a, struct str text, struct py_direct_url *ret,
                        struct gm_err *err) GM_CHECK;

#endif
