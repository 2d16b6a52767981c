/*
 * What a package that is built for ROCm's wheels loads before its own libraries.
 *
 *   PACKAGE\_rocm_init.py   calls rocm_sdk.initialize_process(preload_shortnames=[...])
 *   rocm_sdk\_dist_info.py  LibraryEntry("amdhip64", "core", SO, DLL, ...): in which wheel a
 * library is, and by which pattern it is found there; deps=[...] come first _rocm_sdk_core\bin,
 * _rocm_sdk_libraries_FAMILY\bin  where it is loaded from, by ctypes.CDLL
 *
 * Source: ROCm/TheRock build_tools/packaging/python/templates/rocm/src/rocm_sdk/__init__.py and
 * _dist_info.py: all libraries are found before the first is loaded, and one that is not found ends
 * the import (ModuleNotFoundError, FileNotFoundError). Of several families of GPUs, between which
 * offload-arch decides, the first by name is taken, and the process says that it is cut. Those of
 * ROCM_SDK_PRELOAD_LIBRARIES, separated by commas or semicolons, come after them.
 */
#ifndef GPUMEND_WINLDR_ROCM_H
#define GPUMEND_WINLDR_ROCM_H

#include "winldr/python.h"

/* Performs these loads; `package` is its folder. Without a _rocm_init.py nothing is loaded. */
void winldr_rocm_initialize(struct winldr_process *p, const struct winldr_python *py,
                            const char *package);

#endif
