/* AMD's GPUs: what the files have code for, and which builds serve them. */
#include <string.h>

#include "diag/windows_internal.h"
#include "gpu/code.h"
#include "winldr/path.h"

#define AMD_PAGE                                                                                   \
    "https://rocm.docs.amd.com/projects/radeon-ryzen/en/latest/docs/install/installrad/windows/"   \
    "install-pytorch.html"

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

static bool names_gfx(const struct kb_build *b, const char *gfx)
{
    for (size_t i = 0; i < b->gfx.n; i++) {
        if (strcmp(b->gfx.items[i], gfx) == 0) {
            return true;
        }
    }
    return false;
}

/* "PinW/ctranslate2-rocm-rdna1: README.md" -> "https://github.com/PinW/ctranslate2-rocm-rdna1". */
static const char *address_of(struct arena *a, const struct kb_build *b)
{
    struct str source = str_of(b->origin.sources.n ? b->origin.sources.items[0] : "");
    struct str repository = str_cut(&source, ':');
    bool is_repository = source.s && str_find_char(repository, '/') < repository.n &&
                         str_find_char(repository, ' ') == repository.n;
    return is_repository ? arena_printf(a, "https://github.com/%.*s/releases", (int)repository.n,
                                        repository.s)
                         : NULL;
}

/* The last build of ctranslate2 that has code for the GPU; NULL: none is known. */
static const struct kb_build *build_for(struct diag_windows *n, const char *gfx)
{
    const struct kb_build *found = NULL;
    struct kb_builds builds;
    if (kb_builds(n->kb, &builds, NULL) < 0) {
        return NULL;
    }
    for (size_t i = 0; i < builds.n; i++) {
        const struct kb_build *b = &builds.rows[i];
        if (strcmp(b->package, "ctranslate2") == 0 && b->rocm && names_gfx(b, gfx)) {
            found = b;
        }
    }
    return found;
}

static void add_ctranslate2_repair(struct diag_windows *n, struct diag_windows_finding *f,
                                   const char *gfx)
{
    struct arena *a = n->arena;
    const struct kb_build *b = build_for(n, gfx);
    const char *address = b ? address_of(a, b) : NULL;
    const char *says =
        b ? arena_printf(a,
                         "install the build of ctranslate2 %s for ROCm %s that has code for "
                         "%s%s%s (%s)",
                         b->versions, b->rocm, gfx, address ? ": " : "", address ? address : "",
                         b->origin.note ? b->origin.note : "see its page")
          : arena_printf(a, "use the CPU (device=\"cpu\"): no build of ctranslate2 for %s is known",
                         gfx);
    diag_windows_add_repair(n, f, (struct diag_windows_repair){.says = says});
}

/* AMD's own wheels are for RDNA 3 and later: the compatibility list of "PyTorch via PIP
 * installation", rocm.docs.amd.com. */
static void add_torch_repair(struct diag_windows *n, struct diag_windows_finding *f,
                             const char *gfx)
{
    bool may_serve = strncmp(gfx, "gfx11", 5) == 0 || strncmp(gfx, "gfx12", 5) == 0;
    const char *says =
        may_serve
            ? arena_printf(n->arena,
                           "install AMD's wheels of torch for Windows and Python 3.12, if their "
                           "list has this GPU (%s): " AMD_PAGE,
                           gfx)
            : arena_printf(
                  n->arena,
                  "use the CPU: AMD's wheels of torch for Windows are for gfx11 and gfx12, "
                  "and no other build for %s is known",
                  gfx);
    diag_windows_add_repair(n, f, (struct diag_windows_repair){.says = says});
}

void diag_windows_add_amd_repair(struct diag_windows *n, struct diag_windows_finding *f,
                                 const struct host_gpu *g, const char *package)
{
    if (g->gfx.state == HOST_YES) {
        (strcmp(package, "torch") == 0 ? add_torch_repair : add_ctranslate2_repair)(n, f,
                                                                                    g->gfx.value);
    }
}

/* A library of a build for ROCm that has no code for the GPU. */
static void judge_code(struct diag_windows *n, const struct host_gpu *g, const char *package,
                       const char *library)
{
    struct arena *a = n->arena;
    struct gpu_code code;
    struct gpu_answer answer;
    const char *path = winldr_path_join(a, n->py->site, library);
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
        .evidence = arena_printf(a, "%s opens cuBLAS",
                                 winldr_path_join(a, n->py->site, "ctranslate2\\ctranslate2.dll")),
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
