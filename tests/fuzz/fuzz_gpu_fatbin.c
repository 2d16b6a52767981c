/*
 * Any bytes as a file with CUDA code: whole, and as the content of a section of an ELF file whose
 * headers are right. The sets must be sorted, without doubles, and the same at the second reading.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/code.h"
#include "gpu/family.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_archs(const struct gpu_cuda_arch *items, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        assert(items[i].n_entries > 0 && items[i].isa_min <= items[i].isa_max);
        assert(i == 0 || items[i - 1].number < items[i].number ||
               (items[i - 1].number == items[i].number && items[i - 1].suffix < items[i].suffix));
    }
}

static void check_cuda(const struct gpu_cuda *c)
{
    size_t containers = 0;
    check_archs(c->native, c->n_native);
    check_archs(c->ptx, c->n_ptx);
    for (size_t i = 0; i < c->n_groups; i++) {
        const struct gpu_cuda_group *g = &c->groups[i];
        assert(c->n_native == 64 || g->native >> c->n_native == 0);
        assert(c->n_ptx == 64 || g->ptx >> c->n_ptx == 0);
        containers += g->n_containers;
    }
    assert(containers <= c->n_containers);
}

static void read_twice(const uint8_t *data, size_t size)
{
    struct arena a;
    arena_init(&a, (size_t)64 << 20, NULL, NULL);
    struct gpu_code code, again;
    gpu_code_read(&a, data, size, GPU_READ_ALL, &code);
    gpu_code_read(&a, data, size, GPU_READ_ALL, &again);
    check_cuda(&code.cuda);
    check_cuda(&code.embedded);
    check_cuda(&code.relocatable);
    assert(code.cuda.n_native == again.cuda.n_native && code.n_notes == again.n_notes);
    assert(code.n_plain == again.n_plain && code.incomplete == again.incomplete);
    struct gpu_answer answer;
    gpu_code_serves_cuda(&code, 9, 0, 84, &answer);
    assert(answer.why);
    assert(answer.n_native + answer.n_jit + answer.n_none + answer.n_unknown <=
           code.cuda.n_containers + code.embedded.n_containers);
    struct elf_image e;
    struct gpu_families families;
    elf_image_parse(&a, data, size, &e);
    gpu_families_read(&a, &e, "libcuda.so.1.2.3", &families);
    arena_release(&a);
}

static void put(unsigned char *p, uint64_t value, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        p[i] = (unsigned char)(value >> 8 * i);
    }
}

/* ELF header, the data at 64, names, two section headers. */
static void read_in_section(const uint8_t *data, size_t size)
{
    static const char names[] = ".nv_fatbin\0__nv_relfatbin";
    size_t names_at = 64 + size, table = (names_at + sizeof names + 7) / 8 * 8;
    unsigned char *file = calloc(1, table + 128);
    assert(file);
    memcpy(file, "\177ELF\2\1\1", 7);
    put(file + 16, 3, 2);
    put(file + 18, 62, 2);
    put(file + 40, table, 8);
    put(file + 54, 56, 2);
    put(file + 58, 64, 2);
    put(file + 60, 2, 2);
    put(file + 62, 1, 2);
    if (size) {
        memcpy(file + 64, data, size);
    }
    memcpy(file + names_at, names, sizeof names);
    put(file + table, size & 1 ? 11 : 0, 4);
    put(file + table + 4, 1, 4);
    put(file + table + 24, 64, 8);
    put(file + table + 32, size, 8);
    put(file + table + 64 + 4, 3, 4);
    put(file + table + 64 + 24, names_at, 8);
    put(file + table + 64 + 32, sizeof names, 8);
    read_twice(file, table + 128);
    free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_twice(data, size);
    read_in_section(data, size);
    return 0;
}
