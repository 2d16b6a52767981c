#include "probe/meaning.h"

#include <string.h>

/* cuda.h, enum cudaError_enum; the runtime (driver_types.h) has the same numbers for these. */
enum {
    OUT_OF_MEMORY = 2,
    STUB_LIBRARY = 34,
    NO_DEVICE = 100,
    NOT_READY = 802,
    MISMATCH = 803,
    COMPAT_NOT_SUPPORTED = 804,
    MPS_FIRST = 805,
    MPS_LAST = 810,
};

/* CUDA Driver API, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH: "a mismatch between the versions of the
 * display driver and the CUDA driver". */
static const char *mismatch(struct arena *a, const struct probe_driver *d)
{
    const char *library = d->library ? d->library : "libcuda.so.1";
    bool versions = d->library_version && d->module_version &&
                    strcmp(d->library_version, d->module_version) != 0;
    const char *which =
        versions ? arena_printf(a, " (%s and %s)", d->library_version, d->module_version) : "";
    if (d->compat && d->own) {
        return arena_printf(
            a,
            "%s is a forward-compatibility library (package cuda-compat) that does not go with "
            "the loaded kernel module%s. Remove its folder from the search path (LD_LIBRARY_PATH, "
            "ld.so.conf.d), or remove the package: the driver's own library is %s. The GPU itself "
            "was not tested.",
            library, which, d->own);
    }
    return arena_printf(
        a,
        "%s does not match the version of the loaded kernel module%s, so the GPU cannot be used "
        "until they match. After a driver update, restart the machine. In a container, use the "
        "host's driver libraries: remove the image's own libcuda (a driver package, "
        "/usr/local/cuda/compat) from the search path. The GPU itself was not tested.",
        library, which);
}

/* CUDA Driver API, CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE; CUDA Compatibility, "Forward
 * Compatibility": data center GPUs and some RTX boards alone, with drivers of certain branches. */
static const char *no_compat(struct arena *a, const struct probe_driver *d)
{
    const char *library = d->library ? d->library : "the libcuda.so.1 that is loaded";
    const char *is = d->compat ? "is" : "works as";
    const char *own = d->own ? arena_printf(a, ", %s,", d->own) : "";
    return arena_printf(
        a,
        "%s %s a forward-compatibility library (package cuda-compat), which this GPU or driver "
        "does not support. Remove its folder from the search path (LD_LIBRARY_PATH, ld.so.conf.d), "
        "or remove the package: the driver's own library%s then serves every program that the "
        "driver's CUDA version supports. Nothing is broken.",
        library, is, own);
}

static const struct {
    long first, last;
    const char *text;
} codes[] = {
    {OUT_OF_MEMORY, OUT_OF_MEMORY,
     "There was not enough memory, on the GPU or on the host: other programs use it, or this "
     "process has a limit. Nothing is broken."},
    {STUB_LIBRARY, STUB_LIBRARY,
     "This libcuda is a stub for linking, from a toolkit's folder \"stubs\", which does not belong "
     "on the search path. The driver and the GPU were not tested."},
    {NO_DEVICE, NO_DEVICE,
     "The driver answers but has no GPU to offer: this container or virtual machine was given "
     "none, its device nodes are missing, or MIG is on and has no instance."},
    {NOT_READY, NOT_READY,
     "The kernel module and the GPU answer, but the machine is not ready yet: with NVSwitch the "
     "fabric manager must run, and on some machines confidential computing must be set to ready. "
     "No package of the environment can repair that."},
    {MPS_FIRST, MPS_LAST,
     "Programs here use the MPS daemon (CUDA_MPS_PIPE_DIRECTORY), which is what fails. The driver "
     "and the GPU were not tested."},
};

/* Of NVIDIA's driver. */
static const char *by_code(struct arena *a, long code, const struct probe_driver *d)
{
    if (code == MISMATCH) {
        return mismatch(a, d);
    }
    if (code == COMPAT_NOT_SUPPORTED) {
        return no_compat(a, d);
    }
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        if (code >= codes[i].first && code <= codes[i].last) {
            return codes[i].text;
        }
    }
    return NULL;
}

/* A stage that ended without a word says whose code was running, and nothing of whose fault that
 * was. */
static const char *crashed(struct arena *a, const struct probe_run *run)
{
    static const char *const logs[PROBE_VENDORS] = {
        [PROBE_NVIDIA] = "; the kernel's log (dmesg: NVRM, Xid) may say why",
        [PROBE_AMD] = "; the kernel's log (dmesg: amdgpu, kfd) may say why"};
    const char *log = logs[run->stage->vendor] ? logs[run->stage->vendor] : "";
    const char *where = run->last_call ? run->last_call : "the stage";
    if (run->sent) {
        return arena_printf(
            a,
            "Signal %d (%s) comes from another process, or from the kernel, which kills processes "
            "when memory is short, also at a container's limit (dmesg: oom-kill). It does not show "
            "that the driver or the GPU is at fault.",
            run->signal, strsignal(run->signal));
    }
    if (run->signal) {
        return arena_printf(
            a,
            "The process crashed in code that ran during %s: the library's own, or that of a "
            "library it loads. Which of them is at fault, or a layer below, is unknown%s.",
            where, log);
    }
    return arena_printf(a,
                        "The library, or one that it loads, ended the process during %s. The cause "
                        "is unknown; its output may say why.",
                        where);
}

/* Whether the row's sentence is about what was seen: the code of its own question, or none. */
static bool is_of_the_row(const struct probe_run *run, const struct probe_driver *d)
{
    const char *name = run->stage->name;
    if (strcmp(name, "driver-version") == 0) {
        return !run->code && d->library_version && d->module_version &&
               strcmp(d->library_version, d->module_version) != 0;
    }
    if (strcmp(name, "visible-devices") == 0) {
        return !run->code || run->code == NO_DEVICE;
    }
    return !run->code || (strcmp(name, "driver-init") != 0 && strcmp(name, "device-count") != 0);
}

/* The two codes are the same whichever library passes them on. */
static bool is_about_files(const struct probe_run *run)
{
    bool cuda = run->stage->api == PROBE_API_CUDA_DRIVER ||
                run->stage->api == PROBE_API_CUDA_RUNTIME ||
                (run->code_name && strncmp(run->code_name, "CUDA_ERROR_", 11) == 0);
    return cuda && (run->code == MISMATCH || run->code == COMPAT_NOT_SUPPORTED);
}

const char *probe_meaning(struct arena *a, const struct probe_run *run,
                          const struct probe_driver *driver)
{
    const struct probe_stage *s = run->stage;
    bool of_driver = s->vendor == PROBE_NVIDIA && s->api == PROBE_API_CUDA_DRIVER;
    if (run->outcome == PROBE_FAIL && s->vendor == PROBE_NVIDIA && is_about_files(run)) {
        return by_code(a, run->code, driver);
    }
    if (run->outcome == PROBE_CRASHED && !s->module) { // a package's row asserts nothing of it
        return crashed(a, run);
    }
    if (!of_driver) {
        return s->means;
    }
    const char *known = run->outcome == PROBE_FAIL ? by_code(a, run->code, driver) : NULL;
    if (known && strcmp(s->name, "visible-devices") != 0) {
        return known;
    }
    if (strcmp(s->name, "driver-version") == 0 && is_of_the_row(run, driver)) {
        return mismatch(a, driver);
    }
    return is_of_the_row(run, driver)
               ? s->means
               : "The driver's library returns an error, and the code alone does not show whether "
                 "the kernel module, the device nodes, the GPU or this process's permissions are "
                 "at fault. The kernel's log (dmesg: NVRM, Xid) may say why.";
}
