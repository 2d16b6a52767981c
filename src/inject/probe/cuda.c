#include "inject/probe/cuda.h"

enum {
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_DEVICE_UNAVAILABLE = 46,
    CAPABILITY_MAJOR = 75, // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
    CAPABILITY_MINOR = 76,
};

/* ------------------------------------------------------------------ failures */

static const size_t little_bytes = (size_t)512 << 20; // what a context and cuBLAS's workspace take

static bool is_about_memory(const struct vendor *v, int code)
{
    for (size_t i = 0; i < sizeof v->no_memory / sizeof *v->no_memory && v->no_memory[i]; i++) {
        if (v->no_memory[i] == code) {
            return true;
        }
    }
    return false;
}

/* Whether the card has too little memory left for its libraries. */
static bool memory_is_full(const struct vendor *v)
{
    size_t free = 0, total = 0;
    if (!v->cuda || !v->cuda->memory_info || v->cuda->memory_info(&free, &total) != 0) {
        return false;
    }
    say_fact("memory.free.mib", "%zu", free >> 20);
    say_fact("memory.total.mib", "%zu", total >> 20);
    return free < little_bytes && free < total / 4;
}

/* Before there is a context the driver does not say how much memory is free. A limit on addresses
 * is known to have this result: the driver reserves far more of them than memory (CUDA C++
 * Programming Guide, "Unified Virtual Address Space"). What is called before a context is made
 * takes memory of the host. */
static _Noreturn void no_context(const char *function, int code, const char *name)
{
    unsigned long long limit_mib = address_limit_mib();
    if (limit_mib) {
        say_unknown("%s: out of memory (%d): this process is limited to %llu MiB of addresses "
                    "(ulimit -v), and the driver reserves far more; try without that limit",
                    function, code, limit_mib);
    }
    if (strcmp(function, "cuDevicePrimaryCtxRetain") != 0) {
        say_unknown("%s: out of memory (%d): whether the GPU's or the host's memory is short, or "
                    "this process has a limit (ulimit, a container's), is unknown",
                    function, code);
    }
    say_fact("busy", "memory");
    say_failed(code, name,
               "%s: no memory is left for a context: the GPU is busy, not broken, or this process "
               "has a memory limit",
               function);
}

void vendor_check(const struct vendor *v, const char *function, int code)
{
    if (code == 0) {
        return;
    }
    const char *name = v->status_name ? v->status_name(code) : NULL;
    if (v->unavailable && code == v->unavailable) {
        say_fact("busy", "exclusive");
        say_failed(code, name,
                   "%s: the GPU is busy, not broken: it is in exclusive mode, and another process "
                   "holds it",
                   function);
    }
    if (is_about_memory(v, code) && !(v->cuda && v->cuda->memory_info)) {
        no_context(function, code, name);
    }
    if (is_about_memory(v, code) && memory_is_full(v)) {
        say_fact("busy", "memory");
        say_failed(code, name,
                   "%s: the GPU is busy, not broken: other processes hold nearly all of its memory",
                   function);
    }
    say_failed(code, name, "%s failed", function);
}

/* ------------------------------------------------------------------ the card */

static const char *driver_status_name(int code)
{
    static int (*cuGetErrorName)(int, const char **);
    const char *name = NULL;
    if (!cuGetErrorName) {
        void *library = open_optional(cuda_driver_library); // is loaded: a call of it has failed
        cuGetErrorName = library ? symbol_optional(library, "cuGetErrorName") : NULL;
    }
    // Without a name the code would be looked up among those of the stage's library.
    return cuGetErrorName && cuGetErrorName(code, &name) == 0 ? name : "CUDA_ERROR";
}

static int capability(const struct cuda *c, int device)
{
    int (*cuDeviceGetAttribute)(int *, int, int) = symbol(c->dso, "cuDeviceGetAttribute");
    int major = 0, minor = 0;
    TRY(&c->vendor, cuDeviceGetAttribute, &major, CAPABILITY_MAJOR, device);
    TRY(&c->vendor, cuDeviceGetAttribute, &minor, CAPABILITY_MINOR, device);
    return major * 10 + minor;
}

void cuda_open(struct cuda *c, const struct job *j)
{
    *c = (struct cuda){.device = j->device < 0 ? 0 : j->device};
    c->vendor = (struct vendor){.status_name = driver_status_name,
                                .no_memory = {CUDA_ERROR_OUT_OF_MEMORY},
                                .unavailable = CUDA_ERROR_DEVICE_UNAVAILABLE};
    const char *driver = job_value(j, "driver"); // by the model of the target's loader
    c->dso = open_library(driver ? driver : cuda_driver_library);
    int (*cuInit)(unsigned) = symbol(c->dso, "cuInit");
    int (*cuDeviceGet)(int *, int) = symbol(c->dso, "cuDeviceGet");
    TRY(&c->vendor, cuInit, 0);
    TRY(&c->vendor, cuDeviceGet, &c->handle, c->device);
    c->capability = capability(c, c->handle);
}

void cuda_context(struct cuda *c)
{
    int (*cuDevicePrimaryCtxRetain)(void **, int) = symbol(c->dso, "cuDevicePrimaryCtxRetain");
    int (*cuCtxSetCurrent)(void *) = symbol(c->dso, "cuCtxSetCurrent");
    void *context = NULL;
    TRY(&c->vendor, cuDevicePrimaryCtxRetain, &context, c->handle);
    TRY(&c->vendor, cuCtxSetCurrent, context);
    c->memory_info = symbol_optional(c->dso, "cuMemGetInfo_v2");
    c->vendor.cuda = c;
}

void cuda_compile_here(void)
{
    set_variable("CUDA_CACHE_DISABLE", "1");
    unset_variable("CUDA_DISABLE_PTX_JIT");
    unset_variable("CUDA_DISABLE_JIT");
}

void cuda_start(struct cuda *c, const struct job *j)
{
    cuda_open(c, j);
    cuda_context(c);
}

uint64_t cuda_alloc(const struct cuda *c, size_t size)
{
    int (*cuMemAlloc_v2)(uint64_t *, size_t) = symbol(c->dso, "cuMemAlloc_v2");
    uint64_t at = 0;
    TRY(&c->vendor, cuMemAlloc_v2, &at, size);
    return at;
}

uint64_t cuda_put(const struct cuda *c, const void *data, size_t size)
{
    int (*cuMemcpyHtoD_v2)(uint64_t, const void *, size_t) = symbol(c->dso, "cuMemcpyHtoD_v2");
    uint64_t at = cuda_alloc(c, size);
    TRY(&c->vendor, cuMemcpyHtoD_v2, at, data, size);
    return at;
}

void cuda_get(const struct cuda *c, void *data, uint64_t at, size_t size)
{
    int (*cuCtxSynchronize)(void) = symbol(c->dso, "cuCtxSynchronize");
    int (*cuMemcpyDtoH_v2)(void *, uint64_t, size_t) = symbol(c->dso, "cuMemcpyDtoH_v2");
    TRY(&c->vendor, cuCtxSynchronize);
    TRY(&c->vendor, cuMemcpyDtoH_v2, data, at, size);
}

void *cuda_pointer(uint64_t at)
{
    return (void *)(uintptr_t)at;
}

const char *stage_library(const struct job *j)
{
    if (!j->lib) {
        say_unknown("it is unknown which library the target would load");
    }
    /* One that does not open matters to whom it belongs to: the stage's own says so itself. */
    for (size_t i = 0; i < j->n_load; i++) {
        if (!open_optional(j->load[i])) {
            say_fact("does-not-open", "%s", j->load[i]);
        }
    }
    say_fact("library", "%s", j->lib);
    return j->lib;
}

/* ------------------------------------------------------------------ a kernel */

enum { ADDED = 1000, BLOCK = 128 }; // no multiple of a block

static void launch(const struct cuda *c, const void *image, const char *function, void **arguments)
{
    int (*cuModuleLoadData)(void **, const void *) = symbol(c->dso, "cuModuleLoadData");
    int (*cuModuleGetFunction)(void **, void *, const char *) =
        symbol(c->dso, "cuModuleGetFunction");
    int (*cuLaunchKernel)(void *, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                          unsigned block_x, unsigned block_y, unsigned block_z,
                          unsigned shared_bytes, void *stream, void **arguments, void **extra) =
        symbol(c->dso, "cuLaunchKernel");
    void *module = NULL, *kernel = NULL;
    TRY(&c->vendor, cuModuleLoadData, &module, image);
    TRY(&c->vendor, cuModuleGetFunction, &kernel, module, function);
    TRY(&c->vendor, cuLaunchKernel, kernel, (ADDED + BLOCK - 1) / BLOCK, 1, 1, BLOCK, 1, 1, 0, NULL,
        arguments, NULL);
}

void cuda_run_addition(const struct cuda *c, const void *image, const char *function)
{
    float a[ADDED], b[ADDED], sum[ADDED];
    for (int i = 0; i < ADDED; i++) {
        a[i] = (float)i * 0.37f, b[i] = 900 - (float)i * 1.91f, sum[i] = -1e30f;
    }
    int count = ADDED;
    uint64_t at_a = cuda_put(c, a, sizeof a), at_b = cuda_put(c, b, sizeof b);
    uint64_t at_sum = cuda_put(c, sum, sizeof sum);
    void *arguments[] = {&at_a, &at_b, &at_sum, &count};
    launch(c, image, function, arguments);
    cuda_get(c, sum, at_sum, sizeof sum);
    for (int i = 0; i < ADDED; i++) {
        if (sum[i] != a[i] + b[i]) { // one addition of IEEE 754 has one right answer
            say_failed(0, NULL, "the kernel ran, but number %d of %d is %.9g instead of %.9g", i,
                       ADDED, (double)sum[i], (double)(a[i] + b[i]));
        }
    }
}
