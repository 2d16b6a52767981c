/*
 * Which installed package a name means, and what the knowledge base (kb/imports) knows of its
 * import.
 */
#ifndef GPUMEND_MODEL_IMPORTS_H
#define GPUMEND_MODEL_IMPORTS_H

#include "model/model.h"
#include "py/dist.h"

/* The installed distribution that `name` (of a module, of one below it, or of a distribution)
 * means, or NULL; its row is NULL where nothing is known of this release. Of two that bring one
 * module it is the one whose libraries are there, as with onnxruntime and onnxruntime-gpu. */
const struct py_dist *model_find_import(struct model *m, const char *name,
                                        const struct kb_import **ret_row);

/* The distribution that was installed over this one: its libraries lie where this one lists its
 * own. NULL: none, or the RECORDs do not say. */
const struct py_dist *model_overwriter(struct model *m, const struct py_dist *dist);

/* Whether what the import loads is known of a release, installed or not. */
bool model_import_is_known(const struct model *m, const char *name);

/* Whether a distribution whose import no row describes may import `to` (NULL: any that a row does):
 * it requires it, directly or not, or a file of it names it. Yes where that cannot be seen. */
bool model_leads_to(struct model *m, struct py_dist *dist, const struct py_dist *to);

#endif
