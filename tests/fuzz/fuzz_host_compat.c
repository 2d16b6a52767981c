/* Any bytes as the section of notes of a forward-compatibility libcuda. */
#include <assert.h>
#include <stdint.h>

#include "host/host.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    struct host_compat c;
    const char *why = NULL;
    arena_init(&arena, (size_t)64 << 20, NULL, NULL);
    host_compat_parse(&arena, (struct str){(const char *)data, size}, &c);
    assert(c.has_note || (!c.cuda && c.branches.n == 0));
    struct host h = {.nvidia.module = {.state = HOST_YES, .value = "550.90.07"}};
    enum host_state fits = host_compat_fits(&h, &arena, "575.57.08", &c, &why);
    assert((fits == HOST_YES) == (why == NULL));
    arena_release(&arena);
    return 0;
}
