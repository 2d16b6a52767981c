/*
 * Versions of library families, read from the binaries themselves by the recipes of the knowledge
 * base, else from the package that recorded the file. Never from a file name that a recipe does
 * not name.
 */
#ifndef GPUMEND_MODEL_FAMILY_H
#define GPUMEND_MODEL_FAMILY_H

#include "model/model.h"

/* The version of a file, as "9.1.0", or NULL if it cannot be determined. Read once for each file.
 */
const char *model_object_version(struct model *m, struct ldso_file *file, const char *path,
                                 enum kb_version_from from);

#endif
