/*
 * What the stages of NVIDIA's libraries share: the card by the driver's own interface (so that a
 * stage of cuBLAS needs no CUDA runtime beside it), memory on it, and one way to say that a call
 * has failed.
 *
 *   struct cuda c;
 *   cuda_start(&c, j);                       the device's primary context is current
 *   uint64_t x = cuda_put(&c, data, size);   a copy on the card
 *   cuda_get(&c, data, x, size);             and back; everything before it has ended
 *
 * Every function ends the stage (say_failed) where a call does not succeed. Nothing is given back:
 * the process ends with its stage.
 *
 * Declared from cuda.h (CUDA Driver API documentation, "Initialization", "Device Management",
 * "Primary Context Management", "Memory Management"). cuBLAS and the others use the runtime, which
 * works in the primary context of its device (CUDA C++ Programming Guide, "Interoperability between
 * Runtime and Driver APIs").
 */
#ifndef GPUMEND_INJECT_PROBE_CUDA_H
#define GPUMEND_INJECT_PROBE_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "inject/probe/helper.h"

struct cuda;

/* A library whose calls return 0 or a code. */
struct vendor {
    const char *(*status_name)(int code); // the library's own, or NULL
    int no_memory[4];                     // codes that a card without memory gives, ended by 0
    int unavailable;                      // the code of a card that another process holds, or 0
    const struct cuda *cuda;              // for how much memory is free; or NULL
};

/* Does nothing for code 0. Else the stage has failed: the function, the code and its name, and
 * where others take up the card, that it is busy and not broken. */
void vendor_check(const struct vendor *v, const char *function, int code);

/* TRY(&vendor, cublasCreate_v2, &handle): says the call, makes it, and checks its code. */
#define TRY(v, f, ...) vendor_check((v), #f, CALL(f, __VA_ARGS__))

extern const char cuda_driver_library[]; // its name, by which the loader finds it

extern const struct vendor cuda_plain; // of a driver that has no context yet

/* By the target's path where that is known, so that the name means that file afterwards. */
void *cuda_load_driver(const struct job *j);

struct cuda {
    struct vendor vendor;
    void *dso;
    int device;                                      // its number
    int handle;                                      // CUdevice
    int capability;                                  // 86 for 8.6
    int (*memory_info)(size_t *free, size_t *total); // cuMemGetInfo_v2
};

/* Before the driver starts: the kernels of the stages themselves are PTX, which is compiled here
 * though CUDA_DISABLE_PTX_JIT is set (a program with code for the GPU does not meet it: error 223
 * of the stage, and a torch that worked, on an H200), and is not kept in the user's home. */
void cuda_compile_here(void);

void cuda_start(struct cuda *c, const struct job *j);
/* Its two halves: the driver is started and the device known; its context is current. */
void cuda_open(struct cuda *c, const struct job *j);
void cuda_context(struct cuda *c);

uint64_t cuda_alloc(const struct cuda *c, size_t size);
uint64_t cuda_put(const struct cuda *c, const void *data, size_t size);
void cuda_get(const struct cuda *c, void *data, uint64_t at, size_t size);

/* For a library's parameter; the address is the card's. */
void *cuda_pointer(uint64_t at);

/* Opens what the target has loaded (load=) and gives the path of the stage's own library; without
 * one the stage ends as unknown. */
const char *stage_library(const struct job *j);

/* Vector addition by a kernel that takes (const float *, const float *, float *, int): loads PTX or
 * a cubin, runs the function and checks every number. */
void cuda_run_addition(const struct cuda *c, const void *image, const char *function);

/* cudart.c, cublas.c, cudnn.c, nvrtc.c, nccl.c */
void stage_cudart(const struct job *j);
void stage_cudart_memory(const struct job *j);
void stage_cublas(const struct job *j);
void stage_cublas_start(const struct job *j);
void stage_cublas_gemm(const struct job *j);   // each number format is a stage
void stage_cublaslt_gemm(const struct job *j); // likewise
void stage_cudnn(const struct job *j);
void stage_cudnn_convolution(const struct job *j);
void stage_nvrtc(const struct job *j);
void stage_nvrtc_run(const struct job *j);
void stage_nccl(const struct job *j);
void stage_nccl_allreduce(const struct job *j);

#endif
