/*
 * NVIDIA's driver library on Linux: its file, the loader's search for it, and its versions.
 * nvidia_devices.c has the stages behind these.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inject/probe/cuda.h"

#define LIBCUDA "libcuda.so.1"

const char cuda_driver_library[] = LIBCUDA;

/* ------------------------------------------------------------------ the library */

/* Whether the loader's words are about the library itself and not about what is behind it. glibc,
 * elf/dl-load.c and dl-error: "NAME: cannot open shared object file: No such file or directory". */
static bool is_absent(const char *error)
{
    static const char words[] = LIBCUDA ": cannot open shared object file: No such file";
    return strncmp(error, words, sizeof words - 1) == 0;
}

/*
 * lib=: where the model of the loader expects it; elsewhere=: where the file lies though the loader
 * does not look there; hint=: what the machine shows of the driver. Nothing of the library runs
 * where the model knows the file: that it opens is the next stage.
 */
void stage_driver_found(const struct job *j)
{
    const char *elsewhere = job_value(j, "elsewhere"), *hint = job_value(j, "hint");
    if (j->lib && access(j->lib, R_OK) == 0) {
        say_fact("library", "%s", j->lib);
        say_passed("%s", j->lib);
    }
    void *library = open_optional(LIBCUDA);
    const char *path = library ? library_path(library) : elsewhere;
    if (path) {
        say_fact("library", "%s", path);
        say_passed("%s", path);
    }
    if (library || !is_absent(library_error())) {
        say_passed("the loader finds " LIBCUDA);
    }
    say_fact("absent", "driver");
    say_failed(0, NULL, "no NVIDIA driver here: there is no " LIBCUDA "%s%s", hint ? "; " : "",
               hint ? hint : "");
}

/* By the loader's own search, and by the target's where that ends elsewhere. */
void stage_driver_opens(const struct job *j)
{
    void *by_name = open_optional(LIBCUDA);
    const char *found = by_name ? library_path(by_name) : NULL;
    const char *elsewhere = job_value(j, "elsewhere");
    if (j->lib && (!found || strcmp(found, j->lib) != 0)) {
        (void)open_library(j->lib);
        say_fact("library", "%s", j->lib);
        say_passed("%s, by the target's search; this process's own %s%s", j->lib,
                   found ? "ends at " : "does not find it", found ? found : "");
    }
    if (!by_name && elsewhere && is_absent(library_error())) {
        say_failed(0, NULL,
                   LIBCUDA " is at %s, where the loader does not look: add its folder to a file in "
                           "/etc/ld.so.conf.d and run ldconfig",
                   elsewhere);
    }
    (void)open_library(LIBCUDA);
    say_fact("library", "%s", found ? found : LIBCUDA);
    say_passed("%s", found ? found : LIBCUDA);
}

/* The version at the end of the file's name, "550.54.15"; NULL where it has none. */
static const char *file_version(const char *path)
{
    static const char stem[] = "libcuda.so.";
    const char *real = path ? realpath(path, NULL) : NULL; // lives as long as the process
    const char *base = real ? strrchr(real, '/') + 1 : "";
    bool named = strncmp(base, stem, sizeof stem - 1) == 0;
    const char *version = named ? base + sizeof stem - 1 : "";
    return strchr(version, '.') ? version : NULL;
}

/* module=: the version of the kernel module; compat=: the library is one of forward compatibility,
 * which is newer than the module by design. */
/* The library's version is read from its file name, which may lie: a driver of another version than
 * its kernel module's does not start (CUDA Driver API, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH). */
void stage_driver_version(const struct job *j)
{
    void *library = cuda_load_driver(j);
    int (*cuDriverGetVersion)(int *) = symbol(library, "cuDriverGetVersion");
    const char *ours = file_version(library_path(library)), *module = job_value(j, "module");
    int version = 0;
    TRY(&cuda_plain, cuDriverGetVersion, &version);
    say_fact("cuda", "%d.%d", version / 1000, version % 1000 / 10);
    say_fact("library.version", "%s", ours ? ours : "unknown");
    say_fact("module.version", "%s", module ? module : "unknown");
    if (version < 1000) {
        say_failed(0, NULL, "the driver reports CUDA %d.%d, which does not exist", version / 1000,
                   version % 1000 / 10);
    }
    bool differ = ours && module && strcmp(ours, module) != 0 && !job_value(j, "compat");
    int (*cuInit)(unsigned) = differ ? symbol(library, "cuInit") : NULL;
    if (differ && CALL(cuInit, 0) == 0) {
        say_passed(
            "CUDA %d.%d, kernel module %s: the driver starts with it, although the library's "
            "file is named for %s",
            version / 1000, version % 1000 / 10, module, ours);
    }
    if (differ) {
        say_failed(
            0, NULL,
            "the driver's library has version %s, and its kernel module %s: the driver was updated "
            "and the machine not restarted, or a container has another driver's libraries",
            ours, module);
    }
    if (ours && module) {
        say_passed("CUDA %d.%d, driver %s, kernel module %s%s", version / 1000, version % 1000 / 10,
                   ours, module, strcmp(ours, module) != 0 ? " (forward compatibility)" : "");
    }
    say_passed("CUDA %d.%d%s%s; %s", version / 1000, version % 1000 / 10,
               ours || module ? ", driver " : "",
               ours     ? ours
               : module ? module
                        : "",
               ours     ? "the version of the kernel module is unknown"
               : module ? "by its kernel module; the library's file does not say its version"
                        : "neither the library nor a kernel module states the driver's version");
}
