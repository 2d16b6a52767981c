#include "winldr/cupy.h"

#include <string.h>

#include "winldr/path.h"

enum { CUPY_FLAGS = WINLDR_DEFAULT_DIRS | WINLDR_DLL_LOAD_DIR, CUPY_TEXT_MAX = 1 << 16 };

static const char *below(struct winldr_files *f, const char *folder, const char *name)
{
    return winldr_path_join(f->arena, folder, name);
}

static enum winldr_entry_kind entry_kind(struct winldr_files *f, const char *path)
{
    return winldr_files_get(f, winldr_path_full(f->arena, "C:\\", path))->kind;
}

static bool cupy_text(struct winldr_files *f, const char *path, struct str *ret)
{
    const struct winldr_entry *e = winldr_files_place(f, path);
    return e->place && root_read(f->root, f->arena, e->place, CUPY_TEXT_MAX, ret) == 0;
}

/* conda's build says so in a file of its own, and adds CUDA_PATH itself: there CUDA_PATH is the
 * folder with the DLLs. */
static bool is_of_conda(struct winldr_files *f, const char *package)
{
    struct str text;
    if (!cupy_text(f, below(f, package, ".data\\_wheel.json"), &text)) {
        return false;
    }
    size_t at = str_find(text, "\"packaging\"");
    struct str rest = {text.s + at, text.n - at};
    (void)str_cut(&rest, ':'); // the name
    return at < text.n && rest.s && str_starts(str_trim(rest), "\"conda\"");
}

static bool asks_pathfinder(struct winldr_files *f, const char *package)
{
    struct str text;
    return cupy_text(f, below(f, package, "_environment.py"), &text) &&
           str_find(text, "load_nvidia_dynamic_lib") < text.n;
}

/* shutil.which("nvcc"): the folder above that of nvcc.exe. */
static const char *toolkit_of_nvcc(struct winldr_files *f, const char *path)
{
    for (struct str rest = str_of(path ? path : ""); rest.s;) {
        const char *folder = str_dup(f->arena, str_cut(&rest, ';'));
        if (*folder && entry_kind(f, below(f, folder, "nvcc.exe")) == WINLDR_ENTRY_FILE) {
            return winldr_path_folder(f->arena, folder);
        }
    }
    return NULL;
}

/* The bin of a toolkit, and where CUDA 13 has its DLLs. False: the import ended. */
static bool add_toolkit(struct winldr_process *p, const char *toolkit, const char *bin,
                        const char *why)
{
    const char *wide = below(p->files, bin, "x64");
    if (!winldr_add_directory(p, bin)) {
        p->raised = arena_printf(p->arena,
                                 "cupy calls os.add_dll_directory() for %s, a folder that is not "
                                 "there; it takes %s for the toolkit %s",
                                 bin, toolkit, why);
        return false;
    }
    if (entry_kind(p->files, wide) == WINLDR_ENTRY_FOLDER) {
        (void)winldr_add_directory(p, wide); // is there
    }
    return true;
}

/* ------------------------------------------------------------------ cuda.pathfinder */

/* Adds the folder and loads the newest NVRTC of it, as load_with_abs_path() does. */
static bool load_nvrtc(struct winldr_process *p, const char *folder)
{
    static const char *const names[] = {"nvrtc64_130_0.dll", "nvrtc64_120_0.dll"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *path = below(p->files, folder, names[i]);
        if (entry_kind(p->files, path) == WINLDR_ENTRY_FILE) {
            (void)winldr_add_directory(p, folder);  // the file is in it
            (void)winldr_load(p, path, CUPY_FLAGS); // kept in p->loads
            return true;
        }
    }
    return false;
}

/* True: the import goes on. */
static bool find_by_pathfinder(struct winldr_process *p, const struct winldr_python *py)
{
    struct winldr_files *f = p->files;
    if (load_nvrtc(p, below(f, py->site, "nvidia\\cu13\\bin\\x86_64"))) {
        const char *toolkit = below(f, py->site, "nvidia\\cu13");
        return add_toolkit(p, toolkit, below(f, toolkit, "bin"), "by NVRTC's folder");
    }
    if (load_nvrtc(p, below(f, py->site, "nvidia\\cuda_nvrtc\\bin")) || !py->cuda_path) {
        return true; // of CUDA 12, whose wheels have no common folder
    }
    const char *bin = below(f, py->cuda_path, "bin");
    if (load_nvrtc(p, below(f, bin, "x64")) || load_nvrtc(p, bin)) {
        return add_toolkit(p, py->cuda_path, bin, "by NVRTC's folder");
    }
    return true;
}

/* ------------------------------------------------------------------ the import */

static bool find_toolkit(struct winldr_process *p, const struct winldr_python *py,
                         const char *package)
{
    struct winldr_files *f = p->files;
    bool exists = py->cuda_path && entry_kind(f, py->cuda_path) != WINLDR_ENTRY_MISSING;
    if (is_of_conda(f, package)) {
        return !exists || add_toolkit(p, py->cuda_path, py->cuda_path, "because CUDA_PATH says so");
    }
    if (asks_pathfinder(f, package)) {
        return find_by_pathfinder(p, py);
    }
    const char *toolkit = exists ? py->cuda_path : toolkit_of_nvcc(f, py->path);
    return !toolkit || add_toolkit(p, toolkit, below(f, toolkit, "bin"),
                                   exists ? "because CUDA_PATH says so" : "by the nvcc on PATH");
}

void winldr_import_cupy(struct winldr_process *p, const struct winldr_python *py,
                        const char *package)
{
    if (!find_toolkit(p, py, package)) {
        return;
    }
    const char *lib = below(p->files, package, ".data\\lib");
    if (entry_kind(p->files, lib) == WINLDR_ENTRY_FOLDER) {
        (void)winldr_add_directory(p, lib); // is there
    }
    const char *core = below(p->files, package, "_core");
    struct winldr_names names = winldr_files_list(p->files, core);
    for (size_t i = 0; i < names.n; i++) {
        size_t n = strlen(names.items[i]);
        if (strncmp(names.items[i], "core.", 5) == 0 && n > 4 &&
            winldr_name_is(names.items[i] + n - 4, ".pyd")) {
            (void)winldr_load(p, below(p->files, core, names.items[i]), CUPY_FLAGS); // in p->loads
        }
    }
}
