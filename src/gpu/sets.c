/* The gate to the bytes, and the sets while they grow. */
#include "gpu/internal.h"

#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>

#include "base/pages.h"

const unsigned char *gpu_bytes(const struct gpu_span *s, uint64_t offset, uint64_t n)
{
    if (offset > s->size || n > s->size - offset) {
        return NULL;
    }
    return s->data + offset;
}

void gpu_note(struct gpu_builder *b, const char *fmt, ...)
{
    if (b->notes.n == GPU_NOTES_MAX) {
        return;
    }
    va_list ap;
    va_start(ap, fmt);
    const char *text = arena_vprintf(b->arena, fmt, ap);
    va_end(ap);
    for (size_t i = 0; i < b->notes.n; i++) {
        if (strcmp(b->notes.items[i], text) == 0) {
            return;
        }
    }
    VEC_PUSH(b->arena, &b->notes, text);
}

/* The row of number and suffix, made if it is not there; GPU_ARCHS_MAX when the table is full. */
static size_t arch_row(struct gpu_builder *b, struct gpu_cuda_arch **items, size_t *n, size_t *cap,
                       struct gpu_cuda_arch key)
{
    for (size_t i = 0; i < *n; i++) {
        if ((*items)[i].number == key.number && (*items)[i].suffix == key.suffix) {
            return i;
        }
    }
    if (*n == GPU_ARCHS_MAX) {
        b->code->incomplete = true;
        gpu_note(b, "more than %d architectures", GPU_ARCHS_MAX);
        return GPU_ARCHS_MAX;
    }
    if (*n == *cap) {
        *items = arena_grow(b->arena, *items, *n, cap, sizeof **items);
    }
    char suffix[2] = {key.suffix, 0};
    key.name = arena_printf(b->arena, "%s%u%s", key.name, key.number, suffix);
    (*items)[*n] = key;
    return (*n)++;
}

void gpu_add_native(struct gpu_builder *b, struct gpu_cuda_sets *sets, unsigned number, char suffix)
{
    size_t i = arch_row(b, &sets->native.items, &sets->native.n, &sets->native.cap,
                        (struct gpu_cuda_arch){"sm_", number, suffix, 0, 0, 0});
    if (i < GPU_ARCHS_MAX) {
        sets->native.items[i].n_entries++;
        sets->open.native |= (uint64_t)1 << i;
    }
}

void gpu_add_ptx(struct gpu_builder *b, struct gpu_cuda_sets *sets, unsigned number, char suffix,
                 unsigned isa)
{
    size_t i = arch_row(b, &sets->ptx.items, &sets->ptx.n, &sets->ptx.cap,
                        (struct gpu_cuda_arch){"compute_", number, suffix, 0, isa, isa});
    if (i < GPU_ARCHS_MAX) {
        struct gpu_cuda_arch *row = &sets->ptx.items[i];
        row->n_entries++;
        row->isa_min = isa < row->isa_min ? isa : row->isa_min;
        row->isa_max = isa > row->isa_max ? isa : row->isa_max;
        sets->open.ptx |= (uint64_t)1 << i;
    }
}

void gpu_close_container(struct gpu_builder *b, struct gpu_cuda_sets *sets)
{
    struct gpu_cuda_group open = sets->open;
    sets->open = (struct gpu_cuda_group){0};
    sets->n_containers++;
    for (size_t i = 0; i < sets->groups.n; i++) {
        struct gpu_cuda_group *g = &sets->groups.items[i];
        if (g->native == open.native && g->ptx == open.ptx) {
            g->n_containers++;
            return;
        }
    }
    if (sets->groups.n == GPU_GROUPS_MAX) {
        b->code->incomplete = true;
        gpu_note(b, "more than %d different containers: not all are counted", GPU_GROUPS_MAX);
        return;
    }
    open.n_containers = 1;
    VEC_PUSH(b->arena, &sets->groups, open);
}

static bool target_is_plain(struct str s)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789+-:_";
    for (size_t i = 0; i < s.n; i++) {
        if (!s.s[i] || !strchr(allowed, s.s[i])) {
            return false;
        }
    }
    return s.n > 0 && s.n <= 64;
}

void gpu_add_target(struct gpu_builder *b, struct str name)
{
    for (size_t i = 0; i < b->targets.n; i++) {
        if (str_is(name, b->targets.items[i].name)) {
            b->targets.items[i].n_entries++;
            return;
        }
    }
    if (!target_is_plain(name) || b->targets.n == GPU_TARGETS_MAX) {
        b->code->incomplete = true;
        gpu_note(b, "a target that is none, or more than %d targets", GPU_TARGETS_MAX);
        return;
    }
    VEC_PUSH(b->arena, &b->targets, (struct gpu_target){str_dup(b->arena, name), 1});
}

void gpu_give_back(const struct gpu_builder *b)
{
    if (b->is_mapped && b->file.size) {
        pages_give_back(b->file.data, b->file.size);
    }
}
