/*
 * Where a Python of Windows finds its packages: the folders of sys.path, in its order.
 *
 *   ._pth      python312._pth beside the DLL, otherwise python._pth beside the program: its lines
 *              alone, and site.py's folders where one is "import site"
 *   otherwise  PYTHONPATH; what the subkeys of PythonPath in the registry name; DLLs (where it
 *              is missing, the program's folder), Lib, the program's folder
 *   site.py    of a virtual environment; the user's; of the installation: the folder itself and its
 *              Lib\site-packages, each followed by what its .pth files name. A virtual environment
 *              without include-system-site-packages has its own alone
 *
 * Sources: CPython Modules/getpath.py, Lib/site.py (3.11 and main); PCbuild/python.props for
 * sys.winver. tests/windows/syspath.py compares this with a CPython for Windows under Wine. Not
 * modelled: the folder of the script and the working directory, zip files, code in .pth files and
 * in sitecustomize, PYTHONHOME, the options -E, -I, -s and -S.
 */
#ifndef GPUMEND_WINLDR_SYSPATH_H
#define GPUMEND_WINLDR_SYSPATH_H

#include "winldr/python.h"

struct winldr_syspath_hints {
    const char *pythonpath;        // PYTHONPATH; NULL: not set
    const char *user_base;         // PYTHONUSERBASE; NULL: not set
    bool no_user_site;             // PYTHONNOUSERSITE
    const char *app_data;          // APPDATA; NULL: that of `home`
    const char *home;              // of the user who starts it, "C:\\Users\\me"; NULL: not known
    const char *const *registered; // what the registry's PythonPath has for this release
    size_t n_registered;
};

/* "312", "312-32", "313t": of the user's folder, and with a '.' behind the major release of the
 * registry's key. NULL: no python3NN.dll is beside the program. */
const char *winldr_winver(struct winldr_files *f, const struct winldr_python *py);

/* Whether a python3NN.dll is in a folder. */
bool winldr_has_python_dll(struct winldr_files *f, const char *folder);

/* Fills places, pth and unsure of `py`; until then, only its site-packages counts. */
void winldr_syspath_set(struct winldr_files *f, const struct winldr_syspath_hints *hints,
                        struct winldr_python *py);

/* The first folder of sys.path that has this ("torch\\__init__.py"), or NULL. */
const char *winldr_python_place(struct winldr_files *f, const struct winldr_python *py,
                                const char *path);

/* The full path of a file or folder of a package ("torch\\lib"): below the place of the package, if
 * it is a regular one, otherwise of the path itself; below site-packages if it is nowhere. */
const char *winldr_python_path(struct winldr_files *f, const struct winldr_python *py,
                               const char *path);

/* What lies in the folders of sys.path, by the order of these. */
struct winldr_installed {
    const char *place, *name;
};
struct winldr_installed_list {
    VEC(struct winldr_installed) items;
};
struct winldr_installed_list winldr_python_list(struct winldr_files *f,
                                                const struct winldr_python *py);

#endif
