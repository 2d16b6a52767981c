#include "winldr/python.h"

#include <string.h>

#include "winldr/bitsandbytes.h"
#include "winldr/cupy.h"
#include "winldr/frameworks.h"
#include "winldr/path.h"
#include "winldr/rocm.h"
#include "winldr/script.h"
#include "winldr/syspath.h"

const char *const winldr_packages[] = {"torch",      "ctranslate2", "onnxruntime", "faster_whisper",
                                       "whisperx",   "cupy",        "llvmlite",    "bitsandbytes",
                                       "tensorflow", "paddle",      "numba_cuda",  NULL};

/* ------------------------------------------------------------------ imports */

/* What torch does with each DLL of its folder: after 126 again, by a plain LoadLibrary() with its
 * folders in front of PATH, or of one that is not known. */
static void load_torch_files(struct winldr_process *p, const char *lib, const char *folders)
{
    struct winldr_names names = winldr_files_list(p->files, lib);
    bool patched = false;
    for (size_t i = 0; i < names.n; i++) {
        const char *path = winldr_below(p->files, lib, names.items[i]);
        if (!winldr_name_ends(path, ".dll")) {
            continue;
        }
        const struct winldr_load *l = winldr_load(p, path, WINLDR_IMPORT_FLAGS);
        if (l->outcome != WINLDR_FAILED || l->code != WINLDR_MOD_NOT_FOUND) {
            continue;
        }
        if (!patched && p->config.path) {
            winldr_set_path(p, arena_printf(p->arena, "%s;%s", folders, p->config.path));
            patched = true;
        }
        (void)winldr_load(p, path, 0); // kept in p->loads
    }
}

/* A folder that torch adds if it is there. */
static void add_torch_folder(struct winldr_process *p, const char *folder, const char **folders)
{
    if (winldr_is_folder(p->files, folder)) {
        (void)winldr_add_directory(p, folder); // is there
        *folders = arena_printf(p->arena, "%s;%s", *folders, folder);
    }
}

static bool find_cudart(struct winldr_process *p, const char *folders)
{
    for (struct str rest = str_of(folders); rest.s;) {
        struct winldr_names names =
            winldr_files_list(p->files, str_dup(p->arena, str_cut(&rest, ';')));
        for (size_t i = 0; i < names.n; i++) {
            if (starts_with(names.items[i], "cudart64") &&
                winldr_name_ends(names.items[i], ".dll")) {
                return true;
            }
        }
    }
    return false;
}

/* A build for CUDA without a cudart of its own takes the toolkit of its release, where the
 * installer puts it; CUDA_PATH_V12_4, which may name another folder, is not read. */
static void add_torch_toolkit(struct winldr_process *p, const struct winldr_python *py,
                              const char **folders)
{
    struct winldr_torch torch = winldr_torch_read(p->files, py);
    if (torch.cuda) {
        const char *name = arena_printf(
            p->arena, "C:\\Program Files\\NVIDIA GPU Computing Toolkit\\CUDA\\v%s\\bin",
            torch.cuda);
        add_torch_folder(p, name, folders);
    }
}

static void import_torch(struct winldr_process *p, const struct winldr_python *py,
                         const char *package)
{
    static const char *const runtime[] = {"vcruntime140.dll", "msvcp140.dll", "vcruntime140_1.dll"};
    const char *lib = winldr_below(p->files, package, "lib");
    winldr_rocm_initialize(p, py, package);
    if (p->raised) {
        return;
    }
    (void)winldr_add_directory(p, lib); // a full path
    const char *folders = lib;
    add_torch_folder(p, winldr_below(p->files, py->folder, "Library\\bin"), &folders);
    const char *base = winldr_path_folder(p->files->arena, py->exe);
    if (!winldr_name_is(base, py->folder)) {
        add_torch_folder(p, winldr_below(p->files, base, "Library\\bin"), &folders);
    }
    if (!find_cudart(p, folders)) {
        add_torch_toolkit(p, py, &folders);
    }
    for (size_t i = 0; i < sizeof runtime / sizeof *runtime; i++) {
        (void)winldr_load(p, runtime[i], WINLDR_DEFAULT_DIRS); // kept in p->loads
    }
    load_torch_files(p, lib, folders);
    winldr_load_files(p, package, "_C.", ".pyd");
}

/* The libraries of ROCm's wheels, in the order of their names. */
static bool add_rocm_libraries(struct winldr_process *p, const char *site)
{
    struct winldr_names names = winldr_files_list(p->files, site);
    bool added = false;
    for (size_t i = 0; i < names.n; i++) {
        if (starts_with(names.items[i], "_rocm_sdk_libraries")) {
            const char *folder = winldr_below(p->files, site, names.items[i]);
            added |= winldr_add_existing(p, winldr_below(p->files, folder, "bin"));
        }
    }
    return added;
}

/* Whether a file is of a build for ROCm. */
static bool imports_hip(struct winldr_files *f, const char *path)
{
    const struct winldr_entry *e = winldr_files_get(f, path);
    for (size_t i = 0; e->kind == WINLDR_ENTRY_FILE && i < e->file->imports.n; i++) {
        if (starts_with(e->file->imports.items[i].dll, "amdhip64")) {
            return true;
        }
    }
    return false;
}

/* The folders of ROCm, which differ between releases: 4.5.0 adds none; 4.8.1 two of fixed names, up
 * to the first that is not there; 4.8.5 those that are there, and without any of them that of
 * HIP_PATH. Which one is installed, the text of its __init__.py shows. */
static void add_rocm(struct winldr_process *p, const struct winldr_python *py, const char *package)
{
    struct winldr_files *f = p->files;
    const char *site = winldr_path_folder(f->arena, package);
    const char *core = winldr_below(f, site, "_rocm_sdk_core\\bin");
    struct str text;
    bool is_read = winldr_read_text(f, winldr_below(f, package, "__init__.py"), &text);
    if (!is_read && py->is_frozen && imports_hip(f, winldr_below(f, package, "ctranslate2.dll"))) {
        p->cut =
            "which folders this ctranslate2 for ROCm searches is in Python files, which are in "
            "the program's archive";
    }
    if (!is_read || str_find(text, "_rocm_sdk_core") == text.n) {
        return;
    }
    bool has_core = winldr_add_existing(p, core);
    if (str_find(text, "_rocm_sdk_libraries_custom") < text.n) {
        (void)(has_core &&
               winldr_add_existing(p, winldr_below(f, site, "_rocm_sdk_libraries_custom\\bin")));
    } else if (!add_rocm_libraries(p, site) && !has_core && py->hip_path) {
        (void)winldr_add_existing(p, winldr_below(f, py->hip_path, "bin"));
    } else if (!has_core && imports_hip(f, winldr_below(f, package, "ctranslate2.dll"))) {
        (void)winldr_is_unseen(p, py, py->hip_path, "HIP_PATH"); // cut by it
    }
}

static void import_ctranslate2(struct winldr_process *p, const struct winldr_python *py,
                               const char *package)
{
    (void)winldr_add_directory(p, package); // a full path
    add_rocm(p, py, package);
    winldr_load_files(p, package, "", ".dll");
    winldr_load_files(p, package, "_ext.", ".pyd");
}

static void import_llvmlite(struct winldr_process *p, const char *package)
{
    const char *site = winldr_path_folder(p->files->arena, package);
    const char *libs = winldr_below(p->files, site, "llvmlite.libs");
    if (winldr_is_folder(p->files, libs)) {
        (void)winldr_add_directory(p, libs); // a full path
    }
    winldr_load_files(p, winldr_below(p->files, package, "binding"), "llvmlite", ".dll");
}

static void import_bitsandbytes(struct winldr_process *p, const struct winldr_python *py,
                                const char *package)
{
    import_torch(p, py, winldr_python_path(p->files, py, "torch"));
    struct winldr_torch torch = winldr_torch_read(p->files, py);
    const char *name = winldr_bitsandbytes_library(p->files, py, package);
    enum winldr_variable forced =
        torch.cuda ? WINLDR_VARIABLE_BNB_CUDA_VERSION : WINLDR_VARIABLE_BNB_ROCM_VERSION;
    if (torch.cuda || torch.hip) { // cut by it
        (void)winldr_is_unseen(p, py, py->variables[forced], winldr_variable_names[forced]);
    }
    if (name) {
        /* Kept in p->loads. */
        (void)winldr_load(p, winldr_below(p->files, package, name), WINLDR_IMPORT_FLAGS);
    }
}

static void import_onnxruntime(struct winldr_process *p, const char *package)
{
    winldr_load_files(p, winldr_below(p->files, package, "capi"), "onnxruntime_pybind11_state",
                      ".pyd");
}

/* The extension modules of what a package imports. */
static void import_others(struct winldr_process *p, const struct winldr_python *py,
                          const char *first, const char *second)
{
    const char *const names[] = {first, second};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (names[i] && winldr_has_package(p->files, py, names[i])) {
            winldr_import_package(p, py, names[i]);
        }
    }
}

void winldr_import_package(struct winldr_process *p, const struct winldr_python *py,
                           const char *package)
{
    const char *folder = winldr_python_path(p->files, py, package);
    if (py->hook) {
        winldr_hook_perform(p, py->hook, package);
    }
    if (strcmp(package, "torch") == 0) {
        import_torch(p, py, folder);
    } else if (strcmp(package, "ctranslate2") == 0) {
        import_ctranslate2(p, py, folder);
    } else if (strcmp(package, "faster_whisper") == 0) {
        import_others(p, py, "ctranslate2", NULL);
    } else if (strcmp(package, "whisperx") == 0) {
        import_others(p, py, "ctranslate2", "torch");
    } else if (strcmp(package, "cupy") == 0) {
        winldr_import_cupy(p, py, folder);
    } else if (strcmp(package, "llvmlite") == 0) {
        import_llvmlite(p, folder);
    } else if (strcmp(package, "bitsandbytes") == 0) {
        import_bitsandbytes(p, py, folder);
    } else if (strcmp(package, "tensorflow") == 0) {
        winldr_import_tensorflow(p, py, folder);
    } else if (strcmp(package, "paddle") == 0) {
        winldr_import_paddle(p, py, folder);
    } else if (strcmp(package, "numba_cuda") == 0) {
        import_llvmlite(p, winldr_python_path(p->files, py, "llvmlite"));
        winldr_import_numba_cuda(p, py, folder);
    } else {
        import_onnxruntime(p, folder);
    }
}
