/*
 * The CUDA libraries of a Jetson board before JetPack 7: JetPack has its own, below
 * targets/aarch64-linux.
 *
 * "Unifying CUDA for Arm [...] The only exception is Orin (sm_87), which will continue on its
 * current path for now" [NVIDIA, "What's New in CUDA Toolkit 13.0 for Jetson Thor"]: until then the
 * packages for Arm servers (sbsa) and the wheels for aarch64, which are made of them, are another
 * product. Read in nvidia-curand-cu12 10.3.5.147 for manylinux2014_aarch64: cubins for sm_50 to
 * sm_90 without sm_87, and PTX for sm_90 alone. Between Tegra and other GPUs no binary
 * compatibility is promised (gpu/serves.c). "sudo apt install nvidia-jetpack" [NVIDIA, Jetson Orin
 * Nano Developer Kit, "JetPack SDK Setup"].
 */
#include <string.h>

#include "diag/internal.h"

/* The CUDA of JetPack by the release of L4T: 35 (JetPack 5.1.5) has 11.4.298
 * [anduril/jetpack-nixos, overlay.nix], 36 12.2 to 12.6 [dusty-nv/jetson-containers,
 * l4t_version.py; TensorRT for PyTorch, "JetPack 6.1"]. */
static const struct {
    int l4t, cuda_major;
} jetpacks[] = {{35, 11}, {36, 12}};

bool diag_is_jetson(const struct diag *d)
{
    return d->m->host && host_is_jetson(d->m->host);
}

bool diag_is_of_nvidia(const struct kb_provide *row)
{
    bool found = false;
    for (size_t i = 0; row && i < row->n_providers; i++) {
        const struct kb_provider *p = &row->providers[i];
        if (p->manager == KB_MANAGER_DRIVER) {
            return false;
        }
        found = found || (p->repository && strcmp(p->repository, "cuda") == 0) ||
                strncmp(p->package, "nvidia-", strlen("nvidia-")) == 0;
    }
    return found;
}

bool diag_repair_of_jetpack(struct diag *d, struct diag_finding *f, const struct kb_provide *row,
                            const char *name, const char *asking)
{
    static const char install[] = "apt-get update && apt-get install nvidia-jetpack",
                      others[] = "NVIDIA's packages for Arm servers (sbsa) and its wheels for CUDA "
                                 "12 and older are not built for its GPU.";
    if (!diag_is_jetson(d) || !diag_is_of_nvidia(row)) {
        return false;
    }
    int l4t = host_l4t_release(d->m->host), cuda = -1;
    for (size_t i = 0; i < sizeof jetpacks / sizeof *jetpacks; i++) {
        cuda = jetpacks[i].l4t == l4t ? jetpacks[i].cuda_major : cuda;
    }
    const char *release =
        l4t >= 0 ? arena_printf(d->a, "this Jetson (L4T R%d)", l4t) : "this Jetson";
    if (cuda >= 0 && row->cuda_major == cuda) {
        diag_repair(d, f, DIAG_REPAIR_PACKAGE, install,
                    "Install JetPack's CUDA libraries: %s has CUDA %d of its own. If they do not "
                    "contain what is missing, use a build of %s for JetPack. %s",
                    release, cuda, asking, others);
    } else if (cuda >= 0 && row->cuda_major >= 0) {
        diag_repair(d, f, DIAG_REPAIR_TEXT, NULL,
                    "Use a build of %s for JetPack: %s has CUDA %d, and %s is of CUDA %d. %s",
                    asking, release, cuda, name, row->cuda_major, others);
    } else {
        diag_repair(d, f, DIAG_REPAIR_TEXT, NULL,
                    "Install JetPack's libraries (%s). If they do not contain %s, use a build of "
                    "%s for JetPack. %s",
                    install, name, asking, others);
    }
    return true;
}
