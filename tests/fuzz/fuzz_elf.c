/* Any bytes as an ELF file: everything the room can read out of them is read, from all bytes at
 * once and from a source that has only the first of them at hand; the answers are the same. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "elf/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct file {
    struct elf_source source; // first
    const uint8_t *data;
    size_t size;
    uint8_t *part; // its first bytes as they were mapped, `n_part` of them
    size_t n_part;
    bool unreadable, unmappable;
};

struct seen {
    const struct file *file;
    uint64_t digest; // of all that was read
    size_t n;
};

static void see(struct seen *seen, const void *data, size_t n)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < n; i++) {
        seen->digest = (seen->digest ^ p[i]) * 0x100000001b3u;
    }
}

static void see_number(struct seen *seen, uint64_t n)
{
    see(seen, &n, sizeof n);
}

/* Bytes before the end of the file, of its head or its part, that a pointer leads to. */
static size_t room_at(const struct file *f, const void *p)
{
    uintptr_t at = (uintptr_t)p, data = (uintptr_t)f->data, head = (uintptr_t)f->source.head,
              part = (uintptr_t)f->part;
    size_t n_head = f->source.room < f->size ? f->source.room : f->size;
    return at - data < f->size     ? f->size - (at - data)
           : at - head < n_head    ? n_head - (at - head)
           : at - part < f->n_part ? f->n_part - (at - part)
                                   : 0;
}

/* A string the reader gave out ends inside the file. */
static void see_text(struct seen *seen, const char *text)
{
    if (text) {
        const char *end = memchr(text, 0, room_at(seen->file, text));
        assert(end);
        see(seen, text, (size_t)(end - text) + 1);
    }
}

static bool see_symbol(const struct elf_symbol *sym, void *arg)
{
    struct seen *seen = arg;
    see_text(seen, sym->name);
    see_number(seen, sym->value ^ sym->size ^ sym->shndx);
    see_number(seen, ((sym->type * 16u + sym->bind) * 4u + sym->visibility) * 65536u + sym->versym);
    return ++seen->n % 64 == 0;
}

static void see_relocation(const struct elf_relocation *r, void *arg)
{
    see_number(arg, r->symbol ^ (uint64_t)r->type << 32);
    see_number(arg, r->number * 2 + r->lazy);
}

static void see_note(const struct elf_note *note, void *arg)
{
    struct seen *seen = arg;
    assert(note->desc.n == 0 || room_at(seen->file, note->desc.s) >= note->desc.n);
    see(seen, note->desc.s, note->desc.n);
}

static void see_found(struct seen *seen, const struct elf_image *e, const char *name)
{
    struct elf_lookup lookup = {.key = elf_lookup_key(name)};
    bool found = elf_symbol_find(e, &lookup.key, see_symbol, seen);
    see_number(seen, found);
    bool asked = elf_lookup_begin(&lookup, e);
    assert(asked || !found);
    elf_lookup_go(&lookup, 1);
    see_number(seen, elf_lookup_finish(&lookup, see_symbol, seen));
}

static void see_wanted(struct seen *seen, const struct elf_image *e, uint32_t end)
{
    const bool skip[] = {false, false, false, true};
    struct elf_lookup lookups[16];
    struct elf_wanted wanted = {.end = end, .skip = skip, .n_skip = sizeof skip};
    while (wanted.at < wanted.end) {
        size_t n = elf_symbols_wanted(e, &wanted, lookups, 16);
        for (size_t i = 0; i < n; i++) {
            assert(lookups[i].key.gnu_hash == elf_lookup_key(lookups[i].key.name).gnu_hash);
            see_text(seen, lookups[i].key.name);
            see_number(seen, lookups[i].index * 65536u + lookups[i].versym);
            struct elf_symbol sym;
            assert(elf_symbol_at(e, lookups[i].index, &sym) && sym.shndx == SHN_UNDEF &&
                   sym.bind != STB_WEAK && sym.bind != STB_LOCAL &&
                   sym.name == lookups[i].key.name);
        }
    }
}

static void see_symbols(struct seen *seen, const struct elf_image *e)
{
    uint32_t n = elf_symbol_undef_count(e);
    see_number(seen, n);
    n = n < 256 ? n : 256;
    see_wanted(seen, e, n);
    for (uint32_t i = 0; i < n; i++) {
        struct elf_symbol sym;
        if (!elf_symbol_at(e, i, &sym)) {
            break;
        }
        see_found(seen, e, sym.name);
    }
    see_found(seen, e, "malloc");
}

static void see_versions(struct seen *seen, struct arena *a, const struct elf_image *e)
{
    struct elf_versions versions;
    elf_versions_read(a, e, &versions);
    for (size_t i = 0; i < versions.n_needs; i++) {
        see_text(seen, versions.needs[i].file);
        see_text(seen, versions.needs[i].name);
    }
    for (size_t i = 0; i < versions.n_defs; i++) {
        see_text(seen, versions.defs[i].name);
    }
    see_number(seen, versions.damaged);
}

static uint64_t see_all(struct arena *a, const struct elf_image *e, const struct file *file)
{
    struct seen seen = {.file = file};
    see_number(&seen, e->state * 8u + e->dynamic_bad * 4u + e->cut * 2u + e->stack_exec);
    if (e->interp) { // it may be a copy
        see(&seen, e->interp, strlen(e->interp) + 1);
    }
    see_text(&seen, e->soname);
    see_text(&seen, e->rpath);
    see_text(&seen, e->runpath);
    for (size_t i = 0; i < e->n_needs; i++) {
        see_text(&seen, e->needs[i].name);
    }
    see_versions(&seen, a, e);
    see_symbols(&seen, e);
    see_number(&seen, elf_relocations(e, NULL, see_relocation, &seen));
    elf_notes(e, see_note, &seen);
    assert(elf_machine_name(a, e->machine));
    return seen.digest;
}

static bool read_at(struct elf_source *s, uint64_t offset, void *to, size_t n)
{
    const struct file *f = (const struct file *)s;
    if (f->unreadable || offset > f->size || n > f->size - offset) {
        return false;
    }
    memcpy(to, f->data + offset, n);
    return true;
}

static const unsigned char *map_bytes(struct elf_source *s, size_t n)
{
    struct file *f = (struct file *)s;
    assert(n && n <= f->size);
    if (f->unmappable || n == f->size) {
        return f->unmappable ? NULL : f->data;
    }
    assert(!f->part);
    f->part = malloc(n); // so that a read behind it is seen
    assert(f->part);
    memcpy(f->part, f->data, n);
    f->n_part = n;
    return f->part;
}

static uint64_t by_source(struct arena *a, struct file file, size_t room)
{
    struct elf_image image;
    file.source = (struct elf_source){.read = read_at, .map = map_bytes, .room = room};
    file.source.head = malloc(room ? room : 1);
    assert(file.source.head);
    elf_image_parse_source(a, &file.source, file.size, &image);
    if (image.data != file.source.head) {
        memset(file.source.head, 0x5a, room); // it is free for the next file
    }
    uint64_t digest = see_all(a, &image, &file);
    free(file.source.head);
    free(file.part);
    return digest;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const size_t rooms[] = {0, 4096, 8192, 16 << 10, 64 << 10};
    struct arena arena;
    arena_init(&arena, (size_t)256 << 20, NULL, NULL);
    struct file file = {.data = data, .size = size};
    struct elf_image image;
    elf_image_parse(&arena, data, size, &image);
    uint64_t digest = see_all(&arena, &image, &file);
    if (size) {
        size_t room = rooms[digest % 5];
        assert(by_source(&arena, file, room) == digest);
        file.unmappable = true; // its file is gone: less is read, and nothing else happens
        (void)by_source(&arena, file, room);
        file.unreadable = true;
        (void)by_source(&arena, file, room);
        file.unmappable = false;
        assert(by_source(&arena, file, room) == digest);
    }
    arena_release(&arena);
    return 0;
}
