#include "winldr/python.h"

#include <string.h>

#include "winldr/cupy.h"
#include "winldr/package.h"
#include "winldr/path.h"
#include "winldr/rocm.h"

enum {
    IMPORT_FLAGS = WINLDR_DEFAULT_DIRS | WINLDR_DLL_LOAD_DIR,
    CFG_MAX = 1 << 16,
    RECORD_MAX = 16 << 20,
    FOUND_MAX = 64
};

const char *const winldr_packages[] = {"torch",          "ctranslate2",  "onnxruntime",
                                       "faster_whisper", "whisperx",     "cupy",
                                       "llvmlite",       "bitsandbytes", NULL};

static const char *join_path(struct winldr_files *f, const char *folder, const char *name)
{
    return winldr_path_join(f->arena, folder, name);
}

static bool is_kind(struct winldr_files *f, const char *path, enum winldr_entry_kind kind)
{
    return winldr_files_get(f, winldr_path_full(f->arena, "C:\\", path))->kind == kind;
}

static bool name_ends(const char *name, const char *suffix)
{
    size_t n = strlen(name), m = strlen(suffix);
    return n >= m && winldr_name_is(name + n - m, suffix);
}

static bool read_text(struct winldr_files *f, const char *path, struct str *ret)
{
    const struct winldr_entry *e = winldr_files_place(f, path);
    return e->place && root_read(f->root, f->arena, e->place, CFG_MAX, ret) == 0;
}

/* ------------------------------------------------------------------ environments */

/* "home = C:\Python312" of pyvenv.cfg; NULL: there is none. */
static const char *venv_home(struct winldr_files *f, const char *folder)
{
    struct str text, line;
    if (!read_text(f, join_path(f, folder, "pyvenv.cfg"), &text)) {
        return NULL;
    }
    while (str_line(&text, &line)) {
        struct str key = str_trim(str_cut(&line, '='));
        if (str_is(key, "home") && line.s) {
            return str_dup(f->arena, str_trim(line));
        }
    }
    return NULL;
}

static const char store_folder[] = "WindowsApps", store_name[] = "PythonSoftwareFoundation.Python.";

/* Whether a part of the path has this name. */
static bool names_folder(const char *path, const char *name)
{
    struct str rest = str_of(path);
    while (rest.s) {
        if (winldr_name_part_is(str_cut(&rest, '\\'), str_of(name))) {
            return true;
        }
    }
    return false;
}

static bool has_pth(struct winldr_files *f, const char *folder)
{
    struct winldr_names names = winldr_files_list(f, folder);
    for (size_t i = 0; i < names.n; i++) {
        if (name_ends(names.items[i], "._pth")) {
            return true;
        }
    }
    return false;
}

/* Each environment once, by its folder. */
static void take(struct winldr_files *f, struct winldr_python py, struct winldr_pythons *ret)
{
    struct winldr_hook hook;
    for (size_t i = 0; i < ret->items.n; i++) {
        if (winldr_name_is(ret->items.items[i].folder, py.folder)) {
            return;
        }
    }
    if (winldr_hook_read(f, py.site, &hook)) {
        struct winldr_hook *kept = arena_alloc(f->arena, sizeof *kept);
        *kept = hook;
        py.hook = kept;
    }
    if (ret->items.n == FOUND_MAX) {
        root_note_cut(f->root, "there are more than %d Pythons; the others were not looked at",
                      FOUND_MAX);
        return;
    }
    VEC_PUSH(f->arena, &ret->items, py);
}

/* Something of this name is there. A program that Windows has compressed is a dangling link in the
 * mounts of other systems. */
static bool has_program(struct winldr_files *f, const char *path)
{
    const struct winldr_entry *e = winldr_files_get(f, winldr_path_full(f->arena, "C:\\", path));
    return e->place && e->kind != WINLDR_ENTRY_FOLDER;
}

static void take_environment(struct winldr_files *f, const char *folder, struct winldr_pythons *ret)
{
    struct winldr_python py = {.folder = folder,
                               .site = join_path(f, folder, "Lib\\site-packages"),
                               .exe = join_path(f, folder, "python.exe")};
    const char *home = venv_home(f, folder);
    if (home) {
        py.kind = "venv";
        py.exe = join_path(f, home, "python.exe");
        py.is_packaged = names_folder(home, store_folder);
        const char *package = winldr_package_folder(f, winldr_path_base(home));
        py.exe = package ? join_path(f, package, "python.exe") : py.exe;
    } else if (!has_program(f, py.exe)) {
        return;
    } else {
        py.kind = is_kind(f, join_path(f, folder, "conda-meta"), WINLDR_ENTRY_FOLDER) ? "conda"
                  : has_pth(f, folder)                                                ? "embedded"
                  : strstr(folder, "\\uv\\python\\")                                  ? "uv"
                                                     : "python.org";
    }
    take(f, py, ret);
}

/* Each folder in `parent` whose name begins with `prefix`, and `rest` in it. */
static void take_folders(struct winldr_files *f, const char *parent, const char *prefix,
                         const char *rest, struct winldr_pythons *ret)
{
    struct winldr_names names = winldr_files_list(f, parent);
    for (size_t i = 0; i < names.n; i++) {
        struct str head = {names.items[i], strlen(prefix)};
        if (strlen(names.items[i]) >= head.n && winldr_name_part_is(head, str_of(prefix))) {
            const char *folder = join_path(f, parent, names.items[i]);
            take_environment(f, *rest ? join_path(f, folder, rest) : folder, ret);
        }
    }
}

static void take_conda(struct winldr_files *f, const char *parent, struct winldr_pythons *ret)
{
    static const char *const names[] = {"miniconda3", "anaconda3", "miniforge3", "mambaforge"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *folder = join_path(f, parent, names[i]);
        take_environment(f, folder, ret);
        take_folders(f, join_path(f, folder, "envs"), "", "", ret);
    }
}

/* conda writes each environment that it makes into environments.txt of the user's .conda
 * (conda/core/envs_manager.py); the file also names what is gone. */
static void take_conda_list(struct winldr_files *f, const char *home, struct winldr_pythons *ret)
{
    struct str text, line;
    const char *folder = join_path(f, home, ".conda");
    take_folders(f, join_path(f, folder, "envs"), "", "", ret);
    if (read_text(f, join_path(f, folder, "environments.txt"), &text)) {
        while (str_line(&text, &line)) {
            line = str_trim(line);
            if (line.n) {
                take_environment(f, winldr_path_full(f->arena, "C:\\", str_dup(f->arena, line)),
                                 ret);
            }
        }
    }
}

/* The Store's Python of one user: its package installs into a folder of the user, LocalCache
 * \\local-packages (CPython PC/python_uwp.cpp), and is started by an alias, a reparse point that
 * only Windows resolves (CPython PC/launcher.c has the names). The program itself is in a folder
 * that lists itself to nobody. */
static void take_store_of(struct winldr_files *f, const char *home, struct winldr_pythons *ret)
{
    const char *local = join_path(f, home, "AppData\\Local"),
               *parent = join_path(f, local, "Packages");
    struct winldr_names names = winldr_files_list(f, parent);
    for (size_t i = 0; i < names.n; i++) {
        const char *name = names.items[i];
        if (!starts_with(name, store_name)) {
            continue;
        }
        struct str minor = str_of(name + strlen(store_name)), rest = minor;
        struct str major = str_cut(&rest, '.');
        minor = rest.s ? str_cut(&rest, '_') : (struct str){"", 0};
        const char *folder = join_path(f, join_path(f, parent, name), "LocalCache\\local-packages");
        const char *version =
            arena_printf(f->arena, "Python" STR_FMT STR_FMT, STR_ARG(major), STR_ARG(minor));
        const char *alias = join_path(f, join_path(f, local, "Microsoft\\WindowsApps"), name);
        const char *package = winldr_package_folder(f, name);
        take(f,
             (struct winldr_python){
                 .folder = join_path(f, parent, name),
                 .kind = "Store",
                 .is_packaged = true,
                 .exe = join_path(f, package ? package : alias, "python.exe"),
                 .site = join_path(f, join_path(f, folder, version), "site-packages")},
             ret);
    }
}

/* Its program, where the folder can be listed, and nothing of a user's is there. */
static void take_store_programs(struct winldr_files *f, struct winldr_pythons *ret)
{
    static const char parent[] = "C:\\Program Files\\WindowsApps";
    struct winldr_names names = winldr_files_list(f, parent);
    for (size_t i = 0; i < names.n; i++) {
        const char *folder = join_path(f, parent, names.items[i]);
        if (starts_with(names.items[i], store_name)) {
            take(f,
                 (struct winldr_python){.folder = folder,
                                        .kind = "Store",
                                        .is_packaged = true,
                                        .exe = join_path(f, folder, "python.exe"),
                                        .site = join_path(f, folder, "Lib\\site-packages")},
                 ret);
        }
    }
}

/* Programs that bring their Python in a folder beside them. */
static void take_embedded(struct winldr_files *f, struct winldr_pythons *ret)
{
    struct winldr_names names = winldr_files_list(f, "C:\\");
    for (size_t i = 0; i < names.n; i++) {
        const char *folder = join_path(f, "C:\\", names.items[i]);
        take_folders(f, folder, "python_embed", "", ret);
    }
}

static void find_all(struct winldr_files *f, struct winldr_pythons *ret)
{
    take_folders(f, "C:\\", "Python3", "", ret);
    take_folders(f, "C:\\Program Files", "Python3", "", ret);
    take_conda(f, "C:\\", ret);
    take_conda(f, "C:\\ProgramData", ret);
    struct winldr_names users = winldr_files_list(f, "C:\\Users");
    for (size_t i = 0; i < users.n; i++) {
        const char *home = join_path(f, "C:\\Users", users.items[i]);
        take_folders(f, join_path(f, home, "AppData\\Local\\Programs\\Python"), "Python3", "", ret);
        take_folders(f, join_path(f, home, "AppData\\Roaming\\uv\\python"), "cpython-", "", ret);
        take_conda(f, home, ret);
        take_conda(f, join_path(f, home, "AppData\\Local"), ret);
        take_conda_list(f, home, ret);
        take_store_of(f, home, ret);
    }
    take_store_programs(f, ret);
    take_embedded(f, ret);
}

/* The user whose Store's Python a path is of: its packages, or the folder of its alias. NULL:
 * another path. */
static const char *store_user(struct winldr_files *f, const char *path)
{
    static const char *const folders[] = {"AppData\\Local\\Packages",
                                          "AppData\\Local\\Microsoft\\WindowsApps"};
    struct winldr_names users = winldr_files_list(f, "C:\\Users");
    for (size_t i = 0; i < users.n; i++) {
        const char *home = join_path(f, "C:\\Users", users.items[i]);
        for (size_t k = 0; k < sizeof folders / sizeof *folders; k++) {
            const char *folder = join_path(f, home, folders[k]);
            if (winldr_path_is_below(path, folder) || winldr_name_is(path, folder)) {
                return home;
            }
        }
    }
    return NULL;
}

const char *winldr_python_behind(struct winldr_files *f, const char *exe)
{
    const char *user = winldr_package_is_alias(exe) ? store_user(f, exe) : NULL;
    struct winldr_pythons all = {0};
    if (user) {
        take_store_of(f, user, &all);
    }
    for (size_t i = 0; i < all.items.n; i++) {
        const struct winldr_python *py = &all.items.items[i];
        if (all.items.n == 1 || names_folder(exe, winldr_path_base(py->folder))) {
            return py->exe;
        }
    }
    return exe;
}

/* The folder of an environment that is named by it or by its program. */
static const char *folder_named(struct winldr_files *f, const char *target)
{
    const char *path = winldr_path_full(f->arena, "C:\\", target);
    if (!name_ends(path, ".exe")) {
        return path;
    }
    path = winldr_path_folder(f->arena, path);
    const char *above = winldr_path_folder(f->arena, path);
    return winldr_name_is(winldr_path_base(path), "Scripts") && venv_home(f, above) ? above : path;
}

bool winldr_is_tree(struct winldr_files *f, const char *target)
{
    const char *folder = target ? folder_named(f, target) : NULL;
    return is_kind(f, "C:\\Windows\\System32", WINLDR_ENTRY_FOLDER) ||
           (folder && (is_kind(f, join_path(f, folder, "python.exe"), WINLDR_ENTRY_FILE) ||
                       is_kind(f, join_path(f, folder, "Scripts\\python.exe"), WINLDR_ENTRY_FILE)));
}

/* An alias without a Python behind it in the tree. */
static void take_alias(struct winldr_files *f, const char *folder, struct winldr_pythons *ret)
{
    const char *exe = join_path(f, folder, "python.exe");
    if (winldr_package_is_alias(folder) && has_program(f, exe)) {
        take(f,
             (struct winldr_python){.folder = folder,
                                    .kind = "Store",
                                    .is_packaged = true,
                                    .exe = exe,
                                    .site = join_path(f, folder, "Lib\\site-packages")},
             ret);
    }
}

void winldr_find_pythons(struct winldr_files *files, const char *target, struct winldr_pythons *ret)
{
    *ret = (struct winldr_pythons){0};
    if (!target) {
        find_all(files, ret);
        return;
    }
    const char *path = folder_named(files, target);
    const char *user = store_user(files, path);
    if (!user) {
        take_environment(files, path, ret);
        return;
    }
    take_store_of(files, user, ret);
    if (!ret->items.n) {
        take_alias(files, path, ret);
    }
}

/* ------------------------------------------------------------------ imports */

/* conda's Python adds folders when it starts, those that are there (conda-forge/python-feedstock,
 * recipe/patches/0006-Add-CondaEcosystemModifyDllSearchPath.patch): the last one is searched first.
 */
static void add_conda_folders(struct winldr_process *p, const char *folder)
{
    static const char *const names[] = {"bin", "Scripts", "Library\\bin", "Library\\usr\\bin",
                                        "Library\\mingw-w64\\bin"};
    bool is_conda =
        is_kind(p->files, join_path(p->files, folder, "conda-meta"), WINLDR_ENTRY_FOLDER);
    for (size_t i = 0; is_conda && i < sizeof names / sizeof *names; i++) {
        const char *added = join_path(p->files, folder, names[i]);
        if (is_kind(p->files, added, WINLDR_ENTRY_FOLDER)) {
            (void)winldr_add_directory(p, added); // a full path
        }
    }
}

struct winldr_process *winldr_python_start(struct winldr_files *files,
                                           const struct winldr_python *py)
{
    const struct winldr_entry *exe = winldr_files_get(files, py->exe);
    struct winldr_config config = {.exe = py->exe,
                                   .cwd = py->folder,
                                   .path = py->path,
                                   .known_dlls = py->known_dlls,
                                   .n_known_dlls = py->n_known_dlls,
                                   .unsafe_search = py->unsafe_search};
    if (exe->kind == WINLDR_ENTRY_FILE && exe->file->image.state == PE_STATE_OK) {
        config.machine = exe->file->image.machine;
    }
    if (py->is_packaged) {
        winldr_package_set(files, py->exe, &config);
    }
    struct winldr_process *p = winldr_process_new(files, files->arena, &config);
    add_conda_folders(p, winldr_path_folder(files->arena, py->exe));
    return p;
}

bool winldr_has_package(struct winldr_files *files, const struct winldr_python *py,
                        const char *package)
{
    return is_kind(files, join_path(files, join_path(files, py->site, package), "__init__.py"),
                   WINLDR_ENTRY_FILE);
}

/* Loads each file of a folder whose name has this beginning and end, in the order of names. */
static void load_files(struct winldr_process *p, const char *folder, const char *prefix,
                       const char *suffix)
{
    struct winldr_names names = winldr_files_list(p->files, folder);
    for (size_t i = 0; i < names.n; i++) {
        if (strncmp(names.items[i], prefix, strlen(prefix)) == 0 &&
            name_ends(names.items[i], suffix)) {
            /* Kept in p->loads. */
            (void)winldr_load(p, join_path(p->files, folder, names.items[i]), IMPORT_FLAGS);
        }
    }
}

/* What torch does with each DLL of its folder: after 126 again, by a plain LoadLibrary() with its
 * folders in front of PATH. That is not done here where PATH is not known. */
static void load_torch_files(struct winldr_process *p, const char *lib, const char *folders)
{
    struct winldr_names names = winldr_files_list(p->files, lib);
    bool patched = false;
    for (size_t i = 0; i < names.n; i++) {
        const char *path = join_path(p->files, lib, names.items[i]);
        if (!name_ends(path, ".dll")) {
            continue;
        }
        const struct winldr_load *l = winldr_load(p, path, IMPORT_FLAGS);
        if (l->outcome != WINLDR_FAILED || l->code != WINLDR_MOD_NOT_FOUND || !p->config.path) {
            continue;
        }
        if (!patched) {
            winldr_set_path(p, arena_printf(p->arena, "%s;%s", folders, p->config.path));
            patched = true;
        }
        (void)winldr_load(p, path, 0); // kept in p->loads
    }
}

/* A folder that torch adds if it is there. */
static void add_torch_folder(struct winldr_process *p, const char *folder, const char **folders)
{
    if (is_kind(p->files, folder, WINLDR_ENTRY_FOLDER)) {
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
            if (starts_with(names.items[i], "cudart64") && name_ends(names.items[i], ".dll")) {
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
    const char *lib = join_path(p->files, package, "lib");
    winldr_rocm_initialize(p, py, package);
    if (p->raised) {
        return;
    }
    (void)winldr_add_directory(p, lib); // a full path
    const char *folders = lib;
    add_torch_folder(p, join_path(p->files, py->folder, "Library\\bin"), &folders);
    const char *base = winldr_path_folder(p->files->arena, py->exe);
    if (!winldr_name_is(base, py->folder)) {
        add_torch_folder(p, join_path(p->files, base, "Library\\bin"), &folders);
    }
    if (!find_cudart(p, folders)) {
        add_torch_toolkit(p, py, &folders);
    }
    for (size_t i = 0; i < sizeof runtime / sizeof *runtime; i++) {
        (void)winldr_load(p, runtime[i], WINLDR_DEFAULT_DIRS); // kept in p->loads
    }
    load_torch_files(p, lib, folders);
    load_files(p, package, "_C.", ".pyd");
}

static bool add_existing(struct winldr_process *p, const char *folder)
{
    return is_kind(p->files, folder, WINLDR_ENTRY_FOLDER) && winldr_add_directory(p, folder);
}

/* The libraries of ROCm's wheels, in the order of their names. */
static bool add_rocm_libraries(struct winldr_process *p, const struct winldr_python *py)
{
    struct winldr_names names = winldr_files_list(p->files, py->site);
    bool added = false;
    for (size_t i = 0; i < names.n; i++) {
        if (starts_with(names.items[i], "_rocm_sdk_libraries")) {
            const char *folder = join_path(p->files, py->site, names.items[i]);
            added |= add_existing(p, join_path(p->files, folder, "bin"));
        }
    }
    return added;
}

/* The folders of ROCm, which differ between releases: 4.5.0 adds none; 4.8.1 two of fixed names, up
 * to the first that is not there; 4.8.5 those that are there, and without any of them that of
 * HIP_PATH. Which one is installed, the text of its __init__.py shows. */
static void add_rocm(struct winldr_process *p, const struct winldr_python *py, const char *package)
{
    struct winldr_files *f = p->files;
    const char *core = join_path(f, py->site, "_rocm_sdk_core\\bin");
    struct str text;
    if (!read_text(f, join_path(f, package, "__init__.py"), &text) ||
        str_find(text, "_rocm_sdk_core") == text.n) {
        return;
    }
    bool has_core = add_existing(p, core);
    if (str_find(text, "_rocm_sdk_libraries_custom") < text.n) {
        (void)(has_core &&
               add_existing(p, join_path(f, py->site, "_rocm_sdk_libraries_custom\\bin")));
    } else if (!add_rocm_libraries(p, py) && !has_core && py->hip_path) {
        (void)add_existing(p, join_path(f, py->hip_path, "bin"));
    }
}

static void import_ctranslate2(struct winldr_process *p, const struct winldr_python *py,
                               const char *package)
{
    (void)winldr_add_directory(p, package); // a full path
    add_rocm(p, py, package);
    load_files(p, package, "", ".dll");
    load_files(p, package, "_ext.", ".pyd");
}

/* The value behind "NAME" and up to the line's end in torch/version.py: "cuda: Optional[str] =
 * '12.4'". */
static const char *python_text(struct arena *a, struct str text, const char *name)
{
    struct str line;
    while (str_line(&text, &line)) {
        struct str head = str_cut(&line, '=');
        struct str word = str_trim(str_cut(&head, ':'));
        line = str_trim(line);
        if (str_is(word, name) && line.n > 2 && (line.s[0] == '\'' || line.s[0] == '"')) {
            return str_dup(a, (struct str){line.s + 1, line.n - 2});
        }
    }
    return NULL;
}

/* A line of RECORD: "ctranslate2/ctranslate2.dll,sha256=...,1234". */
static bool records_name(struct str line, const char *name)
{
    struct str path = str_cut(&line, ',');
    size_t n = strlen(name);
    return path.n > n && path.s[path.n - n - 1] == '/' &&
           winldr_name_part_is((struct str){path.s + path.n - n, n}, str_of(name));
}

const char *winldr_recorded_by(struct winldr_files *files, const struct winldr_python *py,
                               const char *name)
{
    struct winldr_names names = winldr_files_list(files, py->site);
    for (size_t i = 0; i < names.n; i++) {
        struct str text, line, rest = str_of(names.items[i]);
        const char *folder = join_path(files, py->site, names.items[i]);
        const struct winldr_entry *e =
            name_ends(names.items[i], ".dist-info")
                ? winldr_files_place(files, join_path(files, folder, "RECORD"))
                : NULL;
        if (!e || !e->place ||
            root_read(files->root, files->arena, e->place, RECORD_MAX, &text) < 0) {
            continue;
        }
        while (str_line(&text, &line)) {
            if (records_name(line, name)) {
                rest.n -= sizeof ".dist-info" - 1;
                struct str dist = str_cut(&rest, '-');
                return arena_printf(files->arena, STR_FMT "==" STR_FMT, STR_ARG(dist),
                                    STR_ARG(rest));
            }
        }
    }
    return NULL;
}

struct winldr_torch winldr_torch_read(struct winldr_files *files, const struct winldr_python *py)
{
    struct str text;
    if (!read_text(files, join_path(files, py->site, "torch\\version.py"), &text)) {
        return (struct winldr_torch){0};
    }
    struct arena *a = files->arena;
    return (struct winldr_torch){python_text(a, text, "__version__"), python_text(a, text, "cuda"),
                                 python_text(a, text, "hip")};
}

static void import_llvmlite(struct winldr_process *p, const struct winldr_python *py,
                            const char *package)
{
    const char *libs = join_path(p->files, py->site, "llvmlite.libs");
    if (is_kind(p->files, libs, WINLDR_ENTRY_FOLDER)) {
        (void)winldr_add_directory(p, libs); // a full path
    }
    load_files(p, join_path(p->files, package, "binding"), "llvmlite", ".dll");
}

struct release { // of CUDA or ROCm
    uint64_t major, minor;
};

/* "12.4" or "6.2.41134"; a major of 0: not understood. */
static struct release release_of(const char *text)
{
    struct release r = {0};
    struct str rest = str_of(text ? text : "");
    bool good =
        str_u64(str_cut(&rest, '.'), &r.major) && rest.s && str_u64(str_cut(&rest, '.'), &r.minor);
    return good ? r : (struct release){0};
}

/* "libbitsandbytes_cuda124.dll" -> 12.4, "libbitsandbytes_rocm72.dll" -> 7.2: CUDA's major has two
 * digits, ROCm's one. A major of 0: another file. */
static struct release bitsandbytes_release(const char *name, bool hip)
{
    struct release r = {0};
    const char *prefix = hip ? "libbitsandbytes_rocm" : "libbitsandbytes_cuda";
    size_t n = strlen(prefix), length = strlen(name), digits = hip ? 1 : 2;
    bool good = strncmp(name, prefix, n) == 0 && name_ends(name, ".dll") &&
                length > n + digits + sizeof ".dll" - 1 &&
                str_u64((struct str){name + n, digits}, &r.major) &&
                str_u64((struct str){name + n + digits, length - n - digits - 4}, &r.minor);
    return good ? r : (struct release){0};
}

/* The library of this release, or the newest older one of its major, or the oldest newer one;
 * NULL: there is none, and it is not loaded. */
static const char *bitsandbytes_library(struct winldr_files *f, const char *package,
                                        struct release wanted, bool hip)
{
    struct winldr_names names = winldr_files_list(f, package);
    const char *older = NULL, *newer = NULL;
    uint64_t older_minor = 0, newer_minor = UINT64_MAX;
    for (size_t i = 0; i < names.n; i++) {
        struct release r = bitsandbytes_release(names.items[i], hip);
        if (r.major == 0 || r.major != wanted.major) {
            continue;
        }
        if (r.minor <= wanted.minor && (!older || r.minor > older_minor)) {
            older = names.items[i];
            older_minor = r.minor;
        } else if (r.minor > wanted.minor && r.minor < newer_minor) {
            newer = names.items[i];
            newer_minor = r.minor;
        }
    }
    return older ? older : newer;
}

static void import_bitsandbytes(struct winldr_process *p, const struct winldr_python *py,
                                const char *package)
{
    struct winldr_torch torch = winldr_torch_read(p->files, py);
    struct release wanted = release_of(torch.cuda ? torch.cuda : torch.hip);
    import_torch(p, py, join_path(p->files, py->site, "torch"));
    const char *name = wanted.major ? bitsandbytes_library(p->files, package, wanted, !torch.cuda)
                                    : "libbitsandbytes_cpu.dll";
    if (name) {
        (void)winldr_load(p, join_path(p->files, package, name), IMPORT_FLAGS); // kept in p->loads
    }
}

static void import_onnxruntime(struct winldr_process *p, const char *package)
{
    load_files(p, join_path(p->files, package, "capi"), "onnxruntime_pybind11_state", ".pyd");
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
    const char *folder = join_path(p->files, py->site, package);
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
        import_llvmlite(p, py, folder);
    } else if (strcmp(package, "bitsandbytes") == 0) {
        import_bitsandbytes(p, py, folder);
    } else {
        import_onnxruntime(p, folder);
    }
}
