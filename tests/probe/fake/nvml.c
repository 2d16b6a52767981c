/* libnvidia-ml.so.1: the cards of cuda.c, whatever CUDA_VISIBLE_DEVICES says. */
#include "table.h"

struct memory {
    unsigned long long total, free, used;
};

static int handles[16];

int nvmlInit_v2(void)
{
    FAKE(nvmlInit_v2);
    return 0;
}

int nvmlSystemGetDriverVersion(char *text, unsigned n)
{
    FAKE(nvmlSystemGetDriverVersion);
    snprintf(text, n, "%s", fake_word(&fake_now, "550.54.15"));
    return 0;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
    FAKE(nvmlDeviceGetCount_v2);
    struct fake f = fake_call("cards");
    *count = (unsigned)fake_number(&fake_now, fake_number(&f, 1));
    return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **handle)
{
    FAKE(nvmlDeviceGetHandleByPciBusId_v2);
    unsigned bus = 0;
    if (sscanf(id, "0000:%x:00.0", &bus) != 1 || bus < 1 || bus > 16) {
        return 6;
    }
    *handle = &handles[bus - 1];
    return 0;
}

int nvmlDeviceGetName(void *handle, char *name, unsigned n)
{
    FAKE(nvmlDeviceGetName);
    (void)handle;
    snprintf(name, n, "%s", fake_word(&fake_now, "NVIDIA Fake 1"));
    return 0;
}

int nvmlDeviceGetMemoryInfo(void *handle, struct memory *memory)
{
    FAKE(nvmlDeviceGetMemoryInfo);
    (void)handle;
    memory->total = (unsigned long long)fake_number(&fake_now, 8192) << 20;
    return 0;
}

struct process {
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
};

/* "value N": so many, from process 4000 on; the second's memory is not known. */
int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, struct process *all)
{
    FAKE(nvmlDeviceGetComputeRunningProcesses_v3);
    (void)handle;
    unsigned n = (unsigned)fake_number(&fake_now, 0), room = *count;
    *count = n;
    for (unsigned i = 0; i < n && i < room; i++) {
        all[i] = (struct process){.pid = 4000 + i, .used = i == 1 ? ~0ULL : 512ULL << 20};
    }
    return n > room ? 7 : 0;
}

int nvmlDeviceGetMigMode(void *handle, unsigned *current, unsigned *pending)
{
    FAKE(nvmlDeviceGetMigMode);
    (void)handle;
    *current = *pending = (unsigned)fake_number(&fake_now, 0);
    return 0;
}
