/*
 * Why a release cannot run here: Python, glibc, driver, GPU, cuDNN. What is unknown refuses
 * nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kb/serves.h"
#include "plan/knowledge.h"
#include "plan/knowledge_internal.h"

enum { OTHER_BUILDS_MAX = 4 };

/* CUDA of a release as a text, "12.4" or "12"; NULL if it is not known or none. */
static const char *plan_knowledge_cuda_of(const struct plan_knowledge *k,
                                          const struct kb_release *r)
{
    if (r->cuda) {
        return r->cuda;
    }
    const struct kb_build *b = plan_knowledge_build(k, r->package, r->version);
    if (b && b->cuda) {
        return b->cuda;
    }
    const struct kb_compat *c = plan_knowledge_compat(k, r->package, r->version);
    int major = c ? c->cuda_major : plan_knowledge_cuda_major_of_package(k, r->package);
    return major > 0 ? arena_printf(k->a, "%d", major) : NULL;
}

static const char *python_refuses(const struct plan_knowledge *k, const struct kb_release *r)
{
    const struct plan_knowledge_machine *m = &k->machine;
    bool wheel = !m->python || r->pythons.n == 0;
    for (size_t i = 0; i < r->pythons.n && !wheel; i++) {
        wheel = strcmp(r->pythons.items[i], m->python) == 0;
    }
    if (!wheel) {
        return arena_printf(k->a, "no wheel for Python %s", m->python);
    }
    if (m->python_full && r->python && !model_version_fits(k->a, r->python, m->python_full)) {
        return arena_printf(k->a, "for Python %s only, %s is here", r->python, m->python_full);
    }
    return NULL;
}

static const char *glibc_refuses(const struct plan_knowledge *k, const struct kb_release *r)
{
    int minor = 0;
    if (!r->glibc || !k->machine.glibc_minor || sscanf(r->glibc, "2.%d", &minor) != 1 ||
        minor <= k->machine.glibc_minor) {
        return NULL;
    }
    return arena_printf(k->a, "for glibc %s or later, 2.%d is here", r->glibc,
                        k->machine.glibc_minor);
}

const char *plan_knowledge_driver_refuses(const struct plan_knowledge *k, const char *cuda)
{
    const char *driver = k->machine.driver;
    const struct kb_driver *least = driver && cuda ? kb_driver_minor(&k->drivers, cuda) : NULL;
    if (!least || plan_knowledge_cmp_versions(least->linux_min, driver) <= 0) {
        return NULL;
    }
    return arena_printf(k->a, "for CUDA %d, which needs driver %s or later, %s is here", atoi(cuda),
                        least->linux_min, driver);
}

const char *plan_knowledge_gpu_refuses(const struct plan_knowledge *k, const struct kb_build *b)
{
    struct kb_isa isa = kb_isa_of_driver(k->m->kb, k->machine.driver);
    for (size_t i = 0; b && b->sm.n && i < k->machine.gpus.n; i++) {
        const struct plan_knowledge_gpu *gpu = &k->machine.gpus.items[i];
        unsigned number = gpu->major * 10 + gpu->minor;
        if (kb_build_serves(b, number, isa) == GPU_SERVES_NONE) {
            return arena_printf(k->a, "no code for sm_%u%s (%s)", number,
                                kb_build_serves(b, number, KB_ISA_ANY) == GPU_SERVES_JIT
                                    ? ", and PTX too new for the driver"
                                    : "",
                                gpu->name ? gpu->name : "the GPU");
        }
    }
    return NULL;
}

/* Code for 8.6 runs on 8.7 and 8.9 as well. */
static bool row_lists_gpu(const struct kb_cudnn *row, const struct plan_knowledge_gpu *gpu)
{
    for (size_t i = 0; i < row->sm.n; i++) {
        unsigned major = 0, minor = 0;
        if (sscanf(row->sm.items[i], "%u.%u", &major, &minor) == 2 && major == gpu->major &&
            minor <= gpu->minor) {
            return true;
        }
    }
    return false;
}

/* Whether the support matrix of this cuDNN has a row that admits the GPU and the driver. */
static bool matrix_admits(const struct plan_knowledge *k, const char *cudnn, int cuda_major,
                          const struct plan_knowledge_gpu *gpu)
{
    for (size_t i = 0; i < k->cudnns.n; i++) {
        const struct kb_cudnn *row = &k->cudnns.rows[i];
        if (row->cuda_major == cuda_major && strcmp(row->cudnn, cudnn) == 0 &&
            row_lists_gpu(row, gpu) &&
            (!k->machine.driver || !row->linux_min ||
             plan_knowledge_cmp_versions(row->linux_min, k->machine.driver) <= 0)) {
            return true;
        }
    }
    return false;
}

/* The support matrices next to a release, below (or at) it and above it; NULL where there is none.
 * What both of them admit, a release between them is taken to support. */
static void matrices_around(const struct plan_knowledge *k, const struct kb_release *r,
                            int cuda_major, const char **ret_below, const char **ret_above)
{
    *ret_below = *ret_above = NULL;
    for (size_t i = 0; i < k->cudnns.n; i++) {
        const struct kb_cudnn *row = &k->cudnns.rows[i];
        bool below = plan_knowledge_cmp_versions(row->cudnn, r->version) <= 0;
        const char **best = below ? ret_below : ret_above;
        if (row->cuda_major == cuda_major && atoi(row->cudnn) == atoi(r->version) &&
            (!*best || (plan_knowledge_cmp_versions(row->cudnn, *best) > 0) == below)) {
            *best = row->cudnn;
        }
    }
}

static const char *cudnn_refuses(const struct plan_knowledge *k, const struct kb_release *r)
{
    if (!starts_with(r->package, "nvidia-cudnn-")) {
        return NULL;
    }
    const char *around[2];
    int cuda_major = plan_knowledge_cuda_major_of_package(k, r->package);
    matrices_around(k, r, cuda_major, &around[0], &around[1]);
    for (size_t i = 0; i < 2 * k->machine.gpus.n; i++) {
        const struct plan_knowledge_gpu *gpu = &k->machine.gpus.items[i / 2];
        const char *cudnn = around[i % 2];
        if (cudnn && !matrix_admits(k, cudnn, cuda_major, gpu)) {
            return arena_printf(k->a, "cuDNN %s does not support sm_%u%u with this driver", cudnn,
                                gpu->major, gpu->minor);
        }
    }
    return NULL;
}

bool plan_knowledge_surely_runs(const struct plan_knowledge *k, const char *package,
                                const char *version)
{
    const struct kb_build *b = plan_knowledge_build(k, package, version);
    struct kb_isa isa = kb_isa_of_driver(k->m->kb, k->machine.driver);
    for (size_t i = 0; b && i < k->machine.gpus.n; i++) {
        const struct plan_knowledge_gpu *gpu = &k->machine.gpus.items[i];
        enum gpu_serves serves = kb_build_serves(b, gpu->major * 10 + gpu->minor, isa);
        if (serves != GPU_SERVES_NATIVE && serves != GPU_SERVES_JIT) {
            return false;
        }
    }
    return b != NULL;
}

const char *plan_knowledge_refuses(const struct plan_knowledge *k, const struct kb_release *r)
{
    const char *why = python_refuses(k, r);
    why = why ? why : glibc_refuses(k, r);
    why = why ? why : plan_knowledge_driver_refuses(k, plan_knowledge_cuda_of(k, r));
    why = why ? why : cudnn_refuses(k, r);
    return why ? why
               : plan_knowledge_gpu_refuses(k, plan_knowledge_build(k, r->package, r->version));
}

const char *plan_knowledge_other_builds(struct plan_knowledge *k, const char *package)
{
    const char *out = "";
    size_t n = 0;
    for (size_t i = k->builds.n; i-- > 0 && n < OTHER_BUILDS_MAX;) {
        const struct kb_build *b = &k->builds.rows[i];
        int low = 0, high = 0;
        if (b->is_default || !b->cuda || b->sm.n == 0 || strcmp(b->package, package) != 0 ||
            !b->python || sscanf(b->python, "3.%d-3.%d", &low, &high) != 2 ||
            k->m->env->minor < low || k->m->env->minor > high ||
            plan_knowledge_driver_refuses(k, b->cuda) || plan_knowledge_gpu_refuses(k, b)) {
            continue;
        }
        out = arena_printf(k->a, "%s%s%s %s for %s", out, n ? ", " : "", package, b->versions,
                           b->build);
        n++;
    }
    return out;
}
