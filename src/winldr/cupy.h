/*
 * What CuPy loads when it is imported, by its release.
 *
 *   until 13   cupy/_environment.py: CUDA_PATH if it exists, otherwise the toolkit of the nvcc on
 *              PATH; its bin is added whether it is there or not, and where it is not,
 *              os.add_dll_directory() raises and the import ends
 *   14         asks cuda.pathfinder for NVRTC (winldr/pathfinder.h). The toolkit's folders are
 * added where NVRTC comes from a toolkit or from CUDA 13's wheels, whose folder is one
 *
 * Sources: cupy-cuda12x 13.6.0 and 14.2.0, cupy/_environment.py, get_cuda_path() and
 * _setup_win32_dll_directory(). Not modelled: what is loaded at the first use of cuBLAS and others.
 */
#ifndef GPUMEND_WINLDR_CUPY_H
#define GPUMEND_WINLDR_CUPY_H

#include "winldr/python.h"

/* Performs these loads; `package` is its folder. */
void winldr_import_cupy(struct winldr_process *p, const struct winldr_python *py,
                        const char *package);

#endif
