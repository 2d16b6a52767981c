/*
 * The version of a library, read from its own bytes, for the families that knowledge rows give a
 * recipe for (kb/families.json, "recipe"). Nothing is guessed: a file that does not say its
 * version in one of the known ways has none here, and the caller then asks the owning package.
 *
 * Not supported: the cuDNN shim of other machines than x86-64, and the cuDNN 9 members cnn,
 * heuristic, engines_* and ext, none of which carry their version.
 */
#ifndef GPUMEND_KB_LIBVER_H
#define GPUMEND_KB_LIBVER_H

#include <stdbool.h>

#include "elf/image.h"
#include "kb/kb.h"

struct kb_libver {
    unsigned maj, min, pat;
    bool has_pat;    // NVRTC says major and minor only
    const char *how; // where it stood, for the evidence; static text
};

/* The version of the image `e`, whose file is called `file_name` (a path or a name; NULL: not
 * known). False when the file does not say. KB_VERSION_PACKAGE, KB_VERSION_VERDEF and
 * KB_VERSION_NONE are always false. Reads at most the mapped file once, linearly. */
bool kb_library_version(const struct elf_image *e, const char *file_name, enum kb_version_from from,
                        struct kb_libver *ret);

/* Replaces the first `key` of a text by the value; NULL if it is there and the value is NULL. */
const char *kb_fill(struct arena *a, const char *text, const char *key, const char *value);

/* The candidates of a request with their placeholders filled, less those that cannot be: as many as
 * returned, of `q->names.n` at most. `version` is that of the object that makes it ("12.8"; NULL:
 * not known), `dir` its folder. */
size_t kb_request_names(struct arena *a, const struct kb_request *q, const char *version,
                        const char *dir, const char **ret);

#endif
