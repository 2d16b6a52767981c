/* Problems of GPUs. */
#include "host/internal.h"

struct host_problem *host_add_problem(struct arena *a, struct host_gpu *g, const char *id,
                                      enum host_state state, const char *text, const char *step)
{
    VEC_PUSH(a, &g->problems,
             (struct host_problem){.id = id, .text = text, .step = step, .state = state});
    return &g->problems.items[g->problems.n - 1];
}
