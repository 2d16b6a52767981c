/* Where the bytes of an image are: in what was read of it at first, or in a mapping. */
#include "elf/tables.h"

#include <string.h>

static const unsigned char *whole_file(const struct elf_image *e)
{
    struct elf_source *s = e->source;
    if (!s->asked) {
        s->asked = true;
        s->whole = s->map(s, e->size);
    }
    return s->whole;
}

const unsigned char *elf_far_bytes(const struct elf_image *e, uint64_t offset)
{
    const unsigned char *whole = e->source ? whole_file(e) : NULL;
    return whole ? whole + offset : NULL;
}

bool elf_offset_of(const struct elf_image *e, uint64_t vaddr, uint64_t *ret_offset)
{
    for (size_t i = 0; i < e->n_segments; i++) {
        const struct elf_segment *s = &e->segments[i];
        if (s->type == PT_LOAD && vaddr >= s->vaddr && vaddr - s->vaddr < s->filesz) {
            uint64_t delta = vaddr - s->vaddr;
            if (s->offset > UINT64_MAX - delta) {
                return false;
            }
            *ret_offset = s->offset + delta;
            return true;
        }
    }
    return false;
}

const char *elf_string_checked(const struct elf_image *e, uint64_t offset)
{
    if (!e->strtab || offset >= e->strtab_size) {
        return NULL;
    }
    return text_at(e, e->strtab + offset, e->strtab_size - offset);
}
