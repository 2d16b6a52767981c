/*
 * cuda.pathfinder's load_nvidia_dynamic_lib(NAME), by which CuPy 14 and numba-cuda get NVIDIA's
 * DLLs. It looks, and stops at the first that has one:
 *
 *   1  site-packages\nvidia\cu13\bin\x86_64, then the folder of the wheel for CUDA 12
 *   2  from 1.3 on: CONDA_PREFIX\Library\bin\x64, bin
 *   3  the process: what is loaded by one of its names
 *   4  LoadLibraryExW(NAME, 0), the newest name first
 *   5  CUDA_PATH, then CUDA_HOME (until 1.4 the other way round): bin\x64, bin; for nvvm
 *      nvvm\bin\x64, nvvm\bin
 *   6  from 1.4 on, for nvvm: the toolkit of the cudart that 4 would find in a new process
 *
 * Until 1.6 only the first of the folders in 5 that exists is looked at, and in 1 and 5 the oldest
 * DLL is taken; since then the newest.
 *
 * A path is loaded with 0x1100; of nvrtc its folder is added first, and put at the end of PATH.
 *
 * Source: the wheels of 1.2.0, 1.2.3, 1.3.0, 1.3.5, 1.4.0, 1.5.0 to 1.9.1,
 * cuda/pathfinder/_dynamic_libs. Earlier releases, in which 5 comes before 3 and 4, are not
 * modelled: the process says so (`cut`). An environment of conda counts as activated.
 */
#ifndef GPUMEND_WINLDR_PATHFINDER_H
#define GPUMEND_WINLDR_PATHFINDER_H

#include "winldr/python.h"

struct winldr_pathfinder {
    const struct winldr_module *module; // NULL: not found, not loadable, or not known
    bool is_unsure;                     // what a plain call finds is not known
    const char *found;  // the path that was loaded, or NULL: by a name, or not at all
    const char *looked; // where it looked, as a text
};

/* "nvrtc", "nvvm", "nvJitLink" or "cudart". */
struct winldr_pathfinder winldr_pathfinder_load(struct winldr_process *p,
                                                const struct winldr_python *py,
                                                const char *library);

#endif
