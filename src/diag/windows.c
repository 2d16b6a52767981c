#include <string.h>

#include "diag/windows_internal.h"
#include "winldr/frozen.h"
#include "winldr/package.h"
#include "winldr/path.h"
#include "winldr/syspath.h"
#include "winldr/words.h"

/* ------------------------------------------------------------------ imports */

/* What the Visual C++ runtime has; python.org's installer brings the first two alone. Source:
 * Microsoft, "Microsoft Visual C++ Redistributable latest supported downloads"; the threads of C11
 * came with Visual Studio 2022 17.8
 * (devblogs.microsoft.com/cppblog/c11-threads-in-visual-studio-2022 -version-17-8-preview-2,
 * github.com/k4yt3x/video2x/issues/1200). */
static bool is_of_runtime(const char *dll)
{
    static const char *const names[] = {
        "vcruntime140.dll", "vcruntime140_1.dll", "msvcp140.dll",  "msvcp140_1.dll",
        "msvcp140_2.dll",   "vcomp140.dll",       "concrt140.dll", "vcruntime140_threads.dll"};
    return winldr_name_in(dll, names, sizeof names / sizeof *names);
}

static uint16_t machine_of_python(const struct diag_windows *n)
{
    const struct winldr_entry *e = winldr_files_get(n->files, n->py->exe);
    bool is_read = e->kind == WINLDR_ENTRY_FILE && e->file->image.state == PE_STATE_OK;
    return is_read ? e->file->image.machine : PE_MACHINE_AMD64;
}

/* microsoft/winget-pkgs, manifests/m/Microsoft/VCRedist/2015+. */
static struct diag_windows_repair install_runtime(const struct diag_windows *n)
{
    return diag_windows_plain("install the Visual C++ runtime",
                              machine_of_python(n) == PE_MACHINE_ARM64
                                  ? "winget install --id Microsoft.VCRedist.2015+.arm64 --exact"
                                  : "winget install --id Microsoft.VCRedist.2015+.x64 --exact");
}

static bool is_known(const struct diag_windows *n, const char *evidence)
{
    for (size_t i = 0; i < n->findings.n; i++) {
        if (strcmp(n->findings.items[i].evidence, evidence) == 0) {
            return true;
        }
    }
    for (size_t i = 0; i < n->unknown.n; i++) {
        if (strcmp(n->unknown.items[i], evidence) == 0) {
            return true;
        }
    }
    return false;
}

static const char *cause_of(enum winldr_code code)
{
    return code == WINLDR_PROC_NOT_FOUND   ? "undefined-symbol"
           : code == WINLDR_BAD_EXE_FORMAT ? "library-wrong-architecture"
           : code == WINLDR_ACCESS_DENIED  ? "library-unreadable"
                                           : "dll-missing";
}

/* Whether the import goes on whatever comes of load `i`: torch only tries the DLLs of the runtime,
 * by their bare names, and loads a DLL again after 126. */
static bool is_of_hook(const struct winldr_process *p, size_t i)
{
    return i >= p->hook_first && i < p->hook_end;
}

static bool is_trial(const struct winldr_process *p, size_t i)
{
    if (is_of_hook(p, i)) {
        return true;
    }
    const struct winldr_load *l = &p->loads.items[i];
    const struct winldr_load *next = i + 1 < p->loads.n ? &p->loads.items[i + 1] : NULL;
    return !winldr_path_has_folder(l->name) ||
           (next && next->flags == 0 && strcmp(next->name, l->name) == 0);
}

/* The package's loads once folders were added: the DLL that is missing then, "" if it is something
 * else that fails, NULL if nothing does. */
static const char *missing_with(struct diag_windows *n, const char *package,
                                const diag_windows_folders *added)
{
    struct winldr_process *p = winldr_python_start(n->files, n->py);
    for (size_t i = 0; i < added->n; i++) {
        (void)winldr_add_directory(p, added->items[i]); // a full path
    }
    winldr_import_package(p, n->py, package);
    for (size_t i = 0; i < p->loads.n; i++) {
        const struct winldr_load *l = &p->loads.items[i];
        bool goes_on = is_trial(p, i) && (is_of_hook(p, i) || !winldr_path_has_folder(l->name) ||
                                          winldr_is_loaded(&p->loads.items[i + 1]));
        if (!goes_on && !winldr_is_loaded(l)) { // the second try has another list: the first counts
            bool missing = l->outcome == WINLDR_FAILED && l->code == WINLDR_MOD_NOT_FOUND;
            return missing ? p->requests.items[l->blame]->name : "";
        }
    }
    return NULL;
}

/* Adds folders that have the missing DLLs, until the import succeeds. False: one is nowhere. */
static bool find_added_folders(struct diag_windows *n, const char *package, const char *dll,
                               diag_windows_folders *ret)
{
    enum { FOLDERS_MAX = 8 };
    diag_windows_folders folders = {0};
    diag_windows_find_folders(n, &folders);
    while (dll && ret->n < FOLDERS_MAX) {
        size_t i = 0;
        while (i < folders.n && !diag_windows_has_dll(n, folders.items[i], dll)) {
            i++;
        }
        if (!*dll || i == folders.n) {
            return false;
        }
        VEC_PUSH(n->arena, ret, folders.items[i]);
        const char *next = missing_with(n, package, ret);
        if (next && winldr_name_is(next, dll)) {
            return false; // the folder does not help
        }
        dll = next;
    }
    return !dll;
}

/* libomp140.x86_64.dll is not part of the runtime for users; torch 2.4.0 was built with it,
 * and 2.4.1 no longer is: pytorch/pytorch#131662, openvinotoolkit/openvino.genai#813. */
static void add_missing_repairs(struct diag_windows *n, struct diag_windows_finding *f,
                                const char *package, const char *dll)
{
    diag_windows_folders folders = {0};
    if (is_of_runtime(dll)) {
        diag_windows_add_repair(n, f, install_runtime(n));
        return;
    }
    if (find_added_folders(n, package, dll, &folders)) {
        f->cause = "library-not-on-path";
        f->evidence = arena_printf(n->arena, "%s; it is in %s, which this call does not search",
                                   f->evidence, folders.items[0]);
        diag_windows_add_repair(n, f, diag_windows_directories(n, &folders));
        return;
    }
    const char *owner = winldr_recorded_by(n->files, n->py, winldr_path_base(dll), true);
    if (owner) {
        f->evidence = arena_printf(
            n->arena, "%s; it is one of the files that %s was installed with", f->evidence, owner);
        diag_windows_add_repair(
            n, f,
            diag_windows_pip(n, "install the package again, which has this file",
                             arena_printf(n->arena, "--force-reinstall --no-deps %s", owner)));
        return;
    }
    struct winldr_torch torch = winldr_torch_read(n->files, n->py);
    if (winldr_name_is(dll, "libomp140.x86_64.dll") && torch.version &&
        strncmp(torch.version, "2.4.0", 5) == 0) {
        diag_windows_add_repair(
            n, f,
            diag_windows_pip(n, "install a torch that does not need it (2.4.1 or later)",
                             "--upgrade \"torch>=2.4.1\""));
    }
}

/* What is installed under the name of an import. */
static const char *distribution_of(const char *package)
{
    return strcmp(package, "faster_whisper") == 0 ? "faster-whisper"
           : strcmp(package, "numba_cuda") == 0   ? "numba-cuda"
           : strcmp(package, "paddle") == 0       ? "paddlepaddle"
                                                  : package;
}

/* A file that was found and is no DLL for the process. Nothing is said of Windows' own. */
static void add_refused_repair(struct diag_windows *n, struct diag_windows_finding *f,
                               const char *package, const struct winldr_request *r)
{
    struct arena *a = n->arena;
    bool is_in_place = false;
    bool is_of_windows = r->steps.n && r->steps.items[0].via == WINLDR_VIA_KNOWN_DLL;
    for (size_t i = 0; i < n->py->n_places; i++) {
        is_in_place |= winldr_path_is_below(r->path, n->py->places[i]);
    }
    if (is_of_runtime(winldr_path_base(r->name))) {
        diag_windows_add_repair(n, f, install_runtime(n));
    } else if (!is_in_place && !is_of_windows) {
        const char *says = arena_printf(a, "put a DLL for %s in the place of %s",
                                        pe_machine_name(a, machine_of_python(n)), r->path);
        diag_windows_add_repair(n, f, (struct diag_windows_repair){.says = says});
    } else if (is_in_place && strcmp(package, "cupy") != 0) {
        const char *owner = winldr_recorded_by(n->files, n->py, winldr_path_base(r->path), false);
        diag_windows_add_repair(
            n, f,
            diag_windows_pip(n, "install the package again, for this Python",
                             arena_printf(a, "--force-reinstall --no-deps %s",
                                          owner ? owner : distribution_of(package))));
    }
}

static void report_failure(struct diag_windows *n, const struct winldr_process *p,
                           const struct winldr_load *l, const char *what, const char *package)
{
    struct arena *a = n->arena;
    const struct winldr_request *r = p->requests.items[l->blame];
    struct diag_windows_finding f = {
        .cause = cause_of(l->code),
        .severity = "error",
        .title = arena_printf(a, "%s fails: %s", what, winldr_error_text(a, l->code)),
        .evidence = winldr_load_cause(p, l),
    };
    if (l->code == WINLDR_MOD_NOT_FOUND) {
        add_missing_repairs(n, &f, package, r->name);
    } else if (l->code == WINLDR_BAD_EXE_FORMAT) {
        add_refused_repair(n, &f, package, r);
    }
    VEC_PUSH(a, &n->findings, f);
}

/* A path of 260 characters and more is loaded only with LongPathsEnabled and a program whose
 * manifest allows it, which Python's does: Microsoft, "Maximum Path Length Limitation"; Python's
 * "Using Python on Windows", 4.1.1. */
static void report_long_path(struct diag_windows *n, const char *evidence, bool is_off)
{
    static const struct diag_windows_repair enable = {
        .says = "allow long paths, as an administrator, then start the program again",
        .powershell =
            "New-ItemProperty -Path 'HKLM:\\SYSTEM\\CurrentControlSet\\Control\\FileSystem' "
            "-Name LongPathsEnabled -Value 1 -PropertyType DWORD -Force",
        .cmd =
            "reg add HKLM\\SYSTEM\\CurrentControlSet\\Control\\FileSystem /v LongPathsEnabled /t "
            "REG_DWORD /d 1 /f"};
    if (!is_off) {
        VEC_PUSH(n->arena, &n->unknown, evidence);
        return;
    }
    struct diag_windows_finding f = {.cause = "library-unreadable",
                                     .severity = "error",
                                     .title = "a path is too long for Windows to load",
                                     .evidence = evidence};
    diag_windows_add_repair(n, &f, enable);
    VEC_PUSH(n->arena, &n->findings, f);
}

static void judge_long_paths(struct diag_windows *n, const struct winldr_process *p)
{
    enum { PATH_MAX_WINDOWS = 260 };
    if (n->host && n->host->windows.long_paths.state == HOST_YES) {
        return;
    }
    bool is_off = n->host && n->host->windows.long_paths.state == HOST_NO;
    for (size_t i = 0; i < p->modules.n; i++) {
        const char *path = p->modules.items[i]->path;
        if (strlen(path) >= PATH_MAX_WINDOWS) {
            const char *text =
                arena_printf(n->arena,
                             "%s has %zu characters, and Windows loads a path of 260 or more "
                             "only with LongPathsEnabled, which is %s",
                             path, strlen(path), is_off ? "off" : "not known");
            if (!is_known(n, text)) {
                report_long_path(n, text, is_off);
            }
            return;
        }
    }
}

/* cupy with another CUDA_PATH; value NULL: without it. Whether its import works then. */
static bool cupy_works_with(struct diag_windows *n, const char *cuda_path)
{
    struct winldr_python py = *n->py;
    py.cuda_path = cuda_path;
    struct winldr_process *p = winldr_python_start(n->files, &py);
    winldr_import_package(p, &py, "cupy");
    bool works = !p->raised && !p->cut;
    for (size_t i = 0; i < p->loads.n; i++) {
        works &= is_of_hook(p, i) || winldr_is_loaded(&p->loads.items[i]);
    }
    return works;
}

/* A script that ended without a load: CUDA_PATH names a folder without bin. */
static void report_raised(struct diag_windows *n, const char *package,
                          const struct winldr_process *p)
{
    diag_windows_folders folders = {0};
    struct diag_windows_finding f = {
        .cause = p->raised_title ? "dll-missing" : "toolkit-missing",
        .severity = "error",
        .title = arena_printf(n->arena, "import %s fails: %s", package,
                              p->raised_title ? p->raised_title
                                              : "FileNotFoundError, the folder that it adds for "
                                                "DLLs is not there"),
        .evidence = p->raised,
    };
    if (p->raised_title) {
        if (p->raised_dll) {
            add_missing_repairs(n, &f, package, p->raised_dll);
        }
        if (p->raised_variable) {
            diag_windows_add_repair(n, &f, diag_windows_variable(n, p->raised_variable, NULL));
        }
        VEC_PUSH(n->arena, &n->findings, f);
        return;
    }
    diag_windows_find_folders(n, &folders);
    for (size_t i = 0; i < folders.n && f.repairs.n == 0; i++) {
        const char *toolkit = winldr_path_folder(n->arena, folders.items[i]);
        if (winldr_name_is(winldr_path_base(folders.items[i]), "bin") &&
            cupy_works_with(n, toolkit)) {
            diag_windows_add_repair(n, &f, diag_windows_variable(n, "CUDA_PATH", toolkit));
        }
    }
    if (f.repairs.n == 0 && cupy_works_with(n, NULL)) {
        diag_windows_add_repair(n, &f, diag_windows_variable(n, "CUDA_PATH", NULL));
    }
    VEC_PUSH(n->arena, &n->findings, f);
}

/* bitsandbytes/cextension.py (0.50.2) catches the error of its library: the import goes on, and
 * what needs the library raises later. */
static const char *what_failed(struct diag_windows *n, const struct winldr_process *p,
                               const struct winldr_load *l, const char *package)
{
    const char *folder = winldr_python_path(n->files, n->py, "bitsandbytes");
    const char *path = p->requests.items[l->request]->name;
    return strcmp(package, "bitsandbytes") == 0 && winldr_path_is_below(path, folder)
               ? arena_printf(n->arena,
                              "the load of %s, without which import bitsandbytes goes on and its "
                              "functions raise,",
                              winldr_path_base(path))
               : arena_printf(n->arena, "import %s", package);
}

/* A library that a variable names is nothing to a program without a GPU, which takes that for the
 * CPU. */
static bool is_forced(struct diag_windows *n, const struct winldr_process *p,
                      const struct winldr_load *l, const char *package, const char **ret_variable)
{
    static const enum winldr_variable variables[] = {WINLDR_VARIABLE_BNB_CUDA_VERSION,
                                                     WINLDR_VARIABLE_BNB_ROCM_VERSION};
    *ret_variable = NULL;
    if (strcmp(package, "bitsandbytes") != 0 || l->blame != l->request ||
        l->code != WINLDR_MOD_NOT_FOUND) {
        return false;
    }
    const char *name = winldr_path_base(p->requests.items[l->request]->name);
    for (size_t i = 0; i < 2; i++) {
        const char *value = n->py->variables[variables[i]];
        if (value && strstr(name, value)) {
            *ret_variable = winldr_variable_names[variables[i]];
        }
    }
    return *ret_variable != NULL;
}

static void report_forced(struct diag_windows *n, const struct winldr_process *p,
                          const struct winldr_load *l, const char *variable)
{
    const char *path = p->requests.items[l->request]->name;
    struct diag_windows_finding f = {
        .cause = "dll-missing",
        .severity = "error",
        .title =
            arena_printf(n->arena, "%s names a library that bitsandbytes does not have", variable),
        .evidence = arena_printf(n->arena,
                                 "%s is not there; import bitsandbytes goes on, and its functions "
                                 "raise",
                                 path),
    };
    diag_windows_add_repair(n, &f, diag_windows_variable(n, variable, NULL));
    VEC_PUSH(n->arena, &n->findings, f);
}

/* What failed or is unknown of one import. */
static void judge_import(struct diag_windows *n, const char *package)
{
    struct winldr_process *p = winldr_python_start(n->files, n->py);
    winldr_import_package(p, n->py, package);
    VEC_PUSH(
        n->arena, &n->processes,
        ((struct diag_windows_process){package, arena_printf(n->arena, "import %s", package), p}));
    if (p->cut && !is_known(n, p->cut)) {
        VEC_PUSH(n->arena, &n->unknown, p->cut);
    }
    if (p->raised) {
        report_raised(n, package, p);
        return;
    }
    for (size_t i = 0; i < p->loads.n; i++) {
        const struct winldr_load *l = &p->loads.items[i];
        if (is_trial(p, i) || winldr_is_loaded(l)) {
            continue;
        }
        const char *variable = NULL;
        if (is_forced(n, p, l, package, &variable)) {
            bool hip = strcmp(variable, "BNB_ROCM_VERSION") == 0;
            if (!n->host || diag_windows_gpu(n, hip ? HOST_AMD : HOST_NVIDIA)) {
                report_forced(n, p, l, variable);
            }
            continue;
        }
        const char *evidence = winldr_load_cause(p, l);
        bool said = is_known(n, evidence);
        if (l->outcome != WINLDR_UNKNOWN) {
            if (!said && !p->cut) { // otherwise a load that is not known may have brought it
                report_failure(n, p, l, what_failed(n, p, l, package), package);
            }
            return; // the import ends here
        }
        if (!said) {
            VEC_PUSH(n->arena, &n->unknown, evidence);
        }
    }
    judge_long_paths(n, p);
}

/* ------------------------------------------------------------------ all of it */

/* What makes an unseen program's search unknown. */
static const char *packaged_text(const struct diag_windows *n)
{
    if (winldr_package_is_alias(n->py->folder)) {
        return "its python.exe is an alias, which nothing but Windows follows, and none of the "
               "Store's Pythons is among this user's packages: it may be the alias that opens the "
               "Store";
    }
    if (strcmp(n->py->kind, "Store") == 0) {
        return "the program of this packaged process is not in the tree, so that its search is "
               "not modelled; a Python from python.org or uv can be checked";
    }
    return "its Python is the Store's, a packaged process whose program is not in the tree, "
           "so that its search is not modelled; an environment of a Python from "
           "python.org or uv can be checked";
}

/* Says what is not known of the program. True: nothing of its search is modelled. */
static bool is_unseen_program(struct diag_windows *n)
{
    const struct winldr_entry *e = winldr_files_get(n->files, n->py->exe);
    bool is_seen = e->kind == WINLDR_ENTRY_FILE && e->file->image.state == PE_STATE_OK;
    if (n->py->is_packaged) {
        VEC_PUSH(n->arena, &n->unknown,
                 is_seen
                     ? "the search of a packaged process is known from Microsoft's documentation "
                       "alone"
                     : packaged_text(n));
        return !is_seen;
    }
    if (e->place && !is_seen) {
        VEC_PUSH(
            n->arena, &n->unknown,
            arena_printf(n->arena,
                         "%s cannot be read as a program here: an alias of the Store and a file "
                         "that Windows has compressed look like that to other systems, and so "
                         "does a damaged one",
                         n->py->exe));
    }
    return false;
}

/* Packages that are installed where this Python does not look: a ._pth file has all of sys.path. */
static void judge_syspath(struct diag_windows *n)
{
    const char *hidden = NULL;
    if (n->host && n->host->windows.is_dirty && n->py->variables_unseen) {
        VEC_PUSH(n->arena, &n->unknown, n->py->variables_unseen);
    }
    if (n->py->unsure) {
        VEC_PUSH(n->arena, &n->unknown, n->py->unsure);
    }
    for (const char *const *name = winldr_packages; n->py->pth && *name; name++) {
        const char *init = arena_printf(n->arena, "%s\\%s\\__init__.py", n->py->site, *name);
        if (winldr_files_place(n->files, init)->place &&
            !winldr_has_package(n->files, n->py, *name)) {
            hidden = hidden ? arena_printf(n->arena, "%s, %s", hidden, *name) : *name;
        }
    }
    if (hidden) {
        VEC_PUSH(n->arena, &n->unknown,
                 arena_printf(n->arena,
                              "%s: installed in %s, which this Python does not search, so that the "
                              "import was not looked at; the line \"import site\" in %s, without a "
                              "# before it, adds that folder",
                              hidden, n->py->site, n->py->pth));
    }
}

/* What mends such a program from within, its maker does. */
static void judge_frozen(struct diag_windows *n)
{
    for (size_t i = 0; n->py->is_frozen && i < n->findings.n; i++) {
        struct diag_windows_finding *f = &n->findings.items[i];
        if (f->repairs.n == 0) {
            const char *says = arena_printf(
                n->arena,
                "report it to the maker of %s: the program has its own Python, into which nothing "
                "can be installed",
                winldr_path_base(n->py->exe));
            diag_windows_add_repair(n, f, (struct diag_windows_repair){.says = says});
        }
    }
}

void diag_windows_judge(struct diag_windows *n)
{
    bool has_torch = winldr_has_package(n->files, n->py, "torch");
    bool has_ctranslate2 = winldr_has_package(n->files, n->py, "ctranslate2");
    diag_windows_judge_command(n);
    if (is_unseen_program(n)) {
        return;
    }
    judge_syspath(n);
    for (const char *const *name = winldr_packages; *name; name++) {
        const char *unseen = winldr_frozen_unseen(n->files, n->py, *name);
        if (winldr_has_package(n->files, n->py, *name) && unseen) {
            VEC_PUSH(n->arena, &n->unknown, unseen);
        } else if (winldr_has_package(n->files, n->py, *name)) {
            judge_import(n, *name);
        }
    }
    if (winldr_frozen_unseen(n->files, n->py, "")) {
        return;
    }
    if (has_torch && has_ctranslate2) {
        diag_windows_judge_cudnn(n);
    }
    if (has_torch) {
        diag_windows_judge_build(n);
        diag_windows_judge_driver(n);
    }
    diag_windows_judge_first_use(n);
    diag_windows_judge_gfx(n);
    diag_windows_judge_hip(n);
    judge_frozen(n);
}
