/*
 * Imports that wait until the module is used (PEP 810, Python 3.15): the statement `lazy import`,
 * and the modules that a module lists in __lazy_modules__. Read are the first lines of the package
 * alone, its __init__.py; what its further modules do is not known.
 */
#ifndef GPUMEND_MODEL_LAZY_H
#define GPUMEND_MODEL_LAZY_H

#include "model/model.h"

/* "torch/__init__.py, line 12: lazy import torch._C": the first that waits in the file of `module`,
 * a path below its site folder; NULL: none, or the file cannot be read, or Python is older. */
const char *model_lazy_import(struct model *m, const char *module);

/* The line of the first one in a source; 0: there is none. *ret_line: without its indentation. */
size_t model_lazy_line(struct str source, struct str *ret_line);

#endif
