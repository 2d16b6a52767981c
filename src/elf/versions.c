#include "elf/image.h"

#include <string.h>

enum { VERSIONS_MAX = 1 << 16 };

/* How many Vernaux there are, for the memory they take: a damaged table may have fewer. */
static size_t count_version_needs(const struct elf_image *e)
{
    size_t n = 0;
    uint64_t at = e->verneed;
    for (uint64_t i = 0; at && i < e->n_verneed && n < VERSIONS_MAX; i++) {
        const unsigned char *p = elf_bytes(e, at, sizeof(Elf64_Verneed));
        uint32_t next = p ? elf_u32(e, p + 12) : 0;
        n += p ? elf_u16(e, p + 2) : 0;
        if (next == 0) {
            break;
        }
        at += next;
    }
    size_t most = e->size / sizeof(Elf64_Vernaux);
    return n < most ? n : most;
}

void elf_versions_read(struct arena *a, const struct elf_image *e, struct elf_versions *ret)
{
    VEC(struct elf_version_need) needs = {0};
    VEC(struct elf_version_def) defs = {0};
    bool damaged = false;
    uint64_t at = e->verneed;
    needs.cap = count_version_needs(e);
    needs.items = arena_array(a, needs.cap, sizeof *needs.items);
    for (uint64_t i = 0; at && i < e->n_verneed && needs.n < VERSIONS_MAX; i++) {
        const unsigned char *p = elf_bytes(e, at, sizeof(Elf64_Verneed));
        const char *file = p ? elf_string(e, elf_u32(e, p + 4)) : NULL;
        if (!p || !file) {
            damaged = true;
            break;
        }
        uint64_t aux = at + elf_u32(e, p + 8);
        for (uint16_t left = elf_u16(e, p + 2); left && needs.n < VERSIONS_MAX; left--) {
            const unsigned char *q = elf_bytes(e, aux, sizeof(Elf64_Vernaux));
            const char *name = q ? elf_string(e, elf_u32(e, q + 8)) : NULL;
            if (!q || !name) {
                damaged = true;
                break;
            }
            VEC_PUSH(a, &needs,
                     (struct elf_version_need){file, name, elf_u32(e, q), elf_u16(e, q + 4),
                                               elf_u16(e, q + 6) & 0x7fff});
            if (elf_u32(e, q + 12) == 0) {
                break;
            }
            aux += elf_u32(e, q + 12);
        }
        if (elf_u32(e, p + 12) == 0) {
            break;
        }
        at += elf_u32(e, p + 12);
    }
    at = e->verdef;
    for (uint64_t i = 0; at && i < e->n_verdef && defs.n < VERSIONS_MAX; i++) {
        const unsigned char *p = elf_bytes(e, at, sizeof(Elf64_Verdef));
        const unsigned char *q =
            p ? elf_bytes(e, at + elf_u32(e, p + 12), sizeof(Elf64_Verdaux)) : NULL;
        const char *name = q ? elf_string(e, elf_u32(e, q)) : NULL;
        if (!p || !name) {
            damaged = true;
            break;
        }
        VEC_PUSH(a, &defs,
                 (struct elf_version_def){name, elf_u32(e, p + 8), elf_u16(e, p + 2),
                                          elf_u16(e, p + 4) & 0x7fff});
        if (elf_u32(e, p + 16) == 0) {
            break;
        }
        at += elf_u32(e, p + 16);
    }
    bool cut = needs.n == VERSIONS_MAX || defs.n == VERSIONS_MAX;
    *ret = (struct elf_versions){needs.items, needs.n, defs.items, defs.n, damaged, cut};
}
