/* The stages of the drivers, which the helper of every system has, and a stage by its name. */
#include <string.h>

#include "inject/probe/amd.h"
#include "inject/probe/helper.h"

static const struct stage drivers_stages[] = {
    {"driver-found", stage_driver_found},
    {"driver-opens", stage_driver_opens},
    {"driver-symbols", stage_driver_symbols},
    {"driver-version", stage_driver_version},
    {"driver-init", stage_driver_init},
    {"device-count", stage_device_count},
    {"visible-devices", stage_visible_devices},
    {"context", stage_context},
    {"attributes", stage_attributes},
    {"memory-free", stage_memory_free},
    {"memory", stage_memory},
    {"kernel", stage_kernel},
    {"hip-init", stage_hip_init},
    {"hip-device", stage_hip_device},
    {"hip-memory", stage_hip_memory},
};

static void run_named(const struct job *j, const struct stage *list, size_t n)
{
    for (size_t i = 0; j->stage && i < n; i++) {
        if (strcmp(list[i].name, j->stage) == 0) {
            list[i].run(j);
        }
    }
}

void stage_run(const struct job *j, const struct stage *more, size_t n_more)
{
    run_named(j, drivers_stages, sizeof drivers_stages / sizeof *drivers_stages);
    run_named(j, more, n_more);
    say_unknown("the helper has no stage %s", j->stage ? j->stage : "of no name");
}
