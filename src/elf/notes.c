#include "elf/image.h"

#include <string.h>

enum { NOTES_MAX = 4096 };

static size_t note_pad(size_t n, size_t align)
{
    return (n + align - 1) & ~(align - 1);
}

bool elf_notes(const struct elf_image *e, void (*visit)(const struct elf_note *, void *), void *arg)
{
    size_t budget = NOTES_MAX;
    for (size_t i = 0; i < e->n_segments; i++) {
        const struct elf_segment *s = &e->segments[i];
        const unsigned char *p = s->type == PT_NOTE ? elf_bytes(e, s->offset, s->filesz) : NULL;
        size_t align = s->align == 8 ? 8 : 4;
        for (size_t at = 0; p && s->filesz - at >= 12 && budget; budget--) {
            uint32_t namesz = elf_u32(e, p + at), descsz = elf_u32(e, p + at + 4);
            size_t room = (size_t)s->filesz - at - 12;
            size_t desc_at = note_pad(12 + (size_t)namesz, align) - 12;
            if (namesz > room || desc_at > room || descsz > room - desc_at) {
                break;
            }
            struct str owner = {(const char *)p + at + 12, namesz};
            if (owner.n && owner.s[owner.n - 1] == '\0') {
                owner.n--;
            }
            struct elf_note note = {
                owner, elf_u32(e, p + at + 8), {(const char *)p + at + 12 + desc_at, descsz}};
            visit(&note, arg);
            size_t step = note_pad(12 + desc_at + descsz, align);
            if (step > s->filesz - at) {
                break;
            }
            at += step;
        }
    }
    return budget > 0;
}
