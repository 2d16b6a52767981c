/*
 * What of the CPU decides the loader's choices: the x86-64 ISA level (glibc-hwcaps folders, ISA
 * notes) and, for the legacy hwcaps folders of glibc up to 2.36 and for $PLATFORM, the platform
 * name.
 */
#ifndef GPUMEND_LDSO_CPU_H
#define GPUMEND_LDSO_CPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

struct ldso_cpu {
    uint16_t machine;     // e_machine it was read for
    int level;            // 1..4 for x86-64-v1..v4; 0 elsewhere
    const char *platform; // AT_PLATFORM as glibc has it: "x86_64", "haswell", "xeon_phi", "aarch64"
    bool avx512_1;        // legacy hwcap name "avx512_1" (glibc <= 2.36, Intel only)
};

/* The CPU gpumend runs on; on another architecture than x86-64 and for a foreign machine the
 * level is 0 and the platform the architecture's name. */
void ldso_cpu_host(uint16_t machine, struct ldso_cpu *ret);

/* A stated level, "x86-64-v1" to "x86-64-v4"; false for anything else. */
bool ldso_cpu_parse(const char *text, struct ldso_cpu *ret);

/* Folders tried inside every search directory, in order, each with a trailing '/'; the directory
 * itself ("") is the last. glibc elf/dl-hwcaps.c; <= 2.32 legacy only, 2.33 to 2.36 both, from
 * 2.37 glibc-hwcaps only. */
const char *const *ldso_cpu_subdirs(struct arena *a, const struct ldso_cpu *cpu, int glibc_minor,
                                    size_t *ret_n);

/* Active glibc-hwcaps names, best first ("x86-64-v3", "x86-64-v2"). */
const char *const *ldso_cpu_hwcaps(const struct ldso_cpu *cpu, size_t *ret_n);

#endif
