/*
 * Packaged programs (MSIX), of which the Store's Python is one: their search has the package graph
 * in it, and neither the working directory nor PATH.
 *
 *   graph   the program's package, then what its AppxManifest.xml names, in that order:
 *           <PackageDependency Name="Microsoft.VCLibs.140.00" .../>
 *   found   C:\Program Files\WindowsApps\NAME_VERSION_x64__PUBLISHER, the newest version
 *
 * Source: Microsoft, "Dynamic-link library search order", "Search order for packaged apps"; where
 * the graph stands when a call has LOAD_LIBRARY_SEARCH flags the page does not say: before their
 * folders, on paper. Wine has no packages.
 */
#ifndef GPUMEND_WINLDR_PACKAGE_H
#define GPUMEND_WINLDR_PACKAGE_H

#include "winldr/process.h"

/* The folder of the newest package of this name and publisher ("NAME_PUBLISHER"), or NULL: there is
 * none in the tree. */
const char *winldr_package_folder(struct winldr_files *f, const char *family);

/* Whether a program is in a package, by its path: below C:\Program Files\WindowsApps, or an alias.
 */
bool winldr_package_has(const char *exe);

/* Whether a path is one of the folder with a user's app execution aliases,
 * AppData\Local\Microsoft\WindowsApps: reparse points (tag 0x8000001B) that only the start of a
 * program follows. Other systems show an empty file, the two bytes "MZ" (drvfs of WSL,
 * https://github.com/microsoft/WSL/issues/9261) or a link to a text (ntfs-3g). */
bool winldr_package_is_alias(const char *path);

/* Makes the process that of a program in a package: `config` gets the graph. */
void winldr_package_set(struct winldr_files *f, const char *exe, struct winldr_config *config);

#endif
