/* Any bytes as a PE file: everything the room can read out of them is read. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "pe/apiset.h"
#include "pe/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
    const struct pe_image *image;
    size_t n;
};

/* A text the reader gave out ends inside the file. */
static void see_text(const struct pe_image *e, const char *text)
{
    if (text) {
        size_t room = e->size - (size_t)((const unsigned char *)text - e->data);
        assert(room <= e->size && memchr(text, 0, room));
    }
}

static bool see_export(const char *name, void *arg)
{
    struct seen *seen = arg;
    see_text(seen->image, name);
    struct pe_export x = pe_export_find(seen->image, &(struct pe_symbol){.name = name});
    see_text(seen->image, x.forwarder);
    return ++seen->n < 64;
}

static void see_imports(struct arena *a, const struct pe_image *e)
{
    struct pe_imports imports;
    struct pe_symbols symbols;
    pe_imports_read(a, e, &imports);
    assert(e->state == PE_STATE_OK || imports.n == 0);
    for (size_t i = 0; i < imports.n && i < 64; i++) {
        see_text(e, imports.items[i].dll);
        pe_import_symbols(a, e, &imports.items[i], &symbols);
        for (size_t k = 0; k < symbols.n; k++) {
            see_text(e, symbols.items[k].name);
        }
    }
}

static void see_apiset(struct arena *a, const struct pe_image *e)
{
    struct pe_apiset schema;
    struct gm_err err;
    if (pe_apiset_open(e, &schema, &err) == 0) {
        struct pe_apiset_answer x =
            pe_apiset_find(a, &schema, "api-ms-win-core-file-l1-2-0.dll", "kernel32.dll");
        assert((x.state == PE_APISET_HOST) == (x.host != NULL));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    arena_init(&arena, (size_t)256 << 20, NULL, NULL);
    struct pe_image e;
    pe_image_parse(&arena, data, size, &e);
    assert((e.state == PE_STATE_BAD) == (e.defect != NULL));
    see_imports(&arena, &e);
    struct seen seen = {.image = &e};
    (void)pe_exports_visit(&e, see_export, &seen);
    (void)pe_export_find(&e, &(struct pe_symbol){.ordinal = 1});
    (void)pe_dependent_load_flags(&e);
    (void)pe_is_arm64x(&e);
    (void)pe_version_read(&e);
    (void)pe_version_text(&arena, &e, "ProductVersion");
    for (uint32_t id = 0; id < 3; id++) {
        struct str manifest = id ? pe_manifest_numbered(&e, id) : pe_manifest(&e);
        assert(manifest.n == 0 || (const unsigned char *)manifest.s + manifest.n <= data + size);
    }
    see_apiset(&arena, &e);
    assert(pe_machine_name(&arena, e.machine));
    arena_release(&arena);
    return 0;
}
