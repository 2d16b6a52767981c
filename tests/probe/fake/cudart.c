/* libcudart.so.12: memory of the card is memory of the host. */
#include "table.h"

int cudaRuntimeGetVersion(int *version)
{
    FAKE(cudaRuntimeGetVersion);
    *version = (int)fake_number(&fake_now, 12040);
    return 0;
}

int cudaDriverGetVersion(int *version)
{
    FAKE(cudaDriverGetVersion);
    *version = (int)fake_number(&fake_now, 12080);
    return 0;
}

int cudaGetDeviceCount(int *count)
{
    FAKE(cudaGetDeviceCount);
    *count = (int)fake_number(&fake_now, 1);
    return 0;
}

int cudaSetDevice(int device)
{
    FAKE(cudaSetDevice);
    return device < 0;
}

int cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    FAKE(cudaMemGetInfo);
    *free_bytes = (size_t)fake_number(&fake_now, 7000) << 20;
    *total_bytes = (size_t)8192 << 20;
    return 0;
}

int cudaMallocHost(void **p, size_t n)
{
    FAKE(cudaMallocHost);
    *p = malloc(n);
    return 0;
}

int cudaFreeHost(void *p)
{
    FAKE(cudaFreeHost);
    free(p);
    return 0;
}

#ifndef WITHOUT_cudaMalloc
int cudaMalloc(void **p, size_t n)
{
    FAKE(cudaMalloc);
    *p = malloc(n);
    return 0;
}
#endif

int cudaFree(void *p)
{
    FAKE(cudaFree);
    free(p);
    return 0;
}

int cudaMemcpy(void *to, const void *from, size_t n, int kind)
{
    FAKE(cudaMemcpy);
    if (kind != 1 && kind != 2) {
        return 21; // cudaErrorInvalidMemcpyDirection
    }
    memcpy(to, from, n);
    if (fake_now.wrong) {
        ((unsigned char *)to)[n / 2] ^= 1;
    }
    return 0;
}

const char *cudaGetErrorName(int code)
{
    static const struct {
        int code;
        const char *name;
    } names[] = {{2, "cudaErrorMemoryAllocation"},
                 {35, "cudaErrorInsufficientDriver"},
                 {46, "cudaErrorDevicesUnavailable"},
                 {100, "cudaErrorNoDevice"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (names[i].code == code) {
            return names[i].name;
        }
    }
    return "unrecognized error code";
}
