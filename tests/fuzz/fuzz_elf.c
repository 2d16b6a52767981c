/* Any bytes as an ELF file: everything the room can read out of them is read. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "elf/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
    const struct elf_image *image;
    size_t n;
    uint32_t last_symbol;
};

/* A string the reader gave out ends inside the file. */
static void check_text(const struct elf_image *e, const char *text)
{
    if (!text) {
        return;
    }
    const unsigned char *p = (const unsigned char *)text;
    assert(p >= e->data && p < e->data + e->size);
    assert(memchr(p, 0, e->size - (size_t)(p - e->data)));
}

static bool see_symbol(const struct elf_symbol *sym, void *arg)
{
    struct seen *seen = arg;
    check_text(seen->image, sym->name);
    return ++seen->n >= 64;
}

static void see_relocation(const struct elf_relocation *r, void *arg)
{
    struct seen *seen = arg;
    seen->last_symbol = r->symbol;
    seen->n += r->lazy;
}

static void see_note(const struct elf_note *note, void *arg)
{
    struct seen *seen = arg;
    const unsigned char *p = (const unsigned char *)note->desc.s;
    assert(note->desc.n == 0 || (p >= seen->image->data &&
                                 p + note->desc.n <= seen->image->data + seen->image->size));
    seen->n++;
}

static void read_symbols(const struct elf_image *e, struct seen *seen)
{
    uint32_t n = elf_symbol_undef_count(e);
    for (uint32_t i = 0; i < n && i < 256; i++) {
        struct elf_symbol sym;
        if (!elf_symbol_at(e, i, &sym)) {
            break;
        }
        check_text(e, sym.name);
        struct elf_lookup_key key = elf_lookup_key(sym.name);
        (void)elf_symbol_find(e, &key, see_symbol, seen);
    }
    struct elf_lookup_key key = elf_lookup_key("malloc");
    (void)elf_symbol_find(e, &key, see_symbol, seen);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    arena_init(&arena, (size_t)256 << 20, NULL, NULL);
    struct elf_image image;
    elf_image_parse(&arena, data, size, &image);
    check_text(&image, image.interp);
    check_text(&image, image.soname);
    check_text(&image, image.rpath);
    check_text(&image, image.runpath);
    for (size_t i = 0; i < image.n_needs; i++) {
        check_text(&image, image.needs[i].name);
    }
    struct elf_versions versions;
    elf_versions_read(&arena, &image, &versions);
    for (size_t i = 0; i < versions.n_needs; i++) {
        check_text(&image, versions.needs[i].file);
        check_text(&image, versions.needs[i].name);
    }
    for (size_t i = 0; i < versions.n_defs; i++) {
        check_text(&image, versions.defs[i].name);
    }
    struct seen seen = {.image = &image};
    read_symbols(&image, &seen);
    (void)elf_relocations(&image, NULL, see_relocation, &seen);
    elf_notes(&image, see_note, &seen);
    assert(elf_machine_name(&arena, image.machine));
    arena_release(&arena);
    return 0;
}
