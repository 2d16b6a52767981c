/*
 * One Python environment, found and described without running Python.
 *
 *     py_env_open(root, arena, target, hints, &env, &err)
 *     py_dist_*(&env, ...)  what is installed (dist.h)
 *     py_module_find(...)   what an import would find (module.h)
 *     py_owner(...)         which distribution a file belongs to (owner.h)
 *
 * The layout follows CPython's own: Modules/getpath.py (prefixes, standard library) and Lib/site.py
 * (site folders, .pth files) of 3.11, with Debian's and Fedora's changes to site.py. Nothing is
 * taken from this process: the environment variables that matter come in as hints.
 *
 * The state belongs to the arena, and `root` must outlive it; strings are paths inside the root.
 * What is odd on the way (an unreadable folder, a .pth file that runs code) becomes a note.
 *
 * Not supported: Python 2 and PyPy (GM_ERR_UNSUPPORTED); what a program itself puts into sys.path,
 * its own folder or the working directory above all; modules in zip files; code in .pth files and
 * in sitecustomize; `-I`, `-E`, `-S` and `._pth` files.
 */
#ifndef GPUMEND_PY_ENV_H
#define GPUMEND_PY_ENV_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/root.h"
#include "py/version.h"

/* What begins the code of a `python -c`: the working folder, to which others may be able to write,
 * is then no place for modules. Unlike -I it leaves PYTHONPATH and the user's site folder, from
 * which the program takes its packages, and unlike -P (3.11) every release has it. It has no
 * quotes, so that it fits into those of any shell. */
#define PY_CODE_START "import sys; sys.path[:] = filter(None, sys.path); "

enum {
    PY_NOTES_MAX = 256,
    PY_PATHS_MAX = 1024,
    PY_DISTS_MAX = 65536,
    PY_SUFFIXES_MAX = 4,
};

/* Values of environment variables, as the environment would be started; NULL is unset. */
struct py_env_hints {
    const char *path;
    const char *home;
    const char *virtual_env;
    const char *conda_prefix;
    const char *pythonpath;
    const char *pythonhome;
    const char *pythonnousersite;
    const char *pythonuserbase;
    const char *pyenv_version;
    const char *pyenv_root;
    const char *cwd; // the working directory: what relative paths are relative to
    unsigned uid;    // the user: an environment that only the working directory names must be this
                     // user's or root's, since commands that act would run its interpreter
};

enum py_env_kind {
    PY_ENV_SYSTEM,     // installed under /usr or /usr/local
    PY_ENV_VENV,       // pyvenv.cfg, by the venv module or uv
    PY_ENV_VIRTUALENV, // pyvenv.cfg by virtualenv
    PY_ENV_CONDA,      // conda-meta
    PY_ENV_PYENV,      // a version that pyenv built
    PY_ENV_STANDALONE, // any other prefix
};

enum py_path_origin {
    PY_PATH_PYTHONPATH,
    PY_PATH_ZIP, // python311.zip, listed even if absent
    PY_PATH_STDLIB,
    PY_PATH_DYNLOAD,
    PY_PATH_SITE, // site-packages, or Debian's dist-packages
    PY_PATH_USER, // the user site
    PY_PATH_PTH,  // named by a .pth file
};

/* One entry of sys.path. */
struct py_path {
    const char *dir; // absolute, normalised by text
    enum py_path_origin origin;
    const char *from; // PY_PATH_PTH: the .pth file; else NULL
    bool is_dir;      // false: absent, or a file such as an egg
};

enum py_dist_kind {
    PY_DIST_INFO, // NAME-VERSION.dist-info
    PY_DIST_EGG,  // .egg-info, a folder or a file
    PY_DIST_CONDA // known to conda alone, such as libraries without Python code
};

struct py_dist_details; // what dist.h has read so far

struct py_dist {
    const char *name;        // as its folder's name has it
    const char *name_normal; // PEP 503
    const char *version;     // NULL if not known
    enum py_dist_kind kind;
    const char *site; // the sys.path entry; for conda the prefix
    const char *info; // the dist-info folder, egg-info folder or file, or conda-meta file
    const struct py_dist *shadowed_by; // the one of the same name that an import metadata query
                                       // finds first; NULL if it is this one
    struct py_dist_details *details;
};

struct py_owner_index;
struct py_found_modules;
struct py_extensions;

struct py_env {
    struct root *root;
    struct arena *arena;

    enum py_env_kind kind;
    const char *chosen_by;       // "argument", "VIRTUAL_ENV", "CONDA_PREFIX", "./.venv", "./venv",
                                 // "./.pdm-python", "./.pixi/envs/default" or "PATH"
    const char *prefix;          // sys.prefix
    const char *base_prefix;     // sys.base_prefix; NULL if the base was not found
    const char *executable;      // as it would be started; NULL if there is none
    const char *executable_real; // the ELF file behind it; NULL if it cannot be reached
    const char *config;          // pyvenv.cfg, or NULL
    const char *prompt;          // of pyvenv.cfg, or NULL
    bool made_by_uv;
    const char *manager; // "uv", "pixi", "conda", "poetry", "pdm", "pipenv": the tool that keeps
                         // it, by what it leaves there and beside it; NULL: none is known
    const char *project; // the folder whose lock of that tool says what is in the environment;
                         // NULL: none is known

    int major, minor, micro;    // -1: not known
    const char *version_from;   // the file or name that gave the version
    const char *implementation; // "cpython"
    bool free_threaded;
    const char *machine; // "x86_64", by the ELF header of the interpreter; NULL if not known

    const char *suffixes[PY_SUFFIXES_MAX]; // of extension modules, in the order of imports
    size_t n_suffixes;

    const char *lib_name;     // "python3.11", "python3.13t"
    const char *platlib_name; // "lib" or "lib64"
    const char *stdlib;       // NULL if not found
    const char *lib_dynload;
    bool system_site; // pyvenv.cfg includes the base's site folders
    enum py_answer user_site_enabled;
    unsigned uid;          // the user who would start it
    const char *purelib;   // of its own prefix, as sysconfig has it; it may not be there yet
    const char *user_site; // the same; NULL: not on, or the home folder is not known

    struct py_path *paths; // sys.path in order
    size_t n_paths;
    struct py_dist *dists; // in the order of sys.path, by name within an entry
    size_t n_dists;
    bool cut;           // there is more than is looked at: distributions, their places or files
    const char *denied; // the first site folder or pyvenv.cfg that this user may not read, or NULL:
                        // what is installed is then not known
    const char **left;  // dist-info folders that pip renamed to remove them, and did not come to
    size_t n_left;
    const char **notes;
    size_t n_notes, notes_cap;

    struct py_owner_index *owners[2];       // owner.h: of libraries, of all files
    struct py_found_modules *found_modules; // module.h: the answers so far
    struct py_extensions *extensions;       // module.h: what was listed for them
};

/*
 * Opens the environment `target`: its folder, an interpreter, a script that names its interpreter
 * in its first line, the name of an interpreter on PATH, or NULL for the active environment
 * (VIRTUAL_ENV, else CONDA_PREFIX, else the working directory's: .venv or venv, what .pdm-python
 * names, pixi's default; else python3, else python on PATH; pyenv's shims are followed).
 *
 * GM_ERR_LOOK: nothing is there. GM_ERR_FORMAT: the file is no executable. GM_ERR_UNSUPPORTED: it
 * is one, and not a Python that is modelled here.
 */
int py_env_open(struct root *r, struct arena *a, const char *target,
                const struct py_env_hints *hints, struct py_env *ret, struct gm_err *err) GM_CHECK;

/*
 * The folder of sys.path into which `pip install` of this environment puts a package without an
 * extension module, such as NVIDIA's (Root-Is-Purelib): not where the packages are that it already
 * has, which may be on PYTHONPATH, in the base of a virtual environment or the distribution's. As
 * in pip, _internal/commands/install.py decide_user_install(): the user site where site-packages
 * is not writable; below a root that is not this machine's, where `beside` (the folder of the
 * package that needs the other, or NULL) is a user site of somebody else than root. NULL: not
 * known.
 */
const char *py_env_pip_folder(struct py_env *env, const char *beside);

/* The virtual environment in a folder by one of its usual names (.venv, venv); NULL: none is there.
 */
const char *py_env_inside(struct root *r, struct arena *a, const char *folder);

/* "venv", "conda", ...; "PYTHONPATH", "site-packages", ... */
const char *py_env_kind_name(enum py_env_kind kind);

/* "3.11.2", "3.11" where the rest is not known, or "of unknown version". */
const char *py_env_version(struct arena *a, const struct py_env *env);
const char *py_path_origin_name(enum py_path_origin origin);

#endif
