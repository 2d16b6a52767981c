/* What the readers of src/gpu share: the gate to the bytes, and the sets while they grow. */
#ifndef GPUMEND_GPU_INTERNAL_H
#define GPUMEND_GPU_INTERNAL_H

#include "base/str.h"
#include "gpu/bytes.h"
#include "gpu/code.h"

struct gpu_span {
    const unsigned char *data;
    size_t size;
};

/* The one gate to the bytes: `n` bytes at `offset`, or NULL if they are not all inside. */
const unsigned char *gpu_bytes(const struct gpu_span *s, uint64_t offset, uint64_t n);

enum { GPU_ARCHS_MAX = 64, GPU_GROUPS_MAX = 1024, GPU_TARGETS_MAX = 256, GPU_NOTES_MAX = 16 };

struct gpu_cuda_sets {
    VEC(struct gpu_cuda_arch) native, ptx; // in the order of their first entry
    VEC(struct gpu_cuda_group) groups;
    size_t n_containers;
    struct gpu_cuda_group open; // of the container that is being read
};

struct gpu_builder {
    struct arena *arena;
    struct gpu_span file;
    struct gpu_cuda_sets cuda, embedded, relocatable;
    VEC(struct gpu_kind) kinds;
    VEC(struct gpu_target) targets;
    VEC(const char *) notes;
    struct gpu_code *code; // the counts go straight here
    bool is_mapped; // the bytes are a file's pages, which come back when they are touched again
};

/* Takes the pages out of the resident set, where the bytes are a mapping: the kernel maps a whole
 * neighbourhood of each page that is touched, and a walk over headers touches many. */
void gpu_give_back(const struct gpu_builder *b);

void gpu_note(struct gpu_builder *b, const char *fmt, ...) __attribute__((format(GM_PRINTF, 2, 3)));
void gpu_add_native(struct gpu_builder *b, struct gpu_cuda_sets *sets, unsigned number,
                    char suffix);
void gpu_add_ptx(struct gpu_builder *b, struct gpu_cuda_sets *sets, unsigned number, char suffix,
                 unsigned isa);
void gpu_close_container(struct gpu_builder *b, struct gpu_cuda_sets *sets);
void gpu_add_target(struct gpu_builder *b, struct str name);

/* Reads the containers of [from, to). Where nothing says that they are there (`searching`), bytes
 * that do not look like one in all respects are passed over in silence. */
void gpu_fatbin_walk(struct gpu_builder *b, struct gpu_cuda_sets *sets, uint64_t from, uint64_t to,
                     bool searching);
/* A whole file that is a CUDA machine-code ELF. */
void gpu_cubin_read(struct gpu_builder *b);

/* Offload bundles and code objects of [from, to), which begin at multiples of the page size. */
void gpu_bundle_walk(struct gpu_builder *b, uint64_t from, uint64_t to, bool searching);
/* The same of a section that begins at a page of memory but anywhere in its file, as a PE file has
 * it. */
void gpu_bundle_walk_section(struct gpu_builder *b, uint64_t from, uint64_t to);
bool gpu_bundle_starts(const struct gpu_span *s, uint64_t offset);

/* The target that an AMDGPU ELF image at `offset` was built for; false if it is none. */
bool gpu_amdgpu_target(struct gpu_builder *b, uint64_t offset, struct str *ret);

/* The processors of the table in amdgpu.c, "gfx90a"; NULL behind the last. */
const char *gpu_amdgpu_name(size_t index);

#endif
