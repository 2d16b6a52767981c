/*
 * CUDA fat binaries. A section holds containers, one behind the other:
 *
 *   container   0  u32 magic BA55ED50   4  u16 version (1)   6  u16 header size (16)
 *               8  u64 size of what follows the header
 *   entry       0  u16 kind             2  u16 version (0101)
 *               4  u32 header size      8  u64 payload size (the next entry is behind both)
 *              16  u32 size before padding, if compressed
 *              20  u32 offset of the options in this header, or 0
 *              24  u16 minor, 26 u16 major version: PTX's ISA; of machine code the ELF ABI's
 *              28  u32 architecture (90)
 *              32  u32 offset, 36 u32 length of a name, or 0
 *              40  u64 flags           48  u64 0           56  u64 size when inflated
 *   options     0  u32 72   4  u32 length   8  text or attributes; a NUL, and zeros to 8 bytes
 *
 * Kind 1 is PTX, 2 machine code, 8 intermediate code for a link at run time (its options are those
 * of the compiler's middle part, -ftz -prec_div; nvFatbin, nvFatbinAddLTOIR).
 *
 * A list (kind 256) has at its options' offset: u32 number, u32 size, then for each member an
 * entry header (its header size replaced by the offset in the inflated payload) with its options.
 *
 * NVIDIA documents none of this. Layout and flags were read off files: containers made with
 * fatbinary 13.5 from ptxas 13.5 for each suffix and compression mode, and the libraries in
 * tests/gpu/compare.py, where cuobjdump 12.4 to 13.5 agrees on every entry it lists. The fields up
 * to the architecture also in the GPU Ocelot project, ocelot/cuda/interface/CudaDriverFrontend and
 * FatBinaryContext. The members of a list were made with fatbinary --concat.
 */
#ifndef GPUMEND_GPU_FATBIN_H
#define GPUMEND_GPU_FATBIN_H

#define FATBIN_MAGIC 0xBA55ED50u

enum {
    FATBIN_HEADER = 16, // of a container
    FATBIN_ALIGN = 8,
    FATBIN_ENTRY = 64,          // an entry's header, at least
    FATBIN_ENTRY_MAX = 1 << 20, // above it is none
    FATBIN_ENTRY_VERSION = 0x0101,
    FATBIN_ARCH_MAX = 10000, // above it is none
};
enum { FATBIN_PTX = 1, FATBIN_ELF = 2, FATBIN_LTO = 8, FATBIN_LIST = 256 };

#endif
