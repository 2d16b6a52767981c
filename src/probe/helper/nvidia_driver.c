/* NVIDIA's driver library, from its file to a kernel that ran. */
#include <string.h>
#include <unistd.h>

#include "probe/helper/helper.h"

#define LIBCUDA "libcuda.so.1"

/*
 * lib=: where the model of the loader expects it; elsewhere=: where the file lies though the loader
 * does not look there; hint=: what the machine shows of the driver. Nothing of the library runs where
 * the model knows the file: that it opens is the next stage.
 */
void stage_driver_found(const struct job *j)
{
    const char *elsewhere = job_value(j, "elsewhere"), *hint = job_value(j, "hint");
    if (j->lib && access(j->lib, R_OK) == 0) {
        say_passed("%s", j->lib);
    }
    void *library = open_optional(LIBCUDA);
    const char *path = library ? library_path(library) : NULL;
    if (path) {
        say_passed("%s, which was not expected", path);
    }
    if (elsewhere) {
        say_failed(0, NULL, "the loader does not find " LIBCUDA ", which is at %s", elsewhere);
    }
    say_fact("absent", "driver");
    say_failed(0, NULL, "no NVIDIA driver here: there is no " LIBCUDA "%s%s", hint ? "; " : "",
               hint ? hint : "");
}

void stage_driver_opens(const struct job *j)
{
    void *library = open_library(j->lib ? j->lib : LIBCUDA);
    const char *path = library_path(library);
    say_passed("%s", path ? path : LIBCUDA);
}
