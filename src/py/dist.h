/*
 * Installed distributions of an environment. Names and versions are known from the names of their
 * folders when the environment is opened; their files are read when they are first asked for, once.
 */
#ifndef GPUMEND_PY_DIST_H
#define GPUMEND_PY_DIST_H

#include "py/env.h"
#include "py/metadata.h"

/* How a distribution was installed: WHEEL, INSTALLER and direct_url.json. */
struct py_dist_install {
    struct py_wheel wheel;    // n_tags == 0 if there is no WHEEL file
    const char *installer;    // "pip", "uv", "conda"; NULL if not recorded
    const char *direct_url;   // NULL if it came from an index
    enum py_answer editable;  // PY_UNKNOWN if direct_url.json could not be read
    const char *editable_dir; // the source folder of an editable install, or NULL
};

/* The distribution of that name (in any spelling) that an import metadata query finds; NULL if
 * none is installed. */
struct py_dist *py_env_by_dist(struct py_env *env, const char *name);

/* Whether the record of a package in conda-meta, or its head, says that it came from conda-forge:
 * "channel": "https://conda.anaconda.org/conda-forge/linux-64". The list of its files, which can be
 * long, comes behind that. */
enum { PY_CONDA_HEAD_BYTES_MAX = 64 << 10 };
bool py_conda_is_forge(struct str head);
bool py_dist_is_conda_forge(struct py_env *env, const struct py_dist *dist);

/* The header block of METADATA or PKG-INFO; NULL if there is none to be read (a note says why).
 * The description below it is not read. */
const struct py_metadata *py_dist_metadata(struct py_env *env, struct py_dist *dist);

/* Never NULL. */
const struct py_dist_install *py_dist_install(struct py_env *env, struct py_dist *dist);

#endif
