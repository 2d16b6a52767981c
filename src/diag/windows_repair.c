#include <string.h>

#include "diag/windows_internal.h"
#include "winldr/path.h"
#include "winldr/syspath.h"

#define AMD_PAGE                                                                                   \
    "https://rocm.docs.amd.com/projects/radeon-ryzen/en/latest/docs/install/installrad/windows/"   \
    "install-pytorch.html"

/* ------------------------------------------------------------------ quoting */

/* Within "..." the command prompt still replaces %NAME%, and no character prevents it. */
const char *diag_windows_quote_cmd(struct arena *a, const char *text)
{
    return str_is_seen(text) && !strpbrk(text, "%\"!") ? str_concat(a, "\"", text, "\"") : NULL;
}

/* ------------------------------------------------------------------ repairs */

void diag_windows_add_repair(struct diag_windows *n, struct diag_windows_finding *f,
                             struct diag_windows_repair repair)
{
    if (n->py->is_frozen && repair.is_inside) {
        return;
    }
    VEC_PUSH(n->arena, &f->repairs, repair);
}

/* The same words for both shells. */
struct diag_windows_repair diag_windows_plain(const char *says, const char *command)
{
    return (struct diag_windows_repair){.says = says, .powershell = command, .cmd = command};
}

/* The program that pip is run with: of a virtual environment its own. */
static const char *pip_program(const struct diag_windows *n)
{
    bool venv = strcmp(n->py->kind, "venv") == 0;
    return winldr_path_join(n->arena, n->py->folder, venv ? "Scripts\\python.exe" : "python.exe");
}

/* `arguments` need no quotes but those that they have. */
struct diag_windows_repair diag_windows_pip(const struct diag_windows *n, const char *says,
                                            const char *arguments)
{
    struct arena *a = n->arena;
    const char *power = str_powershell_word(a, pip_program(n));
    const char *cmd = diag_windows_quote_cmd(a, pip_program(n));
    return (struct diag_windows_repair){
        .says = says,
        .powershell = power ? arena_printf(a, "& %s -m pip install %s", power, arguments) : NULL,
        .cmd = cmd ? arena_printf(a, "%s -m pip install %s", cmd, arguments) : NULL,
        .is_inside = true,
    };
}

/* Python's raw text cannot hold its own quote. */
struct diag_windows_repair diag_windows_directories(const struct diag_windows *n,
                                                    const diag_windows_folders *folders)
{
    const char *says = "let Python search", *line = "import os";
    for (size_t i = 0; i < folders->n; i++) {
        const char *folder = folders->items[i];
        bool plain = line && str_is_seen(folder) && !strchr(folder, '"');
        says = arena_printf(n->arena, "%s%s %s", says, i ? " and" : "", folder);
        line = plain ? arena_printf(n->arena, "%s; os.add_dll_directory(r\"%s\")", line, folder)
                     : NULL;
    }
    struct diag_windows_repair r = {.says = says, .python = line, .is_inside = true};
    for (size_t i = 0; i < folders->n; i++) {
        VEC_PUSH(n->arena, &r.searched, folders->items[i]);
    }
    return r;
}

struct diag_windows_repair diag_windows_preload(const struct diag_windows *n, const char *path)
{
    bool plain = str_is_seen(path) && !strchr(path, '"');
    return (struct diag_windows_repair){
        .says = arena_printf(n->arena, "load %s before the package is imported", path),
        .preload = path,
        .is_inside = true,
        .python =
            plain ? arena_printf(n->arena, "import ctypes; ctypes.CDLL(r\"%s\")", path) : NULL,
    };
}

struct diag_windows_repair diag_windows_on_path(const struct diag_windows *n, const char *folder)
{
    struct arena *a = n->arena;
    const char *power = str_powershell_word(a, folder), *cmd = diag_windows_quote_cmd(a, folder);
    struct diag_windows_repair r = {
        .says = arena_printf(a, "put %s on PATH, in the window that starts the program", folder),
        .powershell = power ? arena_printf(a, "$env:PATH = %s + ';' + $env:PATH", power) : NULL,
        .cmd = cmd ? arena_printf(a, "set \"PATH=%s;%%PATH%%\"", folder) : NULL,
    };
    struct str rest = str_of(folder);
    while (rest.s) {
        VEC_PUSH(a, &r.on_path, str_dup(a, str_cut(&rest, ';')));
    }
    return r;
}

struct diag_windows_repair diag_windows_pip_on_path(const struct diag_windows *n, const char *says,
                                                    const char *arguments, const char *folder)
{
    struct arena *a = n->arena;
    struct diag_windows_repair r = diag_windows_pip(n, says, arguments);
    struct diag_windows_repair path = diag_windows_on_path(n, folder);
    bool one = !strchr(folder, ';'); // of which PATH would make two folders
    bool both = one && r.powershell && path.powershell;
    r.powershell =
        both ? arena_printf(a, "%s; if ($?) { %s }", r.powershell, path.powershell) : NULL;
    r.cmd = one && r.cmd && path.cmd ? arena_printf(a, "%s && %s", r.cmd, path.cmd) : NULL;
    return r;
}

struct diag_windows_repair diag_windows_variable(const struct diag_windows *n, const char *name,
                                                 const char *value)
{
    struct arena *a = n->arena;
    if (!value) {
        return (struct diag_windows_repair){
            .says = arena_printf(a, "remove %s, in the window that starts the program", name),
            .powershell = arena_printf(a, "Remove-Item Env:%s", name),
            .cmd = arena_printf(a, "set \"%s=\"", name),
        };
    }
    const char *power = str_powershell_word(a, value), *cmd = diag_windows_quote_cmd(a, value);
    return (struct diag_windows_repair){
        .says = arena_printf(a, "set %s to %s, in the window that starts the program", name, value),
        .powershell = power ? arena_printf(a, "$env:%s = %s", name, power) : NULL,
        .cmd = cmd ? arena_printf(a, "set \"%s=%s\"", name, value) : NULL,
    };
}

/* ------------------------------------------------------------------ where a DLL is installed */

static void add_folder(struct diag_windows *n, diag_windows_folders *list, const char *folder)
{
    if (winldr_files_get(n->files, folder)->kind == WINLDR_ENTRY_FOLDER) {
        VEC_PUSH(n->arena, list, folder);
    }
}

/* A folder and its x64, where CUDA 13 has the DLLs. */
static void add_bin(struct diag_windows *n, diag_windows_folders *list, const char *bin)
{
    add_folder(n, list, bin);
    add_folder(n, list, winldr_path_join(n->arena, bin, "x64"));
    add_folder(n, list, winldr_path_join(n->arena, bin, "x86_64"));
}

/* NVIDIA's and AMD's wheels in one folder of sys.path. */
static void add_folders_of_place(struct diag_windows *n, diag_windows_folders *list,
                                 const char *place)
{
    struct arena *a = n->arena;
    const char *nvidia = winldr_path_join(a, place, "nvidia");
    struct winldr_names names = winldr_files_list(n->files, nvidia);
    for (size_t i = 0; i < names.n; i++) {
        add_bin(n, list, winldr_path_join(a, winldr_path_join(a, nvidia, names.items[i]), "bin"));
    }
    names = winldr_files_list(n->files, place);
    for (size_t i = 0; i < names.n; i++) {
        if (starts_with(names.items[i], "_rocm_sdk_")) {
            add_folder(n, list,
                       winldr_path_join(a, winldr_path_join(a, place, names.items[i]), "bin"));
        }
    }
}

/* Where packages and installers put the DLLs of CUDA, cuDNN and ROCm. */
void diag_windows_find_folders(struct diag_windows *n, diag_windows_folders *list)
{
    struct arena *a = n->arena;
    add_folder(n, list, winldr_python_path(n->files, n->py, "torch\\lib"));
    for (size_t i = 0; i < n->py->n_places; i++) {
        add_folders_of_place(n, list, n->py->places[i]);
    }
    for (size_t i = 0; n->host && i < n->host->windows.toolkits.n; i++) {
        const struct host_windows_toolkit *t = &n->host->windows.toolkits.items[i];
        const char *bin = winldr_path_join(a, t->path, "bin");
        add_bin(n, list, bin);
        if (strcmp(t->kind, "cuDNN") == 0) { // a folder for each CUDA
            struct winldr_names names = winldr_files_list(n->files, bin);
            for (size_t k = 0; k < names.n; k++) {
                add_bin(n, list, winldr_path_join(a, bin, names.items[k]));
            }
        }
    }
}

const char *diag_windows_activated_path(const struct diag_windows *n)
{
    static const char *const names[] = {"Library\\mingw-w64\\bin", "Library\\usr\\bin",
                                        "Library\\bin", "Scripts", "bin"};
    const char *path = strcmp(n->py->kind, "conda") == 0 ? n->py->folder : NULL;
    for (size_t i = 0; path && i < sizeof names / sizeof *names; i++) {
        path = str_concat(n->arena, path, ";", winldr_path_join(n->arena, n->py->folder, names[i]));
    }
    return path;
}

struct winldr_python diag_windows_with_path(const struct diag_windows *n, const char *added)
{
    struct winldr_python py = *n->py;
    py.path = added && py.path ? str_concat(n->arena, added, ";", py.path) : py.path;
    return py;
}

bool diag_windows_has_dll(struct diag_windows *n, const char *folder, const char *dll)
{
    const struct winldr_entry *e =
        winldr_files_get(n->files, winldr_path_join(n->arena, folder, dll));
    return e->kind == WINLDR_ENTRY_FILE && e->file->image.state == PE_STATE_OK &&
           e->file->image.machine == PE_MACHINE_AMD64;
}

/* ------------------------------------------------------------------ builds for AMD's GPUs */

static bool names_gfx(const struct kb_build *b, const char *gfx)
{
    for (size_t i = 0; i < b->gfx.n; i++) {
        if (strcmp(b->gfx.items[i], gfx) == 0) {
            return true;
        }
    }
    return false;
}

/* "PinW/ctranslate2-rocm-rdna1: README.md" -> "https://github.com/PinW/ctranslate2-rocm-rdna1". */
static const char *address_of(struct arena *a, const struct kb_build *b)
{
    struct str source = str_of(b->origin.sources.n ? b->origin.sources.items[0] : "");
    struct str repository = str_cut(&source, ':');
    bool is_repository = source.s && str_find_char(repository, '/') < repository.n &&
                         str_find_char(repository, ' ') == repository.n;
    return is_repository ? arena_printf(a, "https://github.com/%.*s/releases", (int)repository.n,
                                        repository.s)
                         : NULL;
}

/* The last build of ctranslate2 that has code for the GPU; NULL: none is known. */
static const struct kb_build *build_for(struct diag_windows *n, const char *gfx)
{
    const struct kb_build *found = NULL;
    struct kb_builds builds;
    if (kb_builds(n->kb, &builds, NULL) < 0) {
        return NULL;
    }
    for (size_t i = 0; i < builds.n; i++) {
        const struct kb_build *b = &builds.rows[i];
        if (strcmp(b->package, "ctranslate2") == 0 && b->rocm && names_gfx(b, gfx)) {
            found = b;
        }
    }
    return found;
}

static void add_ctranslate2_repair(struct diag_windows *n, struct diag_windows_finding *f,
                                   const char *gfx)
{
    struct arena *a = n->arena;
    const struct kb_build *b = build_for(n, gfx);
    const char *address = b ? address_of(a, b) : NULL;
    const char *says =
        b ? arena_printf(a,
                         "install the build of ctranslate2 %s for ROCm %s that has code for "
                         "%s%s%s (%s)",
                         b->versions, b->rocm, gfx, address ? ": " : "", address ? address : "",
                         b->origin.note ? b->origin.note : "see its page")
          : arena_printf(a, "use the CPU (device=\"cpu\"): no build of ctranslate2 for %s is known",
                         gfx);
    diag_windows_add_repair(n, f,
                            (struct diag_windows_repair){.says = says, .is_inside = b != NULL});
}

/* AMD's own wheels are for RDNA 3 and later: the compatibility list of "PyTorch via PIP
 * installation", rocm.docs.amd.com. */
static void add_torch_repair(struct diag_windows *n, struct diag_windows_finding *f,
                             const char *gfx)
{
    bool may_serve = strncmp(gfx, "gfx11", 5) == 0 || strncmp(gfx, "gfx12", 5) == 0;
    const char *says =
        may_serve
            ? arena_printf(n->arena,
                           "install AMD's wheels of torch for Windows and Python 3.12, if their "
                           "list has this GPU (%s): " AMD_PAGE,
                           gfx)
            : arena_printf(
                  n->arena,
                  "use the CPU: AMD's wheels of torch for Windows are for gfx11 and gfx12, "
                  "and gpumend knows no other release that has %s",
                  gfx);
    diag_windows_add_repair(n, f,
                            (struct diag_windows_repair){.says = says, .is_inside = may_serve});
}

void diag_windows_add_amd_repair(struct diag_windows *n, struct diag_windows_finding *f,
                                 const struct host_gpu *g, const char *package)
{
    if (g->gfx.state == HOST_YES) {
        (strcmp(package, "torch") == 0 ? add_torch_repair : add_ctranslate2_repair)(n, f,
                                                                                    g->gfx.value);
    }
}
