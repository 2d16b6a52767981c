/*
 * Versions of library families, read from the library's own bytes.
 *
 * A library is recognised by a symbol that it defines or by its soname, never by its file name.
 * What it does not say in one of the known ways stays unknown: then there is no row, or a row
 * without a version where the library was recognised. The driver's libraries are the exception:
 * they carry their version in the file name, and the row says so.
 *
 * Known ways: a number in the code of the function that returns it (x86-64 only), a text with a
 * fixed beginning, a symbol version definition, the soname, the name in .gnu_debuglink.
 *
 * Not here: cuDNN and NVRTC (kb/libver.h); PyTorch, whose libraries hold their version only as a
 * bare number among others; rocBLAS.
 */
#ifndef GPUMEND_GPU_FAMILY_H
#define GPUMEND_GPU_FAMILY_H

#include "base/arena.h"
#include "elf/image.h"

struct gpu_family {
    const char *name;    // "cudart", "cublas", ...; static
    const char *version; // in the arena; NULL: recognised, and its version is not known
    const char *source;  // where it stood, "constant in cudaRuntimeGetVersion"; or why not
};

struct gpu_families {
    const struct gpu_family *items; // by name
    size_t n;
};

/* The families that the image `e` is a library of; usually none or one. `file_name` (a path or a
 * name, or NULL) is used for the driver's libraries only. Symbols and texts are looked up in the
 * mapping; texts in its first 256 MiB. */
void gpu_families_read(struct arena *a, const struct elf_image *e, const char *file_name,
                       struct gpu_families *ret);

#endif
