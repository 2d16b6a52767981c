/* Which branches of NVIDIA's driver are for a GPU. */
#include "host/internal.h"

#include <string.h>

#include "base/str.h"

/* First and last driver branch by compute capability, as a prefix. First: CUDA Toolkit release
 * notes, the driver of the first toolkit for it (10.0, 11.0, 11.1, 11.8, 12.8). Last:
 * kb/drivers.json, last-kepler and last-maxwell-pascal-volta. Open: NVIDIA's open kernel modules
 * are for Turing and later, and Blackwell has no others (open-gpu-kernel-modules, README.md;
 * "Transitioning to open-source GPU kernel modules", NVIDIA). */
static const struct host_branches branches[] = {
    {"3.", 0, 470, false, true},   {"5.", 0, 580, false, true}, {"6.", 0, 580, false, true},
    {"7.0", 0, 580, false, true},  {"7.5", 410, 0, true, true}, {"8.0", 450, 0, true, true},
    {"8.6", 455, 0, true, true},   {"8.9", 520, 0, true, true}, {"10.0", 570, 0, true, false},
    {"12.0", 570, 0, true, false},
};

const struct host_branches *host_branches_of(const struct host_gpu *g)
{
    const char *capability =
        g->compute_capability.state == HOST_YES ? g->compute_capability.value : NULL;
    for (size_t i = 0; capability && i < sizeof branches / sizeof *branches; i++) {
        if (starts_with(capability, branches[i].capability)) {
            return &branches[i];
        }
    }
    return NULL;
}

/* What the driver of a distribution must be for a GPU: "570 or later", "580, its last"; NULL: the
 * one that it has serves, as far as is known. `branch` 0: the newest. */
const char *host_driver_wanted(struct arena *a, const struct host_gpu *g, unsigned branch,
                               bool open_only)
{
    const struct host_branches *b = host_branches_of(g);
    if (!b) {
        return NULL;
    }
    if (b->last && (branch == 0 || branch > b->last || open_only)) {
        return arena_printf(a, "%u, the last for this GPU", b->last);
    }
    return branch && branch < b->first ? arena_printf(a, "%u or later", b->first) : NULL;
}
