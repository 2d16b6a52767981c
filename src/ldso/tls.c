/* The static TLS block. glibc elf/dl-tls.c, elf/dl-reloc.c, elf/dl-close.c; sysdeps' tls.h. */
#include <stdlib.h>
#include <string.h>

#include "ldso/internal.h"

enum {
    SURPLUS = 1664, // with the default tunables, 2.31 to 2.42
    OPTIONAL = 512, // of it: glibc.rtld.optional_static_tls
    RSEQ_AREA = 32, // behind the objects' blocks since 2.41; size and alignment
};

/* How an architecture arranges the block, and its relocations with an offset from the thread
 * pointer (needed) or with a descriptor (optional). Those of glibc's others are not known here. */
struct arch {
    uint16_t machine;
    bool is64;
    bool below;        // blocks grow down from the thread pointer (TLS_TCB_AT_TP)
    uint32_t types[3]; // the last one: descriptor
};

static const struct arch archs[] = {
    {EM_X86_64, true, true, {R_X86_64_TPOFF64, 0, R_X86_64_TLSDESC}},
    {EM_386, false, true, {R_386_TLS_TPOFF, R_386_TLS_TPOFF32, R_386_TLS_DESC}},
    {EM_AARCH64, true, false, {R_AARCH64_TLS_TPREL, 0, R_AARCH64_TLSDESC}},
};

static const struct arch *arch_of(const struct ldso_process *p)
{
    const struct elf_image *e = &p->main->file->image;
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
        if (archs[i].machine == e->machine && archs[i].is64 == e->is64) {
            return &archs[i];
        }
    }
    return NULL;
}

static uint64_t round_up(uint64_t n, uint64_t align)
{
    return (n + align - 1) / align * align;
}

/* glibc.rtld.optional_static_tls of GLIBC_TUNABLES; a value that is no number counts as none. */
static uint64_t optional_size(const struct ldso_process *p)
{
    static const char name[] = "glibc.rtld.optional_static_tls=";
    const char *s = p->secure ? NULL : ldso_getenv(p, "GLIBC_TUNABLES");
    uint64_t size = OPTIONAL;
    while (s && *s) {
        size_t n = strcspn(s, ":");
        if (strncmp(s, name, sizeof name - 1) == 0) {
            const char *value = s + sizeof name - 1;
            char *end = NULL;
            unsigned long long number = strtoull(value, &end, 0);
            if (end == s + n && *value >= '0' && *value <= '9') {
                size = number;
            }
        }
        s += n + (s[n] == ':');
    }
    return size;
}

/* What the blocks of the objects of the start have left free between them. */
struct gap {
    uint64_t from, to;
};

/* Blocks grow down: offset is the distance of a block's start from the thread pointer. */
static uint64_t place_below(struct ldso_object *o, uint64_t offset, struct gap *gap)
{
    uint64_t size = o->file->image.tls.size, align = o->file->image.tls.align;
    uint64_t first = -o->file->image.tls.first & (align - 1);
    if (gap->to - gap->from >= size) {
        uint64_t at = round_up(gap->from + size - first, align) + first;
        if (at <= gap->to) {
            gap->from = o->tls_offset = at;
            return offset;
        }
    }
    uint64_t at = round_up(offset + size - first, align) + first;
    if (at > offset + size + (gap->to - gap->from)) {
        *gap = (struct gap){offset, at - size};
    }
    o->tls_offset = at;
    return at;
}

/* Blocks grow up from the two words at the thread pointer. */
static uint64_t place_above(struct ldso_object *o, uint64_t offset, struct gap *gap)
{
    uint64_t size = o->file->image.tls.size, align = o->file->image.tls.align;
    uint64_t first = -o->file->image.tls.first & (align - 1);
    if (size <= gap->to - gap->from) {
        uint64_t at = round_up(gap->from, align);
        at += at - gap->from < first ? align : 0;
        if (at + size - first <= gap->to) {
            o->tls_offset = at - first;
            gap->from = at + size - first;
            return offset;
        }
    }
    uint64_t at = round_up(offset, align);
    at += at - offset < first ? align : 0;
    o->tls_offset = at - first;
    if (at - first - offset > gap->to - gap->from) {
        *gap = (struct gap){offset, at - first};
    }
    return at + size - first;
}

void ldso_tls_start(struct ldso_process *p)
{
    const struct arch *arch = arch_of(p);
    if (!arch) {
        return;
    }
    const uint64_t tcb_align = arch->below ? 64 : p->glibc_minor >= 35 ? 32 : 16;
    struct gap gap = {0};
    uint64_t offset = arch->below ? 0 : 16, align = tcb_align;
    for (size_t i = 0; i < p->objects.n; i++) {
        struct ldso_object *o = p->objects.items[i];
        if (o->file->image.tls.size) {
            align = o->file->image.tls.align > align ? o->file->image.tls.align : align;
            offset = arch->below ? place_below(o, offset, &gap) : place_above(o, offset, &gap);
        }
    }
    if (p->glibc_minor >= 41) {
        offset = round_up(offset, RSEQ_AREA) + RSEQ_AREA;
        align = align > RSEQ_AREA ? align : RSEQ_AREA;
    }
    uint64_t optional = optional_size(p);
    uint64_t whole = offset + (SURPLUS - OPTIONAL) + optional;
    p->tls = (struct ldso_tls){
        .known = true,
        .used = offset,
        .size = round_up(whole, arch->below ? align : tcb_align),
        .align = align,
        .room = optional,
        .optional = optional,
    };
}

uint64_t ldso_tls_free(const struct ldso_process *p)
{
    return p->tls.size - p->tls.used;
}

/* Where the block of an object that is loaded later would lie, and how much is then in use; false
 * if it does not fit. */
static bool fit(const struct ldso_process *p, const struct arch *arch, struct ldso_object *o,
                uint64_t *ret_offset, uint64_t *ret_end)
{
    uint64_t size = o->file->image.tls.size, align = o->file->image.tls.align;
    uint64_t first = o->file->image.tls.first, left = ldso_tls_free(p);
    if (!size || align > p->tls.align || size > left || first > left - size) {
        return false;
    }
    if (arch->below) {
        uint64_t n = (left - size - first) / align;
        *ret_offset = *ret_end = p->tls.used + left - n * align - first;
        return true;
    }
    *ret_offset = round_up(p->tls.used - first, align) + first;
    *ret_end = *ret_offset + size;
    return *ret_end <= p->tls.size;
}

bool ldso_tls_place(struct ldso_process *p, struct ldso_object *o, bool optional)
{
    const struct arch *arch = arch_of(p);
    uint64_t offset = 0, end = 0;
    if (o->tls_offset || !arch) {
        return true;
    }
    if (!fit(p, arch, o, &offset, &end)) {
        return false;
    }
    uint64_t takes = end - p->tls.used;
    if (optional && takes > p->tls.optional) {
        return false;
    }
    p->tls.optional -= optional ? takes : 0;
    o->tls_offset = offset;
    o->tls_before = p->tls.used;
    o->tls_late = true;
    p->tls.used = end;
    return true;
}

/* One contiguous piece is collected and given back if it ends where the used part ends; a second
 * one is lost unless it happens to be there too. */
static void take_back_below(struct ldso_process *p, const struct ldso_object *o, struct gap *piece)
{
    uint64_t end = o->tls_offset, start = end - o->file->image.tls.size;
    if (!piece->from || end == piece->from) {
        piece->to = piece->from ? piece->to : end;
        piece->from = start;
    } else if (start == piece->to) {
        piece->to = end;
    } else if (piece->to == p->tls.used) {
        p->tls.used = piece->from;
        *piece = (struct gap){start, end};
    } else if (end == p->tls.used) {
        p->tls.used = start;
    } else if (piece->to < end) {
        *piece = (struct gap){start, end};
    }
}

static void take_back_above(struct ldso_process *p, const struct ldso_object *o, struct gap *piece)
{
    uint64_t start = o->tls_before, end = o->tls_offset + o->file->image.tls.size;
    if (!piece->from) {
        *piece = (struct gap){start, end};
    } else if (start == piece->to) {
        piece->to = end;
    } else if (end == piece->from) {
        piece->from = start;
    } else if (end == p->tls.used) {
        p->tls.used = start;
    } else if (piece->to == p->tls.used) {
        p->tls.used = piece->from;
        *piece = (struct gap){start, end};
    } else if (piece->to < start) {
        *piece = (struct gap){start, end};
    }
}

void ldso_tls_take_back(struct ldso_process *p, struct ldso_object *const *objects, size_t n)
{
    const struct arch *arch = arch_of(p);
    struct gap piece = {0};
    for (size_t i = 0; i < n; i++) {
        if (objects[i]->tls_offset && arch && arch->below) {
            take_back_below(p, objects[i], &piece);
        } else if (objects[i]->tls_offset) {
            take_back_above(p, objects[i], &piece);
        }
        objects[i]->tls_offset = 0;
        objects[i]->tls_late = false;
    }
    if (piece.from && piece.to == p->tls.used) {
        p->tls.used = piece.from;
    }
}

/* ------------------------------------------------------------------ relocations */

struct collect {
    const struct arch *arch;
    struct arena *arena;
    struct ldso_file *file;
};

/* Whether the reference is settled without a lookup (RESOLVE_MAP in elf/dl-reloc.c). */
static bool is_own(const struct elf_image *e, uint32_t symbol)
{
    struct elf_symbol sym;
    return symbol == 0 || !elf_symbol_at(e, symbol, &sym) || sym.bind == STB_LOCAL ||
           sym.visibility != STV_DEFAULT;
}

static void collect_use(const struct elf_relocation *r, void *arg)
{
    struct collect *c = arg;
    if (!r->type) {
        return; // an entry that does nothing
    }
    bool optional = r->type == c->arch->types[2];
    struct ldso_tls_use use = {is_own(&c->file->image, r->symbol) ? 0 : r->symbol, optional,
                               r->number};
    size_t n = c->file->tls_uses.n;
    const struct ldso_tls_use *last = n ? &c->file->tls_uses.items[n - 1] : NULL;
    if (!last || last->symbol != use.symbol || last->optional != optional) {
        VEC_PUSH(c->arena, &c->file->tls_uses, use);
    }
}

const struct ldso_tls_use *ldso_tls_uses(const struct ldso_process *p, struct ldso_file *f,
                                         size_t *ret_n)
{
    const struct arch *arch = arch_of(p);
    if (!f->tls_uses_read && arch && elf_may_use_tls(&f->image)) {
        struct collect c = {arch, p->store->arena, f};
        (void)elf_relocations(&f->image, arch->types, collect_use, &c); // damaged ones want none
    }
    f->tls_uses_read = true;
    *ret_n = f->tls_uses.n;
    return f->tls_uses.items;
}
