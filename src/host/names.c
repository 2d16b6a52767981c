#include "host/names.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static int names_compare(const void *x, const void *y)
{
    const struct host_pci_name *a = x, *b = y;
    int vendor = a->vendor - b->vendor, device = a->device - b->device;
    return vendor ? vendor : device ? device : a->revision - b->revision;
}

static const struct host_pci_name *find_name(uint32_t vendor, uint32_t device, int revision)
{
    if (vendor > UINT16_MAX || device > UINT16_MAX) {
        return NULL;
    }
    const struct host_pci_name key = {
        .vendor = (uint16_t)vendor, .device = (uint16_t)device, .revision = (int16_t)revision};
    return bsearch(&key, host_pci_names, host_n_pci_names, sizeof key, names_compare);
}

const struct host_pci_name *host_pci_row(uint32_t vendor, uint32_t device, uint32_t revision)
{
    const struct host_pci_name *row =
        revision <= 0xff ? find_name(vendor, device, (int)revision) : NULL;
    return row ? row : find_name(vendor, device, -1);
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
    {"GK180", "Kepler", "3.5"},     {"GK208", "Kepler", "3.5"},      {"GK110", "Kepler", "3.5"},
    {"GK10", "Kepler", "3.0"},
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

static bool same_char(char x, char y)
{
    x = x == '-' ? ' ' : (char)tolower((unsigned char)x);
    y = y == '-' ? ' ' : (char)tolower((unsigned char)y);
    return x == y;
}

static bool same_name(const char *x, const char *y)
{
    while (*x && same_char(*x, *y)) {
        x++;
        y++;
    }
    return !*x && !*y;
}

static const struct host_nvidia_chip *chip_of_all(const char *chips)
{
    const struct host_nvidia_chip *found = NULL;
    for (struct str rest = str_of(chips); rest.s;) {
        struct str name = str_cut(&rest, ',');
        const struct host_nvidia_chip *chip = host_nvidia_chip(name.s); // its end is not compared
        if (!chip || (found && strcmp(found->capability, chip->capability) != 0)) {
            return NULL;
        }
        found = chip;
    }
    return found;
}

const struct host_nvidia_chip *host_nvidia_model(const char *name)
{
    name += starts_with(name, "NVIDIA ") ? strlen("NVIDIA ") : 0;
    for (size_t i = 0; i < host_n_models; i++) {
        if (same_name(name, host_models[i].name)) {
            return chip_of_all(host_models[i].chips);
        }
    }
    return NULL;
}

/* The number before `at`, where a word of digits ends; 0: there is none. */
static unsigned number_before(struct str text, size_t at)
{
    size_t start = at;
    while (start > 0 && text.s[start - 1] >= '0' && text.s[start - 1] <= '9') {
        start--;
    }
    uint64_t number;
    bool word = start > 0 && (text.s[start - 1] == ' ' || text.s[start - 1] == '-');
    return word && str_u64((struct str){text.s + start, at - start}, &number) && number < 4096
               ? (unsigned)number
               : 0;
}

/* Virtual GPUs end in the GiB of their frame buffer and a letter for their licence (NVIDIA vGPU
 * software, "Virtual GPU Types"). */
unsigned host_model_gib(const char *name)
{
    struct str text = str_of(name);
    if (starts_with(name, "NVIDIA GH") || starts_with(name, "GH")) {
        return 0; // "GH200 480GB": the memory of the Grace processor beside the GPU
    }
    for (size_t i = 0; i + 2 <= text.n; i++) {
        bool ends = i + 2 == text.n || text.s[i + 2] == ' ';
        unsigned gib = ends && memcmp(text.s + i, "GB", 2) == 0 ? number_before(text, i) : 0;
        if (gib) {
            return gib;
        }
    }
    return text.n > 3 && strchr("ABCQ", text.s[text.n - 1]) && str_find_char(text, '-') < text.n
               ? number_before(text, text.n - 1)
               : 0;
}

/*
 * Linux drivers/gpu/drm/amd/amdkfd/kfd_device.c (kgd2kfd_probe) for what the compute driver serves,
 * LLVM's table of processors (below) for older chips; by the chip names of pci.ids, whose cards of
 * one chip have names of their own before GCN 4 (drivers/gpu/drm/amd/amdgpu/amdgpu_drv.c). Longest
 * prefix first where one contains another. Without "Aqua Vanjaram", which pci.ids calls MI300 and
 * MI350 alike.
 */
const char *host_amd_chip_gfx(const char *chip)
{
    static const char *const chips[][2] = {
        {"Tahiti", "gfx600"},      {"Malta", "gfx600"},      {"Pitcairn", "gfx601"},
        {"Curacao", "gfx601"},     {"Neptune", "gfx601"},    {"Wimbledon", "gfx601"},
        {"Cape Verde", "gfx601"},  {"Chelsea", "gfx601"},    {"Heathrow", "gfx601"},
        {"Venus", "gfx601"},       {"Oland", "gfx602"},      {"Mars", "gfx602"},
        {"Opal", "gfx602"},        {"Sun", "gfx602"},        {"Jet", "gfx602"},
        {"Kaveri", "gfx700"},      {"Hawaii", "gfx701"},     {"Vesuvius", "gfx701"},
        {"Kabini", "gfx703"},      {"Temash", "gfx703"},     {"Mullins", "gfx703"},
        {"Bonaire", "gfx704"},     {"Saturn", "gfx704"},     {"Tobago", "gfx704"},
        {"Carrizo", "gfx801"},     {"Wani", "gfx801"},       {"Stoney", "gfx810"},
        {"Topaz", "gfx802"},       {"Meso", "gfx802"},       {"Tonga", "gfx802"},
        {"Amethyst", "gfx802"},    {"Fiji", "gfx803"},       {"Ellesmere", "gfx803"},
        {"Baffin", "gfx803"},      {"Lexa", "gfx803"},       {"Polaris", "gfx803"},
        {"Vega 10", "gfx900"},     {"Vega 12", "gfx904"},    {"Vega 20", "gfx906"},
        {"Raven", "gfx902"},       {"Picasso", "gfx902"},    {"Renoir", "gfx90c"},
        {"Lucienne", "gfx90c"},    {"Cezanne", "gfx90c"},    {"Barcelo", "gfx90c"},
        {"Arcturus", "gfx908"},    {"Aldebaran", "gfx90a"},  {"MI300", "gfx942"},
        {"MI350", "gfx950"},       {"Navi 10", "gfx1010"},   {"TDC-150", "gfx1010"},
        {"Navi 12", "gfx1011"},    {"Navi 14", "gfx1012"},   {"Cyan Skillfish", "gfx1013"},
        {"Navi 21", "gfx1030"},    {"Navi 22", "gfx1031"},   {"Navi 23", "gfx1032"},
        {"VanGogh", "gfx1033"},    {"Sephiroth", "gfx1033"}, {"Navi 24", "gfx1034"},
        {"Rembrandt", "gfx1035"},  {"Raphael", "gfx1036"},   {"Granite Ridge", "gfx1036"},
        {"Mendocino", "gfx1036"},  {"Navi 31", "gfx1100"},   {"Navi 32", "gfx1101"},
        {"Navi 33", "gfx1102"},    {"Phoenix", "gfx1103"},   {"HawkPoint", "gfx1103"},
        {"Strix Halo", "gfx1151"}, {"Strix", "gfx1150"},     {"Krackan2", "gfx1153"},
        {"Krackan", "gfx1152"},    {"Navi 44", "gfx1200"},   {"Navi 48", "gfx1201"},
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
 * (pytorch/pytorch, pull request 164854). since: that pull request, and ROCm's compatibility
 * matrices from 6.0 on (kb/rocm.json); of gfx900 and gfx906, which left them, none.
 */
static const struct host_gfx gfx_targets[] = {
    {"gfx600", "GCN 1", false, NULL, false, NULL},
    {"gfx601", "GCN 1", false, NULL, false, NULL},
    {"gfx602", "GCN 1", false, NULL, false, NULL},
    {"gfx700", "GCN 2", true, NULL, false, NULL},
    {"gfx701", "GCN 2", false, NULL, false, NULL},
    {"gfx703", "GCN 2", true, NULL, false, NULL},
    {"gfx704", "GCN 2", false, NULL, false, NULL},
    {"gfx801", "GCN 3", true, NULL, false, NULL},
    {"gfx802", "GCN 3", false, NULL, false, NULL},
    {"gfx803", "GCN 3/4", false, NULL, false, NULL},
    {"gfx810", "GCN 3", true, NULL, false, NULL},
    {"gfx900", "Vega", false, NULL, true, NULL},
    {"gfx902", "Vega", true, NULL, false, NULL},
    {"gfx904", "Vega", false, NULL, false, NULL},
    {"gfx906", "Vega", false, NULL, true, NULL},
    {"gfx908", "CDNA 1", false, NULL, true, "6.0"},
    {"gfx90a", "CDNA 2", false, NULL, true, "6.0"},
    {"gfx90c", "Vega", true, NULL, false, NULL},
    {"gfx942", "CDNA 3", false, NULL, true, "6.0"},
    {"gfx950", "CDNA 4", false, NULL, true, "7.0"},
    {"gfx1010", "RDNA 1", false, NULL, false, NULL},
    {"gfx1011", "RDNA 1", false, NULL, false, NULL},
    {"gfx1012", "RDNA 1", false, NULL, false, NULL},
    {"gfx1013", "RDNA 1", true, NULL, false, NULL},
    {"gfx1030", "RDNA 2", false, NULL, true, "6.0"},
    {"gfx1031", "RDNA 2", false, "10.3.0", false, NULL},
    {"gfx1032", "RDNA 2", false, "10.3.0", false, NULL},
    {"gfx1033", "RDNA 2", true, "10.3.0", false, NULL},
    {"gfx1034", "RDNA 2", false, "10.3.0", false, NULL},
    {"gfx1035", "RDNA 2", true, "10.3.0", false, NULL},
    {"gfx1036", "RDNA 2", true, "10.3.0", false, NULL},
    {"gfx1100", "RDNA 3", false, NULL, true, "6.0"},
    {"gfx1101", "RDNA 3", false, NULL, true, "6.4.1"},
    {"gfx1102", "RDNA 3", false, NULL, true, "7.0"},
    {"gfx1103", "RDNA 3", true, NULL, false, NULL},
    {"gfx1150", "RDNA 3.5", true, NULL, true, "7.0"},
    {"gfx1151", "RDNA 3.5", true, NULL, true, "7.0"},
    {"gfx1152", "RDNA 3.5", true, NULL, false, NULL},
    {"gfx1153", "RDNA 3.5", true, NULL, false, NULL},
    {"gfx1200", "RDNA 4", false, NULL, true, "6.4.1"},
    {"gfx1201", "RDNA 4", false, NULL, true, "6.4.1"},
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
