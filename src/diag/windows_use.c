/* What packages open at the first use of a GPU, by calls that the files show. */
#include <string.h>

#include "diag/windows_internal.h"
#include "winldr/path.h"
#include "winldr/syspath.h"
#include "winldr/pathfinder.h"
#include "winldr/words.h"

enum { FOLDERS_MAX = 8 };

/* One DLL that is opened. */
struct windows_use {
    const char *package;
    const char *what;     // "ctranslate2's first use of a GPU"
    const char *name;     // bare, or a full path
    unsigned flags;       // of LoadLibraryEx
    bool sets_cuda_bin;   // SetDllDirectory(CUDA_PATH\bin) comes first
    const char *severity; // of a failure
    const char *so;       // what follows from it, or ""
};

static const struct winldr_file *file_in_site(struct diag_windows *n, const char *name)
{
    const struct winldr_entry *e =
        winldr_files_get(n->files, winldr_python_path(n->files, n->py, name));
    return e->kind == WINLDR_ENTRY_FILE && e->file->image.state == PE_STATE_OK ? e->file : NULL;
}

/* Where a compiler puts texts; all of the file where there is no such section. */
static struct str texts_of(const struct pe_image *e)
{
    for (size_t i = 0; i < e->n_sections; i++) {
        const struct pe_section *s = &e->sections[i];
        const unsigned char *at = pe_bytes(e, s->offset, s->size_in_file);
        if (at && strcmp(s->name, ".rdata") == 0) {
            return (struct str){(const char *)at, s->size_in_file};
        }
    }
    return (struct str){(const char *)e->data, e->size};
}

/* "cublas64_12.dll" as ctranslate2.dll has it: it is opened at the first use of a GPU
 * (src/cuda/cublas_stub.cc). NULL: another build. */
static const char *cublas_name(struct diag_windows *n)
{
    static const char stem[] = "cublas64_";
    const struct winldr_file *file = file_in_site(n, "ctranslate2\\ctranslate2.dll");
    struct str text = file ? texts_of(&file->image) : (struct str){NULL, 0};
    const char *at = text.n ? memmem(text.s, text.n, stem, sizeof stem - 1) : NULL;
    size_t room = at ? text.n - (size_t)(at - text.s) : 0, length = sizeof stem - 1;
    while (length < room && str_is_digit(at[length])) {
        length++;
    }
    bool whole =
        at && length > sizeof stem - 1 && room - length >= 5 && memcmp(at + length, ".dll", 5) == 0;
    return whole ? arena_printf(n->arena, "%.*s.dll", (int)length, at) : NULL;
}

/* Whether the file asks for a DLL, at once or when a function of it is first called. */
static bool does_import(const struct winldr_file *file, const char *dll)
{
    for (size_t i = 0; file && i < file->imports.n; i++) {
        if (winldr_name_is(file->imports.items[i].dll, dll)) {
            return true;
        }
    }
    return false;
}

/* ------------------------------------------------------------------ in the model */

static struct winldr_process *start_with(struct diag_windows *n, const struct windows_use *use,
                                         const char *added_path, bool with_torch)
{
    struct arena *a = n->arena;
    struct winldr_python py = diag_windows_with_path(n, added_path);
    struct winldr_process *p = winldr_python_start(n->files, &py);
    if (with_torch) {
        winldr_import_package(p, &py, "torch");
    }
    if (strcmp(use->package, "torch") != 0 || !with_torch) {
        winldr_import_package(p, &py, use->package);
    }
    if (use->sets_cuda_bin && py.cuda_path) {
        winldr_set_directory(p, winldr_path_join(a, py.cuda_path, "bin"));
    }
    return p;
}

static const struct winldr_load *open_at_use(struct diag_windows *n, const struct windows_use *use,
                                             unsigned default_flags, const char *added_path,
                                             bool with_torch, struct winldr_process **ret)
{
    *ret = start_with(n, use, added_path, with_torch);
    winldr_set_default_flags(*ret, default_flags);
    return winldr_load(*ret, use->name, use->flags);
}

/* A folder that has the DLL which a load lacks. */
static const char *folder_with(struct diag_windows *n, const diag_windows_folders *folders,
                               const char *dll)
{
    for (size_t i = 0; i < folders->n; i++) {
        if (diag_windows_has_dll(n, folders->items[i], dll)) {
            return folders->items[i];
        }
    }
    return NULL;
}

/* A load that failed, and its process. */
struct failed_load {
    const struct winldr_process *process;
    const struct winldr_load *load;
};

static const struct winldr_request *blamed(const struct failed_load *x)
{
    return x->process->requests.items[x->load->blame];
}

static bool lacks_dll(const struct failed_load *x)
{
    return x->load->outcome == WINLDR_FAILED && x->load->code == WINLDR_MOD_NOT_FOUND;
}

/* Adds folders to PATH, one for each DLL that is missing, until the load succeeds. False: one is
 * nowhere, or something else is wrong: *x is what fails then. */
static bool add_path_repair(struct diag_windows *n, struct diag_windows_finding *f,
                            const struct windows_use *use, struct failed_load *x)
{
    struct arena *a = n->arena;
    diag_windows_folders folders = {0};
    const char *added = NULL;
    diag_windows_find_folders(n, &folders);
    for (int i = 0; i < FOLDERS_MAX; i++) {
        struct winldr_process *p;
        const struct winldr_load *l = open_at_use(n, use, 0, added, false, &p);
        if (winldr_is_loaded(l)) {
            f->cause = "library-not-on-path";
            f->evidence = arena_printf(a, "%s; it is in %s, which this call does not search",
                                       f->evidence, added);
            struct diag_windows_repair repair = diag_windows_on_path(n, added);
            /* By its path it is loaded whatever the program calls. */
            repair.preload = winldr_path_has_folder(use->name) ? NULL : l->module->path;
            diag_windows_add_repair(n, f, repair);
            return added != NULL;
        }
        *x = (struct failed_load){p, l};
        const char *folder =
            lacks_dll(x) ? folder_with(n, &folders, winldr_path_base(blamed(x)->name)) : NULL;
        if (!folder || (added && str_find(str_of(added), folder) < strlen(added))) {
            break;
        }
        added = added ? arena_printf(a, "%s;%s", added, folder) : folder;
    }
    if (added) {
        f->evidence = arena_printf(a,
                                   "%s; it is in %s, which this call does not search, and with "
                                   "that folder %s",
                                   f->evidence, added, winldr_load_cause(x->process, x->load));
    }
    return false;
}

/* Whether a DLL imports one of CUDA 13 ("cublas64_13.dll"). */
static bool is_for_cuda_13(const struct winldr_module *m)
{
    for (size_t i = 0; m && m->file && i < m->file->imports.n; i++) {
        const char *dll = m->file->imports.items[i].dll;
        size_t n = strlen(dll), end = sizeof "64_13.dll" - 1;
        if (n > end && winldr_name_is(dll + n - end, "64_13.dll")) {
            return true;
        }
    }
    return false;
}

/* The wheels that have these DLLs and where, as their lists of files say (nvidia-cublas 13.10.0.20
 * and nvidia-cudnn-cu13 9.28.1.4 among them). */
static void add_wheel_repair(struct diag_windows *n, struct diag_windows_finding *f,
                             const struct winldr_request *r)
{
    static const struct {
        const char *dll, *library, *wheels, *wheels_13, *folder;
    } rows[] = {
        {"cublas64_12.dll", "cuBLAS", "nvidia-cublas-cu12 nvidia-cuda-runtime-cu12", NULL,
         "nvidia\\cublas\\bin"},
        {"cublasLt64_12.dll", "cuBLAS", "nvidia-cublas-cu12 nvidia-cuda-runtime-cu12", NULL,
         "nvidia\\cublas\\bin"},
        {"cublas64_13.dll", "cuBLAS", "\"nvidia-cublas<14\" \"nvidia-cuda-runtime<14\"", NULL,
         "nvidia\\cu13\\bin\\x86_64"},
        {"cublasLt64_13.dll", "cuBLAS", "\"nvidia-cublas<14\" \"nvidia-cuda-runtime<14\"", NULL,
         "nvidia\\cu13\\bin\\x86_64"},
        {"cudnn64_9.dll", "cuDNN", "\"nvidia-cudnn-cu12>=9\"", "\"nvidia-cudnn-cu13>=9\"",
         "nvidia\\cudnn\\bin"},
        {"cudnn_graph64_9.dll", "cuDNN", "\"nvidia-cudnn-cu12>=9\"", "\"nvidia-cudnn-cu13>=9\"",
         "nvidia\\cudnn\\bin"},
        {"cudnn_ops64_9.dll", "cuDNN", "\"nvidia-cudnn-cu12>=9\"", "\"nvidia-cudnn-cu13>=9\"",
         "nvidia\\cudnn\\bin"},
        {"cudnn_cnn64_9.dll", "cuDNN", "\"nvidia-cudnn-cu12>=9\"", "\"nvidia-cudnn-cu13>=9\"",
         "nvidia\\cudnn\\bin"},
        {"cudnn_ops_infer64_8.dll", "cuDNN", "\"nvidia-cudnn-cu12<9\"", NULL, "nvidia\\cudnn\\bin"},
        {"cudnn_cnn_infer64_8.dll", "cuDNN", "\"nvidia-cudnn-cu12<9\"", NULL, "nvidia\\cudnn\\bin"},
    };
    const char *missing = winldr_path_base(r->name);
    const char *owner = winldr_recorded_by(n->files, n->py, missing, true);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (winldr_name_is(rows[i].dll, missing)) {
            bool is_13 = rows[i].wheels_13 && is_for_cuda_13(r->importer);
            const char *wheels = is_13 ? rows[i].wheels_13 : rows[i].wheels;
            const char *says = arena_printf(n->arena, "install %s%s and put its folder on PATH",
                                            rows[i].library, owner ? " again" : "");
            wheels = owner ? arena_printf(n->arena, "--force-reinstall --no-deps %s", owner)
                           : wheels; // pip leaves alone what is installed
            diag_windows_add_repair(
                n, f,
                diag_windows_pip_on_path(n, says, wheels,
                                         winldr_path_join(n->arena, n->py->site, rows[i].folder)));
        }
    }
    if (winldr_name_is(missing, "zlibwapi.dll")) {
        diag_windows_add_repair(
            n, f,
            (struct diag_windows_repair){
                .says = "put zlibwapi.dll (64 bits) into a folder of PATH; NVIDIA's installation "
                        "guide of cuDNN 8 for Windows names it"});
    }
}

static void report_use(struct diag_windows *n, const struct windows_use *use,
                       const struct winldr_process *p, const struct winldr_load *l)
{
    struct arena *a = n->arena;
    struct diag_windows_finding f = {
        .cause = "dll-missing",
        .severity = use->severity,
        .title =
            arena_printf(a, "%s fails: %s%s", use->what, winldr_error_text(a, l->code), use->so),
        .evidence = winldr_load_cause(p, l),
    };
    struct failed_load x = {p, l};
    if (!add_path_repair(n, &f, use, &x) && lacks_dll(&x)) {
        add_wheel_repair(n, &f, blamed(&x));
    }
    VEC_PUSH(a, &n->findings, f);
}

/* Whether the DLL is found whatever the program calls. */
static bool judge_use(struct diag_windows *n, const struct windows_use *use)
{
    struct arena *a = n->arena;
    const char *base = winldr_path_base(use->name);
    bool torch = strcmp(use->package, "torch") != 0 && winldr_has_package(n->files, n->py, "torch");
    const char *activated = diag_windows_activated_path(n);
    struct winldr_process *p, *strict, *both, *in_shell;
    const struct winldr_load *l = open_at_use(n, use, 0, NULL, false, &p);
    const struct winldr_load *s = open_at_use(n, use, WINLDR_DEFAULT_DIRS, NULL, false, &strict);
    if (winldr_is_loaded(l) && winldr_is_loaded(s)) {
        return true;
    }
    if (torch && winldr_is_loaded(open_at_use(n, use, WINLDR_DEFAULT_DIRS, NULL, true, &both))) {
        VEC_PUSH(a, &n->unknown,
                 arena_printf(a,
                              "%s finds %s if the program has imported torch before, which brings "
                              "%s",
                              use->what, base, use->flags ? "what it imports" : "it"));
    } else if (l->outcome == WINLDR_FAILED && activated &&
               winldr_is_loaded(open_at_use(n, use, 0, activated, false, &in_shell))) {
        VEC_PUSH(a, &n->unknown,
                 arena_printf(a,
                              "%s finds %s by PATH if the environment is activated (conda "
                              "activate)",
                              use->what, use->flags ? "what it imports" : base));
    } else if (l->outcome == WINLDR_FAILED) {
        report_use(n, use, p, l);
    } else if (l->outcome == WINLDR_UNKNOWN) {
        VEC_PUSH(a, &n->unknown, winldr_load_cause(p, l));
    } else {
        VEC_PUSH(a, &n->unknown,
                 arena_printf(a,
                              "%s is found by PATH, unless the program calls "
                              "SetDefaultDllDirectories()",
                              base));
    }
    return false;
}

/* ------------------------------------------------------------------ the packages */

/* cuDNN's main DLL opens the others by plain calls (the code of cudnn64_9.dll 9.10.2.21 and of
 * cudnn64_8.dll 8.9.7.29). Releases of ctranslate2 from 4.8.1 on do not use cuDNN. */
static void judge_cudnn_parts(struct diag_windows *n)
{
    static const struct {
        const char *main;
        const char *parts[3];
    } releases[] = {
        {"cudnn64_9.dll", {"cudnn_graph64_9.dll", "cudnn_ops64_9.dll", "cudnn_cnn64_9.dll"}},
        {"cudnn64_8.dll", {"cudnn_ops_infer64_8.dll", "cudnn_cnn_infer64_8.dll", "zlibwapi.dll"}},
    };
    const struct winldr_file *file = file_in_site(n, "ctranslate2\\ctranslate2.dll");
    for (size_t i = 0; i < sizeof releases / sizeof *releases; i++) {
        bool found = does_import(file, releases[i].main);
        for (size_t k = 0; found && k < 3; k++) { // one says enough
            const char *part = releases[i].parts[k];
            found = judge_use(n, &(struct windows_use){
                                     .package = "ctranslate2",
                                     .what = arena_printf(
                                         n->arena, "ctranslate2's first use of cuDNN (%s)", part),
                                     .name = part,
                                     .sets_cuda_bin = true,
                                     .severity = "error",
                                     .so = ""});
        }
    }
}

/* onnxruntime loads a provider by its path with LOAD_WITH_ALTERED_SEARCH_PATH
 * (onnxruntime/core/platform/windows/env.cc), and computes on the CPU where that fails. */
static void judge_onnxruntime(struct diag_windows *n)
{
    static const char provider[] = "onnxruntime\\capi\\onnxruntime_providers_cuda.dll";
    if (file_in_site(n, provider)) {
        (void)judge_use(n, &(struct windows_use){
                               .package = "onnxruntime",
                               .what = "the load of onnxruntime's CUDA provider",
                               .name = winldr_python_path(n->files, n->py, provider),
                               .flags = WINLDR_ALTERED_SEARCH_PATH,
                               .severity = "warning",
                               .so = ": it computes on the CPU",
                           });
    }
}

/* The major release of cuda-bindings, whose NVVM numba-cuda asks for; 0: not known. */
static uint64_t bindings_major(struct diag_windows *n)
{
    static const char stem[] = "cuda_bindings-";
    struct winldr_installed_list list = winldr_python_list(n->files, n->py);
    for (size_t i = 0; i < list.items.n; i++) {
        uint64_t major = 0;
        struct str rest = str_of(list.items.items[i].name);
        if (str_starts(rest, stem)) {
            rest = (struct str){rest.s + sizeof stem - 1, rest.n - (sizeof stem - 1)};
            return str_u64(str_cut(&rest, '.'), &major) ? major : 0;
        }
    }
    return 0;
}

/* Each kernel is compiled by NVVM, which cuda.pathfinder finds (numba_cuda/numba/cuda/cuda_paths.py
 * and cudadrv/nvvm.py, 0.30.4; from 0.20 on). */
static void judge_numba_cuda(struct diag_windows *n)
{
    struct arena *a = n->arena;
    struct winldr_process *p = winldr_python_start(n->files, n->py);
    winldr_import_package(p, n->py, "numba_cuda");
    if (p->raised) {
        return;
    }
    struct winldr_pathfinder nvvm = winldr_pathfinder_load(p, n->py, "nvvm");
    if (nvvm.module && !nvvm.is_unsure) {
        return;
    }
    if (p->cut || nvvm.is_unsure) {
        VEC_PUSH(a, &n->unknown,
                 p->cut ? p->cut
                        : "which NVVM numba-cuda's first kernel gets by a plain call is not "
                          "known");
        return;
    }
    uint64_t major = bindings_major(n);
    struct diag_windows_finding f = {
        .cause = "dll-missing",
        .severity = "error",
        .title = nvvm.found ? "numba-cuda's first kernel fails: its NVVM cannot be loaded"
                            : "numba-cuda's first kernel fails: cuda.pathfinder finds no NVVM",
        .evidence = nvvm.found
                        ? winldr_load_cause(p, &p->loads.items[p->loads.n - 1])
                        : arena_printf(a,
                                       "nvvm70.dll, nvvm64_40_0.dll and nvvm64.dll are neither "
                                       "in %s nor found by a plain LoadLibrary()",
                                       nvvm.looked),
    };
    if (major == 12 || major == 13) {
        diag_windows_add_repair(
            n, &f,
            diag_windows_pip(n, "install the NVVM that fits cuda-bindings",
                             arena_printf(a, "\"numba-cuda[cu%u]\"", (unsigned)major)));
    }
    VEC_PUSH(a, &n->findings, f);
}

/* CTranslate2, onnxruntime and numba-cuda, where the machine has one of NVIDIA's GPUs. */
void diag_windows_judge_first_use(struct diag_windows *n)
{
    if (!diag_windows_gpu(n, HOST_NVIDIA)) {
        return;
    }
    if (winldr_has_package(n->files, n->py, "ctranslate2")) {
        const char *name = cublas_name(n);
        if (name) {
            (void)judge_use(n, &(struct windows_use){.package = "ctranslate2",
                                                     .what = "ctranslate2's first use of a GPU",
                                                     .name = name,
                                                     .sets_cuda_bin = true,
                                                     .severity = "error",
                                                     .so = ""});
        }
        judge_cudnn_parts(n);
    }
    if (winldr_has_package(n->files, n->py, "onnxruntime")) {
        judge_onnxruntime(n);
    }
    if (winldr_has_package(n->files, n->py, "numba_cuda")) {
        judge_numba_cuda(n);
    }
}

bool diag_windows_is_cuda_build(struct diag_windows *n)
{
    return cublas_name(n) != NULL;
}
