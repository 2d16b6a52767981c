/*
 * A kernel of our own: compiled by hipRTC for the device's gfx target, loaded, run, and its result
 * checked. What stands between a GPU that is listed and one that computes is mostly here: a
 * compiler that does not know the target, a code object for another one, HSA_OVERRIDE_GFX_VERSION.
 *
 * Sources: HIP RTC API and "Programming for HIP runtime compiler" of the HIP documentation
 * (--offload-arch; hiprtcGetCode gives a code object for hipModuleLoadData).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inject/probe/amd.h"

static const char kernel_name[] = "gpumend_add";
static const char kernel_source[] =
    "extern \"C\" __global__ void gpumend_add(const float *a, const float *b, float *c, int n)\n"
    "{\n"
    "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (i < n) {\n"
    "        c[i] = a[i] + b[i];\n"
    "    }\n"
    "}\n";

enum { HIPRTC_SUCCESS = 0, HIPRTC_INVALID_OPTION = 5, HIPRTC_COMPILATION = 6 };

/* Every function returns a hiprtcResult. */
#define HIPRTC_FUNCTIONS(X)                                                                        \
    X(hiprtcCreateProgram, (void **ret, const char *source, const char *name, int n_headers,       \
                            const char **headers, const char **names))                             \
    X(hiprtcCompileProgram, (void *program, int n, const char **options))                          \
    X(hiprtcGetProgramLogSize, (void *program, size_t *ret))                                       \
    X(hiprtcGetProgramLog, (void *program, char *ret))                                             \
    X(hiprtcGetCodeSize, (void *program, size_t *ret))                                             \
    X(hiprtcGetCode, (void *program, char *ret))                                                   \
    X(hiprtcDestroyProgram, (void **program))

static struct hiprtc {
#define HIPRTC_MEMBER(name, arguments) int(*name) arguments;
    HIPRTC_FUNCTIONS(HIPRTC_MEMBER)
#undef HIPRTC_MEMBER
    const char *(*hiprtcGetErrorString)(int code);
} hiprtc;

static void hiprtc_find(void *library)
{
#define HIPRTC_FIND(name, arguments) *(void **)&hiprtc.name = symbol(library, #name);
    HIPRTC_FUNCTIONS(HIPRTC_FIND)
#undef HIPRTC_FIND
    *(void **)&hiprtc.hiprtcGetErrorString = symbol_optional(library, "hiprtcGetErrorString");
}

static void hiprtc_check(const char *function, int code)
{
    if (code != HIPRTC_SUCCESS) {
        const char *name = hiprtc.hiprtcGetErrorString ? hiprtc.hiprtcGetErrorString(code) : NULL;
        say_failed(code, name, "%s failed", function);
    }
}

#define HIPRTC(name, ...) hiprtc_check(#name, (say_call(#name), hiprtc.name(__VA_ARGS__)))

/* The compiler's first line that names an error, or its first, without the rest. */
static void cut_log(char *log)
{
    char *error = strstr(log, "error:");
    char *from = error ? error : log;
    size_t n = strcspn(from, "\n");
    memmove(log, from, n);
    log[n] = '\0';
}

static _Noreturn void not_compiled(void *program, int code, const char *gfx)
{
    size_t n = 0;
    if (hiprtc.hiprtcGetProgramLogSize(program, &n) != HIPRTC_SUCCESS || n > 1 << 20) {
        n = 0;
    }
    char *log = calloc(n + 1, 1);
    if (!log || (n && hiprtc.hiprtcGetProgramLog(program, log) != HIPRTC_SUCCESS)) {
        say_failed(code, NULL, "hipRTC does not compile a kernel for %s and returns no log", gfx);
    }
    cut_log(log);
    say_failed(code, NULL, "hipRTC does not compile a kernel for %s: %s", gfx,
               *log ? log : "its log is empty");
}

/* The code object; the caller frees it. */
static char *compile(const char *gfx)
{
    char option[96];
    const char *options[] = {option};
    void *program = NULL;
    size_t n = 0;
    (void)snprintf(option, sizeof option, "--offload-arch=%s", gfx);
    HIPRTC(hiprtcCreateProgram, &program, kernel_source, "gpumend.hip", 0, NULL, NULL);
    say_call("hiprtcCompileProgram");
    int code = hiprtc.hiprtcCompileProgram(program, 1, options);
    if (code != HIPRTC_SUCCESS) {
        not_compiled(program, code, gfx);
    }
    HIPRTC(hiprtcGetCodeSize, program, &n);
    char *object = n && n < (64u << 20) ? malloc(n) : NULL;
    if (!object) {
        say_failed(0, NULL, "hipRTC returns a code object of %zu bytes", n);
    }
    HIPRTC(hiprtcGetCode, program, object);
    HIPRTC(hiprtcDestroyProgram, &program);
    return object;
}

/* HIP is a library of its own beside hipRTC, among those of load=; up to ROCm 5 it may be the same.
 */
static void *open_hip(const struct job *j, void *rtc)
{
    for (size_t i = 0; i < j->n_load; i++) {
        const char *slash = strrchr(j->load[i], '/');
        const char *name = slash ? slash + 1 : j->load[i];
        if (strncmp(name, "libamdhip64.so", 14) == 0) {
            job_load_before(j, j->load[i]);
            return open_library(j->load[i]);
        }
    }
    return rtc;
}

enum { N = 10000, BLOCK = 256 };

static void run_call(void *function, void *a, void *b, void *c)
{
    int n = N;
    void *arguments[] = {&a, &b, &c, &n};
    HIP(hipModuleLaunchKernel, function, (N + BLOCK - 1) / BLOCK, 1, 1, BLOCK, 1, 1, 0, NULL,
        arguments, NULL);
    HIP(hipDeviceSynchronize);
}

static void add_on_device(const char *object, const char *gfx)
{
    static float a[N], b[N], c[N];
    void *module = NULL, *function = NULL;
    for (int i = 0; i < N; i++) {
        a[i] = (float)i;
        b[i] = (float)(3 * i + 1);
    }
    HIP(hipModuleLoadData, &module, object);
    HIP(hipModuleGetFunction, &function, module, kernel_name);
    void *on_a = hip_upload(a, sizeof a), *on_b = hip_upload(b, sizeof b);
    void *on_c = hip_upload(NULL, sizeof c);
    run_call(function, on_a, on_b, on_c);
    hip_download(c, on_c, sizeof c);
    for (int i = 0; i < N; i++) {
        if (c[i] != a[i] + b[i]) { // small whole numbers: exact on any device
            say_failed(
                0, NULL,
                "a kernel compiled for %s ran but computed a wrong result: sum %d is %g, not %g",
                gfx, i, (double)c[i], (double)(a[i] + b[i]));
        }
    }
    HIP(hipModuleUnload, module);
}

void stage_hiprtc_kernel(const struct job *j)
{
    struct hsa_gpus gpus = {0};
    void *rtc = amd_open(j), *library = open_hip(j, rtc);
    hiprtc_find(rtc);
    hip_start(j, library);
    hsa_list(library, &gpus);
    const char *gfx = hsa_gfx_of(&gpus, j->device);
    if (!gfx) {
        say_unknown(
            "the HSA runtime lists no GPU for HIP's device %d, so its gfx target is unknown",
            j->device);
    }
    say_fact("gfx", "%s", gfx);
    char *object = compile(gfx);
    add_on_device(object, gfx);
    free(object);
    say_passed("a kernel compiled for %s ran, and its %d sums are correct", gfx, N);
}
