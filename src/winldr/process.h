/*
 * One process in the model of Windows' loader: which DLLs are loaded, and for each request every
 * place that was looked at, in the order of the loader.
 *
 *   winldr_process_new()  ->  winldr_add_directory(), winldr_set_directory(), ...
 *                         ->  winldr_load(), winldr_free(), in the order in which the program does
 *
 * For a request (name, flags) the loader
 *   1 refuses flags that contradict each other (87);
 *   2 chooses the list: the flags', else those of SetDefaultDllDirectories, else the classic one;
 *   3 before any file, for a bare name: what an API set stands for, an assembly of a manifest
 *     (winldr/assembly.h), a module that is loaded under this base name, a known DLL;
 *   4 looks into the folders of the list, in order; a file for another machine is passed over (193
 *     if nothing else is found), one that is no PE file (193) or cannot be opened (5) ends it;
 *   5 treats paths to the same file as one module;
 *   6 loads what the file imports by the same list, as bare names (126 if one is not found), and
 *     then looks for the imported functions in the copies that were found (127).
 * docs/windows.md says which of these were compared with Wine, and where the others are from.
 *
 * Not modelled: what EXE.local changes (where it could, the answer is unknown), what a DLL's own
 * start does (1114 comes from a question to the caller), delayed imports, hooks.
 */
#ifndef GPUMEND_WINLDR_PROCESS_H
#define GPUMEND_WINLDR_PROCESS_H

#include "pe/apiset.h"
#include "winldr/files.h"

/* winbase.h, LoadLibraryExW(): https://learn.microsoft.com/windows/win32/api/libloaderapi */
enum winldr_flags {
    WINLDR_DONT_RESOLVE = 0x1, // DONT_RESOLVE_DLL_REFERENCES: neither imports nor the DLL's start
    WINLDR_ALTERED_SEARCH_PATH = 0x8,
    WINLDR_IGNORE_AUTHZ = 0x10, // AppLocker's rules; changes nothing here
    WINLDR_DLL_LOAD_DIR = 0x100,
    WINLDR_APPLICATION_DIR = 0x200,
    WINLDR_USER_DIRS = 0x400,
    WINLDR_SYSTEM32 = 0x800,
    WINLDR_DEFAULT_DIRS = 0x1000,
    /* Not modelled: as data (0x2, 0x20, 0x40), signed alone (0x80), SAFE_CURRENT_DIRS (0x2000). */
    WINLDR_FLAGS_MODELLED = 0x1f19,
};

enum winldr_code { // winerror.h
    WINLDR_OK = 0,
    WINLDR_ACCESS_DENIED = 5,
    WINLDR_INVALID_PARAMETER = 87,
    WINLDR_MOD_NOT_FOUND = 126,
    WINLDR_PROC_NOT_FOUND = 127,
    WINLDR_BAD_EXE_FORMAT = 193,
    WINLDR_DLL_INIT_FAILED = 1114,
};

enum winldr_outcome {
    WINLDR_LOADED,
    WINLDR_REUSED,  // a module that was loaded before
    WINLDR_FAILED,  // `code`
    WINLDR_UNKNOWN, // something that decides could not be seen
};

enum winldr_via {
    WINLDR_VIA_PATH_GIVEN, // the request is a full path
    WINLDR_VIA_API_SET,
    WINLDR_VIA_ASSEMBLY, // of a manifest
    WINLDR_VIA_LOADED,
    WINLDR_VIA_KNOWN_DLL,
    WINLDR_VIA_PACKAGE,  // the package graph
    WINLDR_VIA_LOAD_DIR, // of the DLL that was asked for by its path
    WINLDR_VIA_APPLICATION,
    WINLDR_VIA_ADDED, // AddDllDirectory(), os.add_dll_directory()
    WINLDR_VIA_SET,   // SetDllDirectory()
    WINLDR_VIA_SYSTEM32,
    WINLDR_VIA_SYSTEM,
    WINLDR_VIA_WINDOWS,
    WINLDR_VIA_CWD,
    WINLDR_VIA_ENVIRONMENT, // PATH
};

enum winldr_result {
    WINLDR_STEP_FOUND,
    WINLDR_STEP_SAME_FILE, // loaded before by another path
    WINLDR_STEP_MISSING,
    WINLDR_STEP_OTHER_MACHINE, // passed over
    WINLDR_STEP_NOT_PE,        // ends the search
    WINLDR_STEP_DENIED,        // ends the search
    WINLDR_STEP_UNSEEN,        // whether it is there cannot be determined: `detail`
    WINLDR_STEP_ASSUMED,       // a part of every Windows, which is not in the tree
    WINLDR_STEP_ARM64X,        // taken; its imports and exports for x64 are not read
};

struct winldr_step {
    const char *path;
    enum winldr_via via;
    enum winldr_result result;
    const char *detail; // one clause, or NULL
};

struct winldr_module {
    const char *name; // base name
    const char *path;
    const struct winldr_file *file; // NULL: not read; taken for whole
    unsigned refs;                  // of calls; what another module imports is held by that
    bool is_pinned;                 // the program and what is assumed: not freed
    bool is_marked;                 // scratch
    const char *unseen;             // another copy may be loaded in its place: where; else NULL
    VEC(struct winldr_module *) imports;
    int load; // index of the load that brought it, -1: the start
};

struct winldr_request {
    const char *name;
    const struct winldr_module *importer; // NULL: the program asks by a call
    enum winldr_outcome outcome;
    enum winldr_code code;
    struct winldr_module *module; // with LOADED and REUSED
    const char *path;             // of it, or of the file that was refused, or NULL
    enum winldr_via via;          // with LOADED and REUSED
    const char *symbol;           // with 127: the imported function, which `path` does not export
    const char *forwarder;        // with 127: the text by which `symbol` led on to `path`, or NULL
    bool is_forwarded;            // an export of `importer` leads on to it
    const char *unseen;           // with UNKNOWN: what was not looked at
    int load;
    VEC(struct winldr_step) steps;
};

struct winldr_load {
    const char *name;
    unsigned flags;
    enum winldr_outcome outcome;
    enum winldr_code code;
    struct winldr_module *module;
    size_t request; // its own; what it imports follows
    size_t end;     // index behind the last request of this load
    size_t blame;   // with FAILED and UNKNOWN: the request that Windows does not name
};

struct winldr_config {
    const char *exe; // full path of the program
    const char *cwd;
    const char *path;              // PATH; NULL: not known
    const char *windows;           // NULL: C:\Windows
    bool unsafe_search;            // registry SafeDllSearchMode is 0
    unsigned default_flags;        // of SetDefaultDllDirectories(); 0: not called
    uint16_t machine;              // 0: PE_MACHINE_AMD64
    const char *const *known_dlls; // NULL: those of Windows 10 and 11
    size_t n_known_dlls;
    bool is_packaged;         // a packaged program (winldr/package.h)
    const char *const *graph; // folders of its package graph
    size_t n_graph;
    bool graph_unseen;       // some of them are not in the tree
    bool no_symbols;         // imported functions are not looked for
    bool no_dependent_flags; // DependentLoadFlags count for nothing
    /* Whether the start of a DLL says no; may be NULL. */
    bool (*init_fails)(const struct winldr_module *m, void *arg);
    void *init_arg;
};

struct winldr_added {
    const char *given;
    const char
        *full; // NULL: "\\\\?\\C:\\x" and the like, which Wine refuses (87) and Windows may take
};

struct winldr_process {
    struct winldr_files *files;
    struct arena *arena;
    struct winldr_config config;
    const char *system32;
    bool exe_seen;                  // the program is in the tree, and one that can be read
    bool system_seen;               // System32 is in the tree
    const struct pe_apiset *apiset; // NULL: the schema is not in the tree
    struct pe_apiset apiset_storage;
    VEC(const char *) known; // the list of known DLLs, then what these import
    size_t n_listed;
    bool is_known_complete;         // with what they import, which is read where it decides
    bool is_known_cut;              // there are more than are read
    VEC(struct winldr_added) added; // in the order of the calls
    struct str program_manifest;    // empty: it has none
    const char *manifest_unseen;    // one that could not be read, or NULL
    const char *local_folder;       // of EXE.local, or NULL: there is none, or it counts nothing
    const char *set_directory;      // NULL: never set; "": set to nothing
    VEC(struct winldr_module *) modules; // in the order of loading
    VEC(struct winldr_request *) requests;
    VEC(struct winldr_load) loads;
    const char *cut;             // why some of its loads are not known, one sentence; NULL: all are
    const char *raised;          // what a script of an import raised and ended with, or NULL
    const char *raised_title;    // the clause for it; NULL: a folder for DLLs is not there
    const char *raised_dll;      // the DLL that is missing there, or NULL
    const char *raised_variable; // the variable that asks for it, or NULL
    bool hook_done;              // the environment's start-up hook was performed (winldr/hook.h):
    size_t hook_first, hook_end; // its loads, from the first to behind the last
    bool by_default_flags; // some request was answered by the classic list or the default flags
};

/* Starts the program: what it imports is loaded. files and arena must outlive the process; config's
 * texts as well. */
struct winldr_process *winldr_process_new(struct winldr_files *files, struct arena *arena,
                                          const struct winldr_config *config);

/* AddDllDirectory() and RemoveDllDirectory(). False: the path is not full (87), or nothing is there
 * (2; Wine, dlls/ntdll/loader.c: LdrAddDllDirectory()). */
bool winldr_add_directory(struct winldr_process *p, const char *path);
void winldr_remove_directory(struct winldr_process *p, const char *path);
/* SetDllDirectory(); NULL: back to the start. A ';' is refused (87; ReactOS, SetDllDirectoryW();
 * Wine takes it). */
void winldr_set_directory(struct winldr_process *p, const char *path);
/* SetDefaultDllDirectories(). False: flags that it refuses (87), which change nothing. */
bool winldr_set_default_flags(struct winldr_process *p, unsigned flags);
void winldr_set_path(struct winldr_process *p, const char *path);
/* SetCurrentDirectory(); a folder that is not there changes nothing. */
void winldr_set_cwd(struct winldr_process *p, const char *path);

/* LoadLibraryEx(name, NULL, flags). The result is also the last of p->loads. */
const struct winldr_load *winldr_load(struct winldr_process *p, const char *name, unsigned flags);
bool winldr_is_loaded(const struct winldr_load *l);

/* FreeLibrary(). */
void winldr_free(struct winldr_process *p, struct winldr_module *m);

/* The loaded module of this base name that a bare request would get; NULL: none. */
struct winldr_module *winldr_find_module(const struct winldr_process *p, const char *name);

const char *winldr_via_text(enum winldr_via via);
const char *winldr_result_text(enum winldr_result result);
/* The text that Python shows, as FormatMessage() has it in English: "The specified module could not
 * be found". */
const char *winldr_code_text(enum winldr_code code);

#endif
