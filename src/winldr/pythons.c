#include <string.h>

#include "winldr/frozen.h"
#include "winldr/package.h"
#include "winldr/path.h"
#include "winldr/python.h"
#include "winldr/script.h"
#include "winldr/syspath.h"

enum { FOUND_MAX = 64, RECORD_MAX = 16 << 20 };

const char *const winldr_variable_names[WINLDR_N_VARIABLES] = {
    [WINLDR_VARIABLE_CUDA_HOME] = "CUDA_HOME",
    [WINLDR_VARIABLE_CONDA_PREFIX] = "CONDA_PREFIX",
    [WINLDR_VARIABLE_ROCM_SDK_PRELOAD_LIBRARIES] = "ROCM_SDK_PRELOAD_LIBRARIES",
    [WINLDR_VARIABLE_BNB_CUDA_VERSION] = "BNB_CUDA_VERSION",
    [WINLDR_VARIABLE_BNB_ROCM_VERSION] = "BNB_ROCM_VERSION",
};

/* "home = C:\Python312" of pyvenv.cfg; NULL: there is none. */
static const char *venv_home(struct winldr_files *f, const char *folder)
{
    struct str text, line;
    if (!winldr_read_text(f, winldr_below(f, folder, "pyvenv.cfg"), &text)) {
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
        if (winldr_name_ends(names.items[i], "._pth")) {
            return true;
        }
    }
    return false;
}

/* The folder without links: uv and Scoop have a junction with a shorter name beside a release. */
static const char *real_folder(struct winldr_files *f, const char *folder)
{
    char *real = NULL;
    const struct winldr_entry *e = winldr_files_get(f, folder);
    bool known = e->place && root_realpath(f->root, f->arena, e->place, &real) == 0;
    const char *name = known ? winldr_files_name(f, f->arena, real) : NULL;
    return name ? name : folder;
}

/* Each environment once, by its folder. */
static void add_once(struct winldr_files *f, struct winldr_python py, struct winldr_pythons *ret)
{
    struct winldr_hook hook;
    const char *real = real_folder(f, py.folder);
    for (size_t i = 0; i < ret->items.n; i++) {
        if (winldr_name_is(real_folder(f, ret->items.items[i].folder), real)) {
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
    const char **places = arena_array(f->arena, 1, sizeof *places);
    places[0] = py.site;
    py.places = places, py.n_places = 1;
    VEC_PUSH(f->arena, &ret->items, py);
}

/* Something of this name is there. A program that Windows has compressed is a dangling link in the
 * mounts of other systems. */
static bool has_program(struct winldr_files *f, const char *path)
{
    const struct winldr_entry *e = winldr_files_get(f, winldr_path_full(f->arena, "C:\\", path));
    return e->place && e->kind != WINLDR_ENTRY_FOLDER;
}

/* Who has put a Python there that looks like python.org's. */
static const char *maker_of(const char *folder)
{
    return names_folder(folder, "uv")          ? "uv"
           : names_folder(folder, "pyenv-win") ? "pyenv-win"
           : names_folder(folder, "scoop")     ? "Scoop"
                                               : "python.org";
}

static void take_environment(struct winldr_files *f, const char *folder, struct winldr_pythons *ret)
{
    struct winldr_python py = {.folder = folder,
                               .site = winldr_below(f, folder, "Lib\\site-packages"),
                               .exe = winldr_below(f, folder, "python.exe")};
    const char *home = venv_home(f, folder);
    if (home) {
        py.kind = "venv";
        py.exe = winldr_below(f, home, "python.exe");
        py.is_packaged = names_folder(home, store_folder);
        const char *package = winldr_package_folder(f, winldr_path_base(home));
        py.exe = package ? winldr_below(f, package, "python.exe") : py.exe;
    } else if (!has_program(f, py.exe)) {
        return;
    } else {
        py.kind = winldr_is_folder(f, winldr_below(f, folder, "conda-meta")) ? "conda"
                  : has_pth(f, folder)                                       ? "embedded"
                                                                             : maker_of(folder);
    }
    add_once(f, py, ret);
}

void winldr_add_python(struct winldr_files *files, const char *folder, struct winldr_pythons *ret)
{
    take_environment(files, winldr_path_full(files->arena, "C:\\", folder), ret);
}

/* Each folder in `parent` whose name begins with `prefix`, and `rest` in it. */
static void take_folders(struct winldr_files *f, const char *parent, const char *prefix,
                         const char *rest, struct winldr_pythons *ret)
{
    struct winldr_names names = winldr_files_list(f, parent);
    for (size_t i = 0; i < names.n; i++) {
        struct str head = {names.items[i], strlen(prefix)};
        if (strlen(names.items[i]) >= head.n && winldr_name_part_is(head, str_of(prefix))) {
            const char *folder = winldr_below(f, parent, names.items[i]);
            take_environment(f, *rest ? winldr_below(f, folder, rest) : folder, ret);
        }
    }
}

static const char *const conda_names[] = {"miniconda3", "anaconda3", "miniforge3", "mambaforge"};

static void take_conda_at(struct winldr_files *f, const char *folder, struct winldr_pythons *ret)
{
    take_environment(f, folder, ret);
    take_folders(f, winldr_below(f, folder, "envs"), "", "", ret);
}

static void take_conda(struct winldr_files *f, const char *parent, struct winldr_pythons *ret)
{
    for (size_t i = 0; i < sizeof conda_names / sizeof *conda_names; i++) {
        take_conda_at(f, winldr_below(f, parent, conda_names[i]), ret);
    }
}

/* conda writes each environment that it makes into environments.txt of the user's .conda
 * (conda/core/envs_manager.py); the file also names what is gone. */
static void take_conda_list(struct winldr_files *f, const char *home, struct winldr_pythons *ret)
{
    struct str text, line;
    const char *folder = winldr_below(f, home, ".conda");
    take_folders(f, winldr_below(f, folder, "envs"), "", "", ret);
    if (winldr_read_text(f, winldr_below(f, folder, "environments.txt"), &text)) {
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
    const char *local = winldr_below(f, home, "AppData\\Local"),
               *parent = winldr_below(f, local, "Packages");
    struct winldr_names names = winldr_files_list(f, parent);
    for (size_t i = 0; i < names.n; i++) {
        const char *name = names.items[i];
        if (!starts_with(name, store_name)) {
            continue;
        }
        struct str minor = str_of(name + strlen(store_name)), rest = minor;
        struct str major = str_cut(&rest, '.');
        minor = rest.s ? str_cut(&rest, '_') : (struct str){"", 0};
        const char *folder =
            winldr_below(f, winldr_below(f, parent, name), "LocalCache\\local-packages");
        const char *version =
            arena_printf(f->arena, "Python" STR_FMT STR_FMT, STR_ARG(major), STR_ARG(minor));
        const char *alias = winldr_below(f, winldr_below(f, local, "Microsoft\\WindowsApps"), name);
        const char *package = winldr_package_folder(f, name);
        add_once(f,
                 (struct winldr_python){
                     .folder = winldr_below(f, parent, name),
                     .kind = "Store",
                     .is_packaged = true,
                     .exe = winldr_below(f, package ? package : alias, "python.exe"),
                     .site = winldr_below(f, winldr_below(f, folder, version), "site-packages")},
                 ret);
    }
}

/* Its program, where the folder can be listed, and nothing of a user's is there. */
static void take_store_programs(struct winldr_files *f, struct winldr_pythons *ret)
{
    static const char parent[] = "C:\\Program Files\\WindowsApps";
    struct winldr_names names = winldr_files_list(f, parent);
    for (size_t i = 0; i < names.n; i++) {
        const char *folder = winldr_below(f, parent, names.items[i]);
        if (starts_with(names.items[i], store_name)) {
            add_once(f,
                     (struct winldr_python){.folder = folder,
                                            .kind = "Store",
                                            .is_packaged = true,
                                            .exe = winldr_below(f, folder, "python.exe"),
                                            .site = winldr_below(f, folder, "Lib\\site-packages")},
                     ret);
        }
    }
}

/* Scoop has each release of a program in a folder of its own; the junction `current` leads to the
 * one that is used, unless junctions are switched off
 * (https://github.com/ScoopInstaller/Scoop/wiki/The-'Current'-Version-Alias). */
static void take_scoop(struct winldr_files *f, const char *home, struct winldr_pythons *ret)
{
    const char *apps = winldr_below(f, home, "scoop\\apps");
    struct winldr_names names = winldr_files_list(f, apps);
    for (size_t i = 0; i < names.n; i++) {
        const char *app = winldr_below(f, apps, names.items[i]);
        const char *current = winldr_below(f, app, "current");
        if (winldr_is_folder(f, current)) {
            take_conda_at(f, current, ret);
        } else if (starts_with(names.items[i], "python")) {
            take_folders(f, app, "", "", ret);
        }
    }
}

/* A folder of Windows' own, or one with the programs of all: none of these is unpacked there. */
static bool is_of_windows(const char *name)
{
    static const char *const names[] = {"Windows", "Program Files", "Program Files (x86)",
                                        "ProgramData", "Users"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (winldr_name_is(name, names[i])) {
            return true;
        }
    }
    return name[0] == '$';
}

/* Programs that bring their Python in a folder beside them, `levels` below `parent`. */
static void take_embedded(struct winldr_files *f, const char *parent, unsigned levels,
                          struct winldr_pythons *ret)
{
    struct winldr_names names = winldr_files_list(f, parent);
    for (size_t i = 0; i < names.n; i++) {
        const char *folder = winldr_below(f, parent, names.items[i]);
        if (!is_of_windows(names.items[i])) {
            take_folders(f, folder, "python_embed", "", ret);
            if (levels > 1) {
                take_embedded(f, folder, levels - 1, ret);
            }
        }
    }
}

/* Programs of PyInstaller and cx_Freeze that are unpacked into a folder of their own. Others, which
 * many programs look like, are only looked at where they are named. */
static void take_frozen(struct winldr_files *f, const char *parent, struct winldr_pythons *ret)
{
    struct winldr_names names = winldr_files_list(f, parent);
    for (size_t i = 0; i < names.n; i++) {
        struct winldr_python py;
        if (winldr_frozen_find(f, winldr_below(f, parent, names.items[i]), NULL, &py) &&
            !winldr_frozen_unseen(f, &py, "")) {
            add_once(f, py, ret);
        }
    }
}

static void take_user(struct winldr_files *f, const char *home, struct winldr_pythons *ret)
{
    take_folders(f, winldr_below(f, home, "AppData\\Local\\Programs\\Python"), "Python3", "", ret);
    take_folders(f, winldr_below(f, home, "AppData\\Local\\Python"), "python", "", ret);
    take_folders(f, winldr_below(f, home, ".pyenv\\pyenv-win\\versions"), "3", "", ret);
    take_folders(f, winldr_below(f, home, "AppData\\Roaming\\uv\\python"), "cpython-", "", ret);
    take_scoop(f, home, ret);
    take_conda(f, home, ret);
    take_conda(f, winldr_below(f, home, "AppData\\Local"), ret);
    take_conda_list(f, home, ret);
    take_store_of(f, home, ret);
}

/* What users unpack or install for themselves alone. */
static void take_programs_of_user(struct winldr_files *f, const char *home,
                                  struct winldr_pythons *ret)
{
    static const char *const places[] = {"AppData\\Local\\Programs", "Desktop", "Downloads",
                                         "Documents"};
    take_embedded(f, home, 1, ret);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *folder = winldr_below(f, home, places[i]);
        take_embedded(f, folder, 2, ret);
        take_frozen(f, folder, ret);
    }
}

static void find_all(struct winldr_files *f, struct winldr_pythons *ret)
{
    take_folders(f, "C:\\", "Python3", "", ret);
    take_folders(f, "C:\\Program Files", "Python3", "", ret);
    take_conda(f, "C:\\", ret);
    take_conda(f, "C:\\ProgramData", ret);
    take_conda(f, "C:\\tools", ret); // of Chocolatey's packages
    take_scoop(f, "C:\\ProgramData", ret);
    struct winldr_names users = winldr_files_list(f, "C:\\Users");
    for (size_t i = 0; i < users.n; i++) {
        take_user(f, winldr_below(f, "C:\\Users", users.items[i]), ret);
    }
    take_store_programs(f, ret);
    take_embedded(f, "C:\\", 2, ret);
    take_frozen(f, "C:\\", ret);
    take_frozen(f, "C:\\Program Files", ret);
    for (size_t i = 0; i < users.n; i++) {
        take_programs_of_user(f, winldr_below(f, "C:\\Users", users.items[i]), ret);
    }
}

/* The user whose Store's Python a path is of: its packages, or the folder of its alias. NULL:
 * another path. */
static const char *store_user(struct winldr_files *f, const char *path)
{
    static const char *const folders[] = {"AppData\\Local\\Packages",
                                          "AppData\\Local\\Microsoft\\WindowsApps"};
    struct winldr_names users = winldr_files_list(f, "C:\\Users");
    for (size_t i = 0; i < users.n; i++) {
        const char *home = winldr_below(f, "C:\\Users", users.items[i]);
        for (size_t k = 0; k < sizeof folders / sizeof *folders; k++) {
            const char *folder = winldr_below(f, home, folders[k]);
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
    if (!winldr_name_ends(path, ".exe")) {
        return path;
    }
    path = winldr_path_folder(f->arena, path);
    const char *above = winldr_path_folder(f->arena, path);
    return winldr_name_is(winldr_path_base(path), "Scripts") && venv_home(f, above) ? above : path;
}

bool winldr_is_tree(struct winldr_files *f, const char *target)
{
    const char *folder = target ? folder_named(f, target) : NULL;
    struct winldr_python frozen;
    return winldr_is_folder(f, "C:\\Windows\\System32") ||
           (folder && (winldr_is_file(f, winldr_below(f, folder, "python.exe")) ||
                       winldr_is_file(f, winldr_below(f, folder, "Scripts\\python.exe")) ||
                       winldr_frozen_find(f, folder, NULL, &frozen)));
}

/* An alias without a Python behind it in the tree. */
static void take_alias(struct winldr_files *f, const char *folder, struct winldr_pythons *ret)
{
    const char *exe = winldr_below(f, folder, "python.exe");
    if (winldr_package_is_alias(folder) && has_program(f, exe)) {
        add_once(f,
                 (struct winldr_python){.folder = folder,
                                        .kind = "Store",
                                        .is_packaged = true,
                                        .exe = exe,
                                        .site = winldr_below(f, folder, "Lib\\site-packages")},
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
        struct winldr_python py;
        const char *exe = winldr_path_full(files->arena, "C:\\", target);
        if (!has_program(files, winldr_below(files, path, "python.exe")) &&
            !venv_home(files, path) && winldr_frozen_find(files, path, exe, &py)) {
            add_once(files, py, ret);
        } else {
            take_environment(files, path, ret);
        }
        return;
    }
    take_store_of(files, user, ret);
    if (!ret->items.n) {
        take_alias(files, path, ret);
    }
}

/* ------------------------------------------------------------------ the process */

/* conda's Python adds folders when it starts, those that are there (conda-forge/python-feedstock,
 * recipe/patches/0006-Add-CondaEcosystemModifyDllSearchPath.patch): the last one is searched first.
 */
static void add_conda_folders(struct winldr_process *p, const char *folder)
{
    static const char *const names[] = {"bin", "Scripts", "Library\\bin", "Library\\usr\\bin",
                                        "Library\\mingw-w64\\bin"};
    bool is_conda = winldr_is_folder(p->files, winldr_below(p->files, folder, "conda-meta"));
    for (size_t i = 0; is_conda && i < sizeof names / sizeof *names; i++) {
        const char *added = winldr_below(p->files, folder, names[i]);
        if (winldr_is_folder(p->files, added)) {
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
    winldr_frozen_start(p, py);
    return p;
}

bool winldr_has_package(struct winldr_files *files, const struct winldr_python *py,
                        const char *package)
{
    return py->is_frozen ? winldr_is_folder(files, winldr_below(files, py->site, package))
                         : winldr_python_place(files, py,
                                               winldr_below(files, package, "__init__.py")) != NULL;
}

/* ------------------------------------------------------------------ packages */

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

/* A line of RECORD: "ctranslate2/ctranslate2.dll,sha256=...,1234". With `gone` only of a file that
 * is not there. */
static bool records_name(struct winldr_files *f, const char *place, struct str line,
                         const char *name, bool gone)
{
    struct str path = str_cut(&line, ',');
    size_t n = strlen(name);
    bool is_it = path.n > n && path.s[path.n - n - 1] == '/' &&
                 winldr_name_part_is((struct str){path.s + path.n - n, n}, str_of(name));
    if (!is_it || !gone) {
        return is_it;
    }
    char *full = winldr_path_join(f->arena, place, str_dup(f->arena, path));
    return winldr_files_get(f, winldr_path_full(f->arena, "C:\\", full))->kind ==
           WINLDR_ENTRY_MISSING;
}

/* Whether a shell takes it as it is: what a project's name and a version may have (PEP 503, PEP
 * 440). A folder may be called anything. */
static bool is_plain(struct str text)
{
    for (size_t i = 0; i < text.n; i++) {
        char c = text.s[i];
        if (!str_is_letter(c) && !str_is_digit(c) && !strchr("_-.+!", c)) {
            return false;
        }
    }
    return text.n != 0;
}

const char *winldr_recorded_by(struct winldr_files *files, const struct winldr_python *py,
                               const char *name, bool gone)
{
    struct winldr_installed_list list = winldr_python_list(files, py);
    for (size_t i = 0; i < list.items.n; i++) {
        const struct winldr_installed *x = &list.items.items[i];
        struct str text, line, rest = str_of(x->name);
        const char *folder = winldr_below(files, x->place, x->name);
        const struct winldr_entry *e =
            winldr_name_ends(x->name, ".dist-info")
                ? winldr_files_place(files, winldr_below(files, folder, "RECORD"))
                : NULL;
        if (!e || !e->place ||
            root_read(files->root, files->arena, e->place, RECORD_MAX, &text) < 0) {
            continue;
        }
        while (str_line(&text, &line)) {
            if (records_name(files, x->place, line, name, gone)) {
                rest.n -= sizeof ".dist-info" - 1;
                struct str dist = str_cut(&rest, '-');
                bool plain = is_plain(dist) && is_plain(rest);
                return plain ? arena_printf(files->arena, STR_FMT "==" STR_FMT, STR_ARG(dist),
                                            STR_ARG(rest))
                             : NULL;
            }
        }
    }
    return NULL;
}

struct winldr_torch winldr_torch_read(struct winldr_files *files, const struct winldr_python *py)
{
    struct str text;
    if (!winldr_read_text(files, winldr_python_path(files, py, "torch\\version.py"), &text)) {
        return (struct winldr_torch){0};
    }
    struct arena *a = files->arena;
    return (struct winldr_torch){python_text(a, text, "__version__"), python_text(a, text, "cuda"),
                                 python_text(a, text, "hip")};
}
