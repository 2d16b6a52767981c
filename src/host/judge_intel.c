/*
 * The questions about Intel: driver, nodes, and the chain of libraries below Level Zero and OpenCL.
 */
#include "host/internal.h"
#include "host/judge.h"

static bool intel_bound(const struct judge *j)
{
    return host_gpu_is_bound(j->g, "i915") || host_gpu_is_bound(j->g, "xe");
}

static void intel_driver(struct judge *j)
{
    if (j->g->driver.state == HOST_UNKNOWN) {
        host_judge_driver_unknown(j);
    } else if (j->g->driver.state == HOST_NO) {
        host_judge_add(j, "no-driver", HOST_NO, "no driver is loaded for it",
                       "use a kernel that knows it (i915 or xe); sudo dmesg says why it fails");
    } else if (!intel_bound(j) && !host_gpu_is_bound(j->g, "vfio-pci") &&
               !host_gpu_is_bound(j->g, "pci-stub")) {
        host_judge_add(j, "other-driver", HOST_NO,
                       arena_printf(j->arena, "the driver bound to it is %s, not i915 or xe",
                                    j->g->driver.value),
                       NULL);
    }
}

static void intel_nodes(struct judge *j)
{
    if (!intel_bound(j)) {
        return;
    }
    if (j->g->nodes.n == 0) {
        host_judge_add(j, "nodes-unknown", HOST_UNKNOWN, "its render node cannot be determined",
                       NULL);
        return;
    }
    const struct host_node *n = &j->g->nodes.items[0];
    if (n->present.state == HOST_NO) {
        host_judge_add(
            j, host_judge_in_container(j) ? "not-injected" : "nodes-missing", HOST_NO,
            host_judge_in_container(j)
                ? arena_printf(j->arena, "this container was not given it (no %s)", n->path)
                : arena_printf(j->arena, "%s is missing", n->path),
            host_judge_in_container(j) ? "start the container with --device /dev/dri" : NULL);
    } else if (n->present.state == HOST_UNKNOWN) {
        host_judge_add(j, "nodes-unknown", HOST_UNKNOWN, "the device nodes cannot be seen", NULL);
    } else {
        host_ask_all_rights(j);
    }
}

static bool intel_has(const struct host_intel *intel, const char *name)
{
    for (size_t i = 0; i < intel->libraries.n; i++) {
        if (starts_with(intel->libraries.items[i].name, name)) {
            return true;
        }
    }
    return false;
}

static void intel_chain(struct judge *j)
{
    static const char *const links[][3] = {
        {"libze_loader.so", "the Level Zero loader", "libze1 (or level-zero)"},
        {"libze_intel_gpu.so", "Level Zero's driver for Intel GPUs",
         "libze-intel-gpu1 (or intel-level-zero-gpu)"},
        {"libigc.so", "Intel's graphics compiler", "libigc2 (or intel-igc-core)"},
        {"libigdgmm.so", "Intel's graphics memory library", "libigdgmm12"},
    };
    if (!intel_bound(j)) {
        return;
    }
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        if (!intel_has(&j->h->intel, links[i][0])) {
            host_judge_add(
                j, "level-zero", HOST_NO,
                arena_printf(j->arena,
                             "%s (%s) is not in the usual places, without which SYCL and "
                             "PyTorch find no Intel GPU",
                             links[i][1], links[i][0]),
                arena_printf(j->arena, "install %s", links[i][2]));
            return;
        }
    }
}

void host_judge_intel(struct host *h, struct arena *a, struct host_gpu *g)
{
    static question *const questions[] = {host_ask_passed_through, intel_driver, intel_nodes,
                                          intel_chain, host_ask_visible};
    struct judge j = {h, a, g};
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
        questions[i](&j);
    }
}
