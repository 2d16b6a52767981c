/* A whole check of a Python environment whose files are pieces of the input, cut at 0xff bytes,
 * which none of their formats has. */
#include <stdint.h>

#include "world.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const pieces[] = {
    WORLD_SITE "/ctranslate2-4.5.0.dist-info/METADATA",
    WORLD_SITE "/ctranslate2-4.5.0.dist-info/RECORD",
    WORLD_SITE "/ctranslate2-4.5.0.dist-info/WHEEL",
    WORLD_ENV "/pyvenv.cfg",
    WORLD_SITE "/links.pth",
    "/etc/ld.so.conf",
    "/etc/ld.so.cache",
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    world_write_pieces(pieces, sizeof pieces / sizeof *pieces, data, size);
    world_check(WORLD_ENV);
    return 0;
}
