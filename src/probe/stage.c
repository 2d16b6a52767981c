#include "probe/stage.h"

#include <string.h>

const struct probe_stage probe_stages[] = {
    {.name = "driver-found",
     .vendor = PROBE_NVIDIA,
     .quick = true,
     .title = "driver library",
     .shows = "the driver's library is there",
     .means = "Without the driver's library no program can reach an NVIDIA GPU; nothing is said of "
              "the GPU itself."},
    {.name = "driver-opens",
     .vendor = PROBE_NVIDIA,
     .needs = "driver-found",
     .quick = true,
     .title = "driver library opens",
     .shows = "the driver's library opens",
     .means = "The file of the driver's library is there and cannot be used as it is; no package of "
              "the environment is at fault yet."},
};
const size_t probe_stages_n = sizeof probe_stages / sizeof *probe_stages;

const char *probe_vendor_name(enum probe_vendor vendor)
{
    static const char *const names[PROBE_VENDORS] = {
        [PROBE_ANY] = "any", [PROBE_NVIDIA] = "nvidia", [PROBE_AMD] = "amd", [PROBE_CPU] = "cpu"};
    return names[vendor];
}

const struct probe_stage *probe_stage_find(const char *name)
{
    for (size_t i = 0; i < probe_stages_n; i++) {
        if (strcmp(probe_stages[i].name, name) == 0) {
            return &probe_stages[i];
        }
    }
    return NULL;
}

unsigned probe_stage_deadline_ms(const struct probe_stage *s)
{
    return s->deadline_ms ? s->deadline_ms : s->vendor == PROBE_AMD ? 30000 : 15000;
}
