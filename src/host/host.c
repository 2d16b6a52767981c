#include "host/internal.h"
#include "host/names.h"

#include <stdlib.h>
#include <string.h>

int host_collect(struct root *r, struct arena *a, struct host *ret, struct gm_err *err)
{
    struct stat st;
    struct str text;
    bool sys = root_stat(r, "/sys/bus", &st) == 0 || root_stat(r, "/sys/class", &st) == 0 ||
               root_stat(r, "/sys/devices", &st) == 0;
    *ret = (struct host){0};
    bool proc = root_read(r, a, "/proc/sys/kernel/osrelease", HOST_TEXT_MAX, &text) == 0 ||
                root_read(r, a, "/proc/cpuinfo", HOST_TEXT_MAX, &text) == 0;
    struct host_look look = {.root = r, .arena = a, .host = ret};
    if (!sys && !proc && host_collect_windows(&look)) {
        return 0;
    }
    if (!sys && !proc) {
        return gm_err_set(
            err, GM_ERR_LOOK,
            "neither /sys nor /proc can be seen: the devices cannot be determined (the files "
            "of an image have none)");
    }
    host_collect_base(&look);
    host_collect_container(&look);
    host_collect_cpu(&look);
    host_collect_binfmts(&look);
    host_collect_pci(&look);
    host_collect_nvidia(&look);
    host_collect_amd(&look);
    host_collect_intel(&look);
    host_collect_platforms(&look);
    host_collect_engines(&look);
    if (*r->cut) {
        VEC_PUSH(a, &ret->notes, arena_strdup(a, r->cut));
    }
    return 0;
}

/* What says no comes before what leaves it unknown, and that before remarks. */
static int by_weight(const void *x, const void *y)
{
    static const int weights[] = {[HOST_NO] = 0, [HOST_UNKNOWN] = 1, [HOST_YES] = 2};
    const struct host_problem *a = x, *b = y;
    return weights[a->state] - weights[b->state];
}

/* Stable, and short lists: an insertion sort. */
static void sort_problems(struct host_gpu *g)
{
    for (size_t i = 1; i < g->problems.n; i++) {
        for (size_t k = i; k && by_weight(&g->problems.items[k - 1], &g->problems.items[k]) > 0;
             k--) {
            struct host_problem other = g->problems.items[k];
            g->problems.items[k] = g->problems.items[k - 1];
            g->problems.items[k - 1] = other;
        }
    }
}

void host_judge(struct host *h, struct arena *a)
{
    for (size_t i = 0; i < h->gpus.n; i++) {
        struct host_gpu *g = &h->gpus.items[i];
        if (strcmp(g->kind, "windows") == 0) {
            host_judge_windows(h, a, g);
            sort_problems(g);
            g->usable = g->problems.n ? g->problems.items[0].state : HOST_YES;
            continue;
        }
        switch (g->vendor) {
        case HOST_NVIDIA: host_judge_nvidia(h, a, g); break;
        case HOST_AMD: host_judge_amd(h, a, g); break;
        case HOST_INTEL: host_judge_intel(h, a, g); break;
        case HOST_OTHER: break;
        }
        sort_problems(g);
        g->usable = g->problems.n ? g->problems.items[0].state : HOST_YES;
    }
    host_judge_engines(h, a);
}

const struct host_gpu *host_usable_gpu(const struct host *h)
{
    for (size_t i = 0; i < h->gpus.n; i++) {
        if (h->gpus.items[i].usable == HOST_YES) {
            return &h->gpus.items[i];
        }
    }
    return NULL;
}
