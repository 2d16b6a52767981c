/*
 * libcuda.so.1: memory of the card is memory of the host, and every kernel adds two vectors.
 *
 * `cards value N` is how many cards the machine has; CUDA_VISIBLE_DEVICES chooses among
 * them as the real driver does, by index. An attribute is a function of its own for the table:
 * `attribute-20 value 2` is compute mode 2. `card-1 return 46` refuses a context on the second
 * card.
 */
#include "table.h"

#include <stdint.h>

enum { CARDS_MAX = 16 };

static int cards[CARDS_MAX], n_cards;

static int machine_has(void)
{
    struct fake f = fake_call("cards");
    return (int)fake_number(&f, 1);
}

/* CUDA C++ Programming Guide, "CUDA Environment Variables": the list ends at what is not valid. */
static void see(void)
{
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    int has = machine_has();
    n_cards = 0;
    for (int i = 0; !list && i < has && i < CARDS_MAX; i++) {
        cards[n_cards++] = i;
    }
    while (list && *list && n_cards < CARDS_MAX) {
        char *end;
        long index = strtol(list, &end, 10);
        if (end == list || index < 0 || index >= has) {
            break;
        }
        cards[n_cards++] = (int)index;
        list = *end == ',' ? end + 1 : "";
    }
}

static int compiles_nothing; // as the driver reads it: when it starts

int cuInit(unsigned flags)
{
    FAKE(cuInit);
    compiles_nothing = getenv("CUDA_DISABLE_PTX_JIT") != NULL;
    see();
    return flags ? 1 : n_cards ? 0 : 100;
}

int cuDriverGetVersion(int *version)
{
    FAKE(cuDriverGetVersion);
    *version = (int)fake_number(&fake_now, 12080);
    return 0;
}

int cuDeviceGetCount(int *count)
{
    FAKE(cuDeviceGetCount);
    *count = (int)fake_number(&fake_now, n_cards);
    return 0;
}

int cuDeviceGet(int *device, int ordinal)
{
    FAKE(cuDeviceGet);
    *device = ordinal;
    return ordinal < 0 || ordinal >= n_cards ? 101 : 0;
}

int cuDeviceGetName(char *name, int n, int device)
{
    FAKE(cuDeviceGetName);
    (void)device;
    snprintf(name, (size_t)n, "%s", fake_word(&fake_now, "NVIDIA Fake 1"));
    return 0;
}

int cuDeviceGetUuid(unsigned char *uuid, int device)
{
    FAKE(cuDeviceGetUuid);
    memset(uuid, cards[device] + 1, 16);
    return 0;
}

int cuDeviceGetPCIBusId(char *id, int n, int device)
{
    FAKE(cuDeviceGetPCIBusId);
    snprintf(id, (size_t)n, "0000:%02x:00.0", cards[device] + 1);
    return 0;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    FAKE(cuDeviceTotalMem_v2);
    (void)device;
    *bytes = (size_t)fake_number(&fake_now, 8000) << 20;
    return 0;
}

int cuDeviceGetAttribute(int *value, int which, int device)
{
    FAKE(cuDeviceGetAttribute);
    char key[32];
    (void)device;
    snprintf(key, sizeof key, "attribute-%d", which);
    struct fake f = fake_call(key);
    *value = (int)fake_number(&f, which == 75 ? 9 : which == 16 ? 132 : 0);
    return 0;
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
    static const char *const names[] = {"card-0", "card-1", "card-2", "card-3"};
    FAKE(cuDevicePrimaryCtxRetain);
    *context = &cards[device];
    struct fake of_card = cards[device] < 4 ? fake_call(names[cards[device]]) : fake_now;
    return of_card.returns ? (int)of_card.code : 0;
}

int cuCtxSetCurrent(void *context)
{
    FAKE(cuCtxSetCurrent);
    return context ? 0 : 201;
}

int cuCtxSynchronize(void)
{
    FAKE(cuCtxSynchronize);
    return 0;
}

int cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    FAKE(cuMemGetInfo_v2);
    *free_bytes = (size_t)fake_number(&fake_now, 7000) << 20;
    *total_bytes = (size_t)8000 << 20;
    return 0;
}

int cuMemAlloc_v2(uint64_t *at, size_t n)
{
    FAKE(cuMemAlloc_v2);
    *at = (uint64_t)(uintptr_t)malloc(n);
    return *at ? 0 : 2;
}

int cuMemFree_v2(uint64_t at)
{
    FAKE(cuMemFree_v2);
    free((void *)(uintptr_t)at);
    return 0;
}

int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t n)
{
    FAKE(cuMemcpyHtoD_v2);
    memcpy((void *)(uintptr_t)to, from, n);
    return 0;
}

int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t n)
{
    FAKE(cuMemcpyDtoH_v2);
    memcpy(to, (const void *)(uintptr_t)from, n);
    if (fake_now.wrong) {
        ((unsigned char *)to)[n / 2] ^= 1;
    }
    return 0;
}

int cuMemcpyDtoD_v2(uint64_t to, uint64_t from, size_t n)
{
    FAKE(cuMemcpyDtoD_v2);
    memcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, n);
    return 0;
}

int cuModuleLoadData(void **module, const void *image)
{
    FAKE(cuModuleLoadData);
    *module = (void *)(uintptr_t)image;
    return compiles_nothing ? 223 : image ? 0 : 200;
}

int cuModuleGetFunction(void **function, void *module, const char *name)
{
    FAKE(cuModuleGetFunction);
    *function = module;
    return name && *name ? 0 : 500;
}

#ifndef WITHOUT_cuLaunchKernel
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void *stream, void **arguments, void **extra)
{
    FAKE(cuLaunchKernel);
    const float *a = (const float *)(uintptr_t) * (uint64_t *)arguments[0];
    const float *b = (const float *)(uintptr_t) * (uint64_t *)arguments[1];
    float *sum = (float *)(uintptr_t) * (uint64_t *)arguments[2];
    int n = *(int *)arguments[3];
    (void)shared, (void)stream, (void)extra;
    if (!function || gy * gz * by * bz != 1) {
        return 1;
    }
    for (int i = 0; i < n && i < (int)(gx * bx); i++) {
        sum[i] = a[i] + b[i] + (fake_now.wrong && i == n - 1 ? 0.5f : 0);
    }
    return 0;
}
#endif

int cuGetErrorName(int code, const char **name)
{
    static const struct {
        int code;
        const char *name;
    } names[] = {{2, "CUDA_ERROR_OUT_OF_MEMORY"},
                 {46, "CUDA_ERROR_DEVICE_UNAVAILABLE"},
                 {100, "CUDA_ERROR_NO_DEVICE"},
                 {101, "CUDA_ERROR_INVALID_DEVICE"},
                 {214, "CUDA_ERROR_ECC_UNCORRECTABLE"},
                 {221, "CUDA_ERROR_JIT_COMPILER_NOT_FOUND"},
                 {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"},
                 {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
                 {719, "CUDA_ERROR_LAUNCH_FAILED"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (names[i].code == code) {
            *name = names[i].name;
            return 0;
        }
    }
    return 1;
}
