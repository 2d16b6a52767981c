/* Inside this room: entries of the tables of an image. */
#ifndef GPUMEND_ELF_TABLES_H
#define GPUMEND_ELF_TABLES_H

#include <string.h>

#include "elf/image.h"

/* A word of the file's class: 8 bytes or 4. */
static inline uint64_t image_word(const struct elf_image *e, const unsigned char *p)
{
    return e->is64 ? elf_u64(e, p) : elf_u32(e, p);
}

/* An entry of a table that begins at `offset`; NULL: it is not in the file. */
static inline const unsigned char *table_entry_at(const struct elf_image *e,
                                                  const struct elf_table *t, uint64_t offset,
                                                  uint32_t index, size_t entry)
{
    if (index < t->n_near) {
        return t->near + (size_t)index * entry;
    }
    return index < t->n ? elf_bytes(e, offset + (uint64_t)index * entry, entry) : NULL;
}

static inline size_t symbol_size(const struct elf_image *e)
{
    return e->is64 ? sizeof(Elf64_Sym) : sizeof(Elf32_Sym);
}

/* A text that ends inside these bytes of the file, or NULL. */
static inline const char *text_at(const struct elf_image *e, uint64_t offset, uint64_t size)
{
    const unsigned char *p = elf_bytes(e, offset, size);
    return p && size && memchr(p, 0, size) ? (const char *)p : NULL;
}

#endif
