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

    {.name = "kfd",
     .vendor = PROBE_AMD,
     .quick = true,
     .title = "compute driver",
     .shows = "the kernel's compute driver opens",
     .means = "No program of this user can reach an AMD GPU for compute; neither ROCm nor a package "
              "of the environment is at fault."},
    {.name = "hsa",
     .vendor = PROBE_AMD,
     .needs = "kfd",
     .quick = true,
     .library = "libhsa-runtime64.so",
     .api = PROBE_API_HSA,
     .title = "HSA runtime",
     .shows = "the HSA runtime lists its GPUs",
     .means = "The kernel's driver answers and the HSA runtime that the target loads cannot use it: "
              "their versions, a render node, or a limit; HIP stands on it and is not at fault."},
    {.name = "hip-init",
     .vendor = PROBE_AMD,
     .needs = "hsa",
     .quick = true,
     .library = "libamdhip64.so",
     .api = PROBE_API_HIP,
     .title = "hipInit",
     .shows = "HIP starts",
     .means = "The HSA runtime works; HIP, the target's own libamdhip64, does not start on it or "
              "counts no GPU, and every framework fails with it."},
    {.name = "hip-device",
     .vendor = PROBE_AMD,
     .needs = "hip-init",
     .per_device = true,
     .quick = true,
     .library = "libamdhip64.so",
     .api = PROBE_API_HIP,
     .title = "device",
     .shows = "the GPU's properties",
     .means = "HIP starts and this GPU cannot be asked about; others may work."},
    {.name = "hip-memory",
     .vendor = PROBE_AMD,
     .needs = "hip-device",
     .per_device = true,
     .quick = true,
     .library = "libamdhip64.so",
     .api = PROBE_API_HIP,
     .title = "memory",
     .shows = "the memory copy",
     .means = "The GPU is there and data does not reach it and come back; no library of the "
              "environment is at fault yet."},
    {.name = "hiprtc-kernel",
     .vendor = PROBE_AMD,
     .needs = "hip-memory",
     .per_device = true,
     .quick = true,
     .library = "libhiprtc.so",
     .api = PROBE_API_HIPRTC,
     .title = "kernel",
     .shows = "a kernel compiled for it",
     .means = "Memory works; code for this GPU is not made, not taken or not right: the target's "
              "compiler does not know the gfx target, or an override names a wrong one."},
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
