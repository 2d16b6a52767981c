/*
 * What an installed package says of its own build, in files that are no part of its metadata.
 */
#ifndef GPUMEND_MODEL_PACKAGE_H
#define GPUMEND_MODEL_PACKAGE_H

#include "model/model.h"
#include "py/dist.h"

/* torch/version.py: cuda = '12.4', hip = None. A build for neither is for the CPU alone, or for
 * Intel's GPUs (xpu = '20250201'), which makes the answer "not known". */
struct model_torch {
    bool known;             // the file was read and says what cuda is: NULL below means None
    const char *cuda, *hip; // "12.4", "6.2.41133"; NULL: None, or not known
    const char *xpu;        // "20250201", the release of SYCL; NULL: None, or not known
};

/* Never NULL; without torch nothing in it is known. Read once. */
const struct model_torch *model_torch(struct model *m);

/* The releases of torchaudio for one of torch, and those of torch for one of torchaudio, as pip
 * takes them: up to 2.10 each is for the other's of its number; 2.11 is for that of torch and later
 * ones. */
#define MODEL_TORCHAUDIO_SOURCE                                                                    \
    "https://docs.pytorch.org/audio/2.11.0/installation.html (Compatibility Matrix)"
const char *model_torchaudio_pair(struct arena *a, const char *version);

/* Whether the file at `path` (below the distribution's site folder) is the one that the
 * distribution brought, by the size that its RECORD has: where two packages bring one path, the
 * last one installed wins. PY_UNKNOWN when the file or its row is not there. */
enum py_answer model_is_own_file(struct model *m, const struct py_dist *dist, const char *path);

#endif
