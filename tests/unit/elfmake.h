/*
 * Small ELF files for tests, made in memory: one PT_LOAD over the whole file at address 0, and
 * only the tags that the description asks for. Both classes, both byte orders.
 */
#ifndef GPUMEND_TESTS_ELFMAKE_H
#define GPUMEND_TESTS_ELFMAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"

enum { ELFMAKE_LIST = 8, NOTE_DLOPEN = 0x407c0c0a };

struct elfmake_symbol {
    const char *name;
    const char *version; // wanted from version_file, or defined; NULL: none
    bool defined;
};

struct elfmake {
    bool is32, big_endian;
    uint16_t type, machine; // 0: ET_DYN, EM_X86_64
    const char *interp, *soname, *rpath, *runpath;
    const char *needs[ELFMAKE_LIST];
    struct elfmake_symbol symbols[ELFMAKE_LIST]; // undefined ones first
    const char *version_file;                    // the object that wanted versions are wanted from
    bool sysv_hash;                              // DT_HASH, else DT_GNU_HASH
    struct str note;                             // text of an "FDO" note of type NOTE_DLOPEN
    bool exec_stack, no_load;
    unsigned char info; // st_info of the symbols that are defined; 0: global functions
    uint64_t flags_1;
    struct str constants; // put into the file as they are
};

/* The bytes, in the arena; 32 KiB at most. */
struct str elfmake(struct arena *a, const struct elfmake *spec);

#endif
