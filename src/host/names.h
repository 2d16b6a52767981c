/*
 * Names of GPUs by PCI id, and what follows from the chip: architecture, compute capability, gfx
 * target. Embedded at build time by scripts/pci-embed: src/host/newer.ids, which scripts/gpu-ids
 * makes of pci.ids, libdrm and Linux; what only the pci.ids of the building machine has; and
 * src/host/models.ids, the names of NVIDIA's driver.
 */
#ifndef GPUMEND_HOST_NAMES_H
#define GPUMEND_HOST_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"

struct host_pci_name {
    uint16_t vendor, device;
    int16_t revision;    // -1: any
    uint16_t memory_gib; // the least that the model is sold with (kb/gpus.json); 0: not known
    const char *name;    // "AD102 [GeForce RTX 4090]"
};

/* Embedded: sorted by vendor, device, revision. */
extern const struct host_pci_name host_pci_names[];
extern const size_t host_n_pci_names;

/* The row, or NULL. A row of this very revision wins. */
const struct host_pci_name *host_pci_row(uint32_t vendor, uint32_t device, uint32_t revision);
/* The row's name, or NULL. */
const char *host_pci_name(uint32_t vendor, uint32_t device, uint32_t revision);

/* "AD102 [GeForce RTX 4090]" -> "NVIDIA GeForce RTX 4090" and "AD102". */
const char *host_marketing_name(struct arena *a, const char *vendor, const char *name);
const char *host_chip_name(struct arena *a, const char *name);

/* What a chip is, by its name in pci.ids; NULL for chips that are not in the table. */
struct host_nvidia_chip {
    const char *prefix, *architecture, *capability; // capability NULL: before CUDA
};
const struct host_nvidia_chip *host_nvidia_chip(const char *chip);

/* A name that NVIDIA's driver reports, and the chips that it is sold with. */
struct host_model {
    const char *name;  // "GeForce RTX 4060", without "NVIDIA"
    const char *chips; // "AD106,AD107"
};
extern const struct host_model host_models[];
extern const size_t host_n_models;

/* What the chip is of the GPU that the driver calls so; NULL: the name is not in the table, or GPUs
 * of one name differ. Case, and hyphens for spaces, do not count. */
const struct host_nvidia_chip *host_nvidia_model(const char *name);

/* GiB that the name states: "Tesla V100-PCIE-16GB", or of a virtual GPU "GRID A100-10C"; 0: none.
 */
unsigned host_model_gib(const char *name);

/* gfx target by the chip's name, for kernels that do not tell it; or NULL. */
const char *host_amd_chip_gfx(const char *chip);

/* What a gfx target is. */
struct host_gfx {
    const char *gfx, *architecture;
    bool apu;             // part of a processor
    const char *same_isa; // target whose code it executes too, as HSA_OVERRIDE_GFX_VERSION, or NULL
    bool official;        // PyTorch's and AMD's own ROCm builds carry kernels for it
    const char *since;    // the first such release of ROCm that is known, or NULL
};
const struct host_gfx *host_gfx(const char *gfx);

#endif
