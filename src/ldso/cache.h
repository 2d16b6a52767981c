/*
 * ld.so.cache, as glibc's elf/dl-cache.c and sysdeps/generic/dl-cache.h define it.
 *
 *   old:  "ld.so-1.7.0" | nlibs u32 | nlibs x { flags, key, value } (12 bytes each)
 *         string offsets count from the end of the table
 *   new:  "glibc-ld.so.cache" "1.1" | nlibs | len_strings | flags u8 | pad | extension u32 | pad
 *         nlibs x { flags, key, value, osversion, hwcap u64 } (24 bytes each)
 *         string offsets count from the start of the new header
 *
 * A file may hold old then new (8-byte aligned), or one of them.
 */
#ifndef GPUMEND_LDSO_CACHE_H
#define GPUMEND_LDSO_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/root.h"

struct ldso_cache {
    const unsigned char *data; // the whole file
    size_t size;
    const char *why_unused; // why the loader ignores the file, or NULL
    int open_errno;         // with which it fails to open the file, or 0
    size_t entries;         // offset of the table
    uint32_t n;
    size_t strings;              // string offsets count from here
    size_t n_strings;            // bytes of string data behind it
    bool is_new;                 // 24-byte entries
    const unsigned char *hwcaps; // offsets of the glibc-hwcaps names, n_hwcaps of four bytes
    uint32_t n_hwcaps;
};

/* What the process can use; see "flags must fit the process". */
struct ldso_cache_key {
    uint32_t flags[2]; // acceptable values; the first is the platform's own
    uint32_t n_flags;
    int glibc_minor;
    const char *const *hwcaps; // active glibc-hwcaps names, best first: one for each level but v1
    size_t n_hwcaps;
    uint64_t legacy_have;     // hwcap bits the CPU has, up to glibc 2.39
    uint64_t legacy_platform; // its platform bit, or 0
};

/* Parses the bytes of a cache file; data must outlive the cache. Never fails: a cache that the
 * loader would ignore has why_unused set and no entries. */
void ldso_cache_parse(const void *data, size_t size, struct ldso_cache *ret);

/* The path the loader would try for `name`, or NULL. Points into the file. */
const char *ldso_cache_find(const struct ldso_cache *c, const char *name,
                            const struct ldso_cache_key *key);

/* Entry i for explanations: its key and path, false if they lie outside the file. */
bool ldso_cache_entry(const struct ldso_cache *c, uint32_t i, const char **ret_name,
                      const char **ret_path);

#endif
