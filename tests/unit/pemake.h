/*
 * Small PE files for tests, made in memory: one section over all tables at RVA 0x1000, and only the
 * tables that the description asks for; a second section .apiset where a schema is wanted.
 */
#ifndef GPUMEND_TESTS_PEMAKE_H
#define GPUMEND_TESTS_PEMAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"

enum { PEMAKE_LIST = 8 };

struct pemake_import {
    const char *dll;
    const char *symbols[PEMAKE_LIST]; // "#12": by ordinal; none: an unused import
    bool delayed;
};

struct pemake_export {
    const char *name;
    const char *forwarder; // NULL: it is defined here
};

struct pemake {
    bool is32;
    uint16_t machine; // 0: x64, or x86 with is32
    struct pemake_import imports[PEMAKE_LIST];
    struct pemake_export exports[PEMAKE_LIST]; // sorted by name
    uint16_t dependent_load_flags;
    bool is_arm64x;
    uint16_t file_version[4];
    const char *product_version; // a text of the version resource
    const char *manifest;
    struct {
        const char *contract, *host; // host "": not implemented
    } apisets[PEMAKE_LIST];
    uint32_t apiset_version; // 0: 6
    const char *section;     // name of another section, with `payload` in it
    struct str payload;
};

/* The bytes, in the arena. */
struct str pemake(struct arena *a, const struct pemake *spec);

#endif
