#include "gpu/code.h"

#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/pages.h"
#include "elf/image.h"
#include "gpu/internal.h"
#include "pe/image.h"

enum { SECTIONS_MAX = 65536, EM_CUDA_MACHINE = 190, EM_AMDGPU_MACHINE = 224 };

/* ------------------------------------------------------------------ sorted results */

static int by_arch(const void *x, const void *y)
{
    const struct gpu_cuda_arch *a = x, *b = y;
    if (a->number != b->number) {
        return a->number < b->number ? -1 : 1;
    }
    return (a->suffix > b->suffix) - (a->suffix < b->suffix);
}

static int by_group(const void *x, const void *y)
{
    const struct gpu_cuda_group *a = x, *b = y;
    if (a->native != b->native) {
        return a->native < b->native ? -1 : 1;
    }
    return (a->ptx > b->ptx) - (a->ptx < b->ptx);
}

static int code_by_target(const void *x, const void *y)
{
    const struct gpu_target *a = x, *b = y;
    return strcmp(a->name, b->name);
}

static int by_kind(const void *x, const void *y)
{
    const struct gpu_kind *a = x, *b = y;
    return (a->kind > b->kind) - (a->kind < b->kind);
}

/* Sorts the rows and returns, for each old place, its new one. */
static void sort_archs(struct gpu_cuda_arch *items, size_t n, size_t ret_place[GPU_ARCHS_MAX])
{
    struct gpu_cuda_arch old[GPU_ARCHS_MAX];
    if (n == 0) {
        return;
    }
    memcpy(old, items, n * sizeof *items);
    qsort(items, n, sizeof *items, by_arch);
    for (size_t i = 0; i < n; i++) {
        const struct gpu_cuda_arch *at = bsearch(&old[i], items, n, sizeof *items, by_arch);
        ret_place[i] = (size_t)(at - items);
    }
}

static uint64_t moved(uint64_t mask, const size_t place[GPU_ARCHS_MAX], size_t n)
{
    uint64_t to = 0;
    for (size_t i = 0; i < n; i++) {
        to |= (mask >> i & 1) << place[i];
    }
    return to;
}

static void finish_cuda(struct gpu_cuda_sets *s, struct gpu_cuda *ret)
{
    size_t native[GPU_ARCHS_MAX], ptx[GPU_ARCHS_MAX];
    sort_archs(s->native.items, s->native.n, native);
    sort_archs(s->ptx.items, s->ptx.n, ptx);
    for (size_t i = 0; i < s->groups.n; i++) {
        struct gpu_cuda_group *g = &s->groups.items[i];
        g->native = moved(g->native, native, s->native.n);
        g->ptx = moved(g->ptx, ptx, s->ptx.n);
    }
    if (s->groups.n) {
        qsort(s->groups.items, s->groups.n, sizeof *s->groups.items, by_group);
    }
    *ret = (struct gpu_cuda){s->native.items, s->ptx.items, s->native.n,    s->ptx.n,
                             s->groups.items, s->groups.n,  s->n_containers};
}

static void builder_finish(struct gpu_builder *b)
{
    struct gpu_code *code = b->code;
    finish_cuda(&b->cuda, &code->cuda);
    finish_cuda(&b->embedded, &code->embedded);
    finish_cuda(&b->relocatable, &code->relocatable);
    if (b->targets.n) {
        qsort(b->targets.items, b->targets.n, sizeof *b->targets.items, code_by_target);
    }
    if (b->kinds.n) {
        qsort(b->kinds.items, b->kinds.n, sizeof *b->kinds.items, by_kind);
    }
    code->targets = b->targets.items;
    code->n_targets = b->targets.n;
    code->kinds = b->kinds.items;
    code->n_kinds = b->kinds.n;
    code->notes = b->notes.items;
    code->n_notes = b->notes.n;
}

/* ------------------------------------------------------------------ ELF files of a host */

struct sections {
    uint64_t offset, size_each, n, names, names_size;
};

struct section {
    uint32_t name, type;
    uint64_t flags, offset, size;
};

static uint64_t code_word(const struct elf_image *e, const unsigned char *p)
{
    return e->is64 ? elf_u64(e, p) : elf_u32(e, p);
}

static bool section_at(const struct elf_image *e, const struct sections *t, uint64_t i,
                       struct section *ret)
{
    const unsigned char *p = elf_bytes(e, t->offset + i * t->size_each, t->size_each);
    if (!p) {
        return false;
    }
    *ret = (struct section){.name = elf_u32(e, p),
                            .type = elf_u32(e, p + 4),
                            .flags = code_word(e, p + 8),
                            .offset = code_word(e, p + (e->is64 ? 24 : 16)),
                            .size = code_word(e, p + (e->is64 ? 32 : 20))};
    return true;
}

/* The section header table; false if the file has none that can be read. */
static bool find_sections(const struct elf_image *e, struct sections *ret)
{
    const unsigned char *p = elf_bytes(e, 0, e->is64 ? sizeof(Elf64_Ehdr) : sizeof(Elf32_Ehdr));
    if (!p) {
        return false;
    }
    const unsigned char *tail = p + (e->is64 ? 58 : 46); // e_shentsize, e_shnum, e_shstrndx
    *ret = (struct sections){.offset = code_word(e, p + (e->is64 ? 40 : 32)),
                             .size_each = elf_u16(e, tail),
                             .n = elf_u16(e, tail + 2)};
    size_t size = e->is64 ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr);
    struct section names;
    if (!ret->n || ret->size_each != size || !ret->offset ||
        !elf_bytes(e, ret->offset, ret->n * ret->size_each) ||
        !section_at(e, ret, elf_u16(e, tail + 4), &names)) {
        return false;
    }
    ret->names = names.offset;
    ret->names_size = names.size;
    return true;
}

static bool section_name_is(const struct elf_image *e, const struct sections *t, uint32_t name,
                            const char *wanted)
{
    size_t n = strlen(wanted) + 1;
    if (name >= t->names_size || n > t->names_size - name || t->names > UINT64_MAX - name) {
        return false;
    }
    const unsigned char *p = elf_bytes(e, t->names + name, n);
    return p && memcmp(p, wanted, n) == 0;
}

/* The end of a section that lies at least partly in the file. */
static uint64_t end_in_file(const struct elf_image *e, const struct section *s)
{
    return s->size < e->size - s->offset ? s->offset + s->size : e->size;
}

static void read_section(struct gpu_builder *b, const struct elf_image *e, const struct sections *t,
                         const struct section *s)
{
    bool cuda = section_name_is(e, t, s->name, ".nv_fatbin");
    bool relocatable = section_name_is(e, t, s->name, "__nv_relfatbin");
    bool hip = section_name_is(e, t, s->name, ".hip_fatbin");
    bool data = b->code->searched && s->flags & SHF_ALLOC && !(s->flags & SHF_EXECINSTR);
    if (!cuda && !relocatable && !hip && !data) {
        return;
    }
    if (s->offset > e->size || s->size > e->size - s->offset) {
        b->code->incomplete = true;
        gpu_note(b, "a section reaches behind the end of the file");
    }
    if (s->offset >= e->size) {
        return;
    }
    uint64_t end = end_in_file(e, s);
    if (hip) {
        gpu_bundle_walk(b, s->offset, end, false);
    } else if (cuda || relocatable) {
        gpu_fatbin_walk(b, cuda ? &b->cuda : &b->relocatable, s->offset, end, false);
    } else {
        gpu_fatbin_walk(b, &b->embedded, s->offset, end, true);
    }
}

/* Without section headers what is registered cannot be determined from what is not. */
static void search_segments(struct gpu_builder *b, const struct elf_image *e)
{
    b->code->searched = true;
    for (size_t i = 0; i < e->n_segments; i++) {
        const struct elf_segment *s = &e->segments[i];
        if (s->type == PT_LOAD && s->offset < e->size) {
            uint64_t room = e->size - s->offset;
            uint64_t to = s->offset + (s->filesz < room ? s->filesz : room);
            gpu_fatbin_walk(b, &b->cuda, s->offset, to, true);
            gpu_bundle_walk(b, s->offset, to, true);
        }
    }
}

static void read_host(struct gpu_builder *b, const struct elf_image *e)
{
    struct sections t;
    struct section s;
    if (!find_sections(e, &t)) {
        search_segments(b, e);
        return;
    }
    for (uint64_t i = 0; i < t.n && i < SECTIONS_MAX; i++) {
        if (section_at(e, &t, i, &s) && s.type != SHT_NOBITS && s.size) {
            read_section(b, e, &t, &s);
        }
    }
    if (t.n > SECTIONS_MAX) {
        b->code->incomplete = true;
        gpu_note(b, "more than %d sections: the others were not read", SECTIONS_MAX);
    }
}

/* ------------------------------------------------------------------ PE files of a host */

/* The name of a section that the runtimes register. An image stores eight characters of it; some
 * linkers store the whole name elsewhere. */
static bool pe_section_is(const struct pe_section *s, const char *wanted)
{
    return strncmp(s->name, wanted, 8) == 0;
}

static void read_pe_section(struct gpu_builder *b, const struct pe_image *e,
                            const struct pe_section *s)
{
    bool cuda = pe_section_is(s, ".nv_fatbin"), hip = pe_section_is(s, ".hip_fatbin");
    bool relocatable = pe_section_is(s, "__nv_relfatbin");
    bool data = b->code->searched && !(s->characteristics & PE_SECTION_EXECUTE);
    if (!s->size_in_file || (!cuda && !relocatable && !hip && !data)) {
        return;
    }
    if (!pe_bytes(e, s->offset, s->size_in_file)) {
        b->code->incomplete = true;
        gpu_note(b, "a section reaches behind the end of the file");
    }
    if (s->offset >= e->size) {
        return;
    }
    uint64_t room = e->size - s->offset;
    uint64_t end = s->offset + (s->size_in_file < room ? s->size_in_file : room);
    if (hip) {
        gpu_bundle_walk_section(b, s->offset, end);
    } else if (cuda || relocatable) {
        gpu_fatbin_walk(b, cuda ? &b->cuda : &b->relocatable, s->offset, end, false);
    } else {
        gpu_fatbin_walk(b, &b->embedded, s->offset, end, true);
    }
}

static void read_pe(struct gpu_builder *b, const struct pe_image *e)
{
    if (e->state == PE_STATE_BAD) {
        b->code->incomplete = true;
        gpu_note(b, "it is a PE file that cannot be read: %s", e->defect);
    }
    for (size_t i = 0; i < e->n_sections; i++) {
        read_pe_section(b, e, &e->sections[i]);
    }
}

/* ------------------------------------------------------------------ any file */

static void read_elf(struct gpu_builder *b, const struct elf_image *e)
{
    struct str target;
    if (e->machine == EM_CUDA_MACHINE) {
        gpu_cubin_read(b);
    } else if (e->machine != EM_AMDGPU_MACHINE) {
        read_host(b, e);
    } else if (gpu_amdgpu_target(b, 0, &target)) {
        gpu_add_target(b, target);
    }
}

static void code_read_bytes(struct arena *a, const void *data, size_t size,
                            enum gpu_reading reading, bool is_mapped, struct gpu_code *ret)
{
    *ret = (struct gpu_code){.searched = reading == GPU_READ_ALL};
    struct gpu_builder b = {.arena = a, .file = {data, size}, .code = ret, .is_mapped = is_mapped};
    struct elf_image e;
    elf_image_parse(a, data, size, &e);
    if (e.state == ELF_STATE_OK || e.state == ELF_STATE_BAD) {
        ret->searched = ret->searched || e.machine == EM_CUDA_MACHINE;
        read_elf(&b, &e);
    } else if (gpu_bundle_starts(&b.file, 0)) {
        gpu_bundle_walk(&b, 0, size, false);
    } else if (size >= 4 && gpu_u32(data) == 0xBA55ED50u) {
        ret->searched = true; // there is nothing else in it
        gpu_fatbin_walk(&b, &b.cuda, 0, size, false);
    } else {
        struct pe_image pe;
        pe_image_parse(a, data, size, &pe);
        read_pe(&b, &pe);
    }
    builder_finish(&b);
}

void gpu_code_read(struct arena *a, const void *data, size_t size, enum gpu_reading reading,
                   struct gpu_code *ret)
{
    code_read_bytes(a, data, size, reading, false, ret);
}

int gpu_code_read_file(struct root *r, struct arena *a, const char *path, enum gpu_reading reading,
                       struct gpu_code *ret, struct gm_err *err)
{
    const void *data = NULL;
    size_t size = 0;
    struct stat st;
    int rc = root_map_gpu_code(r, path, &data, &size, &st);
    if (rc < 0) {
        return gm_err_set(err, GM_ERR_LOOK, "%s: %s", path, strerror(-rc));
    }
    if (size && reading == GPU_READ_SECTIONS) {
        /* One page here, one there: reading ahead would fetch payloads. */
        (void)madvise((void *)(uintptr_t)data, size, MADV_RANDOM);
    }
    code_read_bytes(a, data, size, reading, true, ret);
    if (size) {
        (void)munmap((void *)(uintptr_t)data, size);
    }
    return 0;
}
