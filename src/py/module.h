/*
 * What the import system would find for a module name, looked up along sys.path by file names
 * (importlib's PathFinder and FileFinder; Lib/importlib/_bootstrap_external.py of CPython 3.11).
 *
 * Within one entry: a package folder with __init__, then an extension module by the order of the
 * interpreter's suffixes, then a source file, then a compiled one. A folder without __init__ is a
 * part of a namespace package, if no entry has anything better.
 *
 * Not modelled: modules built into the interpreter, zip files, import hooks (editable installs by
 * a finder, for one: the environment's notes name the .pth file), and __path__ changed by code.
 */
#ifndef GPUMEND_PY_MODULE_H
#define GPUMEND_PY_MODULE_H

#include "py/env.h"

enum py_module_kind {
    PY_MODULE_NONE,      // not found
    PY_MODULE_PACKAGE,   // `file` is its __init__
    PY_MODULE_EXTENSION, // a shared object
    PY_MODULE_SOURCE,    // .py, or a lone .pyc
    PY_MODULE_NAMESPACE, // folders without __init__; `file` is the first of them
};

struct py_module {
    enum py_module_kind kind;
    const char *file;
    const struct py_path *entry; // the sys.path entry it was found below
    // With PY_MODULE_NONE and PY_MODULE_NAMESPACE: an extension of this name that was built for
    // another Python or machine (".cpython-310-x86_64-linux-gnu.so" when the interpreter is 3.11),
    // or NULL. torch/_C is such a namespace, as a folder of that name stands beside the extension
    const char *foreign;
    const char *foreign_suffix;
    // With PY_MODULE_NONE and PY_MODULE_NAMESPACE: the first file that this user may not see, so
    // that it cannot be determined whether it is there (Python does not find it either); or NULL
    const char *denied;
    // With PY_MODULE_NONE for "a.b.c": the longest parent that was found, such as "a.b", or NULL
    const char *found_parent;
};

/* Looks up a dotted name. Never fails: a name that cannot be one is not found. */
void py_module_find(struct py_env *env, const char *name, struct py_module *ret);

#endif
