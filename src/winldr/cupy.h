/*
 * What CuPy loads when it is imported, by its release.
 *
 *   until 13   cupy/_environment.py: CUDA_PATH if it exists, otherwise the toolkit of the nvcc on
 *              PATH; its bin is added whether it is there or not, and where it is not,
 *              os.add_dll_directory() raises and the import ends
 *   14         asks cuda.pathfinder for NVRTC: NVIDIA's wheels, then the process's own search, then
 *              CUDA_PATH with bin\x64 and bin. The toolkit's folders are added where NVRTC comes
 *              from a toolkit or from CUDA 13's wheels, whose folder is one
 *
 * Sources: cupy-cuda12x 13.6.0 and 14.2.0, cupy/_environment.py, get_cuda_path() and
 * _setup_win32_dll_directory(); cuda-pathfinder 1.9.1, load_nvidia_dynamic_lib(),
 * descriptor_catalog.py ("nvrtc") and load_dl_windows.py, add_dll_directory(). Not modelled:
 * pathfinder's search by PATH (the extension modules of an import of CuPy 14 need no DLL of CUDA),
 * CONDA_PREFIX, and what is loaded at the first use of cuBLAS and others.
 */
#ifndef GPUMEND_WINLDR_CUPY_H
#define GPUMEND_WINLDR_CUPY_H

#include "winldr/python.h"

/* Performs these loads; `package` is its folder. */
void winldr_import_cupy(struct winldr_process *p, const struct winldr_python *py,
                        const char *package);

#endif
