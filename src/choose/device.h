/*
 * The variables that choose a device for one start: which GPUs the vendors' runtimes show to the
 * program, and the override that some AMD GPUs need. What is taken is what choose_best() takes, and
 * devices are numbered as there: as the runtime counts them with the variables of the start
 * (choose/visible.h), so that `gpumend choose` and `gpumend run --device` never name another card.
 *
 * Two things differ from `gpumend choose`, because here the program is known. It is judged as it
 * will start: what a library mends does not count against a GPU, and what stands does. And where
 * its environment has none of the applications that choose_best() knows, no build is assumed.
 *
 * Sources: CUDA C++ Programming Guide, "CUDA Environment Variables" (an index that is invalid ends
 * the list, so that "-1" hides every GPU; CUDA_DEVICE_ORDER); ROCm documentation, "GPU isolation
 * techniques".
 */
#ifndef GPUMEND_CHOOSE_DEVICE_H
#define GPUMEND_CHOOSE_DEVICE_H

#include "host/host.h"
#include "launch/launch.h"

struct choose_ran; // choose/choose.h

enum choose_device_kind {
    CHOOSE_DEVICE_NONE,
    CHOOSE_DEVICE_AUTO,
    CHOOSE_DEVICE_CUDA,
    CHOOSE_DEVICE_ROCM,
    CHOOSE_DEVICE_CPU
};

struct choose_device {
    enum choose_device_kind kind; // NONE: nothing is chosen
    int index;                    // as its runtime counts; -1: the best that can be used
};

/* "auto", "cuda", "cuda:1", "rocm", "rocm:0", "cpu". */
bool choose_device_parse(const char *text, struct choose_device *ret);

struct choose_device_question {
    struct choose_device device;
    bool require_gpu; // whether a GPU can be used is asked
    bool keep_env;    // variables that are set stay as they are
    const struct launch_program *program;
    const struct model_target_options *start; // its environment, folder, user and file system
};

/* Appends the variables to the changes of the launch, and a remark where it is not as asked; the
 * errors that the launch leaves count. The answer is whether the program can use a GPU of the kind
 * that is asked for, unknown unless that or require_gpu is asked; ret_why: why not, if not yes. */
enum host_state choose_device_set(struct arena *a, const struct choose_device_question *q,
                                  struct launch *launch, const char **ret_why);

/* After the devices were run that the launch shows, counted as it counts them: the variables show
 * those alone that passed, and none where none did, so that the program uses the CPU. False: a
 * variable that is set and kept (keep_env) shows others; nothing is changed then. */
bool choose_device_show_passed(struct arena *a, const struct choose_device_question *q,
                               const struct choose_ran *ran, size_t n, struct launch *launch);

#endif
