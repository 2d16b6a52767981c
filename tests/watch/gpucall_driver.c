/* The probe's fake driver with what a runtime asks of one besides: entry points by name and
 * version, calls whose failure is part of how they are used, and the injected library. */
#define cuInit        plain_cuInit
#define cuMemAlloc_v2 plain_cuMemAlloc_v2
#include "../probe/fake/cuda.c"
#undef cuInit
#undef cuMemAlloc_v2

#include <dlfcn.h>

#include "gpucall_cupti.h"

/* CUPTI documentation, "Injection": loaded at cuInit, and its one function called. */
int cuInit(unsigned flags)
{
    static void *injected;
    const char *path = getenv("CUDA_INJECTION64_PATH");
    if (path && !injected) {
        injected = dlopen(path, RTLD_NOW);
        int (*initialize)(void) =
            injected ? (int (*)(void))dlsym(injected, "InitializeInjection") : NULL;
        if (!initialize || !initialize()) {
            return 999;
        }
    }
    return plain_cuInit(flags);
}

int cuMemAlloc_v2(uint64_t *at, size_t n)
{
    const struct {
        uint64_t *at;
        size_t n;
    } members = {at, n};
    int result = 0;
    tell_cupti(DRIVER, ENTERS, "cuMemAlloc_v2", &members, &result);
    result = plain_cuMemAlloc_v2(at, n);
    tell_cupti(DRIVER, LEAVES, "cuMemAlloc_v2", &members, &result);
    return result;
}

/* No kernel was built for this GPU. */
int cuLibraryGetKernel(void **kernel, void *library, const char *name)
{
    (void)kernel, (void)library, (void)name;
    return 209;
}

/* As the driver has it: the form _v2 belongs to versions from 3020 on, and a version newer than its
 * own is an invalid value (580.159.04, asked for 13.2). */
int cuGetProcAddress_v2(const char *name, void **ret, int version, uint64_t flags, int *status)
{
    (void)flags;
    FAKE(cuGetProcAddress_v2);
    *ret = NULL;
    if (version > 13000) {
        return 1;
    }
    char newer[128];
    void *self = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    snprintf(newer, sizeof newer, "%s_v2", name);
    *ret = version >= 3020 ? dlsym(self, newer) : NULL;
    *ret = *ret ? *ret : dlsym(self, name);
    dlclose(self);
    if (status) {
        *status = *ret ? 0 : 1;
    }
    return *ret ? 0 : 500;
}

int cuStreamQuery(void *stream)
{
    (void)stream;
    FAKE(cuStreamQuery);
    return 600;
}

int cuPointerGetAttribute(void *ret, int attribute, uint64_t at)
{
    (void)ret, (void)attribute, (void)at;
    FAKE(cuPointerGetAttribute);
    return 1;
}

int cuCtxGetCurrent(void **ret)
{
    (void)ret;
    FAKE(cuCtxGetCurrent);
    return 201;
}

/* More arguments than there are registers, each of which has to arrive. */
int cuMemcpyBatchAsync_v2(void *a, void *b, void *c, size_t d, void *e, void *f, size_t g, void *h)
{
    FAKE(cuMemcpyBatchAsync_v2);
    return a == (void *)1 && b == (void *)2 && c == (void *)3 && d == 4 && e == (void *)5 &&
                   f == (void *)6 && g == 7 && h == (void *)8
               ? 1
               : 0;
}
