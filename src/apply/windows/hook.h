/*
 * The files of the start-up hook (winldr/hook.h) in site-packages, on Windows: written and taken
 * away. Each is written beside its place, flushed and renamed; what makes Python read the module
 * comes last and goes first, so that at no moment half of it is read. A file of that name that
 * gpumend did not write, or that was changed since, is left alone: GM_ERR_UNSUPPORTED.
 */
#ifndef GPUMEND_APPLY_WINDOWS_HOOK_H
#define GPUMEND_APPLY_WINDOWS_HOOK_H

#include "winldr/hook.h"

int apply_windows_hook_write(struct arena *a, const char *site, struct str module,
                             struct gm_err *err) GM_CHECK;

/* *ret: whether there was one. */
int apply_windows_hook_remove(struct arena *a, const char *site, bool *ret,
                              struct gm_err *err) GM_CHECK;

/* One file of these texts in a folder that is this process's own. */
int apply_windows_file(struct arena *a, const char *folder, const char *name, struct str text,
                       struct gm_err *err) GM_CHECK;

#endif
