/* What follows from a stage that failed on Windows. The codes are those of cuda.h (enum
 * cudaError_enum), whose documentation says what each means; what Windows makes of it, and no step
 * that only Linux has. */
#include "probe/meaning.h"

#include <string.h>

static const struct {
    const char *stage; // NULL: any of NVIDIA's driver
    long code;         // 0: any
    const char *text;
} meanings[] = {
    {"driver-found", 0,
     "Without nvcuda.dll no program can use an NVIDIA GPU; the driver's installer puts it into "
     "System32. The GPU itself was not tested."},
    {"driver-opens", 193,
     "The file nvcuda.dll in System32 is not a DLL for this processor: something has replaced the "
     "driver's own. Install NVIDIA's driver again. The GPU itself was not tested."},
    {"driver-opens", 0,
     "The driver's library is in System32 but does not load: it, or a DLL that it imports, is "
     "damaged or missing. Install NVIDIA's driver again. The GPU itself was not tested."},
    {NULL, 2,
     "There was not enough memory, on the GPU or on the host: other programs use it, or this "
     "process has a limit. Nothing is broken."},
    {NULL, 34,
     "This nvcuda.dll is a stub for linking, not the driver's. The driver and the GPU were not "
     "tested."},
    {NULL, 100,
     "The driver answers but has no GPU to offer. gpumend devices shows the GPUs that Windows "
     "knows, their drivers, and whether one is disabled."},
    {NULL, 803,
     "nvcuda.dll does not match the version of the loaded display driver, so the GPU cannot be "
     "used until they match: restart Windows after an update of the driver, otherwise install the "
     "driver again. The GPU itself was not tested."},
    {"driver-symbols", 0,
     "The file is not the driver's library, or the driver is too old for CUDA programs."},
    {"driver-init", 0,
     "The driver's library returns an error, and the code alone does not show whether the "
     "library, the display driver or the GPU is at fault. Windows' event log may say more."},
    {"hip-init", 0,
     "HIP does not start or finds no GPU, so every program that uses it fails. The code alone does "
     "not show whether the library, the display driver or the GPU is at fault."},
    {"visible-devices", 0, "The driver has a GPU, but environment variables hide it."},
};

static const char *crash_text(struct arena *a, const struct probe_run *run)
{
    return arena_printf(a,
                        "The process ended in code that ran during %s: the library's own, or that "
                        "of a library it loads. Which of them is at fault, or a layer below, is "
                        "unknown; Windows' event log may say more.",
                        run->last_call ? run->last_call : "the stage");
}

const char *probe_meaning(struct arena *a, const struct probe_run *run,
                          const struct probe_driver *driver)
{
    (void)driver; // its files are Linux's
    if (run->outcome == PROBE_CRASHED) {
        return crash_text(a, run);
    }
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++) {
        bool stage = meanings[i].stage ? strcmp(meanings[i].stage, run->stage->name) == 0
                                       : run->stage->vendor == PROBE_NVIDIA;
        if (stage && (meanings[i].code == 0 || meanings[i].code == run->code)) {
            return meanings[i].text;
        }
    }
    return run->stage->means;
}
