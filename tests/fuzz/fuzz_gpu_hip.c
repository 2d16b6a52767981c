/*
 * Any bytes as a file with HIP code. The first byte chooses what is put before the rest: nothing, a
 * plain bundle's magic, or the header of a compressed bundle of version 1 to 3 whose sizes are
 * right, with the rest as its frame or (so that the table's reader is reached) compressed here.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "gpu/code.h"
#include "gpu/datafile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const uint8_t *data, size_t size)
{
    struct arena a;
    arena_init(&a, (size_t)64 << 20, NULL, NULL);
    struct gpu_code code, again;
    gpu_code_read(&a, data, size, GPU_READ_ALL, &code);
    gpu_code_read(&a, data, size, GPU_READ_ALL, &again);
    assert(code.n_targets == again.n_targets && code.n_notes == again.n_notes);
    for (size_t i = 0; i < code.n_targets; i++) {
        assert(code.targets[i].n_entries > 0);
        assert(strlen(code.targets[i].name) <= 64);
        assert(i == 0 || strcmp(code.targets[i - 1].name, code.targets[i].name) < 0);
        assert(strcmp(code.targets[i].name, again.targets[i].name) == 0);
    }
    struct gpu_answer answer;
    gpu_code_serves_amd(&code, "gfx90a:sramecc+:xnack-", &answer);
    assert(answer.why);
    arena_release(&a);
}

static void put(unsigned char *p, uint64_t value, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        p[i] = (unsigned char)(value >> 8 * i);
    }
}

static void check_packed(unsigned version, unsigned method, const uint8_t *data, size_t size)
{
    size_t header = version == 1 ? 20 : version == 2 ? 24 : 32;
    unsigned char *file = calloc(1, header + size);
    assert(file);
    memcpy(file, "CCOB", 4);
    put(file + 4, version, 2);
    put(file + 6, method, 2);
    if (version > 1) {
        put(file + 8, header + size, version == 2 ? 4 : 8);
    }
    if (size) {
        memcpy(file + header, data, size);
    }
    check(file, header + size);
    free(file);
}

/* A bundle whose table is the data, compressed. */
static void check_compressed(unsigned version, unsigned method, const uint8_t *data, size_t size)
{
    size_t room = ZSTD_compressBound(size + 24) + compressBound(size + 24), n;
    unsigned char *plain = malloc(size + 24), *packed = malloc(room);
    assert(plain && packed);
    memcpy(plain, "__CLANG_OFFLOAD_BUNDLE__", 24);
    if (size) {
        memcpy(plain + 24, data, size);
    }
    check(plain, size + 24);
    if (method == 1) {
        n = ZSTD_compress(packed, room, plain, size + 24, 1);
        assert(!ZSTD_isError(n));
    } else {
        uLongf written = room;
        assert(compress2(packed, &written, plain, size + 24, 1) == Z_OK);
        n = written;
    }
    check_packed(version, method, packed, n);
    free(plain);
    free(packed);
}

static void check_name(const uint8_t *data, size_t size)
{
    char name[256] = "gfx";
    struct gpu_data_name n;
    size_t length = size < 200 ? size : 200;
    memcpy(name + 3, data, length);
    if (gpu_data_name(name, &n)) {
        assert(memcmp(n.target, "gfx", 3) == 0 && strlen(n.target) < sizeof n.target);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check(data, size);
    if (size == 0) {
        return 0;
    }
    unsigned version = 1 + data[0] % 3, method = data[0] >> 2 & 1;
    check_name(data + 1, size - 1);
    if (data[0] & 8) {
        check_packed(version, method, data + 1, size - 1);
    } else {
        check_compressed(version, method, data + 1, size - 1);
    }
    return 0;
}
