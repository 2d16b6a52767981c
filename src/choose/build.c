/* What the installed build of an application serves, and which build would serve a GPU. */
#include "choose/chooser.h"

#include <string.h>

#include "base/str.h"
#include "kb/serves.h"
#include "model/gpu.h"
#include "py/dist.h"

/* ------------------------------------------------------------------ the application */

/* Distributions that give an application, the best first, and what their plain wheels are built
 * for. Sources: kb/builds.json; for ONNX Runtime the names of its packages. */
static const struct {
    enum choose_app app;
    const char *package, *provider;
    enum build build;
} packages[] = {
    {CHOOSE_APP_CTRANSLATE2, "ctranslate2", NULL, BUILD_CUDA},
    {CHOOSE_APP_TORCH, "torch", NULL, BUILD_CUDA},
    {CHOOSE_APP_ONNXRUNTIME, "onnxruntime-gpu", "CUDAExecutionProvider", BUILD_CUDA},
    {CHOOSE_APP_ONNXRUNTIME, "onnxruntime-migraphx", "MIGraphXExecutionProvider", BUILD_ROCM},
    {CHOOSE_APP_ONNXRUNTIME, "onnxruntime-rocm", "ROCMExecutionProvider", BUILD_ROCM},
    {CHOOSE_APP_ONNXRUNTIME, "onnxruntime", NULL, BUILD_CPU},
};

const char *choose_app_module(enum choose_app app)
{
    return choose_app_name(app);
}

const struct py_dist *choose_app_of(struct model *m, const struct choose_options *o,
                                    enum choose_app *ret_app)
{
    *ret_app = o->app_given ? o->app : CHOOSE_APP_CTRANSLATE2;
    for (size_t i = 0; m->env && i < sizeof packages / sizeof *packages; i++) {
        const struct py_dist *d = !o->app_given || packages[i].app == o->app
                                      ? py_env_by_dist(m->env, packages[i].package)
                                      : NULL;
        if (d) {
            *ret_app = packages[i].app;
            return d;
        }
    }
    return NULL;
}

bool chooser_is_on_arm(const struct chooser *c)
{
    const char *machine = c->m->env && c->m->env->machine   ? c->m->env->machine
                          : c->h->cpu.isa.state == HOST_YES ? c->h->cpu.isa.value
                                                            : "";
    return strcmp(machine, "aarch64") == 0;
}

static enum build build_of_files(const struct chooser *c)
{
    enum model_build found = c->dist ? model_build_of_dist(c->m, c->dist) : MODEL_BUILD_UNKNOWN;
    switch (found) {
    case MODEL_BUILD_CPU: return BUILD_CPU;
    case MODEL_BUILD_CUDA: return BUILD_CUDA;
    case MODEL_BUILD_HIP: return BUILD_ROCM;
    case MODEL_BUILD_UNKNOWN: break;
    }
    return BUILD_UNKNOWN;
}

/* What the installed build serves, by its files, its local version label ("2.5.1+cpu"), else by its
 * package. CTranslate2's wheels for aarch64 are for the CPU (docs/hardware_support.md); of torch's
 * and of what conda built the name does not tell. */
enum build chooser_build_of(const struct chooser *c)
{
    enum build files = build_of_files(c);
    if (files != BUILD_UNKNOWN) {
        return files;
    }
    const char *version = c->dist && c->dist->version ? c->dist->version : "";
    const char *local = strchr(version, '+');
    if (local) {
        return starts_with(local, "+cpu")    ? BUILD_CPU
               : starts_with(local, "+rocm") ? BUILD_ROCM
               : starts_with(local, "+cu")   ? BUILD_CUDA
                                             : BUILD_UNKNOWN;
    }
    if (c->dist && c->dist->kind == PY_DIST_CONDA) {
        return BUILD_UNKNOWN;
    }
    if (chooser_is_on_arm(c)) {
        return c->choice->app == CHOOSE_APP_CTRANSLATE2 ? BUILD_CPU : BUILD_UNKNOWN;
    }
    for (size_t i = 0; i < sizeof packages / sizeof *packages; i++) {
        bool is = c->dist ? strcmp(c->dist->name_normal, packages[i].package) == 0
                          : packages[i].app == c->choice->app;
        if (is) { // torch has builds for both: without one installed, either may be meant
            return !c->dist && c->choice->app == CHOOSE_APP_TORCH ? BUILD_UNKNOWN
                                                                  : packages[i].build;
        }
    }
    return BUILD_UNKNOWN;
}

const char *chooser_app_text(const struct chooser *c)
{
    return c->dist && c->dist->version
               ? arena_printf(c->a, "%s %s", c->dist->name_normal, c->dist->version)
               : choose_app_name(c->choice->app);
}

const char *chooser_provider(const struct chooser *c, enum build build)
{
    for (size_t i = 0; i < sizeof packages / sizeof *packages; i++) {
        bool is = c->dist ? strcmp(c->dist->name_normal, packages[i].package) == 0
                          : packages[i].build == build;
        if (is && packages[i].provider) {
            return packages[i].provider;
        }
    }
    return NULL;
}

/* ------------------------------------------------------------------ gfx targets */

/* A build that is installed, by its label; NULL: it has none, or no row. */
static const struct kb_build *installed_row(const struct chooser *c)
{
    const char *version = c->dist && c->dist->version ? c->dist->version : NULL;
    const char *label = version ? strchr(version, '+') : NULL;
    for (size_t i = 0; label && i < c->builds.n; i++) {
        const struct kb_build *b = &c->builds.rows[i];
        if (strcmp(b->package, c->dist->name_normal) == 0 && strcmp(b->build, label + 1) == 0 &&
            model_version_fits(c->a, b->versions,
                               arena_strndup(c->a, version, (size_t)(label - version)))) {
            return b;
        }
    }
    return NULL;
}

const struct kb_build *chooser_official_build(const struct chooser *c, const char *package,
                                              const char *gfx)
{
    const struct kb_build *found = NULL;
    for (size_t i = 0; i < c->builds.n; i++) {
        const struct kb_build *b = &c->builds.rows[i];
        bool official = b->status != KB_STATUS_EXPERIMENTAL; // one's own build for others is not
        if (official && strcmp(b->package, package) == 0 && b->rocm &&
            choose_strs_list(&b->gfx, gfx) &&
            (!found || host_version_cmp(b->rocm, found->rocm) > 0)) {
            found = b;
        }
    }
    return found;
}

static bool in_a_release(const struct chooser *c, const char *gfx, const char *rocm)
{
    for (size_t i = 0; i < c->rocms.n; i++) {
        const struct kb_rocm *r = &c->rocms.rows[i];
        if (r->kind == KB_ROCM_RELEASE && choose_strs_list(&r->gfx, gfx) &&
            (!rocm || strcmp(r->rocm, rocm) == 0)) {
            return true;
        }
    }
    return false;
}

/* Of one with the same ROCm, where the row of the installed build has no list. */
static const struct kb_build *same_rocm(const struct chooser *c, const struct kb_build *own)
{
    for (size_t i = 0; own && own->rocm && i < c->builds.n; i++) {
        const struct kb_build *b = &c->builds.rows[i];
        if (b->gfx.n && b->rocm && b->status != KB_STATUS_EXPERIMENTAL &&
            strcmp(b->package, own->package) == 0 && strcmp(b->rocm, own->rocm) == 0) {
            return b;
        }
    }
    return NULL;
}

enum host_state chooser_has_kernels(const struct chooser *c, const char *gfx)
{
    const struct gpu_code *code = c->dist ? model_gpu_code_of_dist(c->m, c->dist) : NULL;
    if (code && code->n_targets) {
        struct gpu_answer answer;
        gpu_code_serves_amd(code, gfx, &answer);
        return answer.serves == GPU_SERVES_NATIVE || answer.serves == GPU_SERVES_JIT ? HOST_YES
               : answer.serves == GPU_SERVES_UNKNOWN || code->incomplete             ? HOST_UNKNOWN
                                                                                     : HOST_NO;
    }
    const struct kb_build *own = installed_row(c);
    const struct kb_build *row = own && own->gfx.n ? own : same_rocm(c, own);
    if (row) {
        return choose_strs_list(&row->gfx, gfx) ? HOST_YES : HOST_NO;
    }
    if (own && own->rocm) {
        return in_a_release(c, gfx, own->rocm) ? HOST_YES : HOST_UNKNOWN;
    }
    if (c->dist) {
        return HOST_UNKNOWN;
    }
    return chooser_official_build(c, choose_app_name(c->choice->app), gfx) ||
                   in_a_release(c, gfx, NULL)
               ? HOST_YES
               : HOST_NO;
}

/* ------------------------------------------------------------------ builds for CUDA */

const char *chooser_last_driver(const struct chooser *c, const struct host_gpu *g)
{
    const struct host_fact *capability = &g->compute_capability;
    const struct kb_driver *last =
        capability->state == HOST_YES
            ? kb_driver_last(&c->drivers, kb_isa_number(capability->value))
            : NULL;
    return last ? last->linux_min : NULL;
}

static const char *cuda_package(enum choose_app app)
{
    for (size_t i = 0; i < sizeof packages / sizeof *packages; i++) {
        if (packages[i].app == app && packages[i].build == BUILD_CUDA) {
            return packages[i].package;
        }
    }
    return NULL;
}

static bool is_of_this_machine(const struct chooser *c, const struct kb_build *b)
{
    const char *here = chooser_is_on_arm(c) ? "linux-aarch64" : "linux-x86-64";
    return (b->index_platforms.n == 0 && b->platforms.n == 0) ||
           choose_strs_list(&b->index_platforms, here) || choose_strs_list(&b->platforms, here);
}

/* The version of the driver. NULL: no file says what it is, or a newer libcuda (cuda-compat) may
 * take its place. */
static const char *loaded_driver(const struct chooser *c)
{
    return c->h->nvidia.compat.n == 0 ? host_nvidia_release(c->h) : NULL;
}

/* Of a later release, or of the same the one that the package index serves. */
static bool is_better(const struct chooser *c, const struct kb_build *b,
                      const struct kb_build *than)
{
    int order = host_version_cmp(kb_build_first(c->a, b), kb_build_first(c->a, than));
    return order > 0 || (order == 0 && b->is_default);
}

enum host_state chooser_known_builds(const struct chooser *c, const struct host_gpu *g,
                                     const struct kb_build **ret_build, const char **ret_driver)
{
    const char *package = cuda_package(c->choice->app), *driver = loaded_driver(c);
    const struct host_fact *capability = &g->compute_capability;
    unsigned number = capability->state == HOST_YES ? kb_isa_number(capability->value) : 0;
    struct kb_isa isa = driver ? kb_isa_of_driver(c->m->kb, driver) : KB_ISA_ANY;
    const char *newest = NULL;
    bool any = false, known = true;
    *ret_build = NULL;
    *ret_driver = NULL;
    for (size_t i = 0; package && i < c->builds.n; i++) {
        const struct kb_build *b = &c->builds.rows[i];
        if (strcmp(b->package, package) != 0 || !b->cuda || !is_of_this_machine(c, b)) {
            continue;
        }
        any = true;
        const char *version = kb_build_first(c->a, b);
        newest =
            b->is_default && (!newest || host_version_cmp(version, newest) > 0) ? version : newest;
        const struct kb_driver *floor = kb_driver_floor(&c->drivers, b->cuda);
        bool reached = !driver || !floor || kb_driver_reaches(driver, floor->linux_min);
        enum gpu_serves code =
            number && b->sm.n ? kb_build_serves(b, number, isa) : GPU_SERVES_ABSENT;
        bool serves = code == GPU_SERVES_NATIVE || code == GPU_SERVES_JIT;
        bool may = code != GPU_SERVES_NONE;
        known = known && !(may && !serves && reached);
        if (serves && reached && (!*ret_build || is_better(c, b, *ret_build))) {
            *ret_build = b;
        }
        if (may && !reached &&
            (!*ret_driver || host_version_cmp(floor->linux_min, *ret_driver) < 0)) {
            *ret_driver = floor->linux_min;
        }
    }
    if (*ret_build) {
        bool plain = (*ret_build)->is_default && newest &&
                     host_version_cmp(kb_build_first(c->a, *ret_build), newest) >= 0;
        *ret_build = plain ? NULL : *ret_build;
        return HOST_YES;
    }
    return any && known && !chooser_is_on_arm(c) ? HOST_NO : HOST_UNKNOWN;
}
