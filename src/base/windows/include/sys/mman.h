/* Mappings of memory and of files that are read, as far as gpumend uses them. */
#ifndef GPUMEND_BASE_WINDOWS_INCLUDE_SYS_MMAN_H
#define GPUMEND_BASE_WINDOWS_INCLUDE_SYS_MMAN_H

#include <stddef.h>
#include <sys/types.h>

#define PROT_NONE     0
#define PROT_READ     1
#define PROT_WRITE    2
#define MAP_PRIVATE   2
#define MAP_ANONYMOUS 0x20
#define MAP_NORESERVE 0x4000
#define MAP_FAILED    ((void *)-1)
#define MADV_RANDOM   1
#define MADV_DONTNEED 4

/* Zeros (MAP_ANONYMOUS), or a whole file that can only be read. */
void *mmap(void *at, size_t size, int protection, int flags, int fd, long long offset);
int mprotect(void *at, size_t size, int protection);
int munmap(void *at, size_t size);
int madvise(void *at, size_t size, int advice); // the system needs none

#endif
