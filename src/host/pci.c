/*
 * GPUs on the PCI bus: sysfs, Documentation/ABI/testing/sysfs-bus-pci. Classes: 0300 VGA, 0302 3D
 * controller, 0380 display controller, 1200 processing accelerator (PCI Code and ID Assignment).
 */
#include "host/internal.h"
#include "host/names.h"

#include <errno.h>
#include <string.h>

static const char bus[] = "/sys/bus/pci/devices";

enum { VENDOR_AMD = 0x1002, VENDOR_NVIDIA = 0x10de, VENDOR_INTEL = 0x8086 };

static enum host_vendor id_vendor(uint32_t id)
{
    return id == VENDOR_NVIDIA  ? HOST_NVIDIA
           : id == VENDOR_AMD   ? HOST_AMD
           : id == VENDOR_INTEL ? HOST_INTEL
                                : HOST_OTHER;
}

static bool hex_file(struct host_look *l, const char *dir, const char *name, uint32_t *ret)
{
    struct str text;
    return host_read(l, path_join(l->arena, dir, name), &text) == 0 && host_parse_hex(text, 8, ret);
}

/* Class 12 of Intel is a neural processor, no GPU. */
static bool class_is_gpu(enum host_vendor vendor, uint32_t class_id)
{
    return class_id >> 16 == 0x03 || (class_id >> 8 == 0x1200 && vendor != HOST_INTEL);
}

static struct host_fact bound_driver(struct host_look *l, const char *dir)
{
    const char *path = path_join(l->arena, dir, "driver");
    char *target;
    int rc = root_readlink(l->root, l->arena, path, &target);
    if (rc == 0) {
        return host_yes(path, path_base(target));
    }
    return rc == -ENOENT ? host_no(path, "no driver is bound")
                         : host_unknown(path, host_why(l, rc));
}

static struct host_fact numa_node(struct host_look *l, const char *dir)
{
    const char *path = path_join(l->arena, dir, "numa_node");
    struct str text;
    uint64_t node;
    int rc = host_read(l, path, &text);
    if (rc < 0) {
        return host_unknown(path, host_why(l, rc));
    }
    return str_u64(str_trim(text), &node) ? host_amount(path, node) // "-1": not stated
                                          : host_unknown(path, "the firmware does not state it");
}

/* Of server cards amdgpu reads it from the board: Linux, drivers/gpu/drm/amd/amdgpu/
 * amdgpu_fru_eeprom.c. NULL: not told. */
static const char *product_name(struct host_look *l, const struct host_gpu *g)
{
    const char *dir = path_join(l->arena, bus, g->bdf);
    struct str text;
    return g->vendor == HOST_AMD && strcmp(g->kind, "pci") == 0 &&
                   host_read(l, path_join(l->arena, dir, "product_name"), &text) == 0 &&
                   str_trim(text).n
               ? str_dup(l->arena, str_trim(text))
               : NULL;
}

static void name_gpu(struct host_look *l, struct host_gpu *g)
{
    static const char *const vendors[] = {
        [HOST_NVIDIA] = "NVIDIA", [HOST_AMD] = "AMD", [HOST_INTEL] = "Intel", [HOST_OTHER] = ""};
    const struct host_pci_name *row = host_pci_row(g->vendor_id, g->device_id, g->revision);
    const char *vendor = vendors[g->vendor];
    if (!row) {
        const char *product = product_name(l, g);
        g->name = product ? host_marketing_name(l->arena, vendor, product)
                          : arena_printf(l->arena, "%s GPU %04x:%04x", vendor, g->vendor_id,
                                         g->device_id);
        return;
    }
    g->name = host_marketing_name(l->arena, vendor, row->name);
    g->chip = host_chip_name(l->arena, row->name);
    g->model_memory_gib = row->memory_gib;
}

/* What follows from the chip alone. The compute driver's own answer replaces gfx later. */
static void describe_chip(struct host_gpu *g)
{
    static const char where[] = "pci.ids";
    const struct host_nvidia_chip *n = g->vendor == HOST_NVIDIA ? host_nvidia_chip(g->chip) : NULL;
    const char *gfx = g->vendor == HOST_AMD ? host_amd_chip_gfx(g->chip) : NULL;
    const struct host_gfx *target = host_gfx(gfx);
    g->architecture = host_unknown(where, "this PCI id is not in the table");
    g->compute_capability =
        g->vendor == HOST_NVIDIA ? g->architecture : host_no(NULL, "only NVIDIA's GPUs have one");
    g->gfx = g->vendor == HOST_AMD ? g->architecture : host_no(NULL, "only AMD's GPUs have one");
    if (n) {
        g->architecture = host_yes(where, n->architecture);
        g->compute_capability = host_yes(where, n->capability);
    }
    if (gfx) {
        g->gfx = host_yes(where, gfx);
        g->architecture = host_yes(where, target->architecture);
        g->integrated = target->apu;
    }
    g->compute_units = g->partitions = host_unknown(NULL, "only AMD's compute driver reports it");
    g->memory = host_unknown(NULL, "no file states it; only the vendor's library reports it");
    g->vram = g->gtt = host_unknown(NULL, "only AMD's driver states it");
    g->minor = g->uuid = g->model = host_unknown(NULL, "no driver reports it");
    // Intel's integrated graphics are device 2 of the first bus.
    struct host_bdf bdf;
    if (g->vendor == HOST_INTEL && g->bdf && host_parse_bdf(str_of(g->bdf), &bdf)) {
        g->integrated = bdf.domain == 0 && bdf.bus == 0 && bdf.device == 2;
    }
}

static void note_other_display(struct host_look *l, const struct host_gpu *g)
{
    const char *name = host_pci_name(g->vendor_id, g->device_id, g->revision);
    VEC_PUSH(l->arena, &l->host->other_displays,
             arena_printf(l->arena, "%s [%04x:%04x]%s%s", name ? name : "display adapter",
                          g->vendor_id, g->device_id, g->bdf ? " at " : "", g->bdf ? g->bdf : ""));
}

void host_describe_pci(struct host_look *l, struct host_gpu *g)
{
    g->vendor = id_vendor(g->vendor_id);
    if (g->vendor == HOST_OTHER) {
        note_other_display(l, g);
        return;
    }
    name_gpu(l, g);
    describe_chip(g);
}

/* A device of which it cannot be seen what it is may be a GPU. */
static void pci_read_device(struct host_look *l, const char *bdf)
{
    const char *dir = path_join(l->arena, bus, bdf);
    struct host_gpu g = {.kind = "pci", .bdf = bdf, .revision = UINT32_MAX};
    if (!hex_file(l, dir, "vendor", &g.vendor_id) || !hex_file(l, dir, "class", &g.class_id)) {
        l->host->pci = host_unknown(bus, arena_printf(l->arena, "what %s is cannot be read", bdf));
        return;
    }
    g.vendor = id_vendor(g.vendor_id);
    if (g.vendor == HOST_NVIDIA && g.class_id >> 8 == 0x0680) { // "Bridge, other": NVSwitch
        l->host->nvidia.nvswitch.number++;
    }
    if (!class_is_gpu(g.vendor, g.class_id)) {
        return;
    }
    (void)hex_file(l, dir, "device", &g.device_id); // 0 stays: the name then says so
    (void)hex_file(l, dir, "revision", &g.revision);
    (void)hex_file(l, dir, "subsystem_vendor", &g.subsystem_vendor_id);
    (void)hex_file(l, dir, "subsystem_device", &g.subsystem_device_id);
    host_describe_pci(l, &g);
    if (g.vendor == HOST_OTHER) {
        return;
    }
    g.driver = bound_driver(l, dir);
    g.numa_node = numa_node(l, dir);
    VEC_PUSH(l->arena, &l->host->gpus, g);
}

void host_collect_pci(struct host_look *l)
{
    struct host *h = l->host;
    struct root_dir dir;
    int rc = root_list(l->root, l->arena, bus, HOST_NODES_MAX, NULL, &dir);
    if (rc < 0) {
        h->pci = host_presence(l, bus, "/sys/bus");
        h->pci = h->pci.state == HOST_YES ? host_unknown(bus, host_why(l, rc)) : h->pci;
        h->nvidia.nvswitch = host_unknown(bus, h->pci.why);
        return;
    }
    h->pci = host_yes(bus, NULL);
    h->nvidia.nvswitch = host_amount(bus, 0);
    for (size_t i = 0; i < dir.n; i++) {
        struct host_bdf bdf;
        if (host_parse_bdf(str_of(dir.names[i]), &bdf)) {
            pci_read_device(l, dir.names[i]);
        }
    }
    if (dir.truncated) {
        h->pci = host_unknown(bus, "it has more devices than are looked at");
    }
}
