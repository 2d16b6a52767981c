#include "inject/probe/cuda.h"
#include "inject/probe/helper.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "inject/probe/amd.h"

/* Those that the drivers alone do not have: the libraries of packages, and what Linux tells. */
static const struct stage stages[] = {
    {"nvml", stage_nvml},
    {"cpu", stage_cpu},
    {"kfd", stage_kfd},
    {"hsa", stage_hsa},
    {"hiprtc-kernel", stage_hiprtc_kernel},
    {"hipblas-float32", stage_hipblas_float32},
    {"hipblas-float16", stage_hipblas_float16},
    {"hipblas-bfloat16", stage_hipblas_bfloat16},
    {"hipblas-int8", stage_hipblas_int8},
    {"miopen-convolution", stage_miopen_convolution},
    {"cudart", stage_cudart},
    {"cudart-memory", stage_cudart_memory},
    {"cublas", stage_cublas},
    {"cublas-start", stage_cublas_start},
    {"cublas-float32", stage_cublas_gemm},
    {"cublas-tf32", stage_cublas_gemm},
    {"cublas-float16", stage_cublas_gemm},
    {"cublas-bfloat16", stage_cublas_gemm},
    {"cublas-int8", stage_cublas_gemm},
    {"cublaslt-float32", stage_cublaslt_gemm},
    {"cublaslt-tf32", stage_cublaslt_gemm},
    {"cublaslt-float16", stage_cublaslt_gemm},
    {"cublaslt-bfloat16", stage_cublaslt_gemm},
    {"cublaslt-int8", stage_cublaslt_gemm},
    {"cudnn", stage_cudnn},
    {"cudnn-convolution", stage_cudnn_convolution},
    {"nvrtc", stage_nvrtc},
    {"nvrtc-run", stage_nvrtc_run},
    {"nccl", stage_nccl},
    {"nccl-allreduce", stage_nccl_allreduce},
};

/* ------------------------------------------------------------------ bindings */

/*
 * Linking against a glibc of today would bind these to GLIBC_2.34, which moved them into libc.so.6
 * or changed how a program starts. The older versions are in every later glibc. DT_NEEDED names
 * libdl.so.2, where they were before.
 */
#if defined(__x86_64__)
#define OLD        "GLIBC_2.2.5"
#define OLD_DLINFO "GLIBC_2.3.3"
#elif defined(__aarch64__)
#define OLD        "GLIBC_2.17"
#define OLD_DLINFO "GLIBC_2.17"
#else
#error "the helper has no start for this architecture"
#endif
__asm__(".symver dlopen,dlopen@" OLD "\n"
        ".symver dlsym,dlsym@" OLD "\n"
        ".symver dlerror,dlerror@" OLD "\n"
        ".symver dlinfo,dlinfo@" OLD_DLINFO "\n");

int main(int argc, char **argv);

/*
 * The program's entry: the C library's own (crt1.o) is bound to the newest __libc_start_main. Stack
 * and registers are as the psABI's process initialisation has them (x86-64 psABI 3.4.1; AArch64:
 * the stack alike, x0 the function to register with atexit). No constructors: init and fini are
 * NULL.
 */
#if defined(__x86_64__)
__asm__(".symver __libc_start_main,__libc_start_main@" OLD "\n"
        ".text\n.globl _start\n.type _start,@function\n_start:\n"
        "    xorl %ebp, %ebp\n"
        "    movq %rdx, %r9\n"
        "    popq %rsi\n"
        "    movq %rsp, %rdx\n"
        "    andq $-16, %rsp\n"
        "    pushq %rax\n"
        "    pushq %rsp\n"
        "    xorl %r8d, %r8d\n"
        "    xorl %ecx, %ecx\n"
        "    leaq main(%rip), %rdi\n"
        "    call *__libc_start_main@GOTPCREL(%rip)\n"
        "    hlt\n");
#else
__asm__(".symver __libc_start_main,__libc_start_main@" OLD "\n"
        ".text\n.globl _start\n.type _start,%function\n_start:\n"
        "    mov x29, #0\n"
        "    mov x30, #0\n"
        "    mov x5, x0\n"
        "    ldr x1, [sp]\n"
        "    add x2, sp, #8\n"
        "    mov x6, sp\n"
        "    adrp x0, main\n"
        "    add x0, x0, :lo12:main\n"
        "    mov x3, #0\n"
        "    mov x4, #0\n"
        "    bl __libc_start_main\n"
        "    brk #0\n");
#endif

/* ------------------------------------------------------------------ libraries */

/* dlerror() forgets what it has said. */
const char *library_error(void)
{
    static char last[2000] = "the loader gives no reason";
    const char *text = dlerror();
    if (text) {
        (void)snprintf(last, sizeof last, "%s", text); // what is longer is cut
    }
    return last;
}

void *open_optional(const char *path)
{
    say_call("dlopen");
    return path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
}

void *open_library(const char *path)
{
    if (!path) {
        say_unknown("no library was named to the helper");
    }
    void *library = open_optional(path);
    if (!library) {
        say_failed(0, NULL, "%s does not open: %s", path, library_error());
    }
    return library;
}

void *symbol_optional(void *library, const char *name)
{
    return dlsym(library, name);
}

void *symbol(void *library, const char *name)
{
    void *found = dlsym(library, name);
    if (!found) {
        const char *path = library_path(library);
        say_failed(0, NULL, "%s has no function %s", path ? path : "the library", name);
    }
    return found;
}

const char *library_path(void *library)
{
    struct link_map *map = NULL;
    bool known = dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name[0];
    return known ? map->l_name : NULL;
}

/* ------------------------------------------------------------------ the job */

void job_load_all(const struct job *j)
{
    job_load_before(j, "");
}

void job_load_before(const struct job *j, const char *path)
{
    for (size_t i = 0; i < j->n_load && strcmp(j->load[i], path) != 0; i++) {
        say_call("dlopen");
        if (!dlopen(j->load[i], RTLD_NOW | RTLD_GLOBAL)) {
            say_failed(0, NULL, "%s does not open: %s", j->load[i], library_error());
        }
    }
}

unsigned long long address_limit_mib(void)
{
    struct rlimit addresses = {RLIM_INFINITY, RLIM_INFINITY};
    bool limited = getrlimit(RLIMIT_AS, &addresses) == 0 && addresses.rlim_cur != RLIM_INFINITY;
    return limited ? (unsigned long long)addresses.rlim_cur >> 20 : 0;
}

void set_variable(const char *name, const char *value)
{
    (void)setenv(name, value, 1);
}

void unset_variable(const char *name)
{
    (void)unsetenv(name);
}

int main(int argc, char **argv)
{
    struct job j;
    (void)fcntl(REPORT_FD, F_SETFD, FD_CLOEXEC); // without the descriptor nothing can be said
    job_read(&j, argv + (argc > 0));
    stage_run(&j, stages, sizeof stages / sizeof *stages);
}
