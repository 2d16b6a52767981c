/* Any bytes as the texts that a loader reads at the start: /etc/ld.so.preload (glibc) and
 * /etc/ld-musl-ARCH.path (musl). */
#include <stdint.h>

#include "world.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    world_write("/etc/ld.so.preload", data, size);
    world_check(WORLD_PROGRAM);
    world_write("/etc/ld-musl-x86_64.path", data, size);
    world_check(WORLD_MUSL);
    return 0;
}
