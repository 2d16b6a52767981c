#include "host/names.h"

#include <stdlib.h>
#include <string.h>

static int compare_names(const void *x, const void *y)
{
    const struct host_pci_name *a = x, *b = y;
    int vendor = a->vendor - b->vendor, device = a->device - b->device;
    return vendor ? vendor : device ? device : a->revision - b->revision;
}

static const struct host_pci_name *find(uint32_t vendor, uint32_t device, int revision)
{
    if (vendor > UINT16_MAX || device > UINT16_MAX) {
        return NULL;
    }
    const struct host_pci_name key = {
        .vendor = (uint16_t)vendor, .device = (uint16_t)device, .revision = (int16_t)revision};
    return bsearch(&key, host_pci_names, host_pci_names_n, sizeof key, compare_names);
}

const struct host_pci_name *host_pci_row(uint32_t vendor, uint32_t device, uint32_t revision)
{
    const struct host_pci_name *row = revision <= 0xff ? find(vendor, device, (int)revision) : NULL;
    return row ? row : find(vendor, device, -1);
}

const char *host_pci_name(uint32_t vendor, uint32_t device, uint32_t revision)
{
    const struct host_pci_name *row = host_pci_row(vendor, device, revision);
    return row ? row->name : NULL;
}

const char *host_marketing_name(struct arena *a, const char *vendor, const char *name)
{
    struct str text = str_of(name);
    size_t open = str_find_char(text, '['), close = text.n;
    if (open < text.n && text.n && text.s[text.n - 1] == ']') {
        text = str_trim((struct str){text.s + open + 1, close - open - 2});
    }
    if (str_starts(text, vendor)) {
        return str_dup(a, text);
    }
    return arena_printf(a, "%s " STR_FMT, vendor, STR_ARG(text));
}

const char *host_chip_name(struct arena *a, const char *name)
{
    struct str text = str_of(name);
    text.n = str_find_char(text, '[');
    text.n = text.n && str_find(text, " / ") < text.n ? str_find(text, " / ") : text.n;
    text = str_trim(text);
    return text.n ? str_dup(a, text) : NULL;
}

/*
 * Compute capabilities: NVIDIA, "CUDA GPU Compute Capability" and its legacy list, by product;
 * chips of the products: pci.ids. Chips of one row share a capability. Longest prefix first where
 * one contains another.
 */
static const struct host_nvidia_chip nvidia_chips[] = {
    {"GB10B", "Blackwell", "11.0"}, // Jetson Thor
    {"GB20B", "Blackwell", "12.1"}, // GB10
    {"GB10", "Blackwell", "10.0"},  // GB100, GB102: B100, B200, GB200
    {"GB11", "Blackwell", "10.3"},  // GB110: B300, GB300
    {"GB20", "Blackwell", "12.0"},  // GB202 to GB207
    {"GH100", "Hopper", "9.0"},     {"AD10", "Ada Lovelace", "8.9"}, {"GA100", "Ampere", "8.0"},
    {"GA10", "Ampere", "8.6"}, // GA102 to GA107
    {"TU10", "Turing", "7.5"},      {"TU11", "Turing", "7.5"},       {"GV100", "Volta", "7.0"},
    {"GP100", "Pascal", "6.0"},     {"GP10", "Pascal", "6.1"}, // GP102 to GP108
    {"GM20", "Maxwell", "5.2"},     {"GM10", "Maxwell", "5.0"},      {"GK210", "Kepler", "3.7"},
    {"GK208", "Kepler", "3.5"},     {"GK110", "Kepler", "3.5"},      {"GK10", "Kepler", "3.0"},
};

const struct host_nvidia_chip *host_nvidia_chip(const char *chip)
{
    for (size_t i = 0; chip && i < sizeof nvidia_chips / sizeof *nvidia_chips; i++) {
        if (starts_with(chip, nvidia_chips[i].prefix)) {
            return &nvidia_chips[i];
        }
    }
    return NULL;
}

/* Linux drivers/gpu/drm/amd/amdkfd/kfd_device.c (kgd2kfd_probe), by the chip names of pci.ids. A
 * chip of which several steppings differ in their target is left out. */
const char *host_amd_chip_gfx(const char *chip)
{
    static const char *const chips[][2] = {
        {"Ellesmere", "gfx803"}, {"Baffin", "gfx803"},    {"Fiji", "gfx803"},
        {"Vega 10", "gfx900"},   {"Vega 12", "gfx904"},   {"Vega 20", "gfx906"},
        {"Arcturus", "gfx908"},  {"Aldebaran", "gfx90a"}, {"Renoir", "gfx90c"},
        {"Navi 10", "gfx1010"},  {"Navi 12", "gfx1011"},  {"Navi 14", "gfx1012"},
        {"Navi 21", "gfx1030"},  {"Navi 22", "gfx1031"},  {"Navi 23", "gfx1032"},
        {"VanGogh", "gfx1033"},  {"Navi 24", "gfx1034"},  {"Rembrandt", "gfx1035"},
        {"Raphael", "gfx1036"},  {"Navi 31", "gfx1100"},  {"Navi 32", "gfx1101"},
        {"Navi 33", "gfx1102"},  {"Phoenix", "gfx1103"},  {"Navi 44", "gfx1200"},
        {"Navi 48", "gfx1201"},
    };
    for (size_t i = 0; chip && i < sizeof chips / sizeof *chips; i++) {
        if (starts_with(chip, chips[i][0])) {
            return chips[i][1];
        }
    }
    return NULL;
}

/*
 * Architecture and whether it is part of a processor: LLVM, "User Guide for AMDGPU Backend", table
 * of processors. same_isa: targets of the generic target gfx10-3-generic run one another's code
 * (same guide, "Generic processors"). official: targets of PyTorch's ROCm wheels from ROCm 7.0 on
 * (pytorch/pytorch, pull request 164854).
 */
static const struct host_gfx gfx_targets[] = {
    {"gfx803", "GCN 3/4", false, NULL, false},     {"gfx900", "Vega", false, NULL, true},
    {"gfx902", "Vega", true, NULL, false},         {"gfx904", "Vega", false, NULL, false},
    {"gfx906", "Vega", false, NULL, true},         {"gfx908", "CDNA 1", false, NULL, true},
    {"gfx90a", "CDNA 2", false, NULL, true},       {"gfx90c", "Vega", true, NULL, false},
    {"gfx942", "CDNA 3", false, NULL, true},       {"gfx950", "CDNA 4", false, NULL, true},
    {"gfx1010", "RDNA 1", false, NULL, false},     {"gfx1011", "RDNA 1", false, NULL, false},
    {"gfx1012", "RDNA 1", false, NULL, false},     {"gfx1030", "RDNA 2", false, NULL, true},
    {"gfx1031", "RDNA 2", false, "10.3.0", false}, {"gfx1032", "RDNA 2", false, "10.3.0", false},
    {"gfx1033", "RDNA 2", true, "10.3.0", false},  {"gfx1034", "RDNA 2", false, "10.3.0", false},
    {"gfx1035", "RDNA 2", true, "10.3.0", false},  {"gfx1036", "RDNA 2", true, "10.3.0", false},
    {"gfx1100", "RDNA 3", false, NULL, true},      {"gfx1101", "RDNA 3", false, NULL, true},
    {"gfx1102", "RDNA 3", false, NULL, true},      {"gfx1103", "RDNA 3", true, NULL, false},
    {"gfx1150", "RDNA 3.5", true, NULL, true},     {"gfx1151", "RDNA 3.5", true, NULL, true},
    {"gfx1152", "RDNA 3.5", true, NULL, false},    {"gfx1153", "RDNA 3.5", true, NULL, false},
    {"gfx1200", "RDNA 4", false, NULL, true},      {"gfx1201", "RDNA 4", false, NULL, true},
};

const struct host_gfx *host_gfx(const char *gfx)
{
    for (size_t i = 0; gfx && i < sizeof gfx_targets / sizeof *gfx_targets; i++) {
        if (strcmp(gfx, gfx_targets[i].gfx) == 0) {
            return &gfx_targets[i];
        }
    }
    return NULL;
}
