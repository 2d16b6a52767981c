/*
 * HIP: its start, one device's properties, and its memory. The functions that the other stages of
 * AMD share are here too (amd.h says the sources).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inject/probe/amd.h"

struct hip hip;
static const char *(*hip_error_name)(int code); // NULL: it has no such function

void device_fact(size_t device, const char *what, const char *value)
{
    char key[48];
    (void)snprintf(key, sizeof key, "device.%zu.%s", device, what);
    say_fact(key, "%s", value);
}

void hip_find(void *library)
{
#define HIP_FIND(name, arguments) *(void **)&hip.name = symbol(library, #name);
    HIP_FUNCTIONS(HIP_FIND)
#undef HIP_FIND
    *(void **)&hip_error_name = symbol_optional(library, "hipGetErrorName");
}

/* Whether the GPU itself has too little memory left: HIP has the same code for the host's. Ends
 * the stage if the GPU does not say. */
static bool is_full(const char *function, int code)
{
    static const size_t little_bytes = (size_t)512 << 20;
    size_t unused = 0, memory = 0;
    if (hip.hipMemGetInfo(&unused, &memory) != HIP_SUCCESS) {
        say_unknown("%s: out of memory (%d): whether the GPU's or the host's memory is short, or "
                    "this process has a limit (ulimit, a container's), is unknown",
                    function, code);
    }
    return unused < little_bytes && unused < memory / 4;
}

void hip_check(const char *function, int code)
{
    if (code == HIP_SUCCESS) {
        return;
    }
    const char *name = hip_error_name ? hip_error_name(code) : NULL;
    if (code == HIP_OUT_OF_MEMORY && is_full(function, code)) {
        say_fact("busy", "memory");
        say_failed(code, name,
                   "%s failed because other programs hold the GPU's memory: it is busy, not "
                   "broken",
                   function);
    }
    say_failed(code, name, "%s failed", function);
}

void hip_start(const struct job *j, void *library)
{
    hip_find(library);
    HIP(hipInit, 0);
    HIP(hipSetDevice, j->device);
}

void *hip_upload(const void *from, size_t n)
{
    enum { PATTERN = 0xa5 };
    void *to = NULL;
    HIP(hipMalloc, &to, n);
    if (from) {
        HIP(hipMemcpy, to, from, n, HIP_HOST_TO_DEVICE);
    } else {
        HIP(hipMemset, to, PATTERN, n);
    }
    return to;
}

void hip_download(void *to, const void *from, size_t n)
{
    HIP(hipMemcpy, to, from, n, HIP_DEVICE_TO_HOST);
}

/* ------------------------------------------------------------------ stages */

/* hipRuntimeGetVersion: major * 10^7 + minor * 10^5 + patch. */
static void say_version(void)
{
    int version = 0;
    HIP(hipRuntimeGetVersion, &version);
    say_fact("hip.version", "%d.%d.%d", version / 10000000, version / 100000 % 100,
             version % 100000);
}

static void say_device(int device)
{
    char name[256] = "", pci[32] = "", mib[24];
    size_t total = 0;
    HIP(hipDeviceGetName, name, (int)sizeof name - 1, device);
    HIP(hipDeviceGetPCIBusId, pci, (int)sizeof pci - 1, device);
    HIP(hipDeviceTotalMem, &total, device);
    (void)snprintf(mib, sizeof mib, "%zu", total >> 20);
    device_fact((size_t)device, "name", name);
    device_fact((size_t)device, "pci", pci);
    device_fact((size_t)device, "memory", mib);
}

/* With the variables of the start environment: what programs see. */
void stage_hip_init(const struct job *j)
{
    int count = 0;
    hip_find(amd_open(j));
    HIP(hipInit, 0);
    say_version();
    HIP(hipGetDeviceCount, &count);
    say_fact("count", "%d", count);
    if (count <= 0) {
        hip_check("hipGetDeviceCount", HIP_NO_DEVICE);
    }
    for (int i = 0; i < count && i < HSA_GPUS_MAX; i++) {
        say_device(i);
    }
    say_passed("HIP starts and counts %d device%s", count, count > 1 ? "s" : "");
}

void stage_hip_device(const struct job *j)
{
    char name[256] = "", bus[32] = "";
    size_t total = 0, unused = 0, memory = 0;
    int units = 0;
    hip_start(j, amd_open(j));
    HIP(hipDeviceGetName, name, (int)sizeof name - 1, j->device);
    HIP(hipDeviceTotalMem, &total, j->device);
    HIP(hipDeviceGetPCIBusId, bus, (int)sizeof bus - 1, j->device);
    HIP(hipDeviceGetAttribute, &units, HIP_ATTRIBUTE_MULTIPROCESSORS, j->device);
    HIP(hipMemGetInfo, &unused, &memory);
    say_fact("name", "%s", name);
    say_fact("pci", "%s", bus);
    say_fact("multiprocessors", "%d", units);
    say_fact("memory.total.mib", "%zu", total >> 20);
    say_fact("memory.free.mib", "%zu", unused >> 20);
    if (total == 0 || units <= 0) {
        say_failed(0, NULL, "HIP counts %s with %zu bytes of memory and %d multiprocessors", name,
                   total, units);
    }
    say_passed("%s at %s with %zu MiB of memory, of which %zu MiB are free", name, bus, total >> 20,
               unused >> 20);
}

/* Every word says where it stands, so that a copy that is short, late or shifted is seen. */
static void fill_words(uint32_t *words, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        words[i] = (uint32_t)i * 2654435761u + 12345;
    }
}

void stage_hip_memory(const struct job *j)
{
    enum { WORDS = 1 << 20 };
    uint32_t *sent = malloc(WORDS * sizeof *sent), *back = calloc(WORDS, sizeof *back);
    if (!sent || !back) {
        say_unknown("the machine has no memory left for 8 MiB");
    }
    fill_words(sent, WORDS);
    hip_start(j, amd_open(j));
    void *p = hip_upload(sent, WORDS * sizeof *sent);
    hip_download(back, p, WORDS * sizeof *back);
    for (size_t i = 0; i < WORDS; i++) {
        if (sent[i] != back[i]) {
            say_failed(0, NULL,
                       "what was copied to the GPU came back changed: word %zu is %08x, not %08x",
                       i, back[i], sent[i]);
        }
    }
    HIP(hipFree, p);
    free(sent);
    free(back);
    say_passed("4 MiB were copied to the GPU and came back unchanged");
}
