/* Whether programs can use a GPU of a Windows machine, by what is installed. */
#include "host/internal.h"

#include <string.h>

static bool is_of(const struct host_gpu *g, const char *vendor)
{
    size_t n = strlen(g->driver.value);
    return str_find(str_of(g->driver.value), vendor) < n;
}

/* The words of a vendor's provider: "NVIDIA", "Advanced Micro Devices, Inc.", "Intel Corporation".
 */
static const char *provider_of(enum host_vendor vendor)
{
    static const char *const words[] = {[HOST_NVIDIA] = "NVIDIA",
                                        [HOST_AMD] = "Advanced Micro Devices",
                                        [HOST_INTEL] = "Intel",
                                        [HOST_OTHER] = ""};
    return words[vendor];
}

static const char *driver_step(enum host_vendor vendor)
{
    static const char *const steps[] = {
        [HOST_NVIDIA] = "install NVIDIA's driver (https://www.nvidia.com/drivers), then restart",
        [HOST_AMD] = "install AMD's driver (https://www.amd.com/support), then restart",
        [HOST_INTEL] =
            "install Intel's driver (https://www.intel.com/download-center), then restart",
        [HOST_OTHER] = NULL};
    return steps[vendor];
}

/* What only the registry says against a GPU; one that lacks its last changes decides nothing. */
static void add_of_registry(const struct host *h, struct arena *a, struct host_gpu *g,
                            const char *id, const char *text, const char *step)
{
    bool dirty = h->windows.is_dirty;
    host_add_problem(a, g, id, dirty ? HOST_UNKNOWN : HOST_NO,
                     dirty ? arena_printf(a, "%s, by a registry that lacks its last changes", text)
                           : text,
                     step);
}

static void judge_driver(const struct host *h, struct arena *a, struct host_gpu *g)
{
    const char *step = driver_step(g->vendor);
    if (g->driver.state == HOST_UNKNOWN) {
        host_add_problem(a, g, "driver-unknown", HOST_UNKNOWN,
                         arena_printf(a, "its driver is not known: %s", g->driver.why), NULL);
    } else if (g->driver.state == HOST_NO) {
        add_of_registry(h, a, g, "no-driver", "Windows has no driver for it", step);
    } else if (!is_of(g, provider_of(g->vendor))) {
        const char *text =
            arena_printf(a, "its driver is one of %s, not of its vendor", g->driver.value);
        if (is_of(g, "Microsoft")) { // the Basic Display Adapter
            add_of_registry(h, a, g, "no-driver", text, step);
        } else {
            host_add_problem(a, g, "other-driver", HOST_UNKNOWN, text, step);
        }
    }
}

/* The library through which programs ask NVIDIA's driver, which the driver's installer puts there.
 */
static void judge_nvcuda(const struct host *h, struct arena *a, struct host_gpu *g)
{
    const struct host_fact *lib = &h->windows.nvcuda;
    if (g->vendor != HOST_NVIDIA || g->problems.n) {
        return;
    }
    if (lib->state == HOST_NO) {
        add_of_registry(h, a, g, "no-libraries",
                        "NVIDIA's driver is installed, but System32 has no nvcuda.dll",
                        "install the driver again, with the option for a clean installation");
    } else if (lib->state == HOST_UNKNOWN) {
        host_add_problem(a, g, "libraries-unknown", HOST_UNKNOWN,
                         arena_printf(a, "whether nvcuda.dll is there is not known: %s", lib->why),
                         NULL);
    } else if (lib->value && g->driver_version && strcmp(lib->value, g->driver_version) != 0) {
        host_add_problem(a, g, "version-mismatch", HOST_UNKNOWN,
                         arena_printf(a, "its driver is %s, and System32's nvcuda.dll is of %s",
                                      g->driver_version, lib->value),
                         "restart Windows; if they still differ, install the driver again");
    }
}

/* Another adapter of the registry at the same address: at most one of them is still there. */
static const struct host_gpu *at_same_address(const struct host *h, const struct host_gpu *g)
{
    for (size_t i = 0; g->bdf && i < h->gpus.n; i++) {
        const struct host_gpu *x = &h->gpus.items[i];
        if (x != g && x->bdf && strcmp(x->bdf, g->bdf) == 0) {
            return x;
        }
    }
    return NULL;
}

void host_judge_windows(const struct host *h, struct arena *a, struct host_gpu *g)
{
    const struct host_gpu *other = at_same_address(h, g);
    if (g->switched_off) {
        add_of_registry(h, a, g, "switched-off", "it is disabled in the device manager",
                        "enable it in the device manager");
    }
    judge_driver(h, a, g);
    judge_nvcuda(h, a, g);
    if (other) {
        host_add_problem(a, g, "removed", HOST_UNKNOWN,
                         arena_printf(a,
                                      "the registry has %s at the same address; one of the two was "
                                      "removed",
                                      other->name),
                         NULL);
    } else {
        host_add_problem(a, g, "by-registry", HOST_YES,
                         "by the registry, which also keeps devices that were removed", NULL);
    }
    host_judge_visible(h, a, g);
}
