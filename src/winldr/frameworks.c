#include "winldr/frameworks.h"

#include <string.h>

#include "winldr/path.h"
#include "winldr/script.h"
#include "winldr/syspath.h"

/* ------------------------------------------------------------------ TensorFlow */

/* 'msvcp_dll_names', 'msvcp140.dll,msvcp140_1.dll' of build_info.py; empty: it has none. */
static struct str runtime_names(struct winldr_files *f, const char *package)
{
    static const char word[] = "msvcp_dll_names";
    struct str text;
    if (!winldr_read_text(f, winldr_below(f, package, "python\\platform\\build_info.py"), &text)) {
        return (struct str){"", 0};
    }
    size_t at = str_find(text, word);
    struct str rest = {text.s + at, text.n - at}, value = {"", 0};
    (void)(str_cut(&rest, ','), str_cut(&rest, '\'')); // the key, and up to the value
    value = rest.s ? str_cut(&rest, '\'') : value;
    return at < text.n ? value : (struct str){"", 0};
}

void winldr_import_tensorflow(struct winldr_process *p, const struct winldr_python *py,
                              const char *package)
{
    (void)py;
    for (struct str rest = runtime_names(p->files, package); rest.n;) {
        const char *name = str_dup(p->arena, str_trim(str_cut(&rest, ',')));
        const struct winldr_load *l = winldr_load(p, name, WINLDR_DEFAULT_DIRS);
        if (l->outcome == WINLDR_FAILED) {
            p->raised_title = "a DLL that it looks for first cannot be loaded";
            p->raised = arena_printf(p->arena,
                                     "tensorflow\\python\\platform\\self_check.py loads %s by its "
                                     "name, which is not found beside python.exe or in System32",
                                     name);
            p->raised_dll = name;
            return;
        }
    }
    const char *python = winldr_below(p->files, package, "python");
    winldr_load_files(p, python, "_pywrap_tensorflow_internal", ".pyd");
}

/* ------------------------------------------------------------------ Paddle */

static const char *const paddle_wheels[] = {"cublas",   "cuda_nvrtc", "cuda_runtime",
                                            "cudnn",    "cufft",      "curand",
                                            "cusolver", "cusparse",   "nvjitlink"};
enum { N_PADDLE_WHEELS = sizeof paddle_wheels / sizeof *paddle_wheels };

/* cuda_version = '12.9' and with_pip_cuda_libraries = 'ON'. */
static bool is_for_wheels(struct winldr_files *f, const char *package)
{
    struct str text, line;
    bool cuda = false, wheels = false;
    if (!winldr_read_text(f, winldr_below(f, package, "version\\__init__.py"), &text)) {
        return false;
    }
    while (str_line(&text, &line)) {
        struct str key = str_trim(str_cut(&line, '='));
        struct str value = line.s ? str_trim(line) : (struct str){"", 0};
        cuda = str_is(key, "cuda_version") ? !str_is(value, "'False'") : cuda;
        wheels = str_is(key, "with_pip_cuda_libraries") ? str_is(value, "'ON'") : wheels;
    }
    return cuda && wheels;
}

static void add_paddle_folder(struct winldr_process *p, const char *folder, const char **folders)
{
    if (winldr_add_existing(p, folder)) {
        *folders = *folders ? arena_printf(p->arena, "%s;%s", *folders, folder) : folder;
    }
}

/* Each DLL of a folder but those for 32 bits; *folders: what is in front of PATH for the first
 * second try, NULL afterwards. False: the import ended. */
static bool load_paddle_files(struct winldr_process *p, const char *folder, const char **folders)
{
    struct winldr_names names = winldr_files_list(p->files, folder);
    for (size_t i = 0; i < names.n; i++) {
        const char *path = winldr_below(p->files, folder, names.items[i]);
        if (!winldr_name_ends(path, ".dll") || strstr(path, "32_")) {
            continue;
        }
        const struct winldr_load *l = winldr_load(p, path, WINLDR_IMPORT_FLAGS);
        if (l->outcome != WINLDR_FAILED) {
            continue;
        }
        if (l->code != WINLDR_MOD_NOT_FOUND) {
            return false;
        }
        const char *before = p->config.path; // NULL: not known, and neither is what is behind it
        if (*folders && before) {
            winldr_set_path(p, arena_printf(p->arena, "%s;%s", *folders, before));
        }
        l = winldr_load(p, path, 0);
        if (before) {
            winldr_set_path(p, before);
        }
        *folders = NULL;
        if (l->outcome == WINLDR_FAILED) {
            return false;
        }
    }
    return true;
}

static void load_paddle_wheels(struct winldr_process *p, const struct winldr_python *py,
                               const char *libs)
{
    static const char *const runtime[] = {"vcruntime140.dll", "msvcp140.dll", "vcruntime140_1.dll"};
    const char *base = winldr_path_folder(p->files->arena, py->exe), *folders = NULL;
    const char *bins[N_PADDLE_WHEELS];
    add_paddle_folder(p, libs, &folders);
    add_paddle_folder(p, winldr_below(p->files, py->folder, "Library\\bin"), &folders);
    if (!winldr_name_is(base, py->folder)) {
        add_paddle_folder(p, winldr_below(p->files, base, "Library\\bin"), &folders);
    }
    for (size_t i = 0; i < N_PADDLE_WHEELS; i++) {
        bins[i] = winldr_python_path(p->files, py,
                                     arena_printf(p->arena, "nvidia\\%s\\bin", paddle_wheels[i]));
        add_paddle_folder(p, bins[i], &folders);
    }
    for (size_t i = 0; i < sizeof runtime / sizeof *runtime; i++) {
        (void)winldr_load(p, runtime[i], WINLDR_DEFAULT_DIRS); // an error is printed and goes by
    }
    bool goes_on = load_paddle_files(p, libs, &folders);
    for (size_t i = 0; goes_on && i < N_PADDLE_WHEELS; i++) {
        goes_on = load_paddle_files(p, bins[i], &folders);
    }
}

void winldr_import_paddle(struct winldr_process *p, const struct winldr_python *py,
                          const char *package)
{
    struct winldr_files *f = p->files;
    const char *libs = winldr_below(f, package, "libs"), *base = winldr_below(f, package, "base");
    base = winldr_is_folder(f, base) ? base : winldr_below(f, package, "fluid"); // until 2.5
    if (p->config.path) {
        winldr_set_path(p, arena_printf(p->arena, "%s;%s;%s", base, libs, p->config.path));
    }
    if (!winldr_add_directory(p, libs)) {
        p->raised_title = "FileNotFoundError, the folder that it adds for DLLs is not there";
        p->raised = arena_printf(p->arena, "paddle calls os.add_dll_directory() for %s", libs);
        return;
    }
    winldr_load_files(p, base, "libpaddle", ".pyd");
    const struct winldr_load *last = p->loads.n ? &p->loads.items[p->loads.n - 1] : NULL;
    if ((!last || last->outcome != WINLDR_FAILED) && is_for_wheels(f, package)) {
        load_paddle_wheels(p, py, libs);
    }
}

/* ------------------------------------------------------------------ numba-cuda */

void winldr_import_numba_cuda(struct winldr_process *p, const struct winldr_python *py,
                              const char *package)
{
    struct winldr_files *f = p->files;
    const char *cuda = winldr_below(f, package, "numba\\cuda");
    struct str text;
    bool needs_bindings = winldr_read_text(f, winldr_below(f, cuda, "__init__.py"), &text) &&
                          str_find(text, "find_spec(\"cuda.bindings\")") < text.n;
    (void)winldr_add_existing(p, winldr_python_path(f, py, "numba_cuda.libs")); // if it is there
    if (needs_bindings && !winldr_is_folder(f, winldr_python_path(f, py, "cuda\\bindings"))) {
        p->raised_title = "ImportError, the package cuda-bindings is not installed";
        p->raised = "numba.cuda looks for cuda.bindings first, which \"numba-cuda[cu12]\" and "
                    "\"numba-cuda[cu13]\" bring for drivers of CUDA 12 and 13";
        return;
    }
    winldr_load_files(p, winldr_below(f, cuda, "cext"), "", ".pyd");
}
