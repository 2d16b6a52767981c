/* Any bytes as the JSON text of a library's dlopen notes, from the file to the findings. */
#include <stdint.h>

#include "world.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { NOTE_BYTES_MAX = 16 << 10 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > NOTE_BYTES_MAX) {
        return -1; // not kept in the corpus
    }
    const struct elfmake spec = {.soname = "libone.so.1",
                                 .note = {size ? (const char *)data : "", size}};
    world_write_elf("/lib/libone.so.1", &spec);
    world_check(WORLD_PROGRAM);
    return 0;
}
