#include <stdlib.h>
#include <string.h>

#include "diag/windows_internal.h"
#include "winldr/path.h"
#include "winldr/words.h"

static const struct host_gpu *gpu_of(const struct diag_windows *n, enum host_vendor vendor)
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
static const char *cublas_name(struct diag_windows *n)
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
static const struct winldr_load *open_cublas(struct diag_windows *n, const char *name,
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

static void add_cublas_repairs(struct diag_windows *n, struct diag_windows_finding *f,
                               const char *name)
{
    diag_windows_folders folders = {0};
    struct winldr_process *p;
    diag_windows_find_folders(n, &folders);
    for (size_t i = 0; i < folders.n; i++) {
        if (diag_windows_has_dll(n, folders.items[i], name) &&
            winldr_is_loaded(open_cublas(n, name, 0, folders.items[i], false, &p))) {
            f->cause = "library-not-on-path";
            f->evidence = arena_printf(n->arena, "%s; it is in %s, which this call does not search",
                                       f->evidence, folders.items[i]);
            diag_windows_add_repair(n, f, diag_windows_on_path(n, folders.items[i]));
            return;
        }
    }
    const char *digits = name + strlen("cublas64_");
    if (strncmp(digits, "12.", 3) == 0) {
        diag_windows_add_repair(n, f,
                                diag_windows_pip(n, "install cuBLAS and put its folder on PATH",
                                                 "nvidia-cublas-cu12 nvidia-cuda-runtime-cu12"));
    }
}

void diag_windows_judge_first_use(struct diag_windows *n)
{
    const char *name = gpu_of(n, HOST_NVIDIA) ? cublas_name(n) : NULL;
    bool torch = winldr_has_package(n->files, n->py, "torch");
    struct winldr_process *p, *strict;
    if (!name) {
        return;
    }
    const struct winldr_load *l = open_cublas(n, name, 0, NULL, false, &p);
    const struct winldr_load *s = open_cublas(n, name, WINLDR_DEFAULT_DIRS, NULL, false, &strict);
    if (winldr_is_loaded(l) && winldr_is_loaded(s)) {
        return;
    }
    struct winldr_process *both;
    if (torch && winldr_is_loaded(open_cublas(n, name, WINLDR_DEFAULT_DIRS, NULL, true, &both))) {
        VEC_PUSH(
            n->arena, &n->unknown,
            arena_printf(n->arena,
                         "ctranslate2's first use of a GPU finds %s if the program has imported "
                         "torch, which brings it",
                         name));
        return;
    }
    if (l->outcome == WINLDR_FAILED) {
        struct diag_windows_finding f = {
            .cause = "dll-missing",
            .severity = "error",
            .title = arena_printf(n->arena, "ctranslate2's first use of a GPU fails: %s",
                                  winldr_error_text(n->arena, l->code)),
            .evidence = winldr_load_cause(p, l),
        };
        add_cublas_repairs(n, &f, name);
        VEC_PUSH(n->arena, &n->findings, f);
    } else if (l->outcome == WINLDR_UNKNOWN) {
        VEC_PUSH(n->arena, &n->unknown, winldr_load_cause(p, l));
    } else {
        VEC_PUSH(n->arena, &n->unknown,
                 arena_printf(n->arena,
                              "%s is found by PATH, unless the program calls "
                              "SetDefaultDllDirectories()",
                              name));
    }
}

/* What torch was built for, and what the machine has. */
void diag_windows_judge_build(struct diag_windows *n)
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
    struct diag_windows_finding f = {
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
        diag_windows_add_repair(n, &f,
                                diag_windows_pip(n, "install a build for CUDA",
                                                 blackwell
                                                     ? "--force-reinstall torch --index-url "
                                                       "https://download.pytorch.org/whl/cu128"
                                                     : "--force-reinstall torch --index-url "
                                                       "https://download.pytorch.org/whl/cu126"));
    }
    VEC_PUSH(a, &n->findings, f);
}

/* The floor of minor-version compatibility on Windows; CUDA 13 has none that is documented. */
void diag_windows_judge_driver(struct diag_windows *n)
{
    struct winldr_torch torch = winldr_torch_read(n->files, n->py);
    const struct host_gpu *g = gpu_of(n, HOST_NVIDIA);
    struct kb_drivers drivers;
    if (!g || !g->driver_version || !torch.cuda || kb_drivers(n->kb, &drivers, NULL) < 0) {
        return;
    }
    for (size_t i = 0; i < drivers.n; i++) {
        const struct kb_driver *row = &drivers.rows[i];
        if (row->kind != KB_DRIVER_MINOR || !row->windows_min ||
            atoi(row->cuda) != atoi(torch.cuda) ||
            host_version_cmp(g->driver_version, row->windows_min) >= 0) {
            continue;
        }
        struct diag_windows_finding f = {
            .cause = "driver-too-old",
            .severity = "error",
            .title = arena_printf(n->arena, "NVIDIA's driver %s is too old for torch's CUDA %s",
                                  g->driver_version, torch.cuda),
            .evidence = arena_printf(n->arena, "CUDA %s.x needs driver %s or later on Windows",
                                     row->cuda, row->windows_min),
        };
        diag_windows_add_repair(
            n, &f,
            (struct diag_windows_repair){
                .says = "install a newer driver: https://www.nvidia.com/drivers"});
        VEC_PUSH(n->arena, &n->findings, f);
    }
}

/* The driver's amdhip64_N.dll in System32 comes before the SDK's on PATH (classic search: System32
 * first): llama.cpp#25807, TheRock#6571. */
void diag_windows_judge_hip(struct diag_windows *n)
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
                (struct diag_windows_finding){
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
