/*
 * What a program's own dynamic loader (its PT_INTERP file) was built with, read from the bytes of
 * that file and never by running it: glibc or musl, the version, the system directories, what
 * $LIB means, where the cache is.
 *
 * Source: the read-only data of ld.so holds the NUL-separated run of system directories, each
 * ending in "/" (glibc elf/dl-load.c, system_dirs), the value of $LIB (DL_DST_LIB), the cache
 * path (elf/dl-cache.h, LD_SO_CACHE) and the banner of `ld.so --version` (elf/rtld.c, since 2.33);
 * seen in Debian's glibc 2.36 for x86-64, i386 and aarch64.
 */
#ifndef GPUMEND_LDSO_LOADER_H
#define GPUMEND_LDSO_LOADER_H

#include "ldso/store.h"

enum ldso_kind { LDSO_GLIBC, LDSO_MUSL, LDSO_OTHER };

struct ldso_loader {
    enum ldso_kind kind;
    const char *path;        // as the program names it
    struct ldso_file *file;  // NULL if it cannot be opened
    const char *missing;     // why it cannot be opened, or NULL
    const char *soname;      // its DT_SONAME, or NULL
    int glibc_minor;         // 36 for 2.36; 0 if unknown
    const char *version;     // "2.36", "1.2.3", or NULL if unknown
    const char *const *dirs; // system directories, each with a trailing '/'
    size_t n_dirs;
    bool dirs_assumed;     // not found in the file: the table of common layouts was used
    const char *lib_token; // value of $LIB
    const char *cache_path;
};

/* `interp` is the PT_INTERP text. The result is kept in the store's arena. */
void ldso_loader_read(struct ldso_store *s, const char *interp, uint16_t machine, bool is64,
                      struct ldso_loader *ret);

/* The loader an object without PT_INTERP would be started with on its architecture: the usual
 * path for the machine, or NULL where there is none known. */
const char *ldso_loader_default(uint16_t machine, bool is64);

#endif
