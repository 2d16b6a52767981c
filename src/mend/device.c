#include "mend/device.h"

#include <string.h>

bool mend_device_parse(const char *text, struct mend_device *ret)
{
    static const struct {
        const char *name;
        enum mend_device_kind kind;
        bool numbered;
    } kinds[] = {{"auto", MEND_DEVICE_AUTO, false}, {"cuda", MEND_DEVICE_CUDA, true},
                 {"rocm", MEND_DEVICE_ROCM, true}, {"cpu", MEND_DEVICE_CPU, false}};
    struct str rest = str_of(text);
    struct str name = str_cut(&rest, ':');
    uint64_t index = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (str_is(name, kinds[i].name)) {
            if (rest.s && (!kinds[i].numbered || !str_u64(rest, &index) || index > 1023)) {
                return false;
            }
            *ret = (struct mend_device){kinds[i].kind, rest.s ? (int)index : -1};
            return true;
        }
    }
    return false;
}

/* ------------------------------------------------------------------ GPUs */

static bool is_asked_for(const struct mend_device_question *q, const struct host_gpu *g)
{
    switch (q->device.kind) {
    case MEND_DEVICE_CUDA: return g->vendor == HOST_NVIDIA;
    case MEND_DEVICE_ROCM: return g->vendor == HOST_AMD;
    case MEND_DEVICE_NONE:
    case MEND_DEVICE_AUTO: return g->vendor != HOST_OTHER;
    case MEND_DEVICE_CPU: break;
    }
    return false;
}

/* The number of a GPU among those of its vendor. */
static int index_of(const struct host *h, const struct host_gpu *gpu)
{
    int n = 0;
    for (size_t i = 0; &h->gpus.items[i] != gpu; i++) {
        n += h->gpus.items[i].vendor == gpu->vendor;
    }
    return n;
}

/* The GPU that is asked for: by its index, or the first that can be used. */
static const struct host_gpu *find_gpu(const struct mend_device_question *q)
{
    for (size_t i = 0; q->host && i < q->host->gpus.n; i++) {
        const struct host_gpu *g = &q->host->gpus.items[i];
        if (is_asked_for(q, g) && (q->device.index < 0 ? g->usable == HOST_YES
                                                       : q->device.index == index_of(q->host, g))) {
            return g;
        }
    }
    return NULL;
}

static const char *vendor_text(const struct mend_device_question *q)
{
    return q->device.kind == MEND_DEVICE_CUDA   ? "NVIDIA GPU"
           : q->device.kind == MEND_DEVICE_ROCM ? "AMD GPU"
                                                : "GPU";
}

/* Why this GPU is in this state, by its weightiest problem. */
static const char *why_not(struct arena *a, const struct host_gpu *g)
{
    const char *name = g->name ? g->name : host_vendor_name(g->vendor);
    return g->problems.n ? arena_printf(a, "%s: %s", name, g->problems.items[0].text) : name;
}

enum host_state mend_device_usable(struct arena *a, const struct mend_device_question *q,
                                   const char **ret_why)
{
    const struct host_gpu *gpu = find_gpu(q);
    if (gpu && gpu->usable == HOST_YES) {
        return HOST_YES;
    }
    if (!q->host) {
        *ret_why = q->host_why;
        return HOST_UNKNOWN;
    }
    enum host_state state = q->host->pci.state == HOST_UNKNOWN ? HOST_UNKNOWN : HOST_NO;
    *ret_why = arena_printf(a, "no %s is there%s%s", vendor_text(q),
                            state == HOST_UNKNOWN ? " that can be seen: " : "",
                            state == HOST_UNKNOWN && q->host->pci.why ? q->host->pci.why : "");
    for (size_t i = q->host->gpus.n; i-- > 0;) {
        const struct host_gpu *g = &q->host->gpus.items[i];
        if (is_asked_for(q, g) && (!gpu || g == gpu) && g->usable != HOST_YES) {
            state = g->usable == HOST_UNKNOWN ? HOST_UNKNOWN : state;
            *ret_why = why_not(a, g);
        }
    }
    return state;
}

/* ------------------------------------------------------------------ variables */

static void set(struct arena *a, const struct mend_device_question *q, struct mend_launch *launch,
                const char *name, const char *value)
{
    const char *old = mend_env_value(q->env, q->n_env, name);
    if ((old && (q->keep_env || q->device.kind == MEND_DEVICE_AUTO)) || (!old && !value)) {
        return;
    }
    VEC_PUSH(a, &launch->changes, (struct mend_change){name, value});
}

/* An override under which the GPU runs code of its own instruction set; NULL: none is needed. */
static const char *override_for(const struct kb_rocms *rocm, const char *gfx)
{
    for (size_t i = 0; gfx && i < rocm->n; i++) {
        const struct kb_rocm *row = &rocm->rows[i];
        for (size_t k = 0; row->kind == KB_ROCM_OVERRIDE && k < row->gfx.n; k++) {
            if (row->verdict == KB_VERDICT_SAME_ISA && strcmp(row->gfx.items[k], gfx) == 0) {
                return row->override;
            }
        }
    }
    return NULL;
}

static void set_cpu(struct arena *a, const struct mend_device_question *q,
                    struct mend_launch *launch)
{
    set(a, q, launch, "CUDA_VISIBLE_DEVICES", "-1");
    set(a, q, launch, "HIP_VISIBLE_DEVICES", "-1");
}

static void set_cuda(struct arena *a, const struct mend_device_question *q,
                     struct mend_launch *launch, int index)
{
    set(a, q, launch, "CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    set(a, q, launch, "CUDA_VISIBLE_DEVICES", arena_printf(a, "%d", index));
}

static void set_rocm(struct arena *a, const struct mend_device_question *q,
                     struct mend_launch *launch, int index, const struct host_gpu *gpu)
{
    const char *override = gpu ? override_for(q->rocm, gpu->gfx.value) : NULL;
    set(a, q, launch, "ROCR_VISIBLE_DEVICES", NULL); // it would change what the index means
    set(a, q, launch, "HIP_VISIBLE_DEVICES", arena_printf(a, "%d", index));
    if (override && !mend_env_value(q->env, q->n_env, "HSA_OVERRIDE_GFX_VERSION")) {
        set(a, q, launch, "HSA_OVERRIDE_GFX_VERSION", override);
    }
}

void mend_device_set(struct arena *a, const struct mend_device_question *q,
                     struct mend_launch *launch)
{
    const struct host_gpu *gpu = find_gpu(q);
    int index = gpu ? index_of(q->host, gpu) : q->device.index;
    const char *why = NULL;
    if (q->device.kind == MEND_DEVICE_NONE) {
        return;
    }
    if (q->device.kind == MEND_DEVICE_CPU ||
        (q->device.kind == MEND_DEVICE_AUTO && !gpu &&
         mend_device_usable(a, q, &why) == HOST_NO)) {
        set_cpu(a, q, launch);
    } else if (index < 0) {
        (void)mend_device_usable(a, q, &why); // for its words
        VEC_PUSH(a, &launch->remarks,
                 arena_printf(a, "--device chooses nothing, as no GPU is known to be usable: %s",
                              why));
    } else if (q->device.kind == MEND_DEVICE_CUDA || (gpu && gpu->vendor == HOST_NVIDIA)) {
        set_cuda(a, q, launch, index);
    } else if (q->device.kind == MEND_DEVICE_ROCM || (gpu && gpu->vendor == HOST_AMD)) {
        set_rocm(a, q, launch, index, gpu);
    } else {
        VEC_PUSH(a, &launch->remarks, "--device auto finds a GPU whose runtime needs no choice");
    }
}
