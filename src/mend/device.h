/*
 * The variables that choose a device for one start: which GPUs the vendors' runtimes show to the
 * program, and the override that some AMD GPUs need.
 *
 * Sources: CUDA C++ Programming Guide, "CUDA Environment Variables" (an index that is invalid ends
 * the list, so that "-1" hides every GPU; CUDA_DEVICE_ORDER); ROCm documentation, "GPU isolation
 * techniques"; the overrides are rows of the knowledge base.
 */
#ifndef GPUMEND_MEND_DEVICE_H
#define GPUMEND_MEND_DEVICE_H

#include "host/host.h"
#include "kb/kb.h"
#include "mend/launch.h"

enum mend_device_kind { MEND_DEVICE_NONE, MEND_DEVICE_AUTO, MEND_DEVICE_CUDA, MEND_DEVICE_ROCM,
                        MEND_DEVICE_CPU };

struct mend_device {
    enum mend_device_kind kind; // NONE: nothing is chosen
    int index;                  // of its vendor's GPUs, by PCI address; -1: the first usable
};

/* "auto", "cuda", "cuda:1", "rocm", "rocm:0", "cpu". */
bool mend_device_parse(const char *text, struct mend_device *ret);

/* What is asked of the machine, and what it is. */
struct mend_device_question {
    struct mend_device device;
    const struct host *host; // judged; NULL: not known, and why
    const char *host_why;
    const struct kb_rocms *rocm;
    const char *const *env; // of the start
    size_t n_env;
    bool keep_env;
};

/* Appends the variables to `changes` of the launch, and a remark where none can be set. */
void mend_device_set(struct arena *a, const struct mend_device_question *q,
                     struct mend_launch *launch);

/* Whether a GPU of the kind that is asked for (any with NONE and AUTO) can be used. ret_why: the
 * cause unless the answer is yes. */
enum host_state mend_device_usable(struct arena *a, const struct mend_device_question *q,
                                   const char **ret_why);

#endif
