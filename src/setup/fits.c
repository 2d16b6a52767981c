/* What a machine admits: by its driver, its GPU, its Python. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kb/serves.h"
#include "py/version.h"
#include "setup/finder.h"

/* ------------------------------------------------------------------ words */

bool setup_list_has(struct kb_strs list, const char *text)
{
    for (size_t i = 0; i < list.n; i++) {
        if (strcmp(list.items[i], text) == 0) {
            return true;
        }
    }
    return false;
}

bool setup_is_among(const char *words, char separator, const char *word)
{
    struct str rest = str_of(words ? words : "");
    while (rest.s && rest.n) {
        struct str one = str_cut(&rest, separator);
        if (str_eq(one, str_of(word))) {
            return true;
        }
    }
    return false;
}

bool setup_is_newer(const char *one, const char *two)
{
    struct py_version x, y;
    return py_version_parse(str_of(one), &x) && py_version_parse(str_of(two), &y) &&
           py_version_cmp(&x, &y) > 0;
}

/* ------------------------------------------------------------------ the driver */

const char *setup_newer_of(const char *one, const char *two)
{
    return !two || (one && setup_is_newer(one, two)) ? one : two;
}

/* Of the row, for the system of the machine; NULL: not known. WSL has the driver of Windows, with
 * its number ("CUDA on WSL User Guide", 2), which reaches what the two systems ask for. */
static const char *least_driver(const struct finder *f, const struct kb_driver *row)
{
    const struct host *h = f->q->machine->host;
    return !row                              ? NULL
           : f->q->machine->windows          ? row->windows_min
           : h->wsl.is_wsl.state == HOST_YES ? setup_newer_of(row->windows_min, row->linux_min)
                                             : row->linux_min;
}

/* The last driver branch of the GPU; NULL: the newest serves it. */
const char *setup_last_branch(const struct finder *f)
{
    const struct kb_driver *last = kb_driver_last(&f->drivers, f->capability);
    return last ? last->linux_min : NULL;
}

/* Whether a driver of at least this release can be installed. */
static bool can_install(const struct finder *f, const char *floor)
{
    const struct setup_machine *m = f->q->machine;
    const char *last = setup_last_branch(f);
    unsigned branch = (unsigned)atoi(floor);
    if (last && (unsigned)atoi(last) < branch) {
        return false;
    }
    if (m->host->tegra.is_tegra.state == HOST_YES) {
        return true; // it comes with JetPack, and what is asked for is compiled with JetPack's CUDA
    }
    // The driver of WSL and of Windows is NVIDIA's own download.
    bool own = m->windows || m->host->wsl.is_wsl.state == HOST_YES;
    return f->policy == SETUP_DRIVER_NEWER ||
           (!own && host_install_nvidia(m->host, f->a, m->gpu, branch));
}

/* The first driver of the GPU, where the knowledge base has it; else NULL. */
static const char *first_driver(const struct finder *f)
{
    for (size_t i = 0; i < f->drivers.n; i++) {
        const struct kb_driver *d = &f->drivers.rows[i];
        for (size_t k = 0; d->kind == KB_DRIVER_FIRST && k < d->sm.n; k++) {
            if (strtoul(d->sm.items[k] + 3, NULL, 10) / 10 == f->capability / 10) {
                return least_driver(f, d);
            }
        }
    }
    return NULL;
}

/* The oldest driver for a CUDA release on this GPU; `isa` 0: no PTX is compiled. NULL: not known.
 */
const char *setup_driver_min(const struct finder *f, const char *cuda, unsigned isa)
{
    const char *floor = least_driver(f, cuda ? kb_driver_minor(&f->drivers, cuda) : NULL);
    const char *jit = least_driver(f, isa ? kb_driver_of_isa(f->q->kb, isa) : NULL);
    if (!floor || (isa && !jit)) {
        return NULL;
    }
    return setup_newer_of(setup_newer_of(floor, jit), first_driver(f));
}

/* Whether the driver may be this one. What is not known is no permission. */
static bool driver_allows(const struct finder *f, const char *cuda, const char *floor)
{
    const struct setup_machine *m = f->q->machine;
    if (!floor || f->policy == SETUP_DRIVER_DISTRIBUTION || f->policy == SETUP_DRIVER_NEWER) {
        return floor && can_install(f, floor);
    }
    bool modern = f->policy == SETUP_DRIVER_STAYS || atoi(cuda) >= 12;
    return m->driver && modern && kb_driver_reaches(m->driver, floor);
}

/* ------------------------------------------------------------------ builds */

bool setup_has_builds(const struct finder *f, const char *package)
{
    for (size_t i = 0; i < f->builds.n; i++) {
        if (strcmp(f->builds.rows[i].package, package) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether the build can be had for the platform: from the plain package index, or by its label from
 * where PyTorch serves its own. */
static bool build_is_served(const struct finder *f, const struct kb_build *b)
{
    const char *platform = f->q->machine->platform;
    // Beside torch of another index, what else needs NVIDIA's wheels would need those of that
    // torch, which its row does not say. On Windows torch has its libraries in itself.
    bool torch = strcmp(b->package, "torch") == 0 &&
                 (strcmp(f->app->package, "torch") == 0 || f->q->machine->windows);
    if (b->index_platforms.n ? setup_list_has(b->index_platforms, platform)
                             : b->is_default && strcmp(platform, "linux-x86-64") == 0) {
        return true;
    }
    // Of CTranslate2's builds for ROCm the wheels are attached to its releases.
    if (strcmp(b->package, "ctranslate2") == 0 && b->rocm) {
        return strcmp(f->app->engines, "ctranslate2") == 0 && !f->app->git &&
               setup_list_has(b->platforms, platform);
    }
    // PyTorch's index has wheels for ROCm for Linux x86-64; those for Windows are AMD's (ROCm on
    // Radeon and Ryzen, "PyTorch via PIP installation"), of which no release is known here.
    bool rocm = b->rocm && b->gfx.n && strcmp(platform, "linux-x86-64") == 0;
    // What bitsandbytes needs beside torch, no index of NVIDIA's has.
    torch = torch || (rocm && strcmp(b->package, "torch") == 0 &&
                      strcmp(f->app->package, "bitsandbytes") == 0);
    // What code the wheels of its other indexes have was read of those for x86-64: those for
    // aarch64 have less (.ci/aarch64_linux/aarch64_ci_build.sh of 2.9.1, TORCH_CUDA_ARCH_LIST: 8.0
    // and 9.0 for CUDA 12.6).
    bool read = strcmp(platform, "linux-aarch64") != 0;
    return torch && (rocm || (read && setup_list_has(b->platforms, platform)));
}

bool setup_is_plain(const struct finder *f, const struct kb_build *b)
{
    return b->index_platforms.n
               ? setup_list_has(b->index_platforms, f->q->machine->platform)
               : b->is_default && strcmp(f->q->machine->platform, "linux-x86-64") == 0;
}

/* The oldest driver with which a build runs on the GPU; NULL: none is known. */
const char *setup_build_driver(const struct finder *f, const struct kb_build *b)
{
    enum gpu_serves serves = kb_build_serves(b, f->capability, KB_ISA_ANY);
    if (!b->cuda || (serves != GPU_SERVES_NATIVE && serves != GPU_SERVES_JIT)) {
        return NULL;
    }
    unsigned isa = serves == GPU_SERVES_JIT ? kb_isa_number(b->ptx_isa) : 0;
    return serves == GPU_SERVES_JIT && !isa ? NULL : setup_driver_min(f, b->cuda, isa);
}

static bool build_serves_cuda(const struct finder *f, const struct kb_build *b)
{
    return driver_allows(f, b->cuda, setup_build_driver(f, b));
}

/* "3.10-3.14", or one of them. */
static bool python_within(const struct finder *f, const char *range)
{
    struct str rest = str_of(range);
    const char *low = str_dup(f->a, str_cut(&rest, '-'));
    const char *high = rest.s && rest.n ? str_dup(f->a, rest) : low;
    return !setup_is_newer(low, f->python) && !setup_is_newer(f->python, high);
}

/* Whether a ROCm of the major of the build's has libraries for the GPU. */
static bool rocm_lists(const struct finder *f, const char *rocm)
{
    for (size_t i = 0; i < f->rocms.n; i++) {
        const struct kb_rocm *r = &f->rocms.rows[i];
        if (r->kind == KB_ROCM_RELEASE && atoi(r->rocm) == atoi(rocm) &&
            setup_list_has(r->gfx, f->gfx)) {
            return true;
        }
    }
    return false;
}

static bool build_serves_rocm(const struct finder *f, const struct kb_build *b)
{
    return b->rocm && f->gfx && setup_list_has(b->gfx, f->gfx) &&
           (!f->app->rocm || rocm_lists(f, b->rocm)) && (!b->python || python_within(f, b->python));
}

/* The build of a release for the device; NULL: none is known. The plain index's comes first. */
const struct kb_build *setup_build_of(const struct finder *f, const char *package,
                                      const char *version)
{
    const struct kb_build *best = NULL;
    for (size_t i = 0; i < f->builds.n; i++) {
        const struct kb_build *b = &f->builds.rows[i];
        bool fits =
            strcmp(b->package, package) == 0 && build_is_served(f, b) &&
            model_version_fits(f->a, b->versions, version) &&
            (f->device == CHOOSE_DEVICE_CUDA ? build_serves_cuda(f, b) : build_serves_rocm(f, b));
        if (fits && (!best || (setup_is_plain(f, b) && !setup_is_plain(f, best)))) {
            best = b;
        }
    }
    return best;
}

/* The first CUDA toolkit of the row's major that lists the GPU; NULL: none does. */
const char *setup_toolkit_first(const struct finder *f)
{
    const char *first = NULL;
    for (size_t i = 0; f->app->cuda && i < f->toolkits.n; i++) {
        const struct kb_toolkit *t = &f->toolkits.rows[i];
        for (size_t k = 0; atoi(t->cuda) == atoi(f->app->cuda) && k < t->sm.n; k++) {
            if (strtoul(t->sm.items[k] + 3, NULL, 10) == f->capability &&
                (!first || setup_is_newer(first, t->cuda))) {
                first = t->cuda;
            }
        }
    }
    return first;
}

/* CUDA's own compiler makes the code, when the program runs or when it is installed: that of any
 * release of the major which lists the GPU. */
static bool toolkit_serves(const struct finder *f)
{
    return f->toolkit && driver_allows(f, f->app->cuda, setup_driver_min(f, f->app->cuda, 0));
}

bool setup_is_engine(const struct finder *f, const char *package)
{
    return setup_is_among(f->app->engines, ' ', package);
}

/* Whether the device runs the release of an engine. */
bool setup_engine_fits(const struct finder *f, const char *package, const char *version)
{
    if (f->device == CHOOSE_DEVICE_CPU || !setup_is_engine(f, package)) {
        return true;
    }
    if (f->device == CHOOSE_DEVICE_CUDA && f->app->code != SETUP_CODE_BUILDS) {
        return toolkit_serves(f);
    }
    return setup_build_of(f, package, version) != NULL;
}

/* Whether a support matrix of cuDNN lists the GPU, or an older one of its generation. */
static bool matrix_lists(const struct finder *f, const struct kb_cudnn *row)
{
    unsigned major = 0, minor = 0;
    for (size_t i = 0; i < row->sm.n; i++) {
        if (sscanf(row->sm.items[i], "%u.%u", &major, &minor) == 2 && major == f->capability / 10 &&
            minor <= f->capability % 10) {
            return true;
        }
    }
    return false;
}

/* Newer releases of cuDNN have nothing for old GPUs: where the newest support matrix that was read
 * does not list the GPU, nothing newer than the newest one that does will do. */
bool setup_cudnn_fits(const struct finder *f, const struct kb_release *r)
{
    const char *newest = NULL, *lists = NULL;
    if (f->device != CHOOSE_DEVICE_CUDA || strncmp(r->package, "nvidia-cudnn-cu", 15) != 0) {
        return true;
    }
    for (size_t i = 0; i < f->cudnns.n; i++) {
        const struct kb_cudnn *row = &f->cudnns.rows[i];
        if (row->cuda_major == atoi(r->package + 15)) {
            newest = setup_newer_of(row->cudnn, newest);
            lists = matrix_lists(f, row) ? setup_newer_of(row->cudnn, lists) : lists;
        }
    }
    return !lists || !setup_is_newer(newest, lists) ||
           model_version_fits(f->a, arena_printf(f->a, "==%s.*", lists), r->version) ||
           !setup_is_newer(r->version, lists);
}
