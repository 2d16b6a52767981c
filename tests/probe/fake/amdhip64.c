/* libamdhip64.so: a card whose memory is the machine's and whose only kernel is the vector sum of
 * the probe. It refuses code for another gfx target as a real one does. Linked against the fake
 * HSA. */
#include <stdint.h>

#include "amd.h"
#include "table.h"

int hsa_init(void);

enum {
    OUT_OF_MEMORY = 2,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    NO_BINARY = 209,
    NOT_FOUND = 500
};

int hipInit(unsigned flags);
int hipRuntimeGetVersion(int *ret);
int hipGetDeviceCount(int *ret);
int hipSetDevice(int device);
int hipDeviceGetName(char *ret, int n, int device);
int hipDeviceTotalMem(size_t *ret, int device);
int hipDeviceGetPCIBusId(char *ret, int n, int device);
int hipDeviceGetAttribute(int *ret, int attribute, int device);
int hipMemGetInfo(size_t *unused, size_t *total);
int hipMalloc(void **ret, size_t n);
int hipFree(void *p);
int hipMemcpy(void *to, const void *from, size_t n, int kind);
int hipMemset(void *to, int value, size_t n);
int hipDeviceSynchronize(void);
int hipModuleLoadData(void **ret, const void *image);
int hipModuleGetFunction(void **ret, void *module, const char *name);
int hipModuleLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                          unsigned by, unsigned bz, unsigned shared, void *stream, void **arguments,
                          void **extra);
int hipModuleUnload(void *module);
const char *hipGetErrorName(int code);

static int device_count(void)
{
    struct fake f = fake_call("devices");
    return (int)fake_number(&f, 1);
}

int hipInit(unsigned flags)
{
    (void)flags;
    FAKE(hipInit);
    return hsa_init() == 0 ? 0 : 100;
}

int hipRuntimeGetVersion(int *ret)
{
    FAKE(hipRuntimeGetVersion);
    *ret = (int)fake_number(&fake_now, 60443484);
    return 0;
}

int hipGetDeviceCount(int *ret)
{
    FAKE(hipGetDeviceCount);
    *ret = device_count();
    return *ret ? 0 : 100;
}

int hipSetDevice(int device)
{
    FAKE(hipSetDevice);
    return device >= 0 && device < device_count() ? 0 : INVALID_DEVICE;
}

int hipDeviceGetName(char *ret, int n, int device)
{
    (void)device;
    FAKE(hipDeviceGetName);
    snprintf(ret, (size_t)n, "%s", fake_word(&fake_now, "AMD Radeon RX 7900 XTX"));
    return 0;
}

int hipDeviceTotalMem(size_t *ret, int device)
{
    (void)device;
    FAKE(hipDeviceTotalMem);
    *ret = (size_t)fake_number(&fake_now, 24L << 30);
    return 0;
}

int hipDeviceGetPCIBusId(char *ret, int n, int device)
{
    FAKE(hipDeviceGetPCIBusId);
    char bus[32];
    snprintf(bus, sizeof bus, "0000:%02x:00.0", 3 + device);
    snprintf(ret, (size_t)n, "%s", fake_word(&fake_now, bus));
    return 0;
}

int hipDeviceGetAttribute(int *ret, int attribute, int device)
{
    (void)device;
    FAKE(hipDeviceGetAttribute);
    *ret = attribute == 63 ? (int)fake_number(&fake_now, 48) : 0;
    return attribute == 63 ? 0 : 1;
}

int hipMemGetInfo(size_t *unused, size_t *total)
{
    FAKE(hipMemGetInfo);
    *total = (size_t)24 << 30;
    *unused = (size_t)fake_number(&fake_now, 23L << 30);
    return 0;
}

int hipMalloc(void **ret, size_t n)
{
    FAKE(hipMalloc);
    *ret = malloc(n);
    return *ret ? 0 : OUT_OF_MEMORY;
}

int hipFree(void *p)
{
    FAKE(hipFree);
    free(p);
    return 0;
}

int hipMemcpy(void *to, const void *from, size_t n, int kind)
{
    (void)kind;
    FAKE(hipMemcpy);
    memcpy(to, from, n);
    if (fake_now.wrong && n > 8) {
        ((unsigned char *)to)[n / 2] ^= 0x40;
    }
    return 0;
}

int hipMemset(void *to, int value, size_t n)
{
    FAKE(hipMemset);
    memset(to, value, n);
    return 0;
}

int hipDeviceSynchronize(void)
{
    FAKE(hipDeviceSynchronize);
    return 0;
}

int hipModuleLoadData(void **ret, const void *image)
{
    FAKE(hipModuleLoadData);
    size_t n = strlen(FAKE_OBJECT);
    if (strncmp(image, FAKE_OBJECT, n) != 0) {
        return INVALID_IMAGE;
    }
    if (strcmp((const char *)image + n, FAKE_GFX) != 0) {
        return NO_BINARY;
    }
    *ret = (void *)"module";
    return 0;
}

int hipModuleGetFunction(void **ret, void *module, const char *name)
{
    (void)module;
    FAKE(hipModuleGetFunction);
    if (strcmp(name, "gpumend_add") != 0) {
        return NOT_FOUND;
    }
    *ret = (void *)"function";
    return 0;
}

int hipModuleLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                          unsigned by, unsigned bz, unsigned shared, void *stream, void **arguments,
                          void **extra)
{
    (void)function, (void)gy, (void)gz, (void)by, (void)bz, (void)shared, (void)stream, (void)extra;
    FAKE(hipModuleLaunchKernel);
    const float *a = *(float **)arguments[0], *b = *(float **)arguments[1];
    float *c = *(float **)arguments[2];
    unsigned n = *(unsigned *)arguments[3];
    for (unsigned i = 0; i < n && i < gx * bx; i++) {
        c[i] = a[i] + b[i] + (float)(fake_now.wrong && i == n / 2);
    }
    return 0;
}

int hipModuleUnload(void *module)
{
    (void)module;
    FAKE(hipModuleUnload);
    return 0;
}

const char *hipGetErrorName(int code)
{
    return code == 2 ? "hipErrorOutOfMemory" : code == 100 ? "hipErrorNoDevice" : "hipErrorUnknown";
}
