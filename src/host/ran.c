/*
 * What ran is the better witness: where a kernel came back right from a GPU of which the files say
 * that it cannot be used, the files were misread.
 */
#include "host/host.h"

#include <string.h>

static bool ran_on(const struct host_gpu *g, const char *const *bdfs, size_t n)
{
    for (size_t i = 0; g->bdf && i < n; i++) {
        if (strcmp(bdfs[i], g->bdf) == 0) {
            return true;
        }
    }
    return false;
}

/* The GPU as usable; what stood against it becomes one remark. */
static struct host_gpu gpu_after_run(struct arena *a, const struct host_gpu *g)
{
    struct host_gpu now = *g;
    struct host_problem ran = {.id = HOST_PROBLEM_RAN, .state = HOST_YES};
    memset(&now.problems, 0, sizeof now.problems);
    for (size_t i = 0; i < g->problems.n; i++) {
        const struct host_problem *p = &g->problems.items[i];
        if (p->state == HOST_YES) {
            VEC_PUSH(a, &now.problems, *p);
            continue;
        }
        ran.text = ran.text
                       ? arena_printf(a, "%s; %s", ran.text, p->text)
                       : arena_printf(a, "a kernel ran on it, so this does not hold: %s", p->text);
    }
    if (ran.text) {
        VEC_PUSH(a, &now.problems, ran);
    }
    now.usable = HOST_YES;
    return now;
}

struct host *host_copy(const struct host *h, struct arena *a)
{
    struct host *copy = arena_alloc(a, sizeof *copy);
    *copy = *h;
    memset(&copy->gpus, 0, sizeof copy->gpus);
    for (size_t i = 0; i < h->gpus.n; i++) {
        VEC_PUSH(a, &copy->gpus, h->gpus.items[i]);
    }
    return copy;
}

const struct host *host_after_run(const struct host *h, struct arena *a, const char *const *bdfs,
                                  size_t n, const char *libcuda)
{
    struct host *now = host_copy(h, a);
    bool changed = libcuda && n;
    now->nvidia.ran_with = libcuda;
    for (size_t i = 0; i < now->gpus.n; i++) {
        struct host_gpu *g = &now->gpus.items[i];
        if (g->usable != HOST_YES && ran_on(g, bdfs, n)) {
            *g = gpu_after_run(a, g);
            changed = true;
        }
    }
    return changed ? now : h;
}
