#include "cli/windows_judge.h"

#include <string.h>

#include "report/windows.h"
#include "winldr/path.h"

/* ------------------------------------------------------------------ quoting */

/* PowerShell ends a text in '...' at any of its five single quotes, and has each of them doubled
 * inside (about_Quoting_Rules; U+2018 to U+201B by its tokenizer). */
const char *windows_quote_powershell(struct arena *a, const char *text)
{
    size_t n = strlen(text), at = 0;
    char *out = arena_alloc(a, 2 * n + 3);
    if (!str_is_seen(text)) {
        return NULL;
    }
    out[at++] = '\'';
    for (size_t i = 0, length = 1; i < n; i += length) {
        uint32_t c = str_code_point(text + i, n - i, &length);
        for (int k = 0; k < (c == '\'' || (c >= 0x2018 && c <= 0x201b) ? 2 : 1); k++) {
            memcpy(out + at, text + i, length);
            at += length;
        }
    }
    out[at++] = '\'';
    out[at] = '\0';
    return out;
}

/* Within "..." the command prompt still replaces %NAME%, and no character prevents it. */
const char *windows_quote_cmd(struct arena *a, const char *text)
{
    return str_is_seen(text) && !strpbrk(text, "%\"!") ? str_concat(a, "\"", text, "\"") : NULL;
}

/* ------------------------------------------------------------------ repairs */

static void add_repair(struct windows_inspection *n, struct windows_finding *f,
                       struct windows_repair repair)
{
    VEC_PUSH(n->arena, &f->repairs, repair);
}

/* The same words for both shells. */
static struct windows_repair plain_repair(const char *says, const char *command)
{
    return (struct windows_repair){.says = says, .powershell = command, .cmd = command};
}

/* The program that pip is run with: of a virtual environment its own. */
static const char *pip_program(const struct windows_inspection *n)
{
    bool venv = strcmp(n->py->kind, "venv") == 0;
    return winldr_path_join(n->arena, n->py->folder, venv ? "Scripts\\python.exe" : "python.exe");
}

/* `arguments` need no quotes but those that they have. */
static struct windows_repair pip_repair(const struct windows_inspection *n, const char *says,
                                        const char *arguments)
{
    struct arena *a = n->arena;
    const char *power = windows_quote_powershell(a, pip_program(n));
    const char *cmd = windows_quote_cmd(a, pip_program(n));
    return (struct windows_repair){
        .says = says,
        .powershell = power ? arena_printf(a, "& %s -m pip install %s", power, arguments) : NULL,
        .cmd = cmd ? arena_printf(a, "%s -m pip install %s", cmd, arguments) : NULL,
    };
}

/* Python's raw text cannot hold its own quote. */
static struct windows_repair directory_repair(const struct windows_inspection *n,
                                              const char *folder)
{
    bool plain = str_is_seen(folder) && !strchr(folder, '"');
    return (struct windows_repair){
        .says = arena_printf(n->arena, "let Python search %s", folder),
        .python = plain ? arena_printf(n->arena, "import os; os.add_dll_directory(r\"%s\")", folder)
                        : NULL,
    };
}

static struct windows_repair path_repair(const struct windows_inspection *n, const char *folder)
{
    struct arena *a = n->arena;
    const char *power = windows_quote_powershell(a, folder), *cmd = windows_quote_cmd(a, folder);
    return (struct windows_repair){
        .says = arena_printf(a, "put %s on PATH, in the window that starts the program", folder),
        .powershell = power ? arena_printf(a, "$env:PATH = %s + ';' + $env:PATH", power) : NULL,
        .cmd = cmd ? arena_printf(a, "set \"PATH=%s;%%PATH%%\"", folder) : NULL,
    };
}

/* What the Visual C++ runtime has; python.org's installer brings the first two alone. Source:
 * Microsoft, "Microsoft Visual C++ Redistributable latest supported downloads". */
static bool is_of_runtime(const char *dll)
{
    static const char *const names[] = {"vcruntime140.dll", "vcruntime140_1.dll", "msvcp140.dll",
                                        "msvcp140_1.dll",   "msvcp140_2.dll",     "vcomp140.dll",
                                        "concrt140.dll"};
    return winldr_name_in(dll, names, sizeof names / sizeof *names);
}

/* ------------------------------------------------------------------ where a DLL is installed */

typedef VEC(const char *) folder_list;

static void add_folder(struct windows_inspection *n, folder_list *list, const char *folder)
{
    if (winldr_files_get(n->files, folder)->kind == WINLDR_ENTRY_FOLDER) {
        VEC_PUSH(n->arena, list, folder);
    }
}

/* A folder and its x64, where CUDA 13 has the DLLs. */
static void add_bin(struct windows_inspection *n, folder_list *list, const char *bin)
{
    add_folder(n, list, bin);
    add_folder(n, list, winldr_path_join(n->arena, bin, "x64"));
    add_folder(n, list, winldr_path_join(n->arena, bin, "x86_64"));
}

/* Where packages and installers put the DLLs of CUDA, cuDNN and ROCm. */
static void find_folders(struct windows_inspection *n, folder_list *list)
{
    struct arena *a = n->arena;
    const char *site = n->py->site, *nvidia = winldr_path_join(a, site, "nvidia");
    add_folder(n, list, winldr_path_join(a, site, "torch\\lib"));
    struct winldr_names names = winldr_files_list(n->files, nvidia);
    for (size_t i = 0; i < names.n; i++) {
        add_bin(n, list, winldr_path_join(a, winldr_path_join(a, nvidia, names.items[i]), "bin"));
    }
    names = winldr_files_list(n->files, site);
    for (size_t i = 0; i < names.n; i++) {
        if (starts_with(names.items[i], "_rocm_sdk_")) {
            add_folder(n, list,
                       winldr_path_join(a, winldr_path_join(a, site, names.items[i]), "bin"));
        }
    }
    for (size_t i = 0; n->host && i < n->host->windows.toolkits.n; i++) {
        const struct host_windows_toolkit *t = &n->host->windows.toolkits.items[i];
        const char *bin = winldr_path_join(a, t->path, "bin");
        add_bin(n, list, bin);
        if (strcmp(t->kind, "cuDNN") == 0) { // a folder for each CUDA
            names = winldr_files_list(n->files, bin);
            for (size_t k = 0; k < names.n; k++) {
                add_bin(n, list, winldr_path_join(a, bin, names.items[k]));
            }
        }
    }
}

static bool has_dll(struct windows_inspection *n, const char *folder, const char *dll)
{
    const struct winldr_entry *e =
        winldr_files_get(n->files, winldr_path_join(n->arena, folder, dll));
    return e->kind == WINLDR_ENTRY_FILE && e->file->image.state == PE_STATE_OK &&
           e->file->image.machine == PE_MACHINE_AMD64;
}

/* ------------------------------------------------------------------ imports */

static bool is_known(const struct windows_inspection *n, const char *evidence)
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

static bool is_loaded(const struct winldr_load *l)
{
    return l->outcome == WINLDR_LOADED || l->outcome == WINLDR_REUSED;
}

/* Whether the import goes on whatever comes of load `i`: torch only tries the DLLs of the runtime,
 * by their bare names, and loads a DLL again after 126. */
static bool is_trial(const struct winldr_process *p, size_t i)
{
    const struct winldr_load *l = &p->loads.items[i];
    const struct winldr_load *next = i + 1 < p->loads.n ? &p->loads.items[i + 1] : NULL;
    return !winldr_path_has_folder(l->name) ||
           (next && next->flags == 0 && strcmp(next->name, l->name) == 0);
}

/* Whether the package's loads succeed once `folder` was added. */
static bool import_succeeds(struct windows_inspection *n, const char *package, const char *folder)
{
    struct winldr_process *p = winldr_python_start(n->files, n->py);
    (void)winldr_add_directory(p, folder); // a full path
    winldr_import_package(p, n->py, package);
    for (size_t i = 0; i < p->loads.n; i++) {
        if (!is_trial(p, i) && !is_loaded(&p->loads.items[i])) {
            return false;
        }
    }
    return true;
}

/* libomp140.x86_64.dll is not part of the runtime for users; torch 2.4.0 was built with it,
 * and 2.4.1 no longer is: pytorch/pytorch#131662, openvinotoolkit/openvino.genai#813. */
static void add_missing_repairs(struct windows_inspection *n, struct windows_finding *f,
                                const char *package, const char *dll)
{
    folder_list folders = {0};
    if (is_of_runtime(dll)) {
        add_repair(n, f,
                   plain_repair("install the Visual C++ runtime",
                                "winget install --id Microsoft.VCRedist.2015+.x64 --exact"));
        return;
    }
    find_folders(n, &folders);
    for (size_t i = 0; i < folders.n; i++) {
        if (has_dll(n, folders.items[i], dll) && import_succeeds(n, package, folders.items[i])) {
            f->cause = "library-not-on-path";
            f->evidence = arena_printf(n->arena, "%s; it is in %s, which this call does not search",
                                       f->evidence, folders.items[i]);
            add_repair(n, f, directory_repair(n, folders.items[i]));
            return;
        }
    }
    struct winldr_torch torch = winldr_torch_read(n->files, n->py);
    if (winldr_name_is(dll, "libomp140.x86_64.dll") && torch.version &&
        strncmp(torch.version, "2.4.0", 5) == 0) {
        add_repair(n, f,
                   pip_repair(n, "install a torch that does not need it (2.4.1 or later)",
                              "--upgrade \"torch>=2.4.1\""));
    }
}

/* What is installed under the name of an import. */
static const char *distribution_of(const char *package)
{
    return strcmp(package, "faster_whisper") == 0 ? "faster-whisper" : package;
}

static void report_failure(struct windows_inspection *n, const struct winldr_process *p,
                           const struct winldr_load *l, const char *what, const char *package)
{
    struct arena *a = n->arena;
    const struct winldr_request *r = p->requests.items[l->blame];
    struct windows_finding f = {
        .cause = cause_of(l->code),
        .severity = "error",
        .title = arena_printf(a, "%s fails: %s", what, report_windows_code(a, l->code)),
        .evidence = report_windows_cause(p, l),
    };
    if (l->code == WINLDR_MOD_NOT_FOUND) {
        add_missing_repairs(n, &f, package, r->name);
    } else if (l->code == WINLDR_BAD_EXE_FORMAT && strcmp(package, "cupy") != 0) {
        add_repair(n, &f,
                   pip_repair(n, "install the package again, for this Python",
                              arena_printf(a, "--force-reinstall --no-deps %s",
                                           distribution_of(package))));
    }
    VEC_PUSH(a, &n->findings, f);
}

/* LoadLibrary() refuses a path of 260 characters and more unless LongPathsEnabled is set and the
 * program's manifest allows it, which Python's does. */
static void judge_long_paths(struct windows_inspection *n, const struct winldr_process *p)
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
                VEC_PUSH(n->arena, &n->unknown, text);
            }
            return;
        }
    }
}

/* What failed or is unknown of one import. */
static void judge_import(struct windows_inspection *n, const char *package)
{
    struct winldr_process *p = winldr_python_start(n->files, n->py);
    winldr_import_package(p, n->py, package);
    for (size_t i = 0; i < p->loads.n; i++) {
        const struct winldr_load *l = &p->loads.items[i];
        if (is_trial(p, i) || is_loaded(l)) {
            continue;
        }
        const char *evidence = report_windows_cause(p, l);
        bool said = is_known(n, evidence);
        if (l->outcome != WINLDR_UNKNOWN) {
            if (!said) {
                report_failure(n, p, l, arena_printf(n->arena, "import %s", package), package);
            }
            return; // the import ends here
        }
        if (!said) {
            VEC_PUSH(n->arena, &n->unknown, evidence);
        }
    }
    judge_long_paths(n, p);
}

/* ------------------------------------------------------------------ cuDNN by order */

static const char *version_text(struct arena *a, const struct winldr_module *m)
{
    struct pe_version v = m->file ? pe_version_read(&m->file->image) : (struct pe_version){0};
    return v.found ? arena_printf(a, "%u.%u.%u.%u", v.file[0], v.file[1], v.file[2], v.file[3])
                   : "unknown version";
}

/* The process after importing one package and then another. */
static struct winldr_process *import_two(struct windows_inspection *n, const char *first,
                                         const char *second)
{
    struct winldr_process *p = winldr_python_start(n->files, n->py);
    winldr_import_package(p, n->py, first);
    winldr_import_package(p, n->py, second);
    return p;
}

/* The cuDNN that a library of torch gets by its base name from a folder that is not torch's. */
static const struct winldr_request *foreign_cudnn(const struct winldr_process *p, const char *lib)
{
    for (size_t i = 0; i < p->requests.n; i++) {
        const struct winldr_request *r = p->requests.items[i];
        if (r->outcome == WINLDR_REUSED && r->importer &&
            winldr_path_is_below(r->importer->path, lib) &&
            winldr_name_is(r->name, "cudnn64_9.dll") && !winldr_path_is_below(r->path, lib)) {
            return r;
        }
    }
    return NULL;
}

/* CTranslate2 preloads its cudnn64_9.dll, which opens its parts by name; torch's libraries then get
 * this one by base name, and the parts are torch's. */
static void judge_cudnn(struct windows_inspection *n)
{
    struct arena *a = n->arena;
    const char *lib = winldr_path_join(a, n->py->site, "torch\\lib");
    const struct winldr_process *p = import_two(n, "ctranslate2", "torch");
    const struct winldr_request *r = foreign_cudnn(p, lib);
    const struct winldr_module *part = winldr_find_module(p, "cudnn_graph64_9.dll");
    if (!r || !part || !winldr_path_is_below(part->path, lib)) {
        return;
    }
    const char *mine = version_text(a, r->module), *theirs = version_text(a, part);
    if (strcmp(mine, theirs) == 0) {
        return;
    }
    struct windows_finding f = {
        .cause = "cudnn-mixed-versions",
        .severity = "warning",
        .title = "importing ctranslate2 before torch mixes two releases of cuDNN",
        .evidence = arena_printf(a,
                                 "%s imports cudnn64_9.dll and gets %s (%s), which is loaded under "
                                 "this name; its parts are those of torch: %s (%s)",
                                 r->importer->path, r->path, mine, part->path, theirs),
    };
    if (!foreign_cudnn(import_two(n, "torch", "ctranslate2"), lib)) {
        add_repair(n, &f,
                   (struct windows_repair){.says = "import torch before ctranslate2",
                                           .python = "import torch  # before ctranslate2"});
    }
    VEC_PUSH(a, &n->findings, f);
}

/* ------------------------------------------------------------------ the machine */

static const struct host_gpu *gpu_of(const struct windows_inspection *n, enum host_vendor vendor)
{
    for (size_t i = 0; n->host && i < n->host->gpus.n; i++) {
        const struct host_gpu *g = &n->host->gpus.items[i];
        if (g->vendor == vendor && g->usable != HOST_NO && host_gpu_counts(g)) {
            return g;
        }
    }
    return NULL;
}

/* "cublas64_12.dll" as ctranslate2.dll has it: it is opened at the first use of a GPU
 * (src/cuda/cublas_stub.cc). NULL: another build. */
static const char *cublas_name(struct windows_inspection *n)
{
    static const char stem[] = "cublas64_";
    const struct winldr_entry *e = winldr_files_get(
        n->files, winldr_path_join(n->arena, n->py->site, "ctranslate2\\ctranslate2.dll"));
    if (e->kind != WINLDR_ENTRY_FILE) {
        return NULL;
    }
    const char *data = (const char *)e->file->image.data;
    const char *at = data ? memmem(data, e->file->image.size, stem, sizeof stem - 1) : NULL;
    size_t room = at ? e->file->image.size - (size_t)(at - data) : 0, length = sizeof stem - 1;
    while (length < room && str_is_digit(at[length])) {
        length++;
    }
    bool whole =
        at && length > sizeof stem - 1 && room - length >= 5 && memcmp(at + length, ".dll", 5) == 0;
    return whole ? arena_printf(n->arena, "%.*s.dll", (int)length, at) : NULL;
}

/* The first use of a GPU by ctranslate2: SetDllDirectory(CUDA_PATH\bin), then a plain
 * LoadLibrary().
 */
static const struct winldr_load *open_cublas(struct windows_inspection *n, const char *name,
                                             unsigned default_flags, const char *added_path,
                                             bool with_torch, struct winldr_process **ret)
{
    struct arena *a = n->arena;
    struct winldr_python py = *n->py;
    py.path = added_path && py.path ? arena_printf(a, "%s;%s", added_path, py.path) : py.path;
    struct winldr_process *p = winldr_python_start(n->files, &py);
    winldr_set_default_flags(p, default_flags);
    winldr_import_package(p, &py, "ctranslate2");
    if (with_torch) {
        winldr_import_package(p, &py, "torch");
    }
    if (py.cuda_path) {
        winldr_set_directory(p, winldr_path_join(a, py.cuda_path, "bin"));
    }
    *ret = p;
    return winldr_load(p, name, 0);
}

static void add_cublas_repairs(struct windows_inspection *n, struct windows_finding *f,
                               const char *name)
{
    folder_list folders = {0};
    struct winldr_process *p;
    find_folders(n, &folders);
    for (size_t i = 0; i < folders.n; i++) {
        if (has_dll(n, folders.items[i], name) &&
            is_loaded(open_cublas(n, name, 0, folders.items[i], false, &p))) {
            f->cause = "library-not-on-path";
            f->evidence = arena_printf(n->arena, "%s; it is in %s, which this call does not search",
                                       f->evidence, folders.items[i]);
            add_repair(n, f, path_repair(n, folders.items[i]));
            return;
        }
    }
    const char *digits = name + strlen("cublas64_");
    if (strncmp(digits, "12.", 3) == 0) {
        add_repair(n, f,
                   pip_repair(n, "install cuBLAS and put its folder on PATH",
                              "nvidia-cublas-cu12 nvidia-cuda-runtime-cu12"));
    }
}

static void judge_first_use(struct windows_inspection *n)
{
    const char *name = gpu_of(n, HOST_NVIDIA) ? cublas_name(n) : NULL;
    bool torch = winldr_has_package(n->files, n->py, "torch");
    struct winldr_process *p, *strict;
    if (!name) {
        return;
    }
    const struct winldr_load *l = open_cublas(n, name, 0, NULL, false, &p);
    const struct winldr_load *s = open_cublas(n, name, WINLDR_DEFAULT_DIRS, NULL, false, &strict);
    if (is_loaded(l) && is_loaded(s)) {
        return;
    }
    struct winldr_process *both;
    if (torch && is_loaded(open_cublas(n, name, WINLDR_DEFAULT_DIRS, NULL, true, &both))) {
        VEC_PUSH(
            n->arena, &n->unknown,
            arena_printf(n->arena,
                         "ctranslate2's first use of a GPU finds %s if the program has imported "
                         "torch, which brings it",
                         name));
        return;
    }
    if (l->outcome == WINLDR_FAILED) {
        struct windows_finding f = {
            .cause = "dll-missing",
            .severity = "error",
            .title = arena_printf(n->arena, "ctranslate2's first use of a GPU fails: %s",
                                  report_windows_code(n->arena, l->code)),
            .evidence = report_windows_cause(p, l),
        };
        add_cublas_repairs(n, &f, name);
        VEC_PUSH(n->arena, &n->findings, f);
    } else if (l->outcome == WINLDR_UNKNOWN) {
        VEC_PUSH(n->arena, &n->unknown, report_windows_cause(p, l));
    } else {
        VEC_PUSH(n->arena, &n->unknown,
                 arena_printf(n->arena,
                              "%s is found by PATH, unless the program calls "
                              "SetDefaultDllDirectories()",
                              name));
    }
}

/* What torch was built for, and what the machine has. */
static void judge_build(struct windows_inspection *n)
{
    struct arena *a = n->arena;
    struct winldr_torch torch = winldr_torch_read(n->files, n->py);
    const struct host_gpu *nvidia = gpu_of(n, HOST_NVIDIA), *amd = gpu_of(n, HOST_AMD);
    const struct host_gpu *g = nvidia ? nvidia : amd;
    if (!torch.version || !g) {
        return;
    }
    const char *built = torch.hip    ? "ROCm"
                        : torch.cuda ? arena_printf(a, "CUDA %s", torch.cuda)
                                     : "the CPU";
    bool serves = nvidia ? torch.cuda != NULL : torch.hip != NULL;
    if (serves) {
        return;
    }
    struct windows_finding f = {
        .cause = torch.cuda || torch.hip ? "build-for-other-vendor" : "build-without-gpu",
        .severity = "warning",
        .title = arena_printf(a,
                              "torch %s is built for %s: it does not use the %s, and computes on "
                              "the CPU",
                              torch.version, built, g->name),
        .evidence = winldr_path_join(a, n->py->site, "torch\\version.py"),
    };
    bool blackwell = nvidia && g->compute_capability.state == HOST_YES &&
                     host_version_cmp(g->compute_capability.value, "10.0") >= 0;
    if (nvidia) {
        add_repair(n, &f,
                   pip_repair(n, "install a build for CUDA",
                              blackwell ? "--force-reinstall torch --index-url "
                                          "https://download.pytorch.org/whl/cu128"
                                        : "--force-reinstall torch --index-url "
                                          "https://download.pytorch.org/whl/cu126"));
    }
    VEC_PUSH(a, &n->findings, f);
}

/* The minimum of any CUDA 12 or 11 on Windows: CUDA Toolkit release notes, Table 2
 * (kb/drivers.json, minor-12 and minor-11). Of CUDA 13 none is stated. */
static void judge_driver(struct windows_inspection *n)
{
    static const struct {
        const char *major, *minimum;
    } floors[] = {{"11.", "452.39"}, {"12.", "528.33"}};
    struct winldr_torch torch = winldr_torch_read(n->files, n->py);
    const struct host_gpu *g = gpu_of(n, HOST_NVIDIA);
    for (size_t i = 0; g && g->driver_version && torch.cuda && i < 2; i++) {
        if (!starts_with(torch.cuda, floors[i].major) ||
            host_version_cmp(g->driver_version, floors[i].minimum) >= 0) {
            continue;
        }
        struct windows_finding f = {
            .cause = "driver-too-old",
            .severity = "error",
            .title = arena_printf(n->arena, "NVIDIA's driver %s is too old for torch's CUDA %s",
                                  g->driver_version, torch.cuda),
            .evidence = arena_printf(n->arena, "CUDA %sx needs driver %s or later on Windows",
                                     floors[i].major, floors[i].minimum),
        };
        add_repair(n, &f,
                   (struct windows_repair){
                       .says = "install a newer driver: https://www.nvidia.com/drivers"});
        VEC_PUSH(n->arena, &n->findings, f);
    }
}

/* The driver's amdhip64_N.dll in System32 comes before the SDK's on PATH (classic search: System32
 * first): llama.cpp#25807, TheRock#6571. */
static void judge_hip(struct windows_inspection *n)
{
    struct arena *a = n->arena;
    for (size_t i = 0; n->host && i < n->host->windows.hip.n; i++) {
        const struct host_fact *system = &n->host->windows.hip.items[i];
        const char *name = winldr_path_base(system->where);
        for (size_t k = 0; k < n->host->windows.toolkits.n; k++) {
            const struct host_windows_toolkit *t = &n->host->windows.toolkits.items[k];
            const char *path = winldr_path_join(a, winldr_path_join(a, t->path, "bin"), name);
            const struct winldr_entry *e = winldr_files_get(n->files, path);
            if (strcmp(t->kind, "HIP SDK") != 0 || e->kind != WINLDR_ENTRY_FILE) {
                continue;
            }
            struct pe_version v = pe_version_read(&e->file->image);
            const char *version =
                arena_printf(a, "%u.%u.%u.%u", v.file[0], v.file[1], v.file[2], v.file[3]);
            if (!v.found || !system->value || strcmp(version, system->value) == 0) {
                continue;
            }
            VEC_PUSH(
                a, &n->findings,
                (struct windows_finding){
                    .cause = "library-wrong-copy",
                    .severity = "warning",
                    .title =
                        arena_printf(a, "the driver's %s comes before that of the HIP SDK", name),
                    .evidence = arena_printf(a,
                                             "a plain LoadLibrary(\"%s\") gets %s (%s), and "
                                             "not %s (%s), wherever PATH has that",
                                             name, system->where, system->value, path, version)});
        }
    }
}

/* ------------------------------------------------------------------ all of it */

static bool is_store(struct windows_inspection *n)
{
    if (strcmp(n->py->kind, "Store") != 0) {
        return false;
    }
    VEC_PUSH(
        n->arena, &n->unknown,
        "the search of a packaged process is not modelled; a Python from python.org or uv can be "
        "checked");
    return true;
}

void windows_inspect(struct windows_inspection *n)
{
    bool has_torch = winldr_has_package(n->files, n->py, "torch");
    bool has_ctranslate2 = winldr_has_package(n->files, n->py, "ctranslate2");
    if (is_store(n)) {
        return;
    }
    for (const char *const *name = winldr_packages; *name; name++) {
        if (winldr_has_package(n->files, n->py, *name)) {
            judge_import(n, *name);
        }
    }
    if (has_torch && has_ctranslate2) {
        judge_cudnn(n);
    }
    if (has_torch) {
        judge_build(n);
        judge_driver(n);
    }
    if (has_ctranslate2) {
        judge_first_use(n);
    }
    judge_hip(n);
}
