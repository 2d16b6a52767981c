/*
 * NVIDIA's driver library from its functions to a kernel that ran, on every system.
 *
 * Declared from cuda.h ("CUDA Driver API": Initialization, Version Management, Device Management,
 * Memory Management). The stages before `context` need no context and make none.
 */
#include <stdlib.h>
#include <string.h>

#include "inject/probe/cuda.h"

enum { // CUdevice_attribute, CUcomputemode
    ATTRIBUTE_MULTIPROCESSORS = 16,
    ATTRIBUTE_INTEGRATED = 18,
    ATTRIBUTE_COMPUTE_MODE = 20,
    ATTRIBUTE_ECC = 32,
    ATTRIBUTE_CAPABILITY_MAJOR = 75,
    ATTRIBUTE_CAPABILITY_MINOR = 76,
    COMPUTE_PROHIBITED = 2,
    COMPUTE_EXCLUSIVE_PROCESS = 3,
};
enum {
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_DEVICE_UNAVAILABLE = 46,
    CUDA_ERROR_NO_DEVICE = 100
};
enum { NAME_BYTES = 256, PCI_BYTES = 32, UUID_BYTES = 16, UUID_TEXT = 41, DEVICES_MAX = 64 };

const struct vendor cuda_plain = {.no_memory = {CUDA_ERROR_OUT_OF_MEMORY},
                                  .unavailable = CUDA_ERROR_DEVICE_UNAVAILABLE};

/* By the target's path where that is known, so that the soname means that file afterwards. */
void *cuda_load_driver(const struct job *j)
{
    return open_library(j->lib ? j->lib : cuda_driver_library);
}

/* ------------------------------------------------------------------ functions */

/* What CUDA programs of any age ask for; the newest of them is of CUDA 7.0. */
void stage_driver_symbols(const struct job *j)
{
    static const char *const names[] = {"cuInit",
                                        "cuDriverGetVersion",
                                        "cuDeviceGetCount",
                                        "cuDeviceGet",
                                        "cuDeviceGetName",
                                        "cuDeviceTotalMem_v2",
                                        "cuDeviceGetAttribute",
                                        "cuDeviceGetPCIBusId",
                                        "cuDevicePrimaryCtxRetain",
                                        "cuCtxSetCurrent",
                                        "cuCtxSynchronize",
                                        "cuMemGetInfo_v2",
                                        "cuMemAlloc_v2",
                                        "cuMemFree_v2",
                                        "cuMemcpyHtoD_v2",
                                        "cuMemcpyDtoH_v2",
                                        "cuMemcpyDtoD_v2",
                                        "cuModuleLoadData",
                                        "cuModuleGetFunction",
                                        "cuLaunchKernel"};
    enum { N = sizeof names / sizeof *names };
    void *library = cuda_load_driver(j);
    const char *first = NULL;
    int missing = 0;
    for (int i = 0; i < N; i++) {
        if (!symbol_optional(library, names[i])) {
            first = first ? first : names[i];
            missing++;
        }
    }
    if (missing) {
        const char *path = library_path(library);
        say_failed(0, NULL,
                   "%s lacks %d of the %d functions that the probe uses, the first of them %s",
                   path ? path : cuda_driver_library, missing, N, first);
    }
    say_passed("it has all %d functions that the probe uses", N);
}

/* ------------------------------------------------------------------ the start */

static void *start_driver(const struct job *j)
{
    void *library = cuda_load_driver(j);
    int (*cuInit)(unsigned) = symbol(library, "cuInit");
    TRY(&cuda_plain, cuInit, 0);
    return library;
}

void stage_driver_init(const struct job *j)
{
    (void)start_driver(j);
    say_passed("the driver starts");
}

/* ------------------------------------------------------------------ devices */

static void uuid_text(const unsigned char *bytes, char text[UUID_TEXT])
{
    static const char hex[] = "0123456789abcdef";
    size_t n = sizeof "GPU-" - 1;
    memcpy(text, "GPU-", n);
    for (size_t i = 0; i < UUID_BYTES; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10) {
            text[n++] = '-';
        }
        text[n++] = hex[bytes[i] >> 4];
        text[n++] = hex[bytes[i] & 15];
    }
    text[n] = '\0';
}

static void device_fact(int ordinal, const char *what, const char *value)
{
    char key[48];
    (void)snprintf(key, sizeof key, "device.%d.%s", ordinal, what);
    say_fact(key, "%s", value);
}

/* Facts device.N.name, .pci, .memory (MiB) and, where the driver is not older than CUDA 9.2, .uuid.
 */
static void say_device(void *library, int ordinal)
{
    int (*cuDeviceGet)(int *, int) = symbol(library, "cuDeviceGet");
    int (*cuDeviceGetName)(char *, int, int) = symbol(library, "cuDeviceGetName");
    int (*cuDeviceGetPCIBusId)(char *, int, int) = symbol(library, "cuDeviceGetPCIBusId");
    int (*cuDeviceTotalMem_v2)(size_t *, int) = symbol(library, "cuDeviceTotalMem_v2");
    int (*cuDeviceGetUuid)(unsigned char *, int) = symbol_optional(library, "cuDeviceGetUuid");
    char name[NAME_BYTES] = "", pci[PCI_BYTES] = "", mib[24], uuid[UUID_TEXT];
    unsigned char bytes[UUID_BYTES] = {0};
    size_t memory = 0;
    int device = 0;
    TRY(&cuda_plain, cuDeviceGet, &device, ordinal);
    TRY(&cuda_plain, cuDeviceGetName, name, NAME_BYTES - 1, device);
    TRY(&cuda_plain, cuDeviceGetPCIBusId, pci, PCI_BYTES - 1, device);
    TRY(&cuda_plain, cuDeviceTotalMem_v2, &memory, device);
    (void)snprintf(mib, sizeof mib, "%zu", memory >> 20);
    device_fact(ordinal, "name", name);
    device_fact(ordinal, "pci", pci);
    device_fact(ordinal, "memory", mib);
    if (cuDeviceGetUuid && CALL(cuDeviceGetUuid, bytes, device) == 0) {
        uuid_text(bytes, uuid);
        device_fact(ordinal, "uuid", uuid);
    }
}

static int say_devices(void *library)
{
    int (*cuDeviceGetCount)(int *) = symbol(library, "cuDeviceGetCount");
    int count = 0, rc = CALL(cuDeviceGetCount, &count);
    if (rc != CUDA_ERROR_NO_DEVICE) {
        vendor_check(&cuda_plain, "cuDeviceGetCount", rc);
    }
    count = rc == 0 ? count : 0;
    say_fact("count", "%d", count);
    for (int i = 0; i < count && i < DEVICES_MAX; i++) {
        say_device(library, i);
    }
    return count;
}

/* With the variables cleared that hide devices. */
void stage_device_count(const struct job *j)
{
    int count = say_devices(start_driver(j));
    if (count <= 0) {
        say_failed(0, NULL, "the driver starts and counts no GPU");
    }
    say_passed("%d GPU%s", count, count == 1 ? "" : "s");
}

/* In the target's environment, where already cuInit says that all devices are hidden. */
void stage_visible_devices(const struct job *j)
{
    void *library = cuda_load_driver(j);
    int (*cuInit)(unsigned) = symbol(library, "cuInit");
    int rc = CALL(cuInit, 0);
    if (rc != CUDA_ERROR_NO_DEVICE) {
        vendor_check(&cuda_plain, "cuInit", rc);
    }
    int count = rc == 0 ? say_devices(library) : 0;
    if (count <= 0) {
        say_failed(rc, NULL, "programs see no GPU here, though the driver has one");
    }
    say_passed("programs see %d GPU%s", count, count == 1 ? "" : "s");
}

/* ------------------------------------------------------------------ one device */

static int attribute(void *library, int which, int device)
{
    int (*cuDeviceGetAttribute)(int *, int, int) = symbol(library, "cuDeviceGetAttribute");
    int value = 0;
    TRY(&cuda_plain, cuDeviceGetAttribute, &value, which, device);
    return value;
}

static int device_of(void *library, const struct job *j)
{
    int (*cuDeviceGet)(int *, int) = symbol(library, "cuDeviceGet");
    int device = 0;
    TRY(&cuda_plain, cuDeviceGet, &device, j->device);
    return device;
}

/* A GPU on which the administrator lets nobody compute is not broken. */
static void check_mode(const struct cuda *c)
{
    int mode = attribute(c->dso, ATTRIBUTE_COMPUTE_MODE, c->handle);
    say_fact("compute.mode", "%s",
             mode == COMPUTE_PROHIBITED          ? "prohibited"
             : mode == COMPUTE_EXCLUSIVE_PROCESS ? "exclusive-process"
                                                 : "default");
    if (mode == COMPUTE_PROHIBITED) {
        say_fact("busy", "prohibited");
        say_failed(0, NULL,
                   "the GPU is not broken: its compute mode is Prohibited, which admits no program "
                   "(sudo nvidia-smi -c 0 resets it)");
    }
}

void stage_context(const struct job *j)
{
    struct cuda c;
    (void)cuda_load_driver(j);
    cuda_open(&c, j);
    check_mode(&c);
    cuda_context(&c);
    say_passed("made");
}

void stage_attributes(const struct job *j)
{
    void *library = start_driver(j);
    int (*cuDeviceGetName)(char *, int, int) = symbol(library, "cuDeviceGetName");
    int device = device_of(library, j);
    int major = attribute(library, ATTRIBUTE_CAPABILITY_MAJOR, device);
    int minor = attribute(library, ATTRIBUTE_CAPABILITY_MINOR, device);
    int processors = attribute(library, ATTRIBUTE_MULTIPROCESSORS, device);
    char name[NAME_BYTES] = "";
    TRY(&cuda_plain, cuDeviceGetName, name, NAME_BYTES - 1, device);
    say_fact("name", "%s", name);
    say_fact("compute.capability", "%d.%d", major, minor);
    say_fact("multiprocessors", "%d", processors);
    say_fact("integrated", "%d", attribute(library, ATTRIBUTE_INTEGRATED, device));
    say_fact("ecc", "%d", attribute(library, ATTRIBUTE_ECC, device));
    if (major < 1 || processors < 1) {
        say_failed(0, NULL,
                   "the driver reports impossible properties: compute capability %d.%d and %d "
                   "multiprocessors",
                   major, minor, processors);
    }
    say_passed("%s, compute capability %d.%d, %d multiprocessor%s", name, major, minor, processors,
               processors == 1 ? "" : "s");
}

void stage_memory_free(const struct job *j)
{
    struct cuda c;
    size_t free_bytes = 0, total_bytes = 0;
    (void)cuda_load_driver(j);
    cuda_start(&c, j);
    int (*cuMemGetInfo_v2)(size_t *, size_t *) = symbol(c.dso, "cuMemGetInfo_v2");
    TRY(&c.vendor, cuMemGetInfo_v2, &free_bytes, &total_bytes);
    say_fact("memory.free.mib", "%zu", free_bytes >> 20);
    say_fact("memory.total.mib", "%zu", total_bytes >> 20);
    if (total_bytes == 0 || free_bytes > total_bytes) {
        say_failed(0, NULL, "the driver reports that %zu of %zu bytes are free", free_bytes,
                   total_bytes);
    }
    say_passed("%zu of %zu MiB are free", free_bytes >> 20, total_bytes >> 20);
}

/* Different in every word, so that a copy to the wrong place is seen. */
static uint32_t pattern(uint32_t i)
{
    return i * 2654435761u ^ 0x5bd1e995u;
}

enum { COPY_BYTES = 8 << 20 };

void stage_memory(const struct job *j)
{
    struct cuda c;
    uint32_t n = COPY_BYTES / 4, *words = malloc(COPY_BYTES);
    if (!words) {
        say_unknown("the host has no memory left to copy from");
    }
    (void)cuda_load_driver(j);
    cuda_start(&c, j);
    int (*cuMemcpyDtoD_v2)(uint64_t, uint64_t, size_t) = symbol(c.dso, "cuMemcpyDtoD_v2");
    int (*cuMemFree_v2)(uint64_t) = symbol(c.dso, "cuMemFree_v2");
    for (uint32_t i = 0; i < n; i++) {
        words[i] = pattern(i);
    }
    uint64_t from = cuda_put(&c, words, COPY_BYTES), to = cuda_alloc(&c, COPY_BYTES);
    TRY(&c.vendor, cuMemcpyDtoD_v2, to, from, COPY_BYTES);
    memset(words, 0, COPY_BYTES);
    cuda_get(&c, words, to, COPY_BYTES);
    for (uint32_t i = 0; i < n; i++) {
        if (words[i] != pattern(i)) {
            say_failed(0, NULL,
                       "%d MiB were copied to the GPU, within it and back, but word %u is 0x%08x "
                       "instead of 0x%08x",
                       COPY_BYTES >> 20, i, words[i], pattern(i));
        }
    }
    TRY(&c.vendor, cuMemFree_v2, to);
    TRY(&c.vendor, cuMemFree_v2, from);
    say_passed("%d MiB were copied to the GPU, within it and back unchanged", COPY_BYTES >> 20);
}

/*
 * sum[i] = a[i] + b[i] for i < n, in PTX ISA 6.0 for compute capability 3.0 ("PTX ISA", "PTX Module
 * Directives" and "Release Notes": of CUDA 9.0, driver 384). Drivers take older PTX than their own,
 * so each compiles it for its GPUs.
 */
static const char addition[] =
    ".version 6.0\n"
    ".target sm_30\n"
    ".address_size 64\n"
    ".visible .entry gpumend_add(.param .u64 a, .param .u64 b, .param .u64 sum, .param .u32 n)\n"
    "{\n"
    "  .reg .pred %p;\n"
    "  .reg .f32 %x, %y;\n"
    "  .reg .u32 %block, %size, %thread, %i, %n;\n"
    "  .reg .u64 %a, %b, %sum, %at;\n"
    "  mov.u32 %block, %ctaid.x;\n"
    "  mov.u32 %size, %ntid.x;\n"
    "  mov.u32 %thread, %tid.x;\n"
    "  mad.lo.u32 %i, %block, %size, %thread;\n"
    "  ld.param.u32 %n, [n];\n"
    "  setp.ge.u32 %p, %i, %n;\n"
    "  @%p bra end;\n"
    "  ld.param.u64 %a, [a];\n"
    "  ld.param.u64 %b, [b];\n"
    "  ld.param.u64 %sum, [sum];\n"
    "  cvta.to.global.u64 %a, %a;\n"
    "  cvta.to.global.u64 %b, %b;\n"
    "  cvta.to.global.u64 %sum, %sum;\n"
    "  mul.wide.u32 %at, %i, 4;\n"
    "  add.u64 %a, %a, %at;\n"
    "  add.u64 %b, %b, %at;\n"
    "  add.u64 %sum, %sum, %at;\n"
    "  ld.global.f32 %x, [%a];\n"
    "  ld.global.f32 %y, [%b];\n"
    "  add.rn.f32 %x, %x, %y;\n"
    "  st.global.f32 [%sum], %x;\n"
    "end:\n"
    "  ret;\n"
    "}\n";

void stage_kernel(const struct job *j)
{
    struct cuda c;
    cuda_compile_here();
    (void)cuda_load_driver(j);
    cuda_start(&c, j);
    cuda_run_addition(&c, addition, "gpumend_add");
    say_passed("the driver compiled it, it ran, and its result is correct");
}
