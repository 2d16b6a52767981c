/*
 * Which libcuda reaches the GPU of a machine of Arm. That of Jetson Linux (L4T) is libcuda.so.1.1
 * and reaches the GPU in the processor by the module nvgpu; that of the driver for GPUs on PCI is
 * named for its release and needs the module nvidia [NVIDIA, "Simplifying CUDA Upgrades for NVIDIA
 * Jetson Users"; nixpkgs, cuda_compat.nix]. WSL's is libcuda.so.1.1 as well.
 */
#include "host/host.h"
#include "host/parse.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

enum { L4T_OF_JETPACK_7 = 38 };

int host_l4t_release(const struct host *h)
{
    const char *text = h->tegra.release.state == HOST_YES ? h->tegra.release.value : NULL;
    return text && text[0] == 'R' && text[1] >= '0' && text[1] <= '9' ? atoi(text + 1) : -1;
}

/* R35 [anduril/jetpack-nixos, overlay.nix, cudaMajorMinorPatchVersion]; R36 [dusty-nv/
 * jetson-containers, l4t_version.py]; R38 [pollen-robotics/microduck_rl#38], R39.2
 * [roboflow/inference#2531]. */
const char *host_l4t_cuda(const struct host *h)
{
    static const struct {
        const char *release, *cuda;
    } rows[] = {{"R35, REVISION: ", "11.4"},   {"R36, REVISION: 2.", "12.2"},
                {"R36, REVISION: 3.", "12.4"}, {"R36, REVISION: 4.", "12.6"},
                {"R38, REVISION: ", "13.0"},   {"R39, REVISION: 2.", "13.2"}};
    const char *text = h->tegra.release.state == HOST_YES ? h->tegra.release.value : "";
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (starts_with(text, rows[i].release)) {
            return rows[i].cuda;
        }
    }
    return NULL;
}

bool host_is_jetson(const struct host *h)
{
    const struct host_tegra *t = &h->tegra;
    bool thor = t->soc.state == HOST_YES && strcmp(t->soc.value, "tegra264") == 0;
    return t->is_tegra.state == HOST_YES && !thor && host_l4t_release(h) < L4T_OF_JETPACK_7;
}

bool host_has_nvidia_card(const struct host *h)
{
    for (size_t i = 0; i < h->gpus.n; i++) {
        if (h->gpus.items[i].vendor == HOST_NVIDIA && strcmp(h->gpus.items[i].kind, "pci") == 0) {
            return true;
        }
    }
    return false;
}

/* "libcuda.so.550.54.14" */
static bool is_named_for_release(const char *real)
{
    struct str version, major;
    uint64_t number = 0;
    if (!host_parse_so_version(str_of(path_base(real)), &version)) {
        return false;
    }
    major = str_cut(&version, '.');
    return str_u64(major, &number) && number >= 100;
}

/* Orin's GPU has the driver nvgpu under JetPack 7 as well, Thor's the one for GPUs on PCI ("Orin
 * uses nvgpu, Thor uses openrm") [anduril/jetpack-nixos#510; OE4T/meta-tegra,
 * tegra-libraries-cuda_39.2.1.bb]. */
static bool is_of_nvgpu(const struct host *h, const struct host_gpu *g)
{
    bool thor = g->chip && strcmp(g->chip, "tegra264") == 0;
    return strcmp(g->kind, "tegra") == 0 && !thor &&
           (g->chip || g->driver.state == HOST_YES || host_is_jetson(h));
}

static bool has_nvgpu_alone(const struct host *h)
{
    for (size_t i = 0; i < h->gpus.n && !host_has_nvidia_card(h); i++) {
        if (is_of_nvgpu(h, &h->gpus.items[i])) {
            return true;
        }
    }
    return false;
}

/* The GPU of the processor: Thor's is on PCI, or is not found there. */
static bool is_of_tegra(const struct host *h, const struct host_gpu *g)
{
    return strcmp(g->kind, "tegra") == 0 ||
           (h->tegra.is_tegra.state == HOST_YES && g->chip && starts_with(g->chip, "GB10B"));
}

bool host_has_tegra_alone(const struct host *h)
{
    bool found = false;
    for (size_t i = 0; i < h->gpus.n; i++) {
        const struct host_gpu *g = &h->gpus.items[i];
        if (g->vendor == HOST_NVIDIA && !is_of_tegra(h, g)) {
            return false;
        }
        found = found || g->vendor == HOST_NVIDIA;
    }
    return found;
}

const char *host_nvidia_release(const struct host *h)
{
    return h->nvidia.module.state == HOST_YES && !host_has_tegra_alone(h) ? h->nvidia.module.value
                                                                          : NULL;
}

/* That the module nvidia is loaded says nothing: it drives the display. Where the bus cannot be
 * read there may be a card, unless that module is not loaded. */
bool host_is_libcuda_for_pci(const struct host *h, const char *real)
{
    return has_nvgpu_alone(h) && (h->pci.state == HOST_YES || h->nvidia.module.state == HOST_NO) &&
           is_named_for_release(real);
}

static bool is_of_l4t(const struct host *h, const char *real)
{
    return h->machine == EM_AARCH64 && h->tegra.is_tegra.state == HOST_NO &&
           h->wsl.is_wsl.state == HOST_NO && strcmp(path_base(real), "libcuda.so.1.1") == 0;
}

static const struct host_library *first_own(const struct host *h, const struct host_library *list,
                                            size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(list[i].name, "libcuda.so.1") == 0 &&
            !host_is_libcuda_for_pci(h, list[i].real) && !is_of_l4t(h, list[i].real)) {
            return &list[i];
        }
    }
    return NULL;
}

const struct host_library *host_own_libcuda(const struct host *h)
{
    const struct host_nvidia *n = &h->nvidia;
    const struct host_library *own = first_own(h, n->libraries.items, n->libraries.n);
    return own ? own : first_own(h, n->shadowed.items, n->shadowed.n);
}
