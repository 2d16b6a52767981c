/*
 * The start-up hook of a Python environment of Windows: what is searched and loaded right before
 * the first import of one of its modules. The same three files in site-packages as on Linux
 * (apply/hookfile.h), whose module has these lists:
 *
 *     MODULES    the packages whose first import is waited for
 *     SEARCHED   os.add_dll_directory() of each, in this order
 *     ON_PATH    put in front of PATH, for plain calls of LoadLibrary()
 *     LIBRARIES  ctypes.CDLL() of each by its full path, in this order
 *     PREFIX     b"", or the only environment (sys.prefix) in which it does anything
 *
 * A path below site-packages is written relative to it, so that the environment can be moved.
 */
#ifndef GPUMEND_WINLDR_HOOK_H
#define GPUMEND_WINLDR_HOOK_H

#include "winldr/process.h"

#define WINLDR_HOOK_PTH    "gpumend-hook.pth"
#define WINLDR_HOOK_START  "gpumend-hook.start"
#define WINLDR_HOOK_MODULE "_gpumend_hook.py"

typedef VEC(const char *) winldr_texts;

struct winldr_hook {
    winldr_texts modules;
    winldr_texts searched, on_path, libraries; // full paths
};

/* Whether the hook in `site` is one that gpumend wrote and Python reads. */
bool winldr_hook_read(struct winldr_files *files, const char *site, struct winldr_hook *ret);

/* The files beside it, which make Python read the module. Bytecode would be one more file: the flag
 * is set for this import alone. */
extern const char winldr_hook_pth[], winldr_hook_start[];

/* Whether a module's text is whole and as gpumend wrote it: its last line has the sum of the rest.
 */
bool winldr_hook_is_whole(struct str text);

/* The module's text. `prefix`: the only environment that it is for, or NULL. */
struct str winldr_hook_text(struct arena *a, const struct winldr_hook *hook, const char *site,
                            const char *prefix);

/* Performs it in front of an import of `module`, once in a process. */
void winldr_hook_perform(struct winldr_process *p, const struct winldr_hook *hook,
                         const char *module);

#endif
