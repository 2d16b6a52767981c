/*
 * NVRTC: a kernel compiled to PTX, which needs no card; and one compiled for the card, loaded by
 * the driver and run. Declared from nvrtc.h ("NVRTC"). Its libnvrtc-builtins is opened by the first
 * compilation.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inject/probe/cuda.h"

enum { NVRTC_ERROR_INVALID_OPTION = 5 }; // nvrtcResult

static const char source[] =
    "extern \"C\" __global__ void add_vectors(const float *a, const float *b, float *c, int n)\n"
    "{\n"
    "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (i < n) {\n"
    "        c[i] = a[i] + b[i];\n"
    "    }\n"
    "}\n";

struct nvrtc {
    struct vendor vendor;
    void *dso, *program;
    int major, minor;
};

static void open_nvrtc(struct nvrtc *n, const struct job *j)
{
    *n = (struct nvrtc){.dso = open_library(stage_library(j))};
    const char *(*nvrtcGetErrorString)(int) = symbol(n->dso, "nvrtcGetErrorString");
    n->vendor = (struct vendor){.status_name = nvrtcGetErrorString};
    int (*nvrtcVersion)(int *, int *) = symbol(n->dso, "nvrtcVersion");
    TRY(&n->vendor, nvrtcVersion, &n->major, &n->minor);
    say_fact("nvrtc.version", "%d.%d", n->major, n->minor);
}

/* The compiler's first line, as a fact. */
static void say_log(const struct nvrtc *n)
{
    int (*nvrtcGetProgramLogSize)(void *, size_t *) = symbol(n->dso, "nvrtcGetProgramLogSize");
    int (*nvrtcGetProgramLog)(void *, char *) = symbol(n->dso, "nvrtcGetProgramLog");
    size_t size = 0;
    if (CALL(nvrtcGetProgramLogSize, n->program, &size) != 0 || size < 2) {
        return;
    }
    char *log = calloc(1, size + 1);
    if (log && CALL(nvrtcGetProgramLog, n->program, log) == 0) {
        say_fact("log", "%.*s", (int)strcspn(log, "\n"), log);
    }
    free(log);
}

/* Compiles for a virtual architecture, 86 for compute_86, or for NVRTC's own choice with 0. */
static char *compile(struct nvrtc *n, int capability)
{
    int (*nvrtcCreateProgram)(void **, const char *source, const char *name, int headers,
                              const char *const *, const char *const *) =
        symbol(n->dso, "nvrtcCreateProgram");
    int (*nvrtcCompileProgram)(void *, int options, const char *const *) =
        symbol(n->dso, "nvrtcCompileProgram");
    int (*nvrtcGetPTXSize)(void *, size_t *) = symbol(n->dso, "nvrtcGetPTXSize");
    int (*nvrtcGetPTX)(void *, char *) = symbol(n->dso, "nvrtcGetPTX");
    char option[48];
    const char *const options[] = {option};
    size_t size = 0;
    (void)snprintf(option, sizeof option, "--gpu-architecture=compute_%d", capability);
    TRY(&n->vendor, nvrtcCreateProgram, &n->program, source, "probe.cu", 0, NULL, NULL);
    int code = CALL(nvrtcCompileProgram, n->program, capability ? 1 : 0, options);
    if (code == NVRTC_ERROR_INVALID_OPTION && capability) {
        say_failed(code, n->vendor.status_name(code),
                   "nvrtcCompileProgram: NVRTC %d.%d does not support compute capability %d.%d, "
                   "which this GPU has: the GPU is too new for it, or too old",
                   n->major, n->minor, capability / 10, capability % 10);
    }
    if (code != 0) {
        say_log(n);
    }
    vendor_check(&n->vendor, "nvrtcCompileProgram", code);
    TRY(&n->vendor, nvrtcGetPTXSize, n->program, &size);
    char *ptx = calloc(1, size + 1);
    if (!ptx) {
        say_unknown("no memory for the PTX");
    }
    TRY(&n->vendor, nvrtcGetPTX, n->program, ptx);
    if (!strstr(ptx, "add_vectors")) {
        say_failed(0, NULL, "nvrtcGetPTX gave %zu bytes without the kernel", size);
    }
    return ptx;
}

void stage_nvrtc(const struct job *j)
{
    struct nvrtc n;
    open_nvrtc(&n, j);
    free(compile(&n, 0));
    say_passed("NVRTC %d.%d compiles a kernel to PTX, which needs no GPU", n.major, n.minor);
}

void stage_nvrtc_run(const struct job *j)
{
    struct cuda c;
    struct nvrtc n;
    cuda_compile_here();
    cuda_start(&c, j);
    open_nvrtc(&n, j);
    char *ptx = compile(&n, c.capability);
    cuda_run_addition(&c, ptx, "add_vectors");
    say_passed("a kernel that NVRTC %d.%d compiled for compute capability %d.%d runs correctly",
               n.major, n.minor, c.capability / 10, c.capability % 10);
}
