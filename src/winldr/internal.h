/*
 * Shared by the files of the process model: its modules (modules.c), known DLLs
 * (known.c) and the search (process.c).
 */
#ifndef GPUMEND_WINLDR_INTERNAL_H
#define GPUMEND_WINLDR_INTERNAL_H

#include "winldr/process.h"

/* Opens Windows' table of API sets, where there is one. */
void winldr_open_apiset(struct winldr_process *p);

/* Adds a loaded module; without a file it is one of Windows, and stays. */
struct winldr_module *winldr_add_module(struct winldr_process *p, const char *path,
                                        const struct winldr_file *file, int load);

/* The module of this file, or NULL. */
struct winldr_module *winldr_module_of_file(const struct winldr_process *p,
                                            const struct winldr_file *file);

/* Drops the modules that neither a call nor the imports of another one hold. Those that only import
 * each other, or themselves by another name, do not hold each other. */
void winldr_sweep_modules(struct winldr_process *p);

/* Whether a bare name stands for System32's DLL: one of KnownDLLs, or what such a DLL imports. */
bool winldr_is_known_dll(struct winldr_process *p, const char *name);

#endif
