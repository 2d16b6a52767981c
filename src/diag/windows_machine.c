#include <stdlib.h>
#include <string.h>

#include "diag/windows_internal.h"
#include "kb/serves.h"
#include "py/dist.h"
#include "winldr/path.h"
#include "winldr/syspath.h"
#include "winldr/words.h"

const struct host_gpu *diag_windows_gpu(const struct diag_windows *n, enum host_vendor vendor)
{
    for (size_t i = 0; n->host && i < n->host->gpus.n; i++) {
        const struct host_gpu *g = &n->host->gpus.items[i];
        if (g->vendor == vendor && g->usable != HOST_NO && host_gpu_counts(g)) {
            return g;
        }
    }
    return NULL;
}

/* Whether conda has installed torch, which it calls pytorch, and whether from conda-forge: it
 * writes a record of each package (conda-meta/NAME-VERSION-BUILD.json, with its channel). */
static bool is_conda_torch(struct diag_windows *n, bool *ret_is_forge)
{
    const char *meta = winldr_path_join(n->arena, n->py->folder, "conda-meta");
    struct winldr_names names = winldr_files_list(n->files, meta);
    for (size_t i = 0; i < names.n; i++) {
        const char *name = names.items[i];
        if (!starts_with(name, "pytorch-") || name[8] < '0' || name[8] > '9') {
            continue;
        }
        const struct winldr_entry *e =
            winldr_files_place(n->files, winldr_path_join(n->arena, meta, name));
        struct str text;
        bool is_read = e->place && root_read_head(n->files->root, n->arena, e->place,
                                                  PY_CONDA_HEAD_BYTES_MAX, &text, NULL) == 0;
        *ret_is_forge = is_read && py_conda_is_forge(text);
        return true;
    }
    return false;
}

/* pip would put another one into the files that conda keeps. Sources:
 * conda-forge/pytorch-cpu-feedstock#164 and pytorch/test-infra#4567 (the build by its name). */
static struct diag_windows_repair conda_build(const struct diag_windows *n, bool is_forge)
{
    struct arena *a = n->arena;
    const char *power = str_powershell_word(a, n->py->folder);
    const char *cmd = diag_windows_quote_cmd(a, n->py->folder);
    static const char format[] = "conda install -p %s -c conda-forge \"pytorch=*=*cuda*\"";
    return (struct diag_windows_repair){
        .says = is_forge
                    ? "install conda-forge's build for CUDA, as conda has installed this torch"
                    : "install a build for CUDA by conda, which has installed this torch, from "
                      "a channel that has one",
        .powershell = is_forge && power ? arena_printf(a, format, power) : NULL,
        .cmd = is_forge && cmd ? arena_printf(a, format, cmd) : NULL,
        .is_inside = true,
    };
}

/* What torch was built for, and what the machine has. */
void diag_windows_judge_build(struct diag_windows *n)
{
    struct arena *a = n->arena;
    struct winldr_torch torch = winldr_torch_read(n->files, n->py);
    const struct host_gpu *nvidia = diag_windows_gpu(n, HOST_NVIDIA),
                          *amd = diag_windows_gpu(n, HOST_AMD);
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
        .evidence = winldr_python_path(n->files, n->py, "torch\\version.py"),
    };
    bool blackwell = nvidia && g->compute_capability.state == HOST_YES &&
                     host_version_cmp(g->compute_capability.value, "10.0") >= 0;
    bool is_forge = false;
    if (nvidia && is_conda_torch(n, &is_forge)) {
        diag_windows_add_repair(n, &f, conda_build(n, is_forge));
    } else if (nvidia) {
        diag_windows_add_repair(n, &f,
                                diag_windows_pip(n, "install a build for CUDA",
                                                 blackwell
                                                     ? "--force-reinstall torch --index-url "
                                                       "https://download.pytorch.org/whl/cu128"
                                                     : "--force-reinstall torch --index-url "
                                                       "https://download.pytorch.org/whl/cu126"));
    }
    if (!nvidia) {
        diag_windows_add_amd_repair(n, &f, g, "torch");
    }
    VEC_PUSH(a, &n->findings, f);
}

/* The floor of minor-version compatibility on Windows; CUDA 13 has none that is documented. */
void diag_windows_judge_driver(struct diag_windows *n)
{
    struct winldr_torch torch = winldr_torch_read(n->files, n->py);
    const struct host_gpu *g = diag_windows_gpu(n, HOST_NVIDIA);
    struct kb_drivers drivers;
    if (!g || !g->driver_version || !torch.cuda || kb_drivers(n->kb, &drivers, NULL) < 0) {
        return;
    }
    const struct kb_driver *row = kb_driver_minor(&drivers, torch.cuda);
    if (!row || !row->windows_min || host_version_cmp(g->driver_version, row->windows_min) >= 0) {
        return;
    }
    struct diag_windows_finding f = {
        .cause = "driver-too-old",
        .severity = "error",
        .title = arena_printf(n->arena, "NVIDIA's driver %s is too old for torch's CUDA %s",
                              g->driver_version, torch.cuda),
        .evidence = arena_printf(n->arena, "CUDA %s.x needs driver %s or later on Windows",
                                 row->cuda, row->windows_min),
    };
    diag_windows_add_repair(n, &f,
                            (struct diag_windows_repair){
                                .says = "install a newer driver: https://www.nvidia.com/drivers"});
    VEC_PUSH(n->arena, &n->findings, f);
}

/* What a plain call gets after the SDK's copy was loaded by its path. */
static bool preload_helps(struct diag_windows *n, const char *path)
{
    struct winldr_process *p = winldr_python_start(n->files, n->py);
    (void)winldr_load(p, path, WINLDR_DEFAULT_DIRS | WINLDR_DLL_LOAD_DIR); // kept in p->loads
    const struct winldr_load *l = winldr_load(p, winldr_path_base(path), 0);
    return winldr_is_loaded(l) && winldr_name_is(l->module->path, path);
}

static void report_hip(struct diag_windows *n, const struct host_fact *system, const char *path,
                       const char *version)
{
    struct arena *a = n->arena;
    const char *name = winldr_path_base(path);
    struct diag_windows_finding f = {
        .cause = "library-wrong-copy",
        .severity = "warning",
        .title = arena_printf(a, "the driver's %s comes before that of the HIP SDK", name),
        .evidence = arena_printf(a,
                                 "a plain LoadLibrary(\"%s\") gets %s (%s), and not %s (%s), "
                                 "wherever PATH has that",
                                 name, system->where, system->value, path, version),
    };
    if (preload_helps(n, path)) {
        diag_windows_add_repair(n, &f, diag_windows_preload(n, path));
    }
    VEC_PUSH(a, &n->findings, f);
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
            report_hip(n, system, path, version);
        }
    }
}
