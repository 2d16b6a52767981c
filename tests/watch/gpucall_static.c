/* A runtime that is linked into the program and finds the driver as libcudart_static.a does: by
 * dlopen, dlsym of cuGetProcAddress_v2, and that for all else. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "gpucall_cupti.h"
#include "gpucall_runtime.h"

typedef int (*ask_function)(const char *, void **, int, uint64_t, int *);

static struct {
    int (*init)(unsigned);
    int (*alloc)(uint64_t *, size_t);
    int (*copy)(uint64_t, const void *, size_t);
    int (*query)(void *);
} driver;

static int entry(ask_function ask, const char *name, void *ret)
{
    int status;
    return ask(name, ret, 12040, 0, &status);
}

static int start(void)
{
    static int done = -1;
    void *library = done < 0 ? dlopen("libcuda.so.1", RTLD_NOW) : NULL;
    if (done >= 0) {
        return done;
    }
    done = 35;
    if (library) {
        ask_function ask = (ask_function)dlsym(library, "cuGetProcAddress_v2"), again;
        (void)entry(ask, "cuGetProcAddress", &again);
        ask = again ? again : ask;
        (void)entry(ask, "cuNotThere", &driver.init); // an optional feature
        done = entry(ask, "cuInit", &driver.init) || entry(ask, "cuMemAlloc", &driver.alloc) ||
               entry(ask, "cuMemcpyHtoD", &driver.copy) ||
               entry(ask, "cuStreamQuery", &driver.query);
        done = done ? 999 : driver.init(0);
    }
    return done;
}

int cudaMalloc(void **ret, size_t n)
{
    const struct {
        void **ret;
        size_t n;
    } members = {ret, n};
    uint64_t at = 0;
    int rc = start();
    tell_cupti(RUNTIME, ENTERS, "cudaMalloc_v3020", &members, &rc);
    rc = rc ? rc : driver.alloc(&at, n);
    tell_cupti(RUNTIME, LEAVES, "cudaMalloc_v3020", &members, &rc);
    *ret = (void *)(uintptr_t)at;
    return rc;
}

int cudaMemcpy(void *to, const void *from, size_t n, int kind)
{
    int rc = start();
    (void)kind;
    return rc ? rc : driver.copy((uintptr_t)to, from, n);
}

int cudaStreamQuery(void *stream)
{
    int rc = start();
    return rc ? rc : driver.query(stream);
}
