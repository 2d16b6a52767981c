/*
 * Intel: the i915 or xe driver, the render node, and the chain of Level Zero: the loader
 * (libze_loader), the driver (libze_intel_gpu), its compiler (libigc) and memory manager
 * (libigdgmm); intel/compute-runtime, README and package lists.
 */
#include "host/internal.h"

#include <string.h>

static void intel_read_gpu(struct host_look *l, struct host_gpu *g)
{
    const char *drm = arena_printf(l->arena, "/sys/bus/pci/devices/%s/drm", g->bdf);
    struct root_dir nodes = host_entries(l, drm, "renderD*");
    for (size_t i = 0; i < nodes.n; i++) {
        struct host_node node = host_node_at(l, path_join(l->arena, "/dev/dri", nodes.names[i]));
        VEC_PUSH(l->arena, &g->nodes, node);
    }
}

void host_collect_intel(struct host_look *l)
{
    // One of the two compilers is enough; the driver links the one it was built with.
    static const char *const names[] = {"libze_loader.so.1", "libze_intel_gpu.so.1", "libigc.so.2",
                                        "libigc.so.1", "libigdgmm.so.12"};
    struct host *h = l->host;
    h->intel.i915 = host_presence(l, "/sys/module/i915", "/sys/module");
    h->intel.xe = host_presence(l, "/sys/module/xe", "/sys/module");
    for (size_t i = 0; i < h->gpus.n; i++) {
        if (h->gpus.items[i].vendor == HOST_INTEL) {
            intel_read_gpu(l, &h->gpus.items[i]);
        }
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct host_libraries libs;
        host_find_library(l, names[i], &libs);
        if (libs.found.n) {
            VEC_PUSH(l->arena, &h->intel.libraries, libs.found.items[0]);
        }
    }
}
