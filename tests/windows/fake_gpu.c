/*
 * nvcuda.dll and, with -DHIP, amdhip64_7.dll: memory of the card is memory of the host, and every
 * kernel adds two vectors. The variable FAKE says how one function misbehaves:
 *
 *   FUNCTION=NUMBER   it returns that
 *   FUNCTION=crash    it writes to address 0
 *   FUNCTION=hang     it never returns
 *   FUNCTION=leave    it ends the process with status 5
 *   FUNCTION=flood    it first writes 8 MiB on standard output
 *   FUNCTION=start    it first starts the program that FAKE_CHILD names, which inherits all handles
 *   copy=wrong        a copy from the card is off by a bit
 *
 * FAKE_CARDS is how many cards there are (2). A function is left out by -DWITHOUT_NAME; -DREFUSES
 * makes the start of the DLL fail.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <windows.h>

#define API __declspec(dllexport) int

static void misbehave(const char *how)
{
    static char junk[1 << 16];
    DWORD n;
    if (strcmp(how, "crash") == 0) {
        *(volatile int *)NULL = 1;
    } else if (strcmp(how, "hang") == 0) {
        Sleep(INFINITE);
    } else if (strcmp(how, "leave") == 0) {
        ExitProcess(5);
    } else if (strcmp(how, "flood") == 0) {
        memset(junk, 'x', sizeof junk);
        for (int i = 0; i < 128; i++) {
            (void)WriteFile(GetStdHandle(STD_OUTPUT_HANDLE), junk, sizeof junk, &n, NULL);
        }
    } else if (strcmp(how, "start") == 0) {
        STARTUPINFOA info = {.cb = sizeof info};
        PROCESS_INFORMATION child;
        (void)CreateProcessA(getenv("FAKE_CHILD"), NULL, NULL, NULL, TRUE, 0, NULL, NULL, &info,
                             &child);
    }
}

/* What the table says of a function: a code to return at once, or -1. */
static int fake(const char *function)
{
    const char *text = getenv("FAKE");
    size_t n = strlen(function);
    if (!text || strncmp(text, function, n) != 0 || text[n] != '=') {
        return -1;
    }
    if (text[n + 1] >= '0' && text[n + 1] <= '9') {
        return atoi(text + n + 1);
    }
    misbehave(text + n + 1);
    return -1;
}

#define FAKE(function)                                                                             \
    do {                                                                                           \
        int code = fake(#function);                                                                \
        if (code >= 0) {                                                                           \
            return code;                                                                           \
        }                                                                                          \
    } while (0)

static int cards(void)
{
    const char *text = getenv("FAKE_CARDS");
    return text ? atoi(text) : 2;
}

static void copy_back(void *to, const void *from, size_t n)
{
    const char *text = getenv("FAKE");
    memcpy(to, from, n);
    if (text && strcmp(text, "copy=wrong") == 0) {
        ((char *)to)[n / 2] ^= 1;
    }
}

BOOL WINAPI DllMain(HINSTANCE self, DWORD why, void *reserved)
{
    (void)self, (void)why, (void)reserved;
#ifdef REFUSES
    return FALSE;
#else
    return TRUE;
#endif
}

#ifndef HIP

static int visible(void)
{
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    return list && strcmp(list, "-1") == 0 ? 0 : cards();
}

API cuInit(unsigned flags)
{
    FAKE(cuInit);
    return flags ? 1 : visible() ? 0 : 100;
}

API cuDriverGetVersion(int *version)
{
    FAKE(cuDriverGetVersion);
    *version = 12080;
    return 0;
}

API cuDeviceGetCount(int *count)
{
    FAKE(cuDeviceGetCount);
    *count = visible();
    return 0;
}

API cuDeviceGet(int *device, int ordinal)
{
    *device = ordinal;
    return ordinal < cards() ? 0 : 101;
}

API cuDeviceGetName(char *name, int n, int device)
{
    (void)snprintf(name, (size_t)n, "NVIDIA Fake %d", device + 1);
    return 0;
}

API cuDeviceGetPCIBusId(char *id, int n, int device)
{
    (void)snprintf(id, (size_t)n, "0000:%02x:00.0", device + 1);
    return 0;
}

API cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    *bytes = (size_t)(8000 + device) << 20;
    return 0;
}

API cuDeviceGetUuid(unsigned char *uuid, int device)
{
    memset(uuid, device + 1, 16);
    return 0;
}

API cuDeviceGetAttribute(int *value, int which, int device)
{
    (void)device;
    *value = which == 75 ? 8 : which == 76 ? 9 : which == 16 ? 128 : 0;
    return 0;
}

API cuDevicePrimaryCtxRetain(void **context, int device)
{
    static int contexts[16];
    FAKE(cuDevicePrimaryCtxRetain);
    *context = &contexts[device];
    return 0;
}

API cuCtxSetCurrent(void *context)
{
    return context ? 0 : 201;
}

API cuCtxSynchronize(void)
{
    return 0;
}

#ifndef WITHOUT_cuMemGetInfo_v2
API cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    *free_bytes = (size_t)7000 << 20;
    *total = (size_t)8000 << 20;
    return 0;
}
#endif

API cuMemAlloc_v2(unsigned long long *at, size_t n)
{
    FAKE(cuMemAlloc_v2);
    *at = (unsigned long long)(size_t)malloc(n);
    return 0;
}

API cuMemFree_v2(unsigned long long at)
{
    free((void *)(size_t)at);
    return 0;
}

API cuMemcpyHtoD_v2(unsigned long long to, const void *from, size_t n)
{
    memcpy((void *)(size_t)to, from, n);
    return 0;
}

API cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t n)
{
    copy_back(to, (void *)(size_t)from, n);
    return 0;
}

API cuMemcpyDtoD_v2(unsigned long long to, unsigned long long from, size_t n)
{
    memcpy((void *)(size_t)to, (void *)(size_t)from, n);
    return 0;
}

API cuModuleLoadData(void **module, const void *image)
{
    FAKE(cuModuleLoadData);
    *module = (void *)image;
    return 0;
}

API cuModuleGetFunction(void **function, void *module, const char *name)
{
    *function = module;
    return name ? 0 : 500;
}

API cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void *stream, void **arguments, void **extra)
{
    FAKE(cuLaunchKernel);
    (void)f, (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)stream,
        (void)extra;
    float *a = *(float **)arguments[0], *b = *(float **)arguments[1],
          *sum = *(float **)arguments[2];
    for (int i = 0; i < *(int *)arguments[3]; i++) {
        sum[i] = a[i] + b[i];
    }
    return 0;
}

#else

API hipInit(unsigned flags)
{
    FAKE(hipInit);
    return flags ? 1 : 0;
}

API hipRuntimeGetVersion(int *version)
{
    *version = 60241512;
    return 0;
}

API hipGetDeviceCount(int *count)
{
    FAKE(hipGetDeviceCount);
    *count = cards();
    return 0;
}

API hipSetDevice(int device)
{
    return device < cards() ? 0 : 101;
}

API hipDeviceGetName(char *name, int n, int device)
{
    (void)snprintf(name, (size_t)n, "AMD Fake %d", device + 1);
    return 0;
}

API hipDeviceTotalMem(size_t *bytes, int device)
{
    (void)device;
    *bytes = (size_t)16000 << 20;
    return 0;
}

API hipDeviceGetPCIBusId(char *id, int n, int device)
{
    (void)snprintf(id, (size_t)n, "0000:%02x:00.0", device + 1);
    return 0;
}

API hipDeviceGetAttribute(int *value, int attribute, int device)
{
    (void)attribute, (void)device;
    *value = 40;
    return 0;
}

API hipMemGetInfo(size_t *free_bytes, size_t *total)
{
    *free_bytes = (size_t)15000 << 20;
    *total = (size_t)16000 << 20;
    return 0;
}

API hipMalloc(void **at, size_t n)
{
    FAKE(hipMalloc);
    *at = malloc(n);
    return 0;
}

API hipFree(void *at)
{
    free(at);
    return 0;
}

API hipMemcpy(void *to, const void *from, size_t n, int kind)
{
    if (kind == 2) {
        copy_back(to, from, n);
    } else {
        memcpy(to, from, n);
    }
    return 0;
}

API hipMemset(void *to, int value, size_t n)
{
    memset(to, value, n);
    return 0;
}

API hipDeviceSynchronize(void)
{
    return 0;
}

API hipModuleLoadData(void **module, const void *image)
{
    (void)module, (void)image;
    return 1;
}

API hipModuleGetFunction(void **function, void *module, const char *name)
{
    (void)function, (void)module, (void)name;
    return 1;
}

API hipModuleLaunchKernel(void)
{
    return 1;
}

API hipModuleUnload(void *module)
{
    (void)module;
    return 1;
}

#endif
