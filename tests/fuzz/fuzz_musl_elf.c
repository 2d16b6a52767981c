/* Any bytes as a library that a program of musl loads: its search, and where the library was built
 * for glibc the walk over its relocations, against which musl's and its own symbols are held. */
#include <stdint.h>

#include "world.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    world_write("/lib/libone.so.1", data, size);
    world_check(WORLD_MUSL);
    return 0;
}
