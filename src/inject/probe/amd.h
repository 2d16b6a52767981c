/*
 * What the stages of AMD's runtime share: the few functions of HIP and HSA that they call, found by
 * name in the libraries of the target. No header of ROCm is used; the prototypes are declared here
 * from its public documentation.
 *
 * hipDeviceProp_t changed its layout between ROCm 5 and 6 and the function that fills it has two
 * names, so it is not asked for: hipDeviceGetName, hipDeviceTotalMem, hipDeviceGetPCIBusId and
 * hipDeviceGetAttribute say what is needed and are the same in both.
 *
 * Sources: HIP API reference (rocm.docs.amd.com/projects/HIP): modules "Initialization and
 * Version", "Device Management", "Memory Management", "Module Management"; HSA Runtime Programmer's
 * Reference Manual 1.2, and hsa_ext_amd.h of ROCR-Runtime for the attributes 0xA0xx.
 */
#ifndef GPUMEND_INJECT_PROBE_AMD_H
#define GPUMEND_INJECT_PROBE_AMD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "inject/probe/helper.h"

/* Opens the library of lib=, after those of load= that stand before it: what it is linked against
 * does. What comes after it is another stage's. */
void *amd_open(const struct job *j);

/* hipError_t, hipMemcpyKind and hipDeviceAttribute_t: those that are used. */
enum { HIP_SUCCESS = 0, HIP_OUT_OF_MEMORY = 2, HIP_NO_DEVICE = 100 };
enum { HIP_HOST_TO_DEVICE = 1, HIP_DEVICE_TO_HOST = 2 };
enum { HIP_ATTRIBUTE_MULTIPROCESSORS = 63 }; // ROCm 5 and later

/* The fact "device.N.WHAT". */
void device_fact(size_t device, const char *what, const char *value);

/* Every function returns a hipError_t. */
#define HIP_FUNCTIONS(X)                                                                           \
    X(hipInit, (unsigned flags))                                                                   \
    X(hipRuntimeGetVersion, (int *ret))                                                            \
    X(hipGetDeviceCount, (int *ret))                                                               \
    X(hipSetDevice, (int device))                                                                  \
    X(hipDeviceGetName, (char *ret, int n, int device))                                            \
    X(hipDeviceTotalMem, (size_t * ret, int device))                                               \
    X(hipDeviceGetPCIBusId, (char *ret, int n, int device))                                        \
    X(hipDeviceGetAttribute, (int *ret, int attribute, int device))                                \
    X(hipMemGetInfo, (size_t * free_bytes, size_t * total_bytes))                                  \
    X(hipMalloc, (void **ret, size_t n))                                                           \
    X(hipFree, (void *p))                                                                          \
    X(hipMemcpy, (void *to, const void *from, size_t n, int kind))                                 \
    X(hipMemset, (void *to, int value, size_t n))                                                  \
    X(hipDeviceSynchronize, (void))                                                                \
    X(hipModuleLoadData, (void **ret, const void *image))                                          \
    X(hipModuleGetFunction, (void **ret, void *module, const char *name))                          \
    X(hipModuleLaunchKernel,                                                                       \
      (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,        \
       unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream, void **arguments,  \
       void **extra))                                                                              \
    X(hipModuleUnload, (void *module))

struct hip {
#define HIP_MEMBER(name, arguments) int(*name) arguments;
    HIP_FUNCTIONS(HIP_MEMBER)
#undef HIP_MEMBER
};

/* This process has one runtime. */
extern struct hip hip;

/* Finds the functions in `library`, which is libamdhip64 or a library that is linked against it:
 * dlsym() looks into what a library needs, so that a library's own HIP is the one that is used.
 * Ends the stage if one is missing. */
void hip_find(void *library);

/* hip_find(), then hipInit and hipSetDevice for the job's device. */
void hip_start(const struct job *j, void *library);

/* Calls a function; what fails ends the stage. */
#define HIP(name, ...) hip_check(#name, (say_call(#name), hip.name(__VA_ARGS__)))
void hip_check(const char *function, int code);

/* Memory of the device with `n` bytes copied into it, or with a pattern where `from` is NULL, so
 * that what a library did not write is not taken for its answer. */
void *hip_upload(const void *from, size_t n);
void hip_download(void *to, const void *from, size_t n);

/* ------------------------------------------------------------------ HSA */

struct hsa_gpu {
    char name[64];        // "gfx1100"
    char product[64];     // marketing name, or empty
    unsigned domain, bdf; // bus, device and function as bus << 8 | device << 3 | function
};

enum { HSA_GPUS_MAX = 64 };

struct hsa_gpus {
    struct hsa_gpu items[HSA_GPUS_MAX];
    size_t n; // may be more than HSA_GPUS_MAX; the first of them are kept
};

/* hsa_init and the GPU agents; `library` as with hip_find(). What fails ends the stage. */
void hsa_list(void *library, struct hsa_gpus *ret);

/* The gfx name of the device of HIP, found by its address on the bus; NULL if no agent has it. */
const char *hsa_gfx_of(const struct hsa_gpus *gpus, int device);

/* ------------------------------------------------------------------ stages */

void stage_kfd(const struct job *j); // hsa.c
void stage_hsa(const struct job *j);
void stage_hip_init(const struct job *j); // hip.c
void stage_hip_device(const struct job *j);
void stage_hip_memory(const struct job *j);
void stage_hiprtc_kernel(const struct job *j);   // hiprtc.c
void stage_hipblas_float32(const struct job *j); // hipblas.c
void stage_hipblas_float16(const struct job *j);
void stage_hipblas_bfloat16(const struct job *j);
void stage_hipblas_int8(const struct job *j);
void stage_miopen_convolution(const struct job *j); // miopen.c

#endif
