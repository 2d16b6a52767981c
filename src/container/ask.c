/* How each form of a container is asked to give it a GPU, on this host. */
#include <string.h>

#include "container/ask.h"
#include "container/internal.h"

/* ------------------------------------------------------------------ NVIDIA */

static void add_selinux(struct container_work *w)
{
    const struct host_engines *x = &w->q->host->engines;
    if (x->selinux.state == HOST_YES && x->selinux_devices.state != HOST_YES) {
        container_add(
            w, &w->s->security, "label=disable",
            "SELinux is enforced here and keeps containers from device nodes; setsebool -P "
            "container_use_devices on is the narrower way");
    }
}

/* ------------------------------------------------------------------ by device nodes */

static void use_wsl(struct container_work *w)
{
    static const char libraries[] = "/usr/lib/wsl";
    container_add(w, &w->s->devices, "/dev/dxg", "the GPU of Windows");
    container_add(w, &w->s->mounts, arena_printf(w->a, "%s:%s", libraries, libraries),
                  "Windows' driver libraries and its driver store");
    container_add(w, &w->path, "/usr/lib/wsl/lib", "libcuda.so.1 of WSL is found there");
}

/* ------------------------------------------------------------------ which GPU */

static enum container_gpu host_container_gpu(const struct container_work *w)
{
    const struct host *h = w->q->host;
    const struct host_gpu *picked = w->s->pick->devices.n ? w->s->pick->devices.items[0].gpu : NULL;
    const struct host_gpu *best = picked ? picked : container_gpu_for(h, w->q->model);
    if (h->wsl.is_wsl.state == HOST_YES && h->wsl.dxg.state == HOST_YES) {
        return CONTAINER_WSL;
    }
    switch (best ? best->vendor : HOST_OTHER) {
    case HOST_NVIDIA: return CONTAINER_NVIDIA;
    case HOST_AMD: return CONTAINER_AMD;
    case HOST_INTEL: return CONTAINER_INTEL;
    case HOST_OTHER: break;
    }
    return h->gpus.n == 0 && h->pci.state == HOST_UNKNOWN ? CONTAINER_UNKNOWN_GPU
                                                          : CONTAINER_NO_GPU;
}

static void note_every(struct container_work *w, const char *option)
{
    if (!w->s->pick->all) {
        container_note(
            w,
            arena_printf(w->a, "%s passes on every GPU: what was selected is not kept.", option));
    }
}

static void use_amd(struct container_work *w)
{
    enum container_way way = container_format_way(w->q->format);
    if (way == CONTAINER_BY_FLAG) {
        container_add(w, &w->s->gpus, "--rocm", "binds AMD's nodes into the container");
        note_every(w, "--rocm");
        return;
    }
    if (way == CONTAINER_BY_HOOK) {
        note_every(w, "enroot, whose containers have the host's /dev,");
        return;
    }
    container_work_add_node(w, &w->q->host->amd.kfd_node,
                            "AMD's compute driver, one node for all GPUs");
    if (way != CONTAINER_BY_DEVICE) { // its gpu devices bring the render nodes
        container_add_nodes(w, HOST_AMD, "the GPU's render node, which ROCm maps memory through");
    }
}

static void use_intel(struct container_work *w)
{
    enum container_way way = container_format_way(w->q->format);
    if (way == CONTAINER_BY_HOOK) {
        note_every(w, "enroot, whose containers have the host's /dev,");
    } else if (way != CONTAINER_BY_DEVICE) {
        container_add_nodes(w, HOST_INTEL, "the GPU's render node");
    }
}

/* What only this user, this shell or the host's own libraries have to do with. */
static bool is_hosts_own(const struct container_work *w, const struct host_problem *p)
{
    return strcmp(p->id, "hidden") == 0 || strcmp(p->id, "level-zero") == 0 ||
           starts_with(p->id, "override-") || (strcmp(p->id, "permission") == 0 && !w->q->rootless);
}

/* What keeps programs of the host itself from the GPU keeps containers from it, too. */
static void repair_host(struct container_work *w)
{
    const struct host *h = w->q->host;
    for (size_t i = 0; i < h->gpus.n && !host_usable_gpu(h); i++) {
        const struct host_gpu *g = &h->gpus.items[i];
        for (size_t k = 0; host_gpu_counts(g) && k < g->problems.n; k++) {
            const struct host_problem *p = &g->problems.items[k];
            const char *step = p->command ? p->command : p->step;
            if (p->state == HOST_NO && step && !is_hosts_own(w, p)) {
                container_add(w, &w->s->first, step,
                              arena_printf(w->a, "%s: %s", g->name, p->text));
            }
        }
    }
}

static void work_pass_on(struct container_work *w)
{
    enum container_way way = container_format_way(w->q->format);
    switch (w->s->gpu) {
    case CONTAINER_NVIDIA: container_use_nvidia(w); break;
    case CONTAINER_WSL:
        if (way == CONTAINER_BY_TOOLKIT || way == CONTAINER_BY_FLAG) {
            container_use_nvidia(w);
        } else {
            use_wsl(w);
        }
        break;
    case CONTAINER_AMD: use_amd(w); break;
    case CONTAINER_INTEL: use_intel(w); break;
    case CONTAINER_UNKNOWN_GPU:
    case CONTAINER_NO_GPU: return;
    }
    for (size_t i = 0; i < w->s->devices.n && w->q->format == CONTAINER_LXC; i++) {
        container_allow(w, w->s->devices.items[i].value);
    }
    if (way == CONTAINER_BY_TOOLKIT || way == CONTAINER_BY_NAME) {
        add_selinux(w);
    }
}

/* What was selected, or all; the settings' own where the question has none. */
static void take_pick(struct container_work *w)
{
    struct container_pick *all = arena_alloc(w->a, sizeof *all);
    struct gm_err err;
    w->s->pick = w->q->pick;
    if (!w->s->pick &&
        container_pick_parse(w->q->host, w->q->model, w->q->format, "all", all, &err) == 0) {
        w->s->pick = all;
    }
}

void container_ask(struct container_work *w)
{
    enum container_way way = container_format_way(w->q->format);
    take_pick(w);
    if (way == CONTAINER_BY_NONE) {
        return;
    }
    w->s->gpu = w->s->pick->none ? CONTAINER_NO_GPU : host_container_gpu(w);
    container_work_note_unknown(w);
    if (!w->s->pick->none) {
        repair_host(w);
    }
    if (way == CONTAINER_BY_PLUGIN) {
        container_use_plugin(w);
    } else if (way == CONTAINER_BY_CLAIM) {
        container_use_claim(w);
    } else {
        work_pass_on(w);
    }
}
