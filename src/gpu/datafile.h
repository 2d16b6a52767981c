/*
 * Data files that AMD's libraries look for at run time, by processor: what is in the folder.
 *
 *   rocBLAS, hipBLASLt   <folder of the library>/rocblas/library, .../hipblaslt/library
 *       TensileLibrary_lazy_gfx1030.dat            the index; without it the library aborts
 *       TensileLibrary_gfx906.co, Kernels.so-000-gfx906-xnack-.hsaco   the kernels
 *   MIOpen               <prefix>/share/miopen/db
 *       gfx90a68.db.txt, gfx906_60.kdb             processor, then the number of compute units:
 *                                                  "_" and decimal up to 64, else hexadecimal
 *
 * Only names are read. A file says which processor it is for by a "gfx..." in its name that
 * amdgpu.c knows. Sources: rocBLAS, library/src/tensile_host.cpp (the names it opens); Tensile,
 * Tensile/TensileCreateLibrary.py (the names it makes); MIOpen, src/include/miopen/handle.hpp
 * (GetDbBasename).
 */
#ifndef GPUMEND_GPU_DATAFILE_H
#define GPUMEND_GPU_DATAFILE_H

#include "base/arena.h"
#include "base/err.h"
#include "base/root.h"

enum gpu_data_kind {
    GPU_DATA_INDEX,   // TensileLibrary_*.dat, .yaml
    GPU_DATA_KERNELS, // .co, .hsaco
    GPU_DATA_TUNING,  // MIOpen's .db, .db.txt, .fdb.txt, .kdb, .model
    GPU_DATA_OTHER,
};

struct gpu_data_name {
    char target[24]; // "gfx1030", or "gfx906:xnack-"
    enum gpu_data_kind kind;
    bool lazy; // TensileLibrary_lazy_<target>.dat
};

/* What one file name says; false if it names no processor. */
bool gpu_data_name(const char *name, struct gpu_data_name *ret) GM_CHECK;

struct gpu_data_row {
    const char *target;
    size_t n_index, n_kernels, n_tuning, n_other;
    bool lazy_index;
};

struct gpu_data {
    const struct gpu_data_row *rows; // by target
    size_t n;
    bool truncated; // the folder has more files than are listed
};

/* The folder, and the folders in it that are called after a processor. Fails with GM_ERR_LOOK when
 * the folder cannot be listed. */
int gpu_data_read(struct root *r, struct arena *a, const char *folder, struct gpu_data *ret,
                  struct gm_err *err) GM_CHECK;

/* The row of a processor ("gfx1030"; a row with a feature counts too), or NULL. */
const struct gpu_data_row *gpu_data_find(const struct gpu_data *d, const char *processor);

#endif
