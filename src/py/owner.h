/*
 * Which distribution a file belongs to, by the RECORD files of dist-info folders and the file
 * lists of conda-meta. All of them are read when the first question comes, and never before.
 */
#ifndef GPUMEND_PY_OWNER_H
#define GPUMEND_PY_OWNER_H

#include "py/dist.h"

enum {
    PY_RECORD_BYTES_MAX = 32 << 20,   // of one distribution
    PY_RECORDS_BYTES_MAX = 256 << 20, // of all
    PY_OWNED_FILES_MAX = 1 << 20,     // of all
};

struct py_owned_file {
    struct py_dist *dist; // NULL: no distribution lists the file
    uint64_t size_bytes;  // as recorded
    bool has_size;
    struct str hash; // "sha256=...", empty if none is recorded
};

/*
 * `path` is an absolute path inside the root. It is compared by text after "." and ".." are
 * resolved; if no distribution lists it so, its place behind links is tried. Where several list
 * it, the first on sys.path is told.
 */
struct py_owned_file py_owner(struct py_env *env, const char *path);

/* The distribution that wrote its own library over that of `dist`: it lists the file with the size
 * that it has, and `dist` with another. NULL: none did, or the lists do not say. */
const struct py_dist *py_overwritten_by(struct py_env *env, const struct py_dist *dist,
                                        const char *path, uint64_t size_bytes);

/* The absolute paths at which distributions list a library of that file name, whether it is there
 * or not, in the order of their distributions. The paths and the array are in the environment's
 * arena. */
size_t py_recorded_libraries(struct py_env *env, const char *name, const char ***ret);

/* The rows of a distribution's RECORD that name shared libraries, in its order; false if it has no
 * RECORD that can be read. */
struct py_libraries {
    VEC(struct py_record_row) rows;
};
bool py_dist_libraries(struct py_env *env, const struct py_dist *dist, struct py_libraries *ret);

#endif
