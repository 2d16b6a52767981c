/* Linux has every stage, and struct host says what its files show. */
#include "probe/here.h"

const char *probe_stage_absence(const struct probe_stage *s)
{
    (void)s;
    return NULL;
}

const char *probe_stage_stem(const struct probe_stage *s)
{
    return s->stem;
}

bool probe_sees_driver(enum probe_vendor vendor)
{
    (void)vendor;
    return false;
}

const char *probe_slow_start_step(void)
{
    return "Without persistence mode, the driver sets up its GPUs again for each program: run "
           "nvidia-smi -pm 1, or enable the service nvidia-persistenced.";
}
