/*
 * Whether a device can use the code of a file.
 *
 * CUDA:
 *   1  Machine code runs on devices of the same major compute capability and the same or a higher
 *      minor one. [CUDA C++ Programming Guide, "Binary Compatibility"]
 *   2  "Binary compatibility is supported only for the desktop. It is not supported for Tegra.
 *      Also, the binary compatibility between desktop and Tegra is not supported." [the same place]
 *      Between 8.0 and Orin's 8.7, for example, nothing is promised: UNKNOWN, not NONE.
 *   3  With the suffix a, code and PTX are for that compute capability only, neither for higher
 *      ones. [the same guide, "Architecture-Specific Features"; PTX ISA, ".target"]
 *   4  With the suffix f, they are for the same major and the same or a higher minor compute
 *      capability. [the same guide, "Family-Specific Features"; PTX ISA, ".target"]
 *   5  PTX without a suffix is compiled by the driver for its own and every higher compute
 *      capability [the guide, "PTX Compatibility"], provided that the driver knows its ISA version:
 *      PTX "compiled with a toolchain newer than the driver" is refused, error 222.
 *      [CUDA driver API, CUDA_ERROR_UNSUPPORTED_PTX_VERSION; PTX ISA, release notes: version,
 *      toolkit, driver]
 *
 * HIP:
 *   6  The processor must be the same, or a generic one that lists it; a feature that is named
 *      must match the device's setting, one that is not named matches both.
 *      [llvm-project, AMDGPUUsage, "Target ID" and "Generic processor code object versioning"]
 *   7  SPIR-V (amdgcnspirv) is compiled by the runtime for any processor. [Clang, "HIP Support"]
 */
#include <stdlib.h>
#include <string.h>

#include "gpu/internal.h"

/* ------------------------------------------------------------------ CUDA */

struct device {
    unsigned major, minor, isa_max;
};

struct verdict {
    enum gpu_serves serves;
    const char *why;
};

/* Tegra's compute capabilities: Jetson TK1, TX1, TX2, Xavier, Orin [NVIDIA, "CUDA GPUs", Jetson
 * products]; and 8.8, whose products are not documented. */
static bool is_tegra(unsigned number)
{
    static const unsigned numbers[] = {32, 53, 62, 72, 87, 88};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (numbers[i] == number) {
            return true;
        }
    }
    return false;
}

static struct verdict native_serves(const struct gpu_cuda_arch *c, const struct device *d)
{
    unsigned number = d->major * 10 + d->minor;
    if (c->number == number) {
        return (struct verdict){GPU_SERVES_NATIVE, "machine code for this compute capability"};
    }
    if (c->suffix == 'a') {
        return (struct verdict){GPU_SERVES_NONE, "machine code for one other compute capability"};
    }
    if (c->number / 10 != d->major || c->number > number) {
        return (struct verdict){GPU_SERVES_NONE,
                                "machine code for another major or a higher minor version"};
    }
    if (c->suffix == '?') {
        return (struct verdict){GPU_SERVES_UNKNOWN,
                                "machine code that does not tell whether it is for one "
                                "compute capability only"};
    }
    if (is_tegra(c->number) || is_tegra(number)) {
        return (struct verdict){GPU_SERVES_UNKNOWN,
                                "between Tegra and other GPUs no binary compatibility is promised"};
    }
    return (struct verdict){GPU_SERVES_NATIVE,
                            "machine code for the same major and a lower minor version"};
}

static struct verdict ptx_serves(const struct gpu_cuda_arch *c, const struct device *d)
{
    unsigned number = d->major * 10 + d->minor;
    bool suits = c->suffix == 'a'   ? c->number == number
                 : c->suffix == 'f' ? c->number / 10 == d->major && c->number <= number
                                    : c->number <= number;
    if (!suits) {
        return (struct verdict){GPU_SERVES_NONE, "PTX for other compute capabilities"};
    }
    if (d->isa_max == 0) {
        return (struct verdict){GPU_SERVES_UNKNOWN,
                                "PTX, and which PTX ISA the driver knows is not known"};
    }
    if (c->isa_min > d->isa_max) {
        return (struct verdict){GPU_SERVES_NONE, "PTX of an ISA newer than the driver"};
    }
    if (c->isa_max > d->isa_max) {
        return (struct verdict){GPU_SERVES_UNKNOWN,
                                "PTX of several ISAs, some newer than the driver"};
    }
    return (struct verdict){GPU_SERVES_JIT, "PTX that the driver compiles for this device"};
}

/* Better answers first; ABSENT is worse than all, so that anything replaces it. */
static int rank(enum gpu_serves s)
{
    switch (s) {
    case GPU_SERVES_NATIVE: return 4;
    case GPU_SERVES_JIT: return 3;
    case GPU_SERVES_UNKNOWN: return 2;
    case GPU_SERVES_NONE: return 1;
    case GPU_SERVES_ABSENT: break;
    }
    return 0;
}

static void improve(struct gpu_answer *best, struct verdict v, const char *by)
{
    if (rank(v.serves) > rank(best->serves)) {
        best->serves = v.serves;
        best->why = v.why;
        best->by = v.serves == GPU_SERVES_NONE ? NULL : by;
    }
}

/* The best of the rows whose bits are set. Later rows are closer to the device, so equals win. */
static void best_of(const struct gpu_cuda *c, uint64_t native, uint64_t ptx, const struct device *d,
                    struct gpu_answer *best)
{
    for (size_t i = c->n_native; i-- > 0;) {
        if (native >> i & 1) {
            improve(best, native_serves(&c->native[i], d), c->native[i].name);
        }
    }
    for (size_t i = c->n_ptx; i-- > 0;) {
        if (ptx >> i & 1) {
            improve(best, ptx_serves(&c->ptx[i], d), c->ptx[i].name);
        }
    }
}

static void judge_set(const struct gpu_cuda *c, const struct device *d, struct gpu_answer *ret)
{
    best_of(c, UINT64_MAX, UINT64_MAX, d, ret);
    for (size_t i = 0; i < c->n_groups; i++) {
        const struct gpu_cuda_group *g = &c->groups[i];
        struct gpu_answer one = {.serves = GPU_SERVES_ABSENT};
        best_of(c, g->native, g->ptx, d, &one);
        ret->n_native += one.serves == GPU_SERVES_NATIVE ? g->n_containers : 0;
        ret->n_jit += one.serves == GPU_SERVES_JIT ? g->n_containers : 0;
        ret->n_none += one.serves == GPU_SERVES_NONE ? g->n_containers : 0;
        ret->n_unknown += one.serves == GPU_SERVES_UNKNOWN ? g->n_containers : 0;
    }
}

void gpu_code_serves_cuda(const struct gpu_code *code, unsigned major, unsigned minor,
                          unsigned ptx_isa_max, struct gpu_answer *ret)
{
    struct device d = {major, minor, ptx_isa_max};
    *ret = (struct gpu_answer){.serves = GPU_SERVES_ABSENT, .why = "no CUDA code in the file"};
    judge_set(&code->cuda, &d, ret);
    judge_set(&code->embedded, &d, ret);
    if (code->incomplete && rank(ret->serves) <= rank(GPU_SERVES_NONE)) {
        ret->serves = GPU_SERVES_UNKNOWN;
        ret->why = "not all of the file's code could be read";
    } else if (!code->searched && ret->serves == GPU_SERVES_NONE) {
        ret->serves = GPU_SERVES_UNKNOWN;
        ret->why = "none in the sections, and the data were not searched";
    } else if (code->n_kinds && ret->serves == GPU_SERVES_NONE) {
        ret->serves = GPU_SERVES_UNKNOWN;
        ret->why = "none, but intermediate code that the library may link at run time";
    }
}

/* ------------------------------------------------------------------ HIP */

/* AMDGPUUsage, table "AMDGPU Generic Processors"; each list ends with NULL. */
static const struct {
    const char *generic;
    const char *members[16];
} generics[] = {
    {"gfx9-generic", {"gfx900", "gfx902", "gfx904", "gfx906", "gfx909", "gfx90c"}},
    {"gfx9-4-generic", {"gfx940", "gfx941", "gfx942", "gfx950"}},
    {"gfx10-1-generic", {"gfx1010", "gfx1011", "gfx1012", "gfx1013"}},
    {"gfx10-3-generic",
     {"gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036"}},
    {"gfx11-generic",
     {"gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153"}},
    {"gfx12-generic", {"gfx1200", "gfx1201"}},
};

static bool same_processor(struct str code, struct str device)
{
    if (str_eq(code, device)) {
        return true;
    }
    for (size_t i = 0; i < sizeof generics / sizeof *generics; i++) {
        for (size_t k = 0; str_is(code, generics[i].generic) && generics[i].members[k]; k++) {
            if (str_is(device, generics[i].members[k])) {
                return true;
            }
        }
    }
    return false;
}

/* '+', '-', or 0 where the text does not name the feature. */
static char feature_in(struct str features, const char *name)
{
    size_t n = strlen(name);
    while (features.s) {
        struct str one = str_cut(&features, ':');
        if (one.n == n + 1 && memcmp(one.s, name, n) == 0) {
            return one.s[n];
        }
    }
    return 0;
}

static struct verdict target_serves(const char *target, const char *device)
{
    static const char *const features[] = {"sramecc", "xnack"};
    struct str code = str_of(target), dev = str_of(device);
    if (strcmp(target, "amdgcnspirv") == 0) {
        return (struct verdict){GPU_SERVES_JIT, "SPIR-V that the runtime compiles"};
    }
    if (!same_processor(str_cut(&code, ':'), str_cut(&dev, ':'))) {
        return (struct verdict){GPU_SERVES_NONE, "code for other processors"};
    }
    bool unknown = false;
    for (size_t i = 0; i < sizeof features / sizeof *features; i++) {
        char want = feature_in(code, features[i]), have = feature_in(dev, features[i]);
        if (want && have && want != have) {
            return (struct verdict){GPU_SERVES_NONE,
                                    "code for this processor with another xnack or sramecc"};
        }
        unknown = unknown || (want && !have);
    }
    if (unknown) {
        return (struct verdict){GPU_SERVES_UNKNOWN,
                                "the device's xnack or sramecc setting is not known"};
    }
    return (struct verdict){GPU_SERVES_NATIVE, "code for this processor"};
}

void gpu_code_serves_amd(const struct gpu_code *code, const char *device, struct gpu_answer *ret)
{
    *ret = (struct gpu_answer){.serves = GPU_SERVES_ABSENT, .why = "no HIP code in the file"};
    for (size_t i = 0; i < code->n_targets; i++) {
        improve(ret, target_serves(code->targets[i].name, device), code->targets[i].name);
    }
    if (code->incomplete && rank(ret->serves) <= rank(GPU_SERVES_NONE)) {
        ret->serves = GPU_SERVES_UNKNOWN;
        ret->why = "not all of the file's code could be read";
    }
}
