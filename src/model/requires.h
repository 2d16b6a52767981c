/* What requirements of installed distributions are judged by: PEP 508's markers for this target. */
#ifndef GPUMEND_MODEL_REQUIRES_H
#define GPUMEND_MODEL_REQUIRES_H

#include "model/model.h"
#include "py/requirement.h"

/* The values of the markers in the model's environment, which it must have; no extra is asked for.
 * Lives in the model's arena. */
struct py_marker_env model_markers(struct model *m);

#endif
