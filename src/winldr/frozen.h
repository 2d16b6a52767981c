/*
 * Programs that were frozen with their Python into one folder.
 *
 * PyInstaller's have PROGRAM.exe, and base_library.zip and python3xx.dll in _internal, before 6.0
 * beside it. The bootloader calls SetDllDirectory() with the folder of the two.
 *
 * cx_Freeze's have PROGRAM.exe, python3xx.dll and lib\library.zip. os.add_dll_directory() adds lib.
 *
 * Others have PROGRAM.exe and python3xx.dll, as Nuitka makes them. How such a program loads its
 * packages is not known.
 *
 * The Python files of packages may be in an archive, so that a package is there if its folder is.
 * Only that folder is searched: PYTHONPATH and the registry do not count, and nothing can be
 * installed into it.
 *
 * Source: PyInstaller bootloader/src/pyi_main.c and pyi_dylib_python.c (6), cx_Freeze
 * initscripts/__startup__.py. An _internal folder of another name is not found.
 */
#ifndef GPUMEND_WINLDR_FROZEN_H
#define GPUMEND_WINLDR_FROZEN_H

#include "winldr/python.h"

/* The program in a folder, or the one that `exe` names if it is in it. False: there is none. */
bool winldr_frozen_find(struct winldr_files *files, const char *folder, const char *exe,
                        struct winldr_python *ret);

/* What the program does to the search before it imports a package. */
void winldr_frozen_start(struct winldr_process *p, const struct winldr_python *py);

/* Why the import of a package of the program cannot be performed in the model, or NULL; of "": of
 * any package. */
const char *winldr_frozen_unseen(struct winldr_files *files, const struct winldr_python *py,
                                 const char *package);

#endif
