/* The questions about AMD: driver, /dev/kfd, nodes, ROCm and its kernels. */
#include <string.h>

#include "host/internal.h"
#include "host/judge.h"
#include "host/names.h"

static void amd_driver(struct judge *j)
{
    const struct host_amd *amd = &j->h->amd;
    if (j->g->driver.state == HOST_UNKNOWN) {
        host_judge_driver_unknown(j);
    } else if (j->g->driver.state == HOST_NO) {
        host_judge_add(
            j, "no-driver", HOST_NO,
            amd->module.state == HOST_YES
                ? "the amdgpu driver is loaded but does not support this GPU"
                : "no driver is loaded for it",
            "sudo modprobe amdgpu; sudo dmesg | grep amdgpu says why it fails (firmware, kernel "
            "too "
            "old)")
            ->command = "sudo modprobe amdgpu";
    } else if (!host_gpu_is_bound(j->g, "amdgpu") && !host_gpu_is_bound(j->g, "vfio-pci") &&
               !host_gpu_is_bound(j->g, "pci-stub")) {
        host_judge_add(
            j, "other-driver", HOST_NO,
            arena_printf(j->arena, "the driver bound to it is %s, not amdgpu", j->g->driver.value),
            NULL);
    }
}

static void amd_kfd(struct judge *j)
{
    const struct host_amd *amd = &j->h->amd;
    if (!host_gpu_is_bound(j->g, "amdgpu")) {
        return;
    }
    if (amd->kfd.state == HOST_NO) {
        host_judge_add(j, "no-kfd", HOST_NO, "the kernel has no compute driver for AMD (KFD)",
                       "use a kernel with CONFIG_HSA_AMD, as the distributions build it");
    } else if (amd->kfd.state == HOST_UNKNOWN) {
        host_judge_add(j, "kfd-unknown", HOST_UNKNOWN,
                       "the topology of the compute driver cannot be seen", NULL);
    } else if (j->g->partitions.state != HOST_YES) {
        host_judge_add(j, "not-in-kfd", HOST_NO,
                       "the kernel's compute driver (KFD) does not offer it",
                       "sudo dmesg | grep kfd says why")
            ->command = "sudo dmesg | grep kfd";
    }
}

static void amd_nodes(struct judge *j)
{
    const struct host_node *kfd = &j->h->amd.kfd_node;
    if (!host_gpu_is_bound(j->g, "amdgpu") || j->g->partitions.state != HOST_YES) {
        return;
    }
    bool missing = kfd->present.state == HOST_NO ||
                   (j->g->nodes.n && j->g->nodes.items[0].present.state == HOST_NO);
    const char *gone = kfd->present.state == HOST_NO ? "/dev/kfd"
                       : j->g->nodes.n               ? j->g->nodes.items[0].path
                                                     : "/dev/kfd";
    if (missing && host_judge_in_container(j)) {
        host_judge_add(
            j, "not-injected", HOST_NO,
            arena_printf(j->arena, "this container was not given it (no %s)", gone),
            "start the container with --device /dev/kfd --device /dev/dri and --group-add with the "
            "number of the group that owns them on the host");
    } else if (missing) {
        host_judge_add(j, "nodes-missing", HOST_NO, arena_printf(j->arena, "%s is missing", gone),
                       "sudo udevadm trigger; sudo dmesg | grep -e amdgpu -e kfd");
    } else if (kfd->present.state == HOST_UNKNOWN) {
        host_judge_add(j, "nodes-unknown", HOST_UNKNOWN, "the device nodes cannot be seen", NULL);
    } else if (!host_ask_rights(j, kfd)) {
        host_ask_all_rights(j);
    }
}

static void amd_gfx(struct judge *j)
{
    const struct host_gpu *g = j->g;
    if (g->partitions.state == HOST_YES && starts_with(g->gfx.where ? g->gfx.where : "", "pci")) {
        host_judge_add(
            j, "old-kernel", HOST_YES,
            "the kernel is too old to report the gfx target: gpumend derived it from the PCI id",
            "install a newer kernel");
    }
}

static bool has_kernels(const struct host_rocm *r, const char *gfx)
{
    for (size_t i = 0; i < r->gfx.n; i++) {
        if (strcmp(r->gfx.items[i], gfx) == 0) {
            return true;
        }
    }
    return false;
}

/* Says what an override does; returns the target that ROCm then takes the GPU for. */
static const char *amd_override(struct judge *j, const char *value)
{
    const struct host_gfx *own = host_gfx(j->g->gfx.value);
    const char *gfx = host_parse_gfx_override(j->arena, value);
    if (!gfx) {
        host_judge_add(
            j, "override-unreadable", HOST_YES,
            arena_printf(j->arena, "HSA_OVERRIDE_GFX_VERSION=%s is not of the form 10.3.0", value),
            "unset HSA_OVERRIDE_GFX_VERSION")
            ->command = "unset HSA_OVERRIDE_GFX_VERSION";
        return j->g->gfx.value;
    }
    if (strcmp(gfx, j->g->gfx.value) == 0) {
        return gfx;
    }
    if (own && own->same_isa && strcmp(value, own->same_isa) == 0) {
        host_judge_add(
            j, "override", HOST_YES,
            arena_printf(j->arena,
                         "HSA_OVERRIDE_GFX_VERSION=%s makes ROCm treat it as %s, whose code it "
                         "executes",
                         value, gfx),
            NULL);
    } else {
        host_judge_add(
            j, "override-wrong", HOST_YES,
            arena_printf(j->arena,
                         "HSA_OVERRIDE_GFX_VERSION=%s makes ROCm treat it as %s, whose code is "
                         "not made for it: expect crashes or wrong results",
                         value, gfx),
            "unset HSA_OVERRIDE_GFX_VERSION")
            ->command = "unset HSA_OVERRIDE_GFX_VERSION";
    }
    return gfx;
}

/* What has kernels for it: an official release of ROCm, else those for another target. */
static const char *kernels_step(struct judge *j, const struct host_gfx *target)
{
    const struct host_amd *amd = &j->h->amd;
    for (size_t i = 0; target && target->since && i < amd->rocm.n; i++) {
        const struct host_rocm *r = &amd->rocm.items[i];
        if (r->gfx.n && r->version && host_version_cmp(r->version, target->since) >= 0 &&
            !has_kernels(r, target->gfx)) {
            return arena_printf(j->arena,
                                "install AMD's own packages of ROCm, or a build of PyTorch for it: "
                                "they have kernels for %s from ROCm %s on, and the build in %s was "
                                "made without",
                                target->gfx, target->since, r->prefix);
        }
    }
    if (target && target->since) {
        return arena_printf(j->arena,
                            "install ROCm %s or later, or a build of PyTorch for it: they have "
                            "kernels for %s",
                            target->since, target->gfx);
    }
    return target && target->same_isa
               ? arena_printf(j->arena, "try HSA_OVERRIDE_GFX_VERSION=%s", target->same_isa)
               : "use a build made for it (a distribution's, or one of your own); no official "
                 "release is known to have kernels for it";
}

static void amd_kernels(struct judge *j)
{
    const struct host_amd *amd = &j->h->amd;
    const char *gfx = j->g->gfx.state == HOST_YES ? j->g->gfx.value : NULL;
    const struct host_gfx *target = host_gfx(gfx);
    const char *override = host_variable(j->h, "HSA_OVERRIDE_GFX_VERSION");
    if (!gfx || !host_gpu_is_bound(j->g, "amdgpu")) {
        return;
    }
    gfx = override ? amd_override(j, override) : gfx;
    const char *step = override ? NULL : kernels_step(j, target);
    bool told = override != NULL;
    for (size_t i = 0; i < amd->rocm.n; i++) {
        const struct host_rocm *r = &amd->rocm.items[i];
        if (r->gfx.n && !has_kernels(r, gfx)) {
            host_judge_add(
                j, "no-rocblas-kernels", HOST_YES,
                arena_printf(j->arena, "rocBLAS of %s contains no kernels for %s", r->prefix, gfx),
                told ? NULL : step);
            told = true;
        }
    }
    if (target && !target->official && !told) {
        host_judge_add(
            j, "no-official-kernels", HOST_YES,
            arena_printf(j->arena, "official ROCm builds contain no kernels for %s", gfx), step);
    }
}

static void amd_rocm(struct judge *j)
{
    const struct host_amd *amd = &j->h->amd;
    if (host_gpu_is_bound(j->g, "amdgpu") && amd->rocm.n == 0 && amd->pip_rocm.n == 0 &&
        amd->libraries.n == 0) {
        host_judge_add(j, "no-rocm", HOST_YES,
                       "no ROCm installation was found: programs that bundle their own can use it",
                       NULL);
    }
}

void host_judge_amd(struct host *h, struct arena *a, struct host_gpu *g)
{
    static question *const questions[] = {
        host_ask_passed_through, amd_driver, amd_kfd, amd_nodes, amd_gfx, amd_kernels, amd_rocm,
        host_ask_visible};
    struct judge j = {h, a, g};
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
        questions[i](&j);
    }
}
