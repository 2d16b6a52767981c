/*
 * Where else in a file system Python packages are installed, for a root whose own program names no
 * environment. Conventional places come first: two levels below each of
 *
 *     the working directory, /, /app, /opt, /srv, /home, /root, /workspace, /code, /usr/src,
 *     /data, /mnt, /var/www, /var/lib, /usr/local
 *
 * a folder counts that has lib/python3.N/site-packages (or dist-packages), or *.dist-info itself as
 * `pip install --target` leaves it; of the second level .venv, venv, env, conda's and pyenv's
 * folders alone. Then all other folders are searched, shallow ones first, but for those of the
 * system. Links are not followed twice; the numbers of folders and names are bounded.
 *
 * Sources: the documentation of venv, uv, poetry (virtualenvs.in-project), conda and pyenv for the
 * names; the images of docker.io's python, pytorch and jupyter for the folders.
 */
#ifndef GPUMEND_PY_PLACES_H
#define GPUMEND_PY_PLACES_H

#include "base/root.h"

enum { PY_PLACES_MAX = 256 };

struct py_place {
    const char *prefix;      // the environment's folder, or that of `pip install --target`
    const char *site;        // the folder with the distributions
    bool has_python;         // an interpreter that can be started is in its bin
    VEC(const char *) names; // of distributions, as their folders have them, without the version
};

typedef VEC(struct py_place) py_places;

/* What cannot be listed has nothing. False: there are more folders than are searched. */
bool py_places_find(struct root *r, struct arena *a, const char *cwd, py_places *ret);

#endif
