/* CUDA toolkits that are installed: what a build or a first use of NVRTC and nvcc may find. */
#ifndef GPUMEND_MODEL_TOOLKIT_H
#define GPUMEND_MODEL_TOOLKIT_H

#include "model/model.h"

struct model_toolkit {
    const char *dir;     // without links: "/usr/local/cuda-12.4"
    const char *from;    // the variable that names it, or NULL
    const char *version; // "12.4.1", by its version.json or version.txt; NULL: not known
    const char *why;     // why not, one clause; or NULL
    bool nvcc;           // it has bin/nvcc
};

typedef VEC(struct model_toolkit) model_toolkits;

/* Those of CUDA_HOME, CUDA_PATH and CUDA_ROOT in the start environment, of the usual folders
 * (NVIDIA's installers: /usr/local/cuda*; Arch: /opt/cuda; Debian's packages: /usr/lib/cuda), and
 * of a conda environment (nvcc in its bin). Each folder once. *ret_why: a folder that could not be
 * listed, and why; NULL: all were. */
void model_find_toolkits(struct model *m, model_toolkits *ret, const char **ret_why);

#endif
