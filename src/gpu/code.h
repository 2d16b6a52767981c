/*
 * What a file says of the GPU code in it: CUDA fat binaries, HIP code objects.
 *
 *   bytes of a file  ->  gpu_code_read()  ->  struct gpu_code  ->  gpu_code_serves_cuda(), _amd()
 *
 * Read are: ELF and PE files of a host (the sections .nv_fatbin, __nv_relfatbin and .hip_fatbin; on
 * request also containers among the data, where cuFFT keeps nearly all of its code, and cuBLASLt,
 * cuDNN, cuSPARSE and PyTorch a part; where the section headers are stripped, the PT_LOAD segments
 * are searched), ELF files of a device (cubin, AMDGPU code object), bare containers (.fatbin) and
 * bare offload bundles (.co, .hsaco). Only headers are touched, never a payload; of a compressed
 * offload bundle the first block is inflated, which holds its table.
 *
 * Not seen: cubins and PTX that lie among the data without a container, code that is compiled while
 * the program runs, host archives (.a), and offload packages of the new Clang driver that were not
 * linked yet (.llvm.offloading).
 *
 * Everything in the result lives in the arena, is sorted, and depends on nothing but the bytes.
 * Formats and their sources: docs/gpu-code.md, fatbin.c, bundle.c, amdgpu.c.
 */
#ifndef GPUMEND_GPU_CODE_H
#define GPUMEND_GPU_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/root.h"

/* One architecture of one form of code. */
struct gpu_cuda_arch {
    const char *name; // "sm_90a" (machine code) or "compute_90" (PTX)
    unsigned number;  // 90: ten times the major compute capability, plus the minor one
    char suffix;      // 'a' this architecture only, 'f' its family, 0 neither, '?' not told
    size_t n_entries;
    unsigned isa_min, isa_max; // PTX: ten times the ISA's major version plus the minor; else 0
};

/*
 * Containers with the same choice of code. One container holds one translation unit (or one
 * linked library) in several forms, so what a device cannot take from a container is missing
 * there, whatever other containers offer. Bit i of `native` stands for native[i], of `ptx` for
 * ptx[i].
 */
struct gpu_cuda_group {
    uint64_t native, ptx;
    size_t n_containers;
};

struct gpu_cuda {
    const struct gpu_cuda_arch *native, *ptx; // by number, then by suffix
    size_t n_native, n_ptx;
    const struct gpu_cuda_group *groups;
    size_t n_groups;
    size_t n_containers;
};

/* "gfx90a:sramecc+:xnack-", "gfx11-generic", "amdgcnspirv". */
struct gpu_target {
    const char *name;
    size_t n_entries;
};

struct gpu_kind { // of entries that are neither PTX, machine code nor a list; 8: for linking
    unsigned kind;
    size_t n_entries;
};

struct gpu_code {
    struct gpu_cuda cuda;        // what the CUDA runtime registers when the file is loaded
    struct gpu_cuda embedded;    // containers among the data: modules that the library loads itself
    struct gpu_cuda relocatable; // __nv_relfatbin: input of a device link, not loaded as it is
    size_t n_plain, n_lz4, n_zstd, n_other_packed; // entries of all three, by compression
    const struct gpu_kind *kinds;
    size_t n_kinds;

    const struct gpu_target *targets; // HIP
    size_t n_targets;
    size_t n_bundles, n_packed_bundles;

    const char *const *notes; // what could not be read, one sentence each; at most 16
    size_t n_notes;
    bool incomplete; // a note says that code may be there which was not read
    bool searched;   // the data were searched for containers too
};

enum gpu_reading {
    GPU_READ_SECTIONS, // a few milliseconds: what the CUDA and HIP runtimes register
    GPU_READ_ALL,      // searches the data too: every page of theirs is read
};

/* Reads `size` bytes at `data`, a whole file. Never fails: a file without GPU code, or one that is
 * no ELF file at all, gives empty sets. */
void gpu_code_read(struct arena *a, const void *data, size_t size, enum gpu_reading reading,
                   struct gpu_code *ret);

/* The same for a file below a root. Fails with GM_ERR_LOOK when the file cannot be opened. */
int gpu_code_read_file(struct root *r, struct arena *a, const char *path, enum gpu_reading reading,
                       struct gpu_code *ret, struct gm_err *err) GM_CHECK;

/* ------------------------------------------------------------------ against a device */

enum gpu_serves {
    GPU_SERVES_ABSENT,  // no code of this vendor in the file
    GPU_SERVES_NATIVE,  // machine code that the device runs
    GPU_SERVES_JIT,     // PTX or SPIR-V that the driver compiles for the device
    GPU_SERVES_NONE,    // code, and none for this device
    GPU_SERVES_UNKNOWN, // cannot be determined: `why` says what is missing
};

struct gpu_answer {
    enum gpu_serves serves; // of the best code in the file
    const char *by;         // name of that code ("sm_86", "gfx90a:xnack-"), or NULL
    const char *why;        // the rule that decided; static text
    /* CUDA only: containers by what the device gets from them. A library may keep each
     * architecture in containers of its own, so that n_none > 0 is no fault by itself. */
    size_t n_native, n_jit, n_none, n_unknown;
};

/*
 * GPU_SERVES_NONE and GPU_SERVES_ABSENT are final only after GPU_READ_ALL: before that CUDA code
 * for the device may lie among the data, so that NONE becomes UNKNOWN. ABSENT then says that the
 * file has none of the sections.
 *
 * A device of compute capability major.minor, with a driver that knows PTX ISA versions up to
 * ptx_isa_max (ten times the major version plus the minor; 0: not known). Rules and their sources
 * are with the functions in serves.c.
 */
void gpu_code_serves_cuda(const struct gpu_code *code, unsigned major, unsigned minor,
                          unsigned ptx_isa_max, struct gpu_answer *ret);

/* A device's target, "gfx90a:xnack-"; a feature that is not named there is not known. */
void gpu_code_serves_amd(const struct gpu_code *code, const char *device, struct gpu_answer *ret);

#endif
