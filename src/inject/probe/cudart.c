/*
 * The CUDA runtime of the target: its version against the driver's, the cards it counts, memory
 * through it. Declared from cuda_runtime_api.h ("CUDA Runtime API").
 */
#include <stdlib.h>
#include <string.h>

#include "inject/probe/cuda.h"

enum { // cudaError_t, cudaMemcpyKind
    CUDA_ERROR_MEMORY_ALLOCATION = 2,
    CUDA_ERROR_DEVICES_UNAVAILABLE = 46,
    HOST_TO_DEVICE = 1,
    DEVICE_TO_HOST = 2,
};
enum { BYTES = 1 << 20 };

struct cudart {
    struct vendor vendor;
    void *dso;
    int runtime, driver; // versions, 12040 for 12.4
};

static void open_cudart(struct cudart *r, const struct job *j)
{
    *r = (struct cudart){.dso = open_library(stage_library(j))};
    const char *(*cudaGetErrorName)(int) = symbol(r->dso, "cudaGetErrorName");
    r->vendor = (struct vendor){.status_name = cudaGetErrorName,
                                .no_memory = {CUDA_ERROR_MEMORY_ALLOCATION},
                                .unavailable = CUDA_ERROR_DEVICES_UNAVAILABLE};
    int (*cudaRuntimeGetVersion)(int *) = symbol(r->dso, "cudaRuntimeGetVersion");
    int (*cudaDriverGetVersion)(int *) = symbol(r->dso, "cudaDriverGetVersion");
    TRY(&r->vendor, cudaRuntimeGetVersion, &r->runtime);
    say_fact("cudart.version", "%d.%d", r->runtime / 1000, r->runtime % 1000 / 10);
    TRY(&r->vendor, cudaDriverGetVersion, &r->driver);
    say_fact("driver.cuda.version", "%d.%d", r->driver / 1000, r->driver % 1000 / 10);
}

void stage_cudart(const struct job *j)
{
    struct cudart r;
    int count = 0;
    open_cudart(&r, j);
    if (r.driver == 0) { // as documented: "If no driver is installed, then 0 is returned"
        say_fact("absent", "driver");
        say_failed(0, NULL, "cudaDriverGetVersion: the CUDA runtime %d.%d finds no NVIDIA driver",
                   r.runtime / 1000, r.runtime % 1000 / 10);
    }
    int (*cudaGetDeviceCount)(int *) = symbol(r.dso, "cudaGetDeviceCount");
    TRY(&r.vendor, cudaGetDeviceCount, &count);
    say_fact("device.count", "%d", count);
    if (count == 0) {
        say_failed(0, NULL, "cudaGetDeviceCount finds no GPU");
    }
    say_passed("CUDA runtime %d.%d on a driver for CUDA %d.%d finds %d GPU%s", r.runtime / 1000,
               r.runtime % 1000 / 10, r.driver / 1000, r.driver % 1000 / 10, count,
               count == 1 ? "" : "s");
}

/* To the card and back, through memory that cudaMallocHost() gave. */
static void copy_there_and_back(const struct cudart *r, unsigned char *host, void *device)
{
    int (*cudaMemcpy)(void *, const void *, size_t, int) = symbol(r->dso, "cudaMemcpy");
    for (size_t i = 0; i < BYTES; i++) {
        host[i] = (unsigned char)(i * 7 + i / 251);
    }
    TRY(&r->vendor, cudaMemcpy, device, host, BYTES, HOST_TO_DEVICE);
    memset(host, 0, BYTES);
    TRY(&r->vendor, cudaMemcpy, host, device, BYTES, DEVICE_TO_HOST);
    for (size_t i = 0; i < BYTES; i++) {
        if (host[i] != (unsigned char)(i * 7 + i / 251)) {
            say_failed(0, NULL, "cudaMemcpy: byte %zu of %d came back as %d instead of %d", i,
                       BYTES, host[i], (unsigned char)(i * 7 + i / 251));
        }
    }
}

/* cudaMemGetInfo() takes the place of the driver's call for what is said of a full card. */
void stage_cudart_memory(const struct job *j)
{
    struct cudart r;
    void *host = NULL, *device = NULL;
    open_cudart(&r, j);
    int (*cudaSetDevice)(int) = symbol(r.dso, "cudaSetDevice");
    int (*cudaMallocHost)(void **, size_t) = symbol(r.dso, "cudaMallocHost");
    int (*cudaMalloc)(void **, size_t) = symbol(r.dso, "cudaMalloc");
    int (*cudaFree)(void *) = symbol(r.dso, "cudaFree");
    int (*cudaFreeHost)(void *) = symbol(r.dso, "cudaFreeHost");
    struct cuda memory = {.memory_info = symbol(r.dso, "cudaMemGetInfo")};
    TRY(&r.vendor, cudaSetDevice, j->device);
    r.vendor.cuda = &memory;
    TRY(&r.vendor, cudaMallocHost, &host, BYTES);
    TRY(&r.vendor, cudaMalloc, &device, BYTES);
    copy_there_and_back(&r, host, device);
    TRY(&r.vendor, cudaFree, device);
    TRY(&r.vendor, cudaFreeHost, host);
    say_passed("a memory round trip through CUDA runtime %d.%d succeeds", r.runtime / 1000,
               r.runtime % 1000 / 10);
}
