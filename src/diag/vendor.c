/* Which vendor's GPUs are on the machine, and what follows for a build that is for one of them. */
#include "diag/internal.h"
#include "model/gpu.h"

/* PyTorch names the GPUs of Intel that its XPU builds are for by these brands (pytorch,
 * docs/source/notes/get_start_xpu.rst, "Hardware Prerequisite"); older integrated graphics are not
 * among them. */
static bool is_for_xpu(const struct host_gpu *g)
{
    return g->name && (str_glob("*Arc*", g->name) || str_glob("*Data Center GPU Max*", g->name));
}

static const struct host_gpu *usable(const struct diag *d, enum host_vendor vendor)
{
    const struct host_gpu *g = NULL;
    while ((g = diag_next_gpu(d, vendor, g)) != NULL) {
        if (g->usable == HOST_YES && (vendor != HOST_INTEL || is_for_xpu(g))) {
            return g;
        }
    }
    return NULL;
}

bool diag_gpu_is_absent(const struct host *h, enum host_vendor vendor)
{
    return !diag_has_gpu_of(h, vendor) && h->pci.state == HOST_YES;
}

struct diag_machine diag_machine_of(const struct diag *d)
{
    return (struct diag_machine){usable(d, HOST_NVIDIA), usable(d, HOST_AMD), usable(d, HOST_INTEL),
                                 diag_gpu_is_absent(d->m->host, HOST_NVIDIA),
                                 diag_gpu_is_absent(d->m->host, HOST_AMD)};
}

/* Of what asks for a library. cuDNN, which wheels bring under names of their own, says nothing of
 * CUDA in itself. */
static enum model_build asker_build(const struct ldso_object *o)
{
    enum model_build build = model_build_of(o);
    bool cudnn = o && o->path && starts_with(path_base(o->path), "libcudnn");
    return build != MODEL_BUILD_HIP && cudnn ? MODEL_BUILD_CUDA : build;
}

bool diag_is_for_absent_gpu(struct diag *d, const struct diag_failure *x)
{
    const struct model_attempt *at = x->attempt;
    if (!at || at->phase != MODEL_USE || !d->m->host) {
        return false;
    }
    struct diag_machine here = diag_machine_of(d);
    enum model_build build = asker_build(at->caller);
    return (build == MODEL_BUILD_CUDA && here.no_nvidia && here.amd) ||
           (build == MODEL_BUILD_HIP && here.no_amd && here.nvidia);
}
