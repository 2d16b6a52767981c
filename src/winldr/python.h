/*
 * Python environments in a Windows tree, and what their packages load when they are imported.
 *
 * Found are installations of python.org (for one user or all), uv's, conda's and their
 * environments, embedded ones, the Store's, and frozen programs; a virtual environment where it is
 * named. In a virtual environment the process is the Python that pyvenv.cfg calls home:
 * Scripts\python.exe only starts it. The Store's Python is a packaged process (winldr/package.h)
 * and is modelled where its program is in the tree.
 *
 * Import scripts, by the source of the packages: PyTorch torch/__init__.py (and winldr/rocm.h);
 * CTranslate2 python/ctranslate2/__init__.py (4.5.0, 4.8.1, 4.8.5); faster-whisper
 * faster_whisper/transcribe.py and whisperx whisperx/asr.py (which import ctranslate2 before
 * torch); CuPy: winldr/cupy.h; llvmlite llvmlite/binding/ffi.py, with the folder that
 * delvewheel adds; winldr/bitsandbytes.h; TensorFlow, Paddle and numba-cuda: winldr/frameworks.h.
 * An extension module is loaded with 0x1100 (CPython Python/dynload_win.c), ctypes.CDLL
 * of a path too (Lib/ctypes/__init__.py).
 */
#ifndef GPUMEND_WINLDR_PYTHON_H
#define GPUMEND_WINLDR_PYTHON_H

#include "winldr/hook.h"

/* Variables that the scripts of imports read, beside PATH, CUDA_PATH and HIP_PATH. */
enum winldr_variable {
    WINLDR_VARIABLE_CUDA_HOME,
    WINLDR_VARIABLE_CONDA_PREFIX,
    WINLDR_VARIABLE_ROCM_SDK_PRELOAD_LIBRARIES,
    WINLDR_VARIABLE_BNB_CUDA_VERSION,
    WINLDR_VARIABLE_BNB_ROCM_VERSION,
    WINLDR_N_VARIABLES
};
extern const char *const winldr_variable_names[WINLDR_N_VARIABLES];

struct winldr_python {
    const char *folder;        // of the environment
    bool is_packaged;          // the process is one of the Store's
    bool is_frozen;            // a program that was frozen with its Python (winldr/frozen.h)
    const char *kind;          // "python.org", "venv", "conda", "uv", "embedded", "Store",
                               // "PyInstaller", "cx_Freeze", "frozen"
    const char *exe;           // of the process
    const char *site;          // its site-packages, where pip installs
    const char *const *places; // folders of sys.path (winldr/syspath.h)
    size_t n_places;
    const char *pth;               // the ._pth file that has them, or NULL
    const char *unsure;            // why there may be others, one clause, or NULL
    const char *path;              // PATH of the process, or NULL: not known; the caller sets it
    const char *cuda_path;         // CUDA_PATH, or NULL: unset or not known; the caller sets it
    const char *hip_path;          // HIP_PATH, likewise
    const char *const *known_dlls; // of the registry, or NULL: not known; the caller sets it
    size_t n_known_dlls;
    const struct winldr_hook *hook; // the start-up hook that is in site-packages, or NULL
    bool unsafe_search;             // the registry's SafeDllSearchMode is 0; the caller sets it
    const char *variables[WINLDR_N_VARIABLES]; // NULL: unset or not known; the caller sets them
    const char *variables_unseen; // why a variable without a value may have one; NULL: it has none
};

struct winldr_pythons {
    VEC(struct winldr_python) items;
};

/* Whether a Windows tree is below the root: System32, or `target` holds a python.exe. */
bool winldr_is_tree(struct winldr_files *files, const char *target);

/* The environment in `target` (a full Windows path of its folder or its program), or all that are
 * found. */
void winldr_find_pythons(struct winldr_files *files, const char *target,
                         struct winldr_pythons *ret);

/* The program that an alias of the Store's Python starts, where it is in the tree; otherwise `exe`.
 */
const char *winldr_python_behind(struct winldr_files *files, const char *exe);

/* The packages whose imports are modelled, in this order; NULL ends them. */
extern const char *const winldr_packages[];

/* Adds the Python in a folder, where there is one that is not listed. */
void winldr_add_python(struct winldr_files *files, const char *folder, struct winldr_pythons *ret);

bool winldr_has_package(struct winldr_files *files, const struct winldr_python *py,
                        const char *package);
/* Performs the loads of an import. */
void winldr_import_package(struct winldr_process *p, const struct winldr_python *py,
                           const char *package);

/* What torch/version.py states. */
struct winldr_torch {
    const char *version; // "2.4.0+cpu"; NULL: not known
    const char *cuda;    // "12.4"; NULL: none
    const char *hip;     // "6.2.41134"; NULL: none
};
struct winldr_torch winldr_torch_read(struct winldr_files *files, const struct winldr_python *py);

/* The distribution whose RECORD lists a file of this name ("ctranslate2==4.6.0"), with `gone` one
 * that is not there any more, or NULL. */
const char *winldr_recorded_by(struct winldr_files *files, const struct winldr_python *py,
                               const char *name, bool gone);

/* A new process of the environment; machine: of its program. */
struct winldr_process *winldr_python_start(struct winldr_files *files,
                                           const struct winldr_python *py);

#endif
