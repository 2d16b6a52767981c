/*
 * What the room gpu reads from files, as JSON for compare.py; with --time, how long it took.
 *
 *     dump [--time|--time-all] FILE...
 *
 * compare.py builds it against the rooms of a build folder. It is no part of the program.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "gpu/code.h"
#include "gpu/family.h"

static double now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void print_archs(const char *key, const struct gpu_cuda_arch *items, size_t n)
{
    printf("\"%s\":{", key);
    for (size_t i = 0; i < n; i++) {
        printf("%s\"%s\":%zu", i ? "," : "", items[i].name, items[i].n_entries);
    }
    printf("}");
}

static void print_cuda(const char *key, const struct gpu_cuda *c)
{
    printf("\"%s\":{\"containers\":%zu,\"groups\":%zu,", key, c->n_containers, c->n_groups);
    print_archs("native", c->native, c->n_native);
    printf(",");
    print_archs("ptx", c->ptx, c->n_ptx);
    printf("}");
}

static void print_hip(const struct gpu_code *code)
{
    printf("\"hip\":{\"bundles\":%zu,\"packed\":%zu,\"targets\":{", code->n_bundles,
           code->n_packed_bundles);
    for (size_t i = 0; i < code->n_targets; i++) {
        printf("%s\"%s\":%zu", i ? "," : "", code->targets[i].name, code->targets[i].n_entries);
    }
    printf("}}");
}

static void print_families(struct root *r, struct arena *a, const char *path)
{
    const void *data;
    size_t size;
    struct stat st;
    struct gpu_families f = {0};
    if (root_map(r, path, &data, &size, &st) == 0) {
        struct elf_image e;
        elf_image_parse(a, data, size, &e);
        gpu_families_read(a, &e, path, &f);
        if (size) {
            (void)munmap((void *)(uintptr_t)data, size);
        }
    }
    printf("\"families\":[");
    for (size_t i = 0; i < f.n; i++) {
        const struct gpu_family *one = &f.items[i];
        printf("%s{\"name\":\"%s\",\"version\":%s%s%s,\"source\":\"%s\"}", i ? "," : "", one->name,
               one->version ? "\"" : "", one->version ? one->version : "null",
               one->version ? "\"" : "", one->source);
    }
    printf("]");
}

static int dump(struct root *r, const char *path, enum gpu_reading reading, bool time_only)
{
    struct arena a;
    struct gpu_code code;
    struct gm_err err;
    arena_init(&a, ARENA_LIMIT_DEFAULT, NULL, NULL);
    double from = now_ms();
    if (gpu_code_read_file(r, &a, path, reading, &code, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    double took = now_ms() - from;
    if (time_only) {
        printf("%.3f ms\t%zu KiB\t%s\n", took, a.used_bytes >> 10, path);
        arena_release(&a);
        return 0;
    }
    printf("{\"path\":\"%s\",", path);
    print_cuda("cuda", &code.cuda);
    printf(",");
    print_cuda("embedded", &code.embedded);
    printf(",");
    print_cuda("relocatable", &code.relocatable);
    printf(",\"packing\":{\"plain\":%zu,\"lz4\":%zu,\"zstd\":%zu,\"other\":%zu},", code.n_plain,
           code.n_lz4, code.n_zstd, code.n_other_packed);
    print_hip(&code);
    printf(",\"incomplete\":%s,\"notes\":[", code.incomplete ? "true" : "false");
    for (size_t i = 0; i < code.n_notes; i++) {
        printf("%s\"%s\"", i ? "," : "", code.notes[i]);
    }
    printf("],");
    print_families(r, &a, path);
    printf("}\n");
    arena_release(&a);
    return 0;
}

int main(int argc, char **argv)
{
    struct root r;
    struct gm_err err;
    bool quick = argc > 1 && strcmp(argv[1], "--time") == 0;
    bool time_only = quick || (argc > 1 && strcmp(argv[1], "--time-all") == 0);
    int rc = root_open(&r, "/", &err);
    for (int i = 1 + time_only; i < argc && rc == 0; i++) {
        rc = dump(&r, argv[i], quick ? GPU_READ_SECTIONS : GPU_READ_ALL, time_only);
    }
    root_close(&r);
    return rc ? 1 : 0;
}
