#include "winldr/python.h"

#include <string.h>

#include "winldr/path.h"

enum {
    IMPORT_FLAGS = WINLDR_DEFAULT_DIRS | WINLDR_DLL_LOAD_DIR,
    CFG_MAX = 1 << 16,
    FOUND_MAX = 64
};

const char *const winldr_packages[] = {"torch", "ctranslate2", "onnxruntime", NULL};

static const char *join(struct winldr_files *f, const char *folder, const char *name)
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

/* ------------------------------------------------------------------ environments */

/* "home = C:\Python312" of pyvenv.cfg; NULL: there is none. */
static const char *venv_home(struct winldr_files *f, const char *folder)
{
    const struct winldr_entry *e = winldr_files_get(f, join(f, folder, "pyvenv.cfg"));
    struct str text, line;
    if (!e->place || root_read(f->root, f->arena, e->place, CFG_MAX, &text) < 0) {
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

static void take_environment(struct winldr_files *f, const char *folder, struct winldr_pythons *ret)
{
    struct winldr_python py = {.folder = folder,
                               .site = join(f, folder, "Lib\\site-packages"),
                               .exe = join(f, folder, "python.exe")};
    const char *home = venv_home(f, folder);
    if (home) {
        py.kind = "venv";
        py.exe = join(f, home, "python.exe");
    } else if (!is_kind(f, py.exe, WINLDR_ENTRY_FILE)) {
        return;
    } else {
        py.kind = is_kind(f, join(f, folder, "conda-meta"), WINLDR_ENTRY_FOLDER) ? "conda"
                  : has_pth(f, folder)                                           ? "embedded"
                  : strstr(folder, "\\uv\\python\\")                             ? "uv"
                                                                                 : "python.org";
    }
    if (ret->items.n < FOUND_MAX) {
        VEC_PUSH(f->arena, &ret->items, py);
    }
}

/* Each folder in `parent` whose name begins with `prefix`, and `rest` in it. */
static void take_folders(struct winldr_files *f, const char *parent, const char *prefix,
                         const char *rest, struct winldr_pythons *ret)
{
    struct winldr_names names = winldr_files_list(f, parent);
    for (size_t i = 0; i < names.n; i++) {
        struct str head = {names.items[i], strlen(prefix)};
        if (strlen(names.items[i]) >= head.n && winldr_name_part_is(head, str_of(prefix))) {
            const char *folder = join(f, parent, names.items[i]);
            take_environment(f, *rest ? join(f, folder, rest) : folder, ret);
        }
    }
}

static void take_conda(struct winldr_files *f, const char *parent, struct winldr_pythons *ret)
{
    static const char *const names[] = {"miniconda3", "anaconda3", "miniforge3"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *folder = join(f, parent, names[i]);
        take_environment(f, folder, ret);
        take_folders(f, join(f, folder, "envs"), "", "", ret);
    }
}

static void find_all(struct winldr_files *f, struct winldr_pythons *ret)
{
    take_folders(f, "C:\\", "Python3", "", ret);
    take_folders(f, "C:\\Program Files", "Python3", "", ret);
    take_conda(f, "C:\\ProgramData", ret);
    struct winldr_names users = winldr_files_list(f, "C:\\Users");
    for (size_t i = 0; i < users.n; i++) {
        const char *home = join(f, "C:\\Users", users.items[i]);
        take_folders(f, join(f, home, "AppData\\Local\\Programs\\Python"), "Python3", "", ret);
        take_folders(f, join(f, home, "AppData\\Roaming\\uv\\python"), "cpython-", "", ret);
        take_conda(f, home, ret);
    }
    struct winldr_names store = winldr_files_list(f, "C:\\Program Files\\WindowsApps");
    for (size_t i = 0; i < store.n; i++) {
        if (strncmp(store.items[i], "PythonSoftwareFoundation.", 25) == 0) {
            const char *folder = join(f, "C:\\Program Files\\WindowsApps", store.items[i]);
            VEC_PUSH(
                f->arena, &ret->items,
                (struct winldr_python){folder, "Store", join(f, folder, "python.exe"), folder});
        }
    }
}

bool winldr_is_tree(struct winldr_files *f, const char *target)
{
    return is_kind(f, "C:\\Windows\\System32", WINLDR_ENTRY_FOLDER) ||
           (target && (is_kind(f, join(f, target, "python.exe"), WINLDR_ENTRY_FILE) ||
                       is_kind(f, join(f, target, "Scripts\\python.exe"), WINLDR_ENTRY_FILE)));
}

void winldr_find_pythons(struct winldr_files *files, const char *target, struct winldr_pythons *ret)
{
    *ret = (struct winldr_pythons){0};
    if (target) {
        take_environment(files, winldr_path_full(files->arena, "C:\\", target), ret);
    } else {
        find_all(files, ret);
    }
}

/* ------------------------------------------------------------------ imports */

struct winldr_process *winldr_python_start(struct winldr_files *files,
                                           const struct winldr_python *py)
{
    struct winldr_config config = {.exe = py->exe, .cwd = py->folder};
    return winldr_process_new(files, files->arena, &config);
}

bool winldr_has_package(struct winldr_files *files, const struct winldr_python *py,
                        const char *package)
{
    return is_kind(files, join(files, join(files, py->site, package), "__init__.py"),
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
            (void)winldr_load(p, join(p->files, folder, names.items[i]), IMPORT_FLAGS);
        }
    }
}

static void import_torch(struct winldr_process *p, const struct winldr_python *py,
                         const char *package)
{
    static const char *const runtime[] = {"vcruntime140.dll", "msvcp140.dll", "vcruntime140_1.dll"};
    const char *lib = join(p->files, package, "lib");
    const char *library_bin = join(p->files, py->folder, "Library\\bin");
    (void)winldr_add_directory(p, lib); // a full path
    if (is_kind(p->files, library_bin, WINLDR_ENTRY_FOLDER)) {
        (void)winldr_add_directory(p, library_bin);
    }
    for (size_t i = 0; i < sizeof runtime / sizeof *runtime; i++) {
        (void)winldr_load(p, runtime[i], WINLDR_DEFAULT_DIRS); // kept in p->loads
    }
    load_files(p, lib, "", ".dll");
    load_files(p, package, "_C.", ".pyd");
}

static void import_ctranslate2(struct winldr_process *p, const char *package)
{
    (void)winldr_add_directory(p, package); // a full path
    load_files(p, package, "", ".dll");
    load_files(p, package, "_ext.", ".pyd");
}

void winldr_import_package(struct winldr_process *p, const struct winldr_python *py,
                           const char *package)
{
    const char *folder = join(p->files, py->site, package);
    if (strcmp(package, "torch") == 0) {
        import_torch(p, py, folder);
    } else if (strcmp(package, "ctranslate2") == 0) {
        import_ctranslate2(p, folder);
    } else {
        load_files(p, join(p->files, folder, "capi"), "onnxruntime_pybind11_state", ".pyd");
    }
}
