/* Any bytes as an ld.so.cache: every entry is read, and names are looked up. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "ldso/cache.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ENTRIES_LOOKED_UP = 64 };

/* A text the cache gave out ends inside the file. */
static void check_text(const struct ldso_cache *c, const char *text)
{
    const unsigned char *p = (const unsigned char *)text;
    assert(p >= c->data && p < c->data + c->size);
    assert(memchr(p, 0, c->size - (size_t)(p - c->data)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const hwcaps[] = {"x86-64-v3", "x86-64-v2"};
    const struct ldso_cache_key key = {
        .flags = {0x0303}, .n_flags = 1, .glibc_minor = 36, .hwcaps = hwcaps, .n_hwcaps = 2};
    struct ldso_cache cache;
    ldso_cache_parse(data, size, &cache);
    for (uint32_t i = 0; i < cache.n; i++) {
        const char *name, *path;
        if (!ldso_cache_entry(&cache, i, &name, &path)) {
            continue;
        }
        check_text(&cache, name);
        check_text(&cache, path);
        if (i < ENTRIES_LOOKED_UP) {
            const char *found = ldso_cache_find(&cache, name, &key);
            if (found) {
                check_text(&cache, found);
            }
        }
    }
    const char *found = ldso_cache_find(&cache, "libc.so.6", &key);
    if (found) {
        check_text(&cache, found);
    }
    return 0;
}
