/*
 * How Kubernetes is asked for a GPU: by a device plugin, or by a claim of dynamic resource
 * allocation.
 */
#include <string.h>

#include "container/ask.h"
#include "container/internal.h"

/* The plugin chooses, and it counts MIG instances apart. */
static void note_plugin(struct container_work *w)
{
    const struct container_pick *p = w->s->pick;
    if (!p->all && p->devices.n) {
        container_note(
            w, "A device plugin grants the requested number of GPUs and chooses them itself. To "
               "request a particular GPU, use a claim (gpumend container kubernetes-claim).");
    }
    for (size_t i = 0; i < p->devices.n && p->all; i++) {
        const struct host_gpu *g = p->devices.items[i].gpu;
        if (g && g->mig.n) {
            container_note(
                w, arena_printf(w->a,
                                "GPU %s is in %zu MIG instances. With the plugin's MIG strategy "
                                "\"mixed\" each is a resource nvidia.com/mig-PROFILE: --gpus "
                                "mig-PROFILE (the profile is in no file; nvidia-smi -L shows "
                                "it).",
                                p->devices.items[i].id, g->mig.n));
        }
    }
}

/* The attribute that names a device, as its driver publishes it; NULL: not known here. */
static const char *published(const struct container_work *w, const struct container_device *d)
{
    const char *id = w->s->gpu == CONTAINER_AMD ? d->gpu ? d->gpu->bdf : NULL
                     : d->instance >= 0         ? NULL
                     : starts_with(d->id, "GPU-") || starts_with(d->id, "MIG-") ? d->id
                     : d->gpu && d->gpu->uuid.state == HOST_YES                 ? d->gpu->uuid.value
                                                                                : NULL;
    return id && str_is_seen(id) && !strpbrk(id, "\"\\") ? id : NULL;
}

/* An expression of CEL over what the drivers publish: kubernetes-sigs/dra-driver-nvidia-gpu,
 * cmd/gpu-kubelet-plugin/deviceinfo.go and mig.go (uuid, profile); ROCm/k8s-gpu-dra-driver,
 * cmd/gpu-kubeletplugin/deviceinfo.go (type, pciAddr: partitions have none). */
static void select_devices(struct container_work *w)
{
    const struct container_pick *p = w->s->pick;
    const char *list = NULL;
    for (size_t i = 0; i < p->devices.n && !p->all; i++) {
        const char *id = published(w, &p->devices.items[i]);
        if (!id) {
            container_note(
                w, arena_printf(w->a,
                                "A claim cannot ask for GPU %s: what its driver publishes of it "
                                "is unknown here. The claim asks for the number of GPUs.",
                                p->devices.items[i].id));
            return;
        }
        list = arena_printf(w->a, "%s%s\"%s\"", list ? list : "", list ? ", " : "", id);
    }
    if (list && w->s->gpu == CONTAINER_AMD) {
        w->s->selector = (struct container_item){
            arena_printf(w->a,
                         "device.attributes[\"gpu.amd.com\"].type == \"amdgpu\" && "
                         "device.attributes[\"gpu.amd.com\"].pciAddr in [%s]",
                         list),
            "these PCI addresses, on whichever node has a GPU there: nodeSelector names the node"};
    } else if (list) {
        w->s->selector = (struct container_item){
            arena_printf(w->a, "device.attributes[\"gpu.nvidia.com\"].uuid in [%s]", list),
            "only these devices, on the node that has them"};
    }
}

static bool is_mig(const struct container_pick *p)
{
    return p->profile || (p->devices.n && starts_with(p->devices.items[0].id, "MIG-"));
}

void container_use_claim(struct container_work *w)
{
    if (w->s->gpu == CONTAINER_NVIDIA) {
        w->s->resource =
            (struct container_item){is_mig(w->s->pick) ? "mig.nvidia.com" : "gpu.nvidia.com",
                                    "the device class of NVIDIA's DRA driver for GPUs, which must "
                                    "be installed in the cluster "
                                    "(Kubernetes 1.34 or newer)"};
        if (w->s->pick->profile) {
            w->s->selector = (struct container_item){
                arena_printf(w->a, "device.attributes[\"gpu.nvidia.com\"].profile == \"%s\"",
                             w->s->pick->profile),
                "a MIG instance of this profile"};
        } else {
            select_devices(w);
        }
        container_add_capabilities(w);
    } else if (w->s->gpu == CONTAINER_AMD) {
        w->s->resource = (struct container_item){
            "gpu.amd.com", "the device class of AMD's DRA driver for GPUs, which must be installed "
                           "in the cluster (Kubernetes 1.34 or newer)"};
        select_devices(w);
    } else if (w->s->gpu == CONTAINER_INTEL || w->s->gpu == CONTAINER_WSL) {
        container_note(
            w, "No device class of a DRA driver is known for this GPU: nothing is claimed.");
    }
}

void container_use_plugin(struct container_work *w)
{
    static const struct container_item resources[] = {
        [CONTAINER_UNKNOWN_GPU] = {NULL, NULL},
        [CONTAINER_NO_GPU] = {NULL, NULL},
        [CONTAINER_NVIDIA] = {"nvidia.com/gpu",
                              "NVIDIA's device plugin hands out whole GPUs by this name"},
        [CONTAINER_AMD] = {"amd.com/gpu", "AMD's device plugin hands out whole GPUs by this name"},
        [CONTAINER_INTEL] = {"gpu.intel.com/i915",
                             "Intel's device plugin hands out GPUs by this name"},
        [CONTAINER_WSL] = {"nvidia.com/gpu",
                           "NVIDIA's device plugin hands out the GPU by this name"},
    };
    w->s->resource = resources[w->s->gpu];
    if (w->s->pick->profile) {
        w->s->resource.value = arena_printf(w->a, "nvidia.com/mig-%s", w->s->pick->profile);
        w->s->resource.reason = "NVIDIA's device plugin hands out MIG instances of this profile by "
                                "this name where its MIG strategy is mixed";
    }
    note_plugin(w);
    const struct host *h = w->q->host;
    for (size_t i = 0; w->s->gpu == CONTAINER_INTEL && i < h->gpus.n; i++) {
        const struct host_gpu *g = &h->gpus.items[i];
        bool xe = g->vendor == HOST_INTEL && host_gpu_counts(g) && g->driver.state == HOST_YES &&
                  g->driver.value && strcmp(g->driver.value, "xe") == 0;
        if (xe) {
            w->s->resource.value = "gpu.intel.com/xe"; // the name has the kernel's driver in it
        }
    }
    container_repair_engine(w);
    if (w->s->gpu == CONTAINER_NVIDIA || w->s->gpu == CONTAINER_WSL) {
        container_add_capabilities(w);
        w->s->runtime_class = (struct container_item){
            "nvidia", "the node's engine runs the pod with the NVIDIA runtime; leave it out where "
                      "that is its default"};
    } else if (w->s->gpu == CONTAINER_AMD || w->s->gpu == CONTAINER_INTEL) {
        container_add_nodes(w, w->s->gpu == CONTAINER_AMD ? HOST_AMD : HOST_INTEL, "");
        w->s->devices.n = 0; // the plugin's part; the groups are what is wanted of them
    }
}
