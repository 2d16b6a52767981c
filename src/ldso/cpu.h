/*
 * What of the processor and its kernel decides the loader's choices: the x86-64 ISA level
 * (glibc-hwcaps folders, ISA notes); for the legacy hwcaps folders of glibc up to 2.36 the atomics
 * of Armv8.1 (sysdeps/unix/sysv/linux/aarch64/dl-procinfo.h) and, also for $PLATFORM, the platform
 * name; and the page size, which some architectures leave to the kernel.
 */
#ifndef GPUMEND_LDSO_CPU_H
#define GPUMEND_LDSO_CPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/root.h"

enum { LDSO_CPUINFO_MAX = 16 << 20 }; // bytes of /proc/cpuinfo: some 8,000 processors

struct ldso_cpu {
    uint16_t machine;     // e_machine it was read for
    int level;            // enum ldso_cpu_level; 0 elsewhere, and where it is not known
    const char *why;      // why something of it is not known, one clause; or NULL
    const char *platform; // AT_PLATFORM as glibc has it: "x86_64", "haswell", "xeon_phi", "aarch64"
    bool avx512_1;        // legacy hwcap name "avx512_1" (glibc <= 2.36, Intel only)
    uint32_t page_size;   // bytes; 0 where it is not known, and where the architecture has only one
};

/* 1 to 4 for x86-64-v1 to x86-64-v4. */
enum ldso_cpu_level { LDSO_ARMV8_0 = 1, LDSO_ARMV8_1 = 2 };

/* The CPU gpumend runs on; on another architecture than x86-64 and for a foreign machine the
 * level is 0 and the platform the architecture's name. */
void ldso_cpu_host(uint16_t machine, struct ldso_cpu *ret);

/* The CPU of the system below `r`: of "/" the one gpumend runs on; else what its /proc/cpuinfo
 * says, where the machine has levels, and the page size that the configuration of its running
 * kernel states (/boot/config-RELEASE or /lib/modules/RELEASE/config). */
void ldso_cpu_of(struct root *r, struct arena *a, uint16_t machine, struct ldso_cpu *ret);

/* The same by the text of /proc/cpuinfo, and the line of flags that all its processors state; both
 * unknown where it is damaged, where processors differ, and for another architecture. */
void ldso_cpu_info(struct str text, struct ldso_cpu *ret, struct str *ret_flags);
bool ldso_cpu_has_flag(struct str flags, const char *flag);

/* Whether something of it that decides is not known: see ldso_cpu_kinds(). */
bool ldso_cpu_is_unknown(const struct ldso_cpu *cpu);

/* The kinds of processors of one architecture that the loader tells apart, lowest first; none for
 * an architecture where nothing decides. */
struct ldso_cpu_kind {
    const char *name; // "x86-64-v3", "Armv8.1 with pages of 64 KiB"
    struct ldso_cpu cpu;
};
enum { LDSO_CPU_KINDS = 7 }; // at most
const struct ldso_cpu_kind *ldso_cpu_kinds(uint16_t machine, size_t *ret_n);

/* Page sizes in bytes that a kernel for this architecture can be built with, smallest first: one
 * for x86-64, three for aarch64 (CONFIG_ARM64_4K_PAGES, _16K_, _64K_). Sources: the kernel's
 * arch/arm64/Kconfig, arch/powerpc/Kconfig, arch/loongarch/Kconfig. */
enum { LDSO_PAGE_SIZES = 3 };
size_t ldso_page_sizes(uint16_t machine, uint32_t ret[LDSO_PAGE_SIZES]);
bool ldso_page_parse(const char *text, uint32_t *ret); // "4096", "16384" or "65536"

/* e_machine of gpumend itself. */
uint16_t ldso_cpu_own_machine(void);

/* The level by name, "x86-64-v3" or "armv8.1-a"; NULL where it is not known. */
const char *ldso_cpu_level_name(const struct ldso_cpu *cpu);

/* A stated level, "x86-64-v1" to "x86-64-v4", "armv8.0-a" or "armv8.1-a"; else false. */
bool ldso_cpu_parse(const char *text, struct ldso_cpu *ret);

/* Folders tried inside every search directory, in order, each with a trailing '/'; the directory
 * itself ("") is the last. glibc elf/dl-hwcaps.c; <= 2.32 legacy only, 2.33 to 2.36 both, from
 * 2.37 glibc-hwcaps only. */
const char *const *ldso_cpu_subdirs(struct arena *a, const struct ldso_cpu *cpu, int glibc_minor,
                                    size_t *ret_n);

/* The folders that some kind of processor searches, and not one about which nothing is known. */
const char *const *ldso_cpu_other_subdirs(struct arena *a, uint16_t machine, int glibc_minor,
                                          size_t *ret_n);

/* Active glibc-hwcaps names, best first ("x86-64-v3", "x86-64-v2"). */
const char *const *ldso_cpu_hwcaps(const struct ldso_cpu *cpu, size_t *ret_n);

#endif
