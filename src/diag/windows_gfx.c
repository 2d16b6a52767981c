/* AMD's GPUs: what the files have code for, and which builds serve them. */
#include <string.h>

#include "diag/windows_internal.h"
#include "gpu/code.h"
#include "winldr/path.h"
#include "winldr/syspath.h"

/* "gfx1030, gfx1100" */
static const char *targets_of(struct arena *a, const struct gpu_code *code)
{
    enum { NAMED_MAX = 12 };
    const char *text = "";
    for (size_t i = 0; i < code->n_targets && i < NAMED_MAX; i++) {
        text = arena_printf(a, "%s%s%s", text, i ? ", " : "", code->targets[i].name);
    }
    return code->n_targets > NAMED_MAX ? arena_printf(a, "%s, ...", text) : text;
}

/* A library of a build for ROCm that has no code for the GPU. */
static void judge_code(struct diag_windows *n, const struct host_gpu *g, const char *package,
                       const char *library)
{
    struct arena *a = n->arena;
    struct gpu_code code;
    struct gpu_answer answer;
    const char *path = winldr_python_path(n->files, n->py, library);
    const struct winldr_entry *e = winldr_files_get(n->files, path);
    if (e->kind != WINLDR_ENTRY_FILE || g->gfx.state != HOST_YES) {
        return;
    }
    gpu_code_read(a, e->file->image.data, e->file->image.size, GPU_READ_SECTIONS, &code);
    gpu_code_serves_amd(&code, g->gfx.value, &answer);
    if (answer.serves != GPU_SERVES_NONE || code.incomplete) {
        return;
    }
    struct diag_windows_finding f = {
        .cause = "gfx-not-covered",
        .severity = "error",
        .title = arena_printf(a, "%s has no code for the %s (%s)", package, g->name, g->gfx.value),
        .evidence = arena_printf(a, "%s has code for %s", path, targets_of(a, &code)),
    };
    diag_windows_add_amd_repair(n, &f, g, package);
    VEC_PUSH(a, &n->findings, f);
}

/* A ctranslate2 for CUDA beside AMD's GPU alone. */
static void judge_ctranslate2_vendor(struct diag_windows *n, const struct host_gpu *g)
{
    struct arena *a = n->arena;
    struct diag_windows_finding f = {
        .cause = "build-for-other-vendor",
        .severity = "warning",
        .title = arena_printf(a,
                              "ctranslate2 is built for CUDA: it does not use the %s, and computes "
                              "on the CPU",
                              g->name),
        .evidence =
            arena_printf(a, "%s opens cuBLAS",
                         winldr_python_path(n->files, n->py, "ctranslate2\\ctranslate2.dll")),
    };
    diag_windows_add_amd_repair(n, &f, g, "ctranslate2");
    VEC_PUSH(a, &n->findings, f);
}

void diag_windows_judge_gfx(struct diag_windows *n)
{
    const struct host_gpu *g = diag_windows_gpu(n, HOST_AMD);
    if (!g || diag_windows_gpu(n, HOST_NVIDIA)) {
        return;
    }
    if (winldr_has_package(n->files, n->py, "ctranslate2")) {
        if (diag_windows_is_cuda_build(n)) {
            judge_ctranslate2_vendor(n, g);
        } else {
            judge_code(n, g, "ctranslate2", "ctranslate2\\ctranslate2.dll");
        }
    }
    if (winldr_has_package(n->files, n->py, "torch")) {
        judge_code(n, g, "torch", "torch\\lib\\torch_hip.dll");
    }
}
