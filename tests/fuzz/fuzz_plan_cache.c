/* A kept plan: whatever the bytes, with a checksum that fits them, what is taken is well formed. */
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "launch/cache.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void judge(const struct launch_cached *c)
{
    for (size_t i = 0; i < c->seen.n; i++) {
        if (c->seen.items[i].path[0] != '/') {
            __builtin_trap();
        }
    }
    for (size_t i = 0; i < c->launch.changes.n; i++) {
        const char *name = c->launch.changes.items[i].name;
        if (!*name || strchr(name, '=')) {
            __builtin_trap();
        }
    }
    for (size_t i = 0; i < c->launch.links.n; i++) {
        if (c->launch.links.items[i].path[0] != '/' || c->launch.links.items[i].target[0] != '/') {
            __builtin_trap();
        }
    }
    for (size_t i = 0; i < c->launch.remarks.n; i++) {
        (void)strlen(c->launch.remarks.items[i]); // ends inside the arena
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    struct gm_err err;
    struct launch_cached cached;
    arena_init(&a, 0, NULL, NULL);
    if (launch_cache_parse(&a, (struct str){(const char *)data, size}, &cached, &err) == 0) {
        judge(&cached);
    }
    char sum[32], tail[64];
    int n = snprintf(sum, sizeof sum, "%" PRIu64, str_hash(data, size));
    int m = snprintf(tail, sizeof tail, "%d:%s\n", n, sum);
    char *bytes = arena_alloc(&a, size + (size_t)m);
    if (size) {
        memcpy(bytes, data, size);
    }
    memcpy(bytes + size, tail, (size_t)m);
    if (launch_cache_parse(&a, (struct str){bytes, size + (size_t)m}, &cached, &err) == 0) {
        judge(&cached);
    }
    arena_release(&a);
    return 0;
}
