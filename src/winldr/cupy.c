#include "winldr/cupy.h"

#include <string.h>

#include "winldr/path.h"
#include "winldr/pathfinder.h"
#include "winldr/script.h"

/* conda's build says so in a file of its own, and adds CUDA_PATH itself: there CUDA_PATH is the
 * folder with the DLLs. */
static bool is_of_conda(struct winldr_files *f, const char *package)
{
    struct str text;
    if (!winldr_read_text(f, winldr_below(f, package, ".data\\_wheel.json"), &text)) {
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
    return winldr_read_text(f, winldr_below(f, package, "_environment.py"), &text) &&
           str_find(text, "load_nvidia_dynamic_lib") < text.n;
}

/* shutil.which("nvcc"): the folder above that of nvcc.exe. */
static const char *toolkit_of_nvcc(struct winldr_files *f, const char *path)
{
    for (struct str rest = str_of(path ? path : ""); rest.s;) {
        const char *folder = str_dup(f->arena, str_cut(&rest, ';'));
        if (*folder && winldr_kind(f, winldr_below(f, folder, "nvcc.exe")) == WINLDR_ENTRY_FILE) {
            return winldr_path_folder(f->arena, folder);
        }
    }
    return NULL;
}

/* The bin of a toolkit, and where CUDA 13 has its DLLs. False: the import ended. */
static bool add_toolkit(struct winldr_process *p, const char *toolkit, const char *bin,
                        const char *why)
{
    const char *wide = winldr_below(p->files, bin, "x64");
    if (!winldr_add_directory(p, bin)) {
        p->raised = arena_printf(p->arena,
                                 "cupy calls os.add_dll_directory() for %s, a folder that is not "
                                 "there; it takes %s for the toolkit %s",
                                 bin, toolkit, why);
        return false;
    }
    if (winldr_kind(p->files, wide) == WINLDR_ENTRY_FOLDER) {
        (void)winldr_add_directory(p, wide); // is there
    }
    return true;
}

/* ------------------------------------------------------------------ cuda.pathfinder */

/* The toolkit is the folder above that of the NVRTC that cuda.pathfinder loads. True: the import
 * goes on. */
static bool find_by_pathfinder(struct winldr_process *p, const struct winldr_python *py)
{
    struct winldr_files *f = p->files;
    struct winldr_pathfinder nvrtc = winldr_pathfinder_load(p, py, "nvrtc");
    if (nvrtc.is_unsure && !p->cut) {
        p->cut =
            "which NVRTC cuda.pathfinder finds by a plain call is not known, and neither is the "
            "toolkit that cupy takes";
    }
    if (!nvrtc.module || nvrtc.is_unsure) {
        return true;
    }
    const char *folder = winldr_path_folder(f->arena, nvrtc.module->path);
    const char *name = winldr_path_base(folder);
    if (winldr_name_is(name, "x64") || winldr_name_is(name, "x86_64")) {
        folder = winldr_path_folder(f->arena, folder);
    }
    const char *toolkit = winldr_path_folder(f->arena, folder);
    if (!winldr_name_is(winldr_path_base(folder), "bin") ||
        winldr_name_is(winldr_path_base(toolkit), "cuda_nvrtc")) {
        return true; // of CUDA 12, whose wheels have no common folder
    }
    return add_toolkit(p, toolkit, folder, "by NVRTC's folder");
}

/* ------------------------------------------------------------------ the import */

static bool find_toolkit(struct winldr_process *p, const struct winldr_python *py,
                         const char *package)
{
    struct winldr_files *f = p->files;
    (void)winldr_is_unseen(p, py, py->cuda_path, "CUDA_PATH"); // cut by it
    bool exists = py->cuda_path && winldr_kind(f, py->cuda_path) != WINLDR_ENTRY_MISSING;
    if (is_of_conda(f, package)) {
        return !exists || add_toolkit(p, py->cuda_path, py->cuda_path, "because CUDA_PATH says so");
    }
    if (asks_pathfinder(f, package)) {
        return find_by_pathfinder(p, py);
    }
    const char *toolkit = exists ? py->cuda_path : toolkit_of_nvcc(f, py->path);
    return !toolkit || add_toolkit(p, toolkit, winldr_below(f, toolkit, "bin"),
                                   exists ? "because CUDA_PATH says so" : "by the nvcc on PATH");
}

void winldr_import_cupy(struct winldr_process *p, const struct winldr_python *py,
                        const char *package)
{
    if (!find_toolkit(p, py, package)) {
        return;
    }
    const char *lib = winldr_below(p->files, package, ".data\\lib");
    if (winldr_kind(p->files, lib) == WINLDR_ENTRY_FOLDER) {
        (void)winldr_add_directory(p, lib); // is there
    }
    const char *core = winldr_below(p->files, package, "_core");
    struct winldr_names names = winldr_files_list(p->files, core);
    for (size_t i = 0; i < names.n; i++) {
        size_t n = strlen(names.items[i]);
        if (strncmp(names.items[i], "core.", 5) == 0 && n > 4 &&
            winldr_name_is(names.items[i] + n - 4, ".pyd")) {
            (void)winldr_load(p, winldr_below(p->files, core, names.items[i]),
                              WINLDR_IMPORT_FLAGS); // in p->loads
        }
    }
}
