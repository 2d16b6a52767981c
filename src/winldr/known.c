/* Known DLLs, and what they import, which come from System32 whatever the folders of a list have.
 */
#include "winldr/internal.h"
#include "winldr/path.h"

enum { KNOWN_MAX = 1024 };

/* Session Manager\\KnownDLLs in the registry of Windows 10 and 11, and what each process has from
 * its start. On paper (docs/windows.md): Microsoft does not publish the list. */
static const char *const of_windows[] = {
    "ntdll.dll",    "kernelbase.dll", "advapi32.dll", "clbcatq.dll",  "combase.dll",
    "comdlg32.dll", "coml2.dll",      "difxapi.dll",  "gdi32.dll",    "gdiplus.dll",
    "imagehlp.dll", "imm32.dll",      "kernel32.dll", "msctf.dll",    "msvcrt.dll",
    "normaliz.dll", "nsi.dll",        "ole32.dll",    "oleaut32.dll", "psapi.dll",
    "rpcrt4.dll",   "sechost.dll",    "setupapi.dll", "shcore.dll",   "shell32.dll",
    "shlwapi.dll",  "user32.dll",     "wldap32.dll",  "ws2_32.dll",
};

enum { WITHOUT_REGISTRY = 2, OF_WINDOWS = sizeof of_windows / sizeof *of_windows };

static void add_known(struct winldr_process *p, const char *name)
{
    struct pe_apiset_answer set = {.state = PE_APISET_NONE};
    if (pe_apiset_is_name(name)) {
        if (!p->apiset) {
            return;
        }
        set = pe_apiset_find(p->arena, p->apiset, name, NULL);
        name = set.state == PE_APISET_HOST ? set.host : name;
    }
    if (winldr_name_in(name, p->known.items, p->known.n)) {
        return;
    }
    if (p->known.n == KNOWN_MAX) {
        p->is_known_cut = true;
        return;
    }
    VEC_PUSH(p->arena, &p->known, name);
}

/* The list, and what its DLLs import as System32 has them. */
static void collect_known(struct winldr_process *p)
{
    bool is_given = p->config.known_dlls != NULL;
    size_t n = is_given ? p->config.n_known_dlls : OF_WINDOWS;
    for (size_t i = 0; i < n; i++) {
        add_known(p, is_given ? p->config.known_dlls[i] : of_windows[i]);
    }
    for (size_t i = 0; i < WITHOUT_REGISTRY; i++) {
        add_known(p, of_windows[i]);
    }
    p->n_listed = p->known.n;
}

static void collect_imports_of_known(struct winldr_process *p)
{
    for (size_t i = 0; i < p->known.n; i++) { // the list grows
        const struct winldr_entry *e =
            winldr_files_get(p->files, winldr_path_join(p->arena, p->system32, p->known.items[i]));
        for (size_t k = 0; e->kind == WINLDR_ENTRY_FILE && k < e->file->imports.n; k++) {
            const struct pe_import *import = &e->file->imports.items[k];
            if (!import->delayed) {
                add_known(p, import->dll);
            }
        }
    }
    p->is_known_complete = true;
}

bool winldr_is_known_dll(struct winldr_process *p, const char *name)
{
    if (!p->known.n) {
        collect_known(p);
    }
    if (winldr_name_in(name, p->known.items, p->n_listed)) {
        return true;
    }
    const char *path = winldr_path_join(p->arena, p->system32, name);
    if (!p->system_seen || !winldr_files_place(p->files, path)->place) {
        return false;
    }
    if (!p->is_known_complete) {
        collect_imports_of_known(p);
    }
    return winldr_name_in(name, p->known.items, p->known.n);
}
