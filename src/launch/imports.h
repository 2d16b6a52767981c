/*
 * Which GPU packages a Python program imports, and in which order, read from its text: the import
 * statements of the script and of the modules beside it, a bounded number of them. What runs when
 * the module is loaded comes first, what stands inside functions and classes after it.
 *
 * This is a reading of lines, not of Python: a statement is taken where a line, or a part after a
 * semicolon, begins with it, in a docstring too; importlib and __import__ are not seen. So the
 * answer is used only where it can be complete: a program that imports no GPU package itself, or a
 * package that requires one, is modelled with every GPU package of the environment.
 */
#ifndef GPUMEND_LAUNCH_IMPORTS_H
#define GPUMEND_LAUNCH_IMPORTS_H

#include "launch/program.h"
#include "model/model.h"

/* One import statement: a dotted name, in the order of the text. */
struct launch_import {
    struct str name;
    bool inside; // a function or a class
};

struct launch_imports {
    VEC(struct launch_import) items;
};

/* The import statements of one text; relative ones ("from . import x") are left out. */
void launch_imports_read(struct arena *a, struct str text, struct launch_imports *ret);

/* Adds to the model the scripts of the program: its imports in its own order, or every GPU package
 * of the environment as `check` does. The model's environment is that of the program. */
void launch_imports_add(struct model *m, const struct launch_program *p);

#endif
