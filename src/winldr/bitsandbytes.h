/*
 * Which library bitsandbytes loads (bitsandbytes/cextension.py, 0.50.2): that of BNB_CUDA_VERSION
 * or BNB_ROCM_VERSION, otherwise that of torch's CUDA or ROCm, otherwise of the nearest release of
 * its major. An error there does not end the import: the functions raise.
 */
#ifndef GPUMEND_WINLDR_BITSANDBYTES_H
#define GPUMEND_WINLDR_BITSANDBYTES_H

#include "winldr/python.h"

/* Its name, whether it is there or not; NULL: none is loaded. `package` is the folder. */
const char *winldr_bitsandbytes_library(struct winldr_files *f, const struct winldr_python *py,
                                        const char *package);

#endif
