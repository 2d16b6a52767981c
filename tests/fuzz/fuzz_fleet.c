/* Any bytes as lines of many nodes, and as what a store has of one: as the text that a manifest
 * packs, which a checksum would stop, and as the manifest itself. */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zstd.h>

#include "base/json.h"
#include "fleet/fleet.h"
#include "fleet/store.h"
#include "world.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The name of a base; what is in it does not have to have this hash. */
#define BASE "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void check_lines(struct arena *a, struct str text)
{
    struct fleet f;
    struct str line;
    size_t n = 0;
    fleet_begin(&f, a);
    while (str_line(&text, &line)) {
        fleet_add_line(&f, "lines", ++n, line);
    }
    assert(f.lines.n + f.n_damaged <= n);
    json_t *report = fleet_report(&f);
    char *printed = json_dumps(report, 0);
    assert(f.lines.n <= n && printed);
    free(printed);
    json_decref(report);
    fleet_end(&f);
}

static void check_manifest(struct arena *a, const char *store, const void *bytes, size_t n)
{
    struct gm_err err;
    struct str text, content;
    world_write("/store/nodes/n" FLEET_MANIFEST, bytes, n);
    const char *path = arena_printf(a, "%s/nodes/n" FLEET_MANIFEST, store);
    if (fleet_store_read(a, store, path, &text, &content, &err) == 0) {
        json_t *doc = json_loadb(text.s, text.n, 0, NULL);
        assert(doc);
        json_decref(doc);
    }
}

static void check_packed(struct arena *a, const char *store, const uint8_t *data, size_t size)
{
    static const char head[] = BASE "\n";
    size_t room = sizeof head - 1 + ZSTD_compressBound(size);
    char *manifest = arena_alloc(a, room);
    memcpy(manifest, head, sizeof head - 1);
    size_t n = ZSTD_compress(manifest + sizeof head - 1, room - sizeof head + 1, data, size, 1);
    assert(!ZSTD_isError(n));
    check_manifest(a, store, manifest, sizeof head - 1 + n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char chunk[] = "a text of a snapshot";
    char packed[128];
    struct arena a;
    arena_init(&a, 0, NULL, NULL);
    check_lines(&a, (struct str){(const char *)data, size});
    const char *store = arena_printf(&a, "%s/store", world_top());
    size_t n = ZSTD_compress(packed, sizeof packed, "", 0, 1);
    world_write("/store/bases/" BASE, packed, n);
    n = ZSTD_compress(packed, sizeof packed, chunk, sizeof chunk - 1, 1);
    world_write("/store/chunks/" BASE, packed, n);
    check_packed(&a, store, data, size);
    check_manifest(&a, store, data, size);
    arena_release(&a);
    return 0;
}
