/*
 * What decides about a bare name before any folder of the list: EXE.local, and the assemblies that
 * a manifest names (side-by-side).
 *
 *   manifest of the program   RT_MANIFEST 1, otherwise EXE.manifest
 *   manifest of a DLL         RT_MANIFEST 2: for what it imports, and what that imports
 *     <dependentAssembly><assemblyIdentity name= version= publicKeyToken= processorArchitecture=>
 *
 *   of the system   Windows\WinSxS\ARCH_NAME_TOKEN_VERSION_LANGUAGE_HASH\DLL, the newest build of
 *                   the same major and minor release
 *   private         beside the file with the manifest: NAME.dll (with a manifest of its own),
 *                   NAME.manifest, NAME\NAME.dll, NAME\NAME.manifest, if it lists <file name="DLL">
 *
 * Sources: Wine 8.0 dlls/ntdll/actctx.c (lookup_assembly(), lookup_winsxs()) and loader.c
 * (find_actctx_dll()); Microsoft, "Manifest Files Reference" and "Assembly Searching Sequence". Not
 * modelled: configuration files and publisher policies, languages, and contexts that a program
 * makes itself.
 *
 * EXE.local: "Dynamic-link library redirection" (learn.microsoft.com/windows/win32/dlls): not with
 * a manifest, and on today's Windows only with the registry's DevOverrideEnable, which is not read.
 */
#ifndef GPUMEND_WINLDR_ASSEMBLY_H
#define GPUMEND_WINLDR_ASSEMBLY_H

#include "winldr/process.h"

struct winldr_redirect {
    const char *path;   // the DLL is this file, whether it is there or not; NULL: not redirected
    const char *unseen; // an assembly that may have it is not in the tree; or NULL
    const char *doubt;  // with `path`: Windows may refuse the manifest that says so; or NULL
};

/* Looks for the manifest and the .local of the program, which is the first module. */
void winldr_assembly_start(struct winldr_process *p);

/* The module whose manifest counts, and the name without a folder. */
struct winldr_redirect winldr_assembly_find(struct winldr_process *p, const struct winldr_module *m,
                                            const char *name);

/* Whether this module's manifest counts for what it imports. */
bool winldr_assembly_has(const struct winldr_module *m);

/* The file that EXE.local would put in the place of a DLL, or NULL. */
const char *winldr_local_file(struct winldr_process *p, const char *name);

#endif
