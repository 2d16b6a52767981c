/*
 * What TensorFlow, Paddle and numba-cuda load when they are imported, by the scripts of their
 * wheels for Windows:
 *
 * - TensorFlow, tensorflow/python/platform/self_check.py and pywrap_tensorflow.py (2.21.0):
 *   the DLLs of build_info.py's msvcp_dll_names by their names, each of which must be there,
 *   then _pywrap_tensorflow_internal.pyd.
 * - Paddle, paddle/base/core.py (3.3.1, paddlepaddle-gpu 2.6.2): paddle\\base and paddle\\libs in
 *   front of PATH, paddle\\libs added, libpaddle.pyd; and paddle/__init__.py (3.3.1), which a build
 *   for CUDA with wheels of NVIDIA goes on with: their folders are added, and each DLL is loaded as
 *   torch does, but with its folders in front of PATH for the first one that needs them alone.
 * - numba-cuda, numba_cuda/numba/cuda/__init__.py (0.30.4): numba_cuda.libs added,
 *   cuda.bindings must be there, then the modules of cext.
 */
#ifndef GPUMEND_WINLDR_FRAMEWORKS_H
#define GPUMEND_WINLDR_FRAMEWORKS_H

#include "winldr/python.h"

/* They perform these loads; `package` is its folder. */
void winldr_import_tensorflow(struct winldr_process *p, const struct winldr_python *py,
                              const char *package);
void winldr_import_paddle(struct winldr_process *p, const struct winldr_python *py,
                          const char *package);
void winldr_import_numba_cuda(struct winldr_process *p, const struct winldr_python *py,
                              const char *package);

#endif
