/*
 * The devices that CUDA or HIP will count, in their order: what is there, less what cannot be
 * opened, filtered by the variables of the start environment.
 *
 *   CUDA_VISIBLE_DEVICES  indices or the beginnings of UUIDs; the list ends at the first that is
 *                         not valid; empty: none. CUDA Programming Guide, 5.2.1.1.
 *   CUDA_DEVICE_ORDER     unset: fastest first, by a rule of the driver's own; PCI_BUS_ID: by PCI
 *                         address. The same place, 5.2.1.2.
 *   ROCR_VISIBLE_DEVICES, then HIP_VISIBLE_DEVICES or CUDA_VISIBLE_DEVICES: indices in the order of
 *                         the compute driver's topology. ROCm documentation, "GPU isolation".
 *
 * Among cards that are all of one name, fastest first is the order by address. Among cards that
 * differ it is not known here: then the order by address is used and must be set
 * (`set_order`). Indices that the user gave in the other order name cards that are not known; the
 * list then holds every card that they may mean, and `sure` is false.
 *
 * Not known here: what MPS or a job scheduler hides, which of several MIG instances CUDA takes.
 */
#ifndef GPUMEND_CHOOSE_VISIBLE_H
#define GPUMEND_CHOOSE_VISIBLE_H

#include "host/host.h"

/* The variables that count: of the start environment, and where `host` is set and that does not
 * have it, those of who captured the tree. */
struct choose_variables {
    const char *const *env; // "K=V"
    size_t n_env;
    const struct host *host; // or NULL
};

/* Its value, or NULL. */
const char *choose_variable(const struct choose_variables *v, const char *name);

struct choose_visible {
    VEC(const struct host_gpu *)
    gpus;               // the index is the position; a partitioned GPU stands in it
                        // once for each partition
    bool sure;          // false: any of `gpus` may be the device 0
    size_t shown;       // how many devices are counted; if not sure, as many as are listed
    bool set_order;     // CUDA_DEVICE_ORDER=PCI_BUS_ID must be set for the indices to be right
    const char *hidden; // "CUDA_VISIBLE_DEVICES=\"\"" hides them all, or NULL
    const char *filter; // what chooses among them, as above, or NULL
};

void choose_visible_cuda(const struct host *h, const struct choose_variables *v, struct arena *a,
                         struct choose_visible *ret);
void choose_visible_rocm(const struct host *h, const struct choose_variables *v, struct arena *a,
                         struct choose_visible *ret);

/* Whether programs could use the GPU if no variable hid it; `ret_problem` (may be NULL) is what
 * stands in the way, NULL where nothing does. After host_judge(). */
enum host_state choose_gpu_state(const struct host_gpu *g, const struct host_problem **ret_problem);

#endif
