/*
 * One package installed over another: the wheels of cuDNN for CUDA 12 and for CUDA 13 have the same
 * paths, and so have two builds of one framework; pip and uv let the last one win. Both are
 * "installed" by their metadata, so that an installer that is asked for the lost one does nothing.
 * RECORD tells by the sizes which one is there. Files that many packages share for good reasons (a
 * namespace's, a licence) do not count: only libraries do.
 */
#include <string.h>
#include <sys/stat.h>

#include "diag/internal.h"
#include "model/imports.h"
#include "py/dist.h"
#include "py/owner.h"

/* ------------------------------------------------------------------ libraries of NVIDIA */

/* The recorded size of the path, if the distribution lists it. */
static bool lists(struct diag *d, const struct py_dist *dist, const char *path, uint64_t *ret_bytes)
{
    struct py_libraries list;
    (void)py_dist_libraries(d->m->env, dist, &list); // empty without a RECORD
    for (size_t i = 0; i < list.rows.n; i++) {
        const struct py_record_row *row = &list.rows.items[i];
        const char *its = path_join(d->a, dist->site, str_dup(d->a, row->path));
        if (row->has_size && strcmp(path_normal(d->a, its), path) == 0) {
            *ret_bytes = row->size_bytes;
            return true;
        }
    }
    return false;
}

static bool find_both(struct diag *d, const char *path, uint64_t size,
                      const struct py_dist **ret_lost, const struct py_dist **ret_winner)
{
    const struct py_env *env = d->m->env;
    *ret_lost = *ret_winner = NULL;
    for (size_t i = 0; i < env->n_dists; i++) {
        const struct py_dist *dist = &env->dists[i];
        uint64_t bytes = 0;
        if (!starts_with(dist->name_normal, "nvidia-") || dist->shadowed_by || !dist->version ||
            !lists(d, dist, path, &bytes)) {
            continue;
        }
        *(bytes == size ? ret_winner : ret_lost) = dist;
    }
    return *ret_lost && *ret_winner;
}

bool diag_repair_overwritten(struct diag *d, struct diag_finding *f, const char *path)
{
    const struct py_dist *lost, *winner;
    struct stat st;
    const char *file = path_normal(d->a, model_absolute(d->m, path));
    if (!d->m->env || root_stat(d->m->root, file, &st) < 0 ||
        !find_both(d, file, (uint64_t)st.st_size, &lost, &winner)) {
        return false;
    }
    const struct py_dist *by = diag_required_by(d, lost->name_normal);
    if (!by) {
        return false; // which of the two should stay is not known
    }
    diag_evidence(d, f,
                  "%s %s was installed over %s %s: both list %s, and its size is the former's",
                  winner->name_normal, winner->version, lost->name_normal, lost->version, file);
    const char *spec = arena_printf(d->a, "%s==%s", lost->name_normal, lost->version);
    diag_repair(d, f, DIAG_REPAIR_PACKAGE,
                arena_printf(d->a, "%s && %s", diag_pip_remove(d, winner->name_normal),
                             diag_pip(d, arena_printf(d->a, "--force-reinstall --no-deps %s",
                                                      diag_quote(d, spec)))),
                "Remove %s, which overwrote files of %s, and install that again: %s requires it, "
                "and the two cannot be in one environment.",
                winner->name_normal, lost->name_normal, by->name_normal);
    return true;
}

/* ------------------------------------------------------------------ builds of one framework */

/* Builds without CUDA and HIP, and those with them that have the same module. onnxruntime and
 * onnxruntime-gpu have a cause of their own (builds.c). */
static const struct {
    const char *cpu;
    const char *gpu[4];
} builds[] = {
    {"onnxruntime", {"onnxruntime-rocm", "onnxruntime-migraphx"}},
    {"onnxruntime-openvino", {"onnxruntime-gpu", "onnxruntime-rocm", "onnxruntime-migraphx"}},
    {"tensorflow-cpu", {"tensorflow", "tensorflow-rocm"}},
    {"paddlepaddle", {"paddlepaddle-gpu"}},
    {"faiss-cpu", {"faiss-gpu", "faiss-gpu-cu11", "faiss-gpu-cu12"}},
    {"xgboost-cpu", {"xgboost"}},
};

enum { N_BUILDS = sizeof builds / sizeof *builds, N_GPU = sizeof builds->gpu / sizeof(char *) };

static bool is_build_without(const char *package)
{
    for (size_t i = 0; i < N_BUILDS; i++) {
        if (strcmp(builds[i].cpu, package) == 0) {
            return true;
        }
    }
    return false;
}

static bool machine_has_gpu(const struct diag *d)
{
    static const enum host_vendor vendors[] = {HOST_NVIDIA, HOST_AMD};
    for (size_t i = 0; i < sizeof vendors / sizeof *vendors; i++) {
        const struct host_gpu *g = NULL;
        while (d->m->host && (g = diag_next_gpu(d, vendors[i], g)) != NULL) {
            if (g->usable == HOST_YES) {
                return true;
            }
        }
    }
    return false;
}

static struct diag_finding *add_over(struct diag *d, const struct py_dist *lost,
                                     const struct py_dist *winner, const struct py_dist *keep,
                                     const char *so)
{
    struct diag_finding *f =
        diag_add(d, DIAG_PACKAGES_CONFLICT, lost->name_normal, lost->name_normal,
                 arena_printf(d->a, "%s %s was installed over %s %s: %s.", winner->name_normal,
                              winner->version, lost->name_normal, lost->version, so));
    f->stage = DIAG_STAGE_USE;
    diag_seen_where_imported(d, f, lost->name);
    diag_seen_where_imported(d, f, winner->name);
    diag_evidence(d, f, "libraries that both list in RECORD have the sizes of %s",
                  winner->name_normal);
    const char *both = arena_printf(d->a, "%s %s", lost->name_normal, winner->name_normal);
    const char *spec = arena_printf(d->a, "%s==%s", keep->name_normal, keep->version);
    diag_repair(d, f, DIAG_REPAIR_PACKAGE,
                arena_printf(d->a, "%s && %s", diag_pip_remove(d, both),
                             diag_pip_here(d, diag_quote(d, spec))),
                "Uninstall both, then install the one that is wanted: removing one removes files "
                "of the other.");
    return f;
}

/* The build for the GPU is gone. The reverse works until either is updated. */
static void rule_build_lost(struct diag *d)
{
    for (size_t i = 0; i < N_BUILDS; i++) {
        const struct py_dist *cpu = py_env_by_dist(d->m->env, builds[i].cpu);
        for (size_t k = 0; cpu && k < N_GPU && builds[i].gpu[k]; k++) {
            const struct py_dist *gpu = py_env_by_dist(d->m->env, builds[i].gpu[k]);
            if (gpu && gpu->version && cpu->version && model_overwriter(d->m, gpu) == cpu) {
                struct diag_finding *f =
                    add_over(d, gpu, cpu, gpu, "the build for the GPU is gone");
                f->severity = machine_has_gpu(d) ? DIAG_ERROR : DIAG_WARNING;
            }
        }
    }
}

static bool brings_module(const struct diag *d, const struct py_dist *dist, const char *module)
{
    for (size_t i = 0; i < d->m->imports.n; i++) {
        const struct kb_import *row = &d->m->imports.rows[i];
        if (strcmp(row->package, dist->name_normal) == 0 && strcmp(row->module, module) == 0) {
            return true;
        }
    }
    return false;
}

/* Two builds for GPUs with one module, such as CuPy's for CUDA 11 and for CUDA 12. */
static void rule_build_twice(struct diag *d, const struct py_dist *lost)
{
    const struct kb_import *row = diag_import_row(d, lost);
    const struct py_dist *winner = row ? model_overwriter(d->m, lost) : NULL;
    if (!winner || !winner->version || !lost->version || is_build_without(lost->name_normal) ||
        is_build_without(winner->name_normal) || !brings_module(d, winner, row->module)) {
        return;
    }
    const struct py_dist *by = diag_required_by(d, lost->name_normal);
    struct diag_finding *f = add_over(
        d, lost, winner, by ? lost : winner,
        arena_printf(d->a, "both bring the module %s, whose files are now a mixture", row->module));
    f->severity = DIAG_WARNING;
}

void diag_rule_overwritten(struct diag *d)
{
    if (!d->m->env || d->m->pid) {
        return;
    }
    rule_build_lost(d);
    for (size_t i = 0; i < d->m->known.n; i++) {
        rule_build_twice(d, d->m->known.items[i]);
    }
}
