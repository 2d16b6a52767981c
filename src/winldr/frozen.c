#include "winldr/frozen.h"

#include <string.h>

#include "winldr/path.h"
#include "winldr/script.h"
#include "winldr/syspath.h"

static const char pyinstaller[] = "PyInstaller", cx_freeze[] = "cx_Freeze", other[] = "frozen";

/* The first program in a folder, by name. NULL: none. */
static const char *first_program(struct winldr_files *f, const char *folder)
{
    struct winldr_names names = winldr_files_list(f, folder);
    for (size_t i = 0; i < names.n; i++) {
        const char *path = winldr_below(f, folder, names.items[i]);
        if (winldr_name_ends(names.items[i], ".exe") && winldr_is_file(f, path)) {
            return path;
        }
    }
    return NULL;
}

/* Where the packages are, and the kind. NULL: no frozen program. */
static const char *packages_folder(struct winldr_files *f, const char *folder, const char **kind)
{
    const char *internal = winldr_below(f, folder, "_internal"),
               *lib = winldr_below(f, folder, "lib");
    const char *names[] = {internal, folder};
    *kind = pyinstaller;
    for (size_t i = 0; i < 2; i++) {
        if (winldr_is_file(f, winldr_below(f, names[i], "base_library.zip")) &&
            winldr_has_python_dll(f, names[i])) {
            return names[i];
        }
    }
    if (!winldr_has_python_dll(f, folder)) {
        return NULL;
    }
    bool has_zip = winldr_is_file(f, winldr_below(f, lib, "library.zip"));
    *kind = has_zip ? cx_freeze : other;
    return has_zip ? lib : folder;
}

bool winldr_frozen_find(struct winldr_files *files, const char *folder, const char *exe,
                        struct winldr_python *ret)
{
    const char *kind = NULL, *site = packages_folder(files, folder, &kind);
    const char *program = site ? first_program(files, folder) : NULL;
    if (exe && winldr_name_is(winldr_path_folder(files->arena, exe), folder) &&
        winldr_is_file(files, exe)) {
        program = site ? exe : NULL;
    }
    *ret = (struct winldr_python){
        .folder = folder, .kind = kind, .is_frozen = true, .exe = program, .site = site};
    return program != NULL;
}

void winldr_frozen_start(struct winldr_process *p, const struct winldr_python *py)
{
    if (py->is_frozen && py->kind == pyinstaller) {
        winldr_set_directory(p, py->site);
    } else if (py->is_frozen && py->kind == cx_freeze) {
        (void)winldr_add_directory(p, py->site); // a full path
    }
}

/* Whose script of an import reads Python files of the package. */
static bool reads_python_files(const char *package)
{
    static const char *const names[] = {"cupy", "bitsandbytes", "tensorflow", "paddle",
                                        "numba_cuda"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(package, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

const char *winldr_frozen_unseen(struct winldr_files *files, const struct winldr_python *py,
                                 const char *package)
{
    const char *init = winldr_below(files, winldr_below(files, py->site, package), "__init__.py");
    return !py->is_frozen ? NULL
           : py->kind == other
               ? arena_printf(files->arena,
                              "%s: how this program, which brings a Python of its own and which "
                              "neither PyInstaller nor cx_Freeze has made, loads it",
                              package)
           : reads_python_files(package) && !winldr_is_file(files, init)
               ? arena_printf(files->arena,
                              "%s: what its import loads, since its Python files are in the "
                              "program's archive",
                              package)
               : NULL;
}
