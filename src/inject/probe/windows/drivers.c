/*
 * The drivers' libraries on Windows: nvcuda.dll and amdhip64, which the installers of the drivers
 * put into System32. nvidia_devices.c and hip.c have the stages behind these.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inject/probe/amd.h"
#include "inject/probe/cuda.h"
#include "inject/probe/windows/system.h"

const char cuda_driver_library[] = "nvcuda.dll";

/* Nothing of the library runs: that it loads is the next stage. */
void stage_driver_found(const struct job *j)
{
    const char *path = system_file(cuda_driver_library), *hint = job_value(j, "hint");
    if (path) {
        say_fact("library", "%s", path);
        say_passed("%s", path);
    }
    say_fact("absent", "driver");
    say_failed(0, NULL, "no NVIDIA driver here: System32 has no %s%s%s", cuda_driver_library,
               hint ? "; " : "", hint ? hint : "");
}

void stage_driver_opens(const struct job *j)
{
    (void)j;
    const char *path = library_path(open_library(cuda_driver_library));
    say_fact("library", "%s", path ? path : cuda_driver_library);
    say_passed("%s", path ? path : cuda_driver_library);
}

/* version=: the driver's, "566.14", by its files; Windows has no version of a kernel module. */
void stage_driver_version(const struct job *j)
{
    void *library = cuda_load_driver(j);
    int (*cuDriverGetVersion)(int *) = symbol(library, "cuDriverGetVersion");
    const char *driver = job_value(j, "version");
    int version = 0;
    TRY(&cuda_plain, cuDriverGetVersion, &version);
    say_fact("cuda", "%d.%d", version / 1000, version % 1000 / 10);
    say_fact("library.version", "%s", driver ? driver : "unknown");
    if (version < 1000) {
        say_failed(0, NULL, "the driver reports CUDA %d.%d, which does not exist", version / 1000,
                   version % 1000 / 10);
    }
    say_passed("CUDA %d.%d%s%s", version / 1000, version % 1000 / 10, driver ? ", driver " : "",
               driver ? driver : "; its file does not say the driver's version");
}

/* Of several, the newest: the driver's own installer leaves older ones for older programs. */
void *amd_open(const struct job *j)
{
    static const char *const names[] = {"amdhip64_7.dll", "amdhip64_6.dll", "amdhip64.dll"};
    (void)j;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *path = system_file(names[i]);
        if (path) {
            say_fact("library", "%s", path);
            return open_library(names[i]);
        }
    }
    say_fact("absent", "driver");
    say_failed(0, NULL,
               "no HIP of AMD's driver here: System32 has no amdhip64_7.dll, "
               "amdhip64_6.dll or amdhip64.dll");
}
