/* The probe's fake driver with what a runtime asks of one besides: entry points by name and version,
 * and calls whose failure is part of how they are used. */
#include "../probe/fake/cuda.c"

#include <dlfcn.h>

/* As the driver has it: the form _v2 belongs to versions from 3020 on. */
int cuGetProcAddress_v2(const char *name, void **ret, int version, uint64_t flags, int *status)
{
    (void)flags;
    FAKE(cuGetProcAddress_v2);
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
