/*
 * What the files of a process carry for GPUs, and what an extension module says of numpy: read
 * when a rule asks, once for each file, and then kept.
 *
 * The store of files is the key, so two paths to one inode are read once. Nothing is read for
 * processes that no rule asks about: on a machine without a GPU, no GPU code.
 */
#ifndef GPUMEND_MODEL_GPU_H
#define GPUMEND_MODEL_GPU_H

#include "gpu/code.h"
#include "gpu/datafile.h"
#include "model/model.h"

/* The GPU code of a loaded object. NULL when the file cannot be read. */
const struct gpu_code *model_gpu_code(struct model *m, const struct ldso_object *o,
                                      enum gpu_reading reading);

/* The data files of a folder ("rocblas/library" beside librocblas.so). NULL when it cannot be
 * listed. */
const struct gpu_data *model_gpu_data(struct model *m, const char *folder);

/*
 * Which GPU a file was built for: HIP and CUDA by a library of its runtime in DT_NEEDED, or by a
 * section of GPU code (gpu/code.h); for the CPU where there are sections, and none of these.
 * Nothing but the headers is read.
 */
enum model_build { MODEL_BUILD_UNKNOWN, MODEL_BUILD_CPU, MODEL_BUILD_CUDA, MODEL_BUILD_HIP };

enum model_build model_build_of(const struct ldso_object *o);

/* What the files of an installed ctranslate2 or torch say: builds for the CPU and for AMD have the
 * name, and may have the version, of the one for CUDA. Other packages: unknown. */
enum model_build model_build_of_dist(struct model *m, const struct py_dist *dist);

/* The GPU code of the library that model_build_of_dist() goes by (torch: of its HIP library); NULL:
 * there is none, or it cannot be read. */
const struct gpu_code *model_gpu_code_of_dist(struct model *m, const struct py_dist *dist);

/* "cpu", "cuda", "hip", as kb/ has them; "" for unknown. */
const char *model_build_name(enum model_build build);

/*
 * What the C API of numpy left in an extension module. The function import_array(), which is
 * compiled into the module, holds these texts [numpy, numpy/_core/code_generators/
 * generate_numpy_api.py; seen in the wheels that docs/causes.md lists]:
 *
 *   numpy.core._multiarray_umath                        headers of numpy 1.x
 *   numpy._core._multiarray_umath, then the above       headers of numpy 2.x
 *   ... NumPy C-API version 0x%x (NumPy 1.20) but the running ...   2.x: the oldest numpy it takes
 *
 * A module without the first text does not use the C API through import_array(): what it was
 * built against cannot be determined (pybind11's own numpy.h, Cython's memory views).
 */
struct model_numpy {
    int headers;                         // major version of the headers; 0: cannot be determined
    unsigned target_major, target_minor; // oldest numpy it takes; 0.0: not stated
};

const struct model_numpy *model_numpy_of(struct model *m, const struct ldso_object *o);

#endif
