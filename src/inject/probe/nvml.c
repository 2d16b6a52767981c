/*
 * NVML, NVIDIA's management library, and whether it sees what CUDA sees: nvidia-smi, monitoring and
 * schedulers use it. Declared from nvml.h ("NVML API Reference Guide": Initialization, Device
 * Queries, Multi Instance GPU Management).
 */
#include <string.h>

#include "inject/probe/cuda.h"

enum { NVML_SUCCESS = 0, NVML_ERROR_NOT_SUPPORTED = 3 };
enum { NAME_BYTES = 96, PCI_BYTES = 32, DEVICES_MAX = 64 };

/* nvmlMemory_t */
struct memory {
    unsigned long long total, free, used;
};

/* nvmlProcessInfo_t, of the functions with _v2 and _v3 */
struct process {
    unsigned pid;
    unsigned long long used; // all bits set: not known
    unsigned gpu_instance, compute_instance;
};

static const struct vendor nvml;

struct card {
    char name[NAME_BYTES], pci[PCI_BYTES];
    size_t memory;
};

/* ------------------------------------------------------------------ CUDA's side */

/* How many GPUs CUDA counts; -1: it does not start, which is for other stages to say. */
static int cuda_cards(const struct job *j, struct card cards[DEVICES_MAX])
{
    void *library = open_optional(j->lib ? j->lib : "libcuda.so.1");
    int (*cuInit)(unsigned) = library ? symbol_optional(library, "cuInit") : NULL;
    int count = 0;
    if (!cuInit || CALL(cuInit, 0) != 0) {
        return -1;
    }
    int (*cuDeviceGetCount)(int *) = symbol(library, "cuDeviceGetCount");
    int (*cuDeviceGet)(int *, int) = symbol(library, "cuDeviceGet");
    int (*cuDeviceGetName)(char *, int, int) = symbol(library, "cuDeviceGetName");
    int (*cuDeviceGetPCIBusId)(char *, int, int) = symbol(library, "cuDeviceGetPCIBusId");
    int (*cuDeviceTotalMem_v2)(size_t *, int) = symbol(library, "cuDeviceTotalMem_v2");
    if (CALL(cuDeviceGetCount, &count) != 0) {
        return -1;
    }
    for (int i = 0; i < count && i < DEVICES_MAX; i++) {
        int device = 0;
        bool good = CALL(cuDeviceGet, &device, i) == 0 &&
                    CALL(cuDeviceGetName, cards[i].name, NAME_BYTES - 1, device) == 0 &&
                    CALL(cuDeviceGetPCIBusId, cards[i].pci, PCI_BYTES - 1, device) == 0 &&
                    CALL(cuDeviceTotalMem_v2, &cards[i].memory, device) == 0;
        if (!good) {
            return -1;
        }
    }
    return count < DEVICES_MAX ? count : DEVICES_MAX;
}

/* ------------------------------------------------------------------ the comparison */

/* A MIG instance is called after its GPU: "NVIDIA A100-SXM4-40GB MIG 1g.5gb". */
static bool same_name(const char *cuda, const char *card)
{
    size_t n = strlen(card);
    return strncmp(cuda, card, n) == 0 && (cuda[n] == '\0' || strncmp(cuda + n, " MIG ", 5) == 0);
}

/* NVML counts what the driver keeps for itself, so CUDA has a little less: never a tenth. */
static void compare_memory(void *library, void *handle, const struct card *c, int ordinal)
{
    int (*nvmlDeviceGetMemoryInfo)(void *, struct memory *) =
        symbol(library, "nvmlDeviceGetMemoryInfo");
    struct memory m = {0};
    int rc = CALL(nvmlDeviceGetMemoryInfo, handle, &m);
    if (rc == NVML_ERROR_NOT_SUPPORTED) { // memory that is the host's
        return;
    }
    vendor_check(&nvml, "nvmlDeviceGetMemoryInfo", rc);
    if (c->memory > m.total || c->memory < m.total / 10 * 9) {
        say_failed(0, NULL, "NVML and CUDA differ in the memory of GPU %d: %llu MiB and %zu MiB",
                   ordinal, m.total >> 20, c->memory >> 20);
    }
}

/* Whether the GPU is divided: then CUDA shows instances and their memory. */
static bool is_divided(void *library, void *handle)
{
    int (*nvmlDeviceGetMigMode)(void *, unsigned *, unsigned *) =
        symbol_optional(library, "nvmlDeviceGetMigMode");
    unsigned current = 0, pending = 0;
    return nvmlDeviceGetMigMode && CALL(nvmlDeviceGetMigMode, handle, &current, &pending) == 0 &&
           current == 1;
}

/* Fact processes.PCI: "PID MIB,PID MIB", with "-" for memory that the driver does not tell. Which
 * processes compute on a GPU is left out where NVML does not say it, or there are too many. */
static void say_processes(void *library, void *handle, const struct card *c)
{
    enum { PROCESSES_MAX = 32 };
    int (*list)(void *, unsigned *, struct process *) =
        symbol_optional(library, "nvmlDeviceGetComputeRunningProcesses_v3");
    struct process all[PROCESSES_MAX] = {{0}};
    unsigned n = PROCESSES_MAX;
    char key[48], text[PROCESSES_MAX * 32] = "";
    if (!list) {
        list = symbol_optional(library, "nvmlDeviceGetComputeRunningProcesses_v2");
    }
    if (!list || CALL(list, handle, &n, all) != NVML_SUCCESS || n > PROCESSES_MAX) {
        return;
    }
    for (unsigned i = 0, at = 0; i < n; i++) {
        at += (unsigned)snprintf(text + at, sizeof text - at, "%s%u ", i ? "," : "", all[i].pid);
        at += all[i].used == ~0ULL
                  ? (unsigned)snprintf(text + at, sizeof text - at, "-")
                  : (unsigned)snprintf(text + at, sizeof text - at, "%llu", all[i].used >> 20);
    }
    (void)snprintf(key, sizeof key, "processes.%s", c->pci);
    say_fact(key, "%s", text);
}

static bool compare_card(void *library, const struct card *c, int ordinal)
{
    int (*nvmlDeviceGetHandleByPciBusId_v2)(const char *, void **) =
        symbol(library, "nvmlDeviceGetHandleByPciBusId_v2");
    int (*nvmlDeviceGetName)(void *, char *, unsigned) = symbol(library, "nvmlDeviceGetName");
    char name[NAME_BYTES] = "";
    void *handle = NULL;
    int rc = CALL(nvmlDeviceGetHandleByPciBusId_v2, c->pci, &handle);
    if (rc != NVML_SUCCESS) {
        say_failed(rc, NULL, "CUDA has GPU %d at %s and NVML does not find it there", ordinal,
                   c->pci);
    }
    TRY(&nvml, nvmlDeviceGetName, handle, name, NAME_BYTES - 1);
    if (!same_name(c->name, name)) {
        say_failed(0, NULL, "NVML and CUDA differ in the name of GPU %d: %s and %s", ordinal, name,
                   c->name);
    }
    say_processes(library, handle, c);
    bool divided = is_divided(library, handle);
    if (!divided) {
        compare_memory(library, handle, c, ordinal);
    }
    return divided;
}

static void *start_nvml(const struct job *j)
{
    const char *path = job_value(j, "nvml");
    void *library = open_optional(path ? path : "libnvidia-ml.so.1");
    if (!library) {
        say_skipped("there is no libnvidia-ml.so.1: nvidia-smi and monitoring do not work here; "
                    "CUDA does not need it");
    }
    int (*nvmlInit_v2)(void) = symbol(library, "nvmlInit_v2");
    TRY(&nvml, nvmlInit_v2);
    return library;
}

static int say_version_and_count(void *library)
{
    int (*nvmlSystemGetDriverVersion)(char *, unsigned) =
        symbol(library, "nvmlSystemGetDriverVersion");
    int (*nvmlDeviceGetCount_v2)(unsigned *) = symbol(library, "nvmlDeviceGetCount_v2");
    char version[NAME_BYTES] = "";
    unsigned count = 0;
    TRY(&nvml, nvmlSystemGetDriverVersion, version, NAME_BYTES - 1);
    TRY(&nvml, nvmlDeviceGetCount_v2, &count);
    say_fact("driver.version", "%s", version);
    say_fact("nvml.count", "%u", count);
    return (int)count;
}

/* Run with the variables cleared that hide devices from CUDA; NVML knows none. nvml=: its path. */
void stage_nvml(const struct job *j)
{
    static struct card cards[DEVICES_MAX];
    void *library = start_nvml(j);
    int count = say_version_and_count(library), seen = cuda_cards(j, cards);
    bool divided = false;
    if (seen < 0) {
        say_passed("NVML counts %d GPU%s; CUDA does not start, so there is nothing to compare",
                   count, count == 1 ? "" : "s");
    }
    for (int i = 0; i < seen; i++) {
        divided |= compare_card(library, &cards[i], i);
    }
    if (seen != count && !divided) {
        say_failed(0, NULL, "NVML counts %d GPU%s and CUDA %d", count, count == 1 ? "" : "s", seen);
    }
    say_passed("NVML and CUDA agree on %d GPU%s%s", seen, seen == 1 ? "" : "s",
               divided ? ", some of them MIG instances" : ", their names and memory");
}
