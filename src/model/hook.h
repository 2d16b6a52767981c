/*
 * The start-up hook that `gpumend enable` puts into an environment (src/apply/hookfile.h writes
 * it): libraries that its Python loads right before the first import of a module. Read as text, so
 * that a check of a mended environment sees what its programs will do.
 */
#ifndef GPUMEND_MODEL_HOOK_H
#define GPUMEND_MODEL_HOOK_H

#include "base/root.h"

#define MODEL_HOOK_PTH    "gpumend-hook.pth"
#define MODEL_HOOK_START  "gpumend-hook.start"
#define MODEL_HOOK_MODULE "_gpumend_hook.py"

struct model_hook {
    const char *file;           // the module, absolute inside the root
    const char *const *modules; // top-level import names
    size_t n_modules;
    const char *const *libraries; // absolute, in their order
    size_t n_libraries;
};

/* Whether a hook stands in the site-packages folder (absolute inside the root), whether or not its
 * Python runs it. */
bool model_hook_stands(struct root *root, struct arena *a, const char *site);

/* Whether Python 3.`minor` runs the hook that stands there: by the import line of its .pth file up
 * to 3.17, by its .start file since 3.15 (PEP 829). The lists are empty where the text is not as
 * gpumend writes it. */
bool model_hook_read(struct root *root, struct arena *a, const char *site, int minor,
                     struct model_hook *ret);

/* Whether the value of GPUMEND_HOOK (NULL: it is not set) switches the hook off for one start. */
bool model_hook_is_off(const char *value);

#endif
