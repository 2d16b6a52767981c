/*
 * One PE image (a Windows DLL, extension module or program), read with bounds checks from a
 * read-only mapping of its file.
 *
 *   file bytes  ->  pe_image_parse()  ->  plain struct  ->  judged by others (src/winldr)
 *
 * Nothing here decides whether a loader would accept the file: pe_image says what the headers claim
 * and where a claim does not hold. Tables are found by RVA, an address relative to where the image
 * is mapped; only what the file itself holds can be read, not what a section has in memory alone.
 * All pointers in the results point into the mapping or the arena and are valid as long as both.
 *
 * Layouts and constants: Microsoft, "PE Format"
 * (learn.microsoft.com/windows/win32/debug/pe-format); load configuration:
 * "IMAGE_LOAD_CONFIG_DIRECTORY64 structure" (winnt.h). Not read: bound imports, relocations, TLS
 * callbacks, .NET metadata, signatures.
 */
#ifndef GPUMEND_PE_IMAGE_H
#define GPUMEND_PE_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"

enum pe_state {
    PE_STATE_OK,
    PE_STATE_TOO_SHORT, // shorter than the header of an MS-DOS program
    PE_STATE_NOT_PE,    // no "MZ", or no "PE" where the MS-DOS header says that it is
    PE_STATE_BAD,       // a PE signature, but headers that cannot be read: `defect` says which
};

/* IMAGE_FILE_MACHINE_*, of the machines that this project meets. */
enum pe_machine {
    PE_MACHINE_I386 = 0x14c,
    PE_MACHINE_ARM = 0x1c4,
    PE_MACHINE_AMD64 = 0x8664,
    PE_MACHINE_ARM64 = 0xaa64,
};

enum pe_directory {
    PE_DIR_EXPORT = 0,
    PE_DIR_IMPORT = 1,
    PE_DIR_RESOURCE = 2,
    PE_DIR_LOAD_CONFIG = 10,
    PE_DIR_DELAY_IMPORT = 13,
    PE_DIR_COUNT = 16,
};

enum { PE_FILE_DLL = 0x2000, PE_SECTION_EXECUTE = 0x20000000 };

struct pe_section {
    const char *name;              // in the arena: at most 8 characters, or one of the string table
    uint32_t rva, size_in_memory;  // where it is mapped
    uint32_t offset, size_in_file; // bytes of the file
    uint32_t room;                 // how many of them are mapped and there
    uint32_t characteristics;
};

struct pe_image {
    const unsigned char *data;
    size_t size;

    enum pe_state state;
    const char *defect;       // one clause, for PE_STATE_BAD; else NULL
    uint16_t machine;         // enum pe_machine, or any other
    uint16_t characteristics; // PE_FILE_DLL ...
    uint16_t subsystem;
    bool is64; // PE32+
    bool cut;  // a section reaches behind the end of the file
    uint64_t image_base;
    uint32_t size_of_image, size_of_headers;
    uint32_t time_date_stamp, checksum;
    const struct pe_section *sections;
    size_t n_sections;
    struct {
        uint32_t rva, size;
    } directories[PE_DIR_COUNT]; // 0, 0: absent
};

/* Reads the headers out of `size` bytes. Never fails: what cannot be read is said in `state`,
 * `defect` and `cut`. The arena takes the sections. */
void pe_image_parse(struct arena *a, const void *data, size_t size, struct pe_image *ret);

/* The one gate to the file: `n` bytes at `offset`, or NULL if they are not all inside. */
static inline const unsigned char *pe_bytes(const struct pe_image *e, uint64_t offset, uint64_t n)
{
    return offset <= e->size && n <= e->size - offset ? e->data + offset : NULL;
}

/* `n` bytes of the mapped image at an RVA, out of one section; NULL: the file does not hold all. */
const unsigned char *pe_at(const struct pe_image *e, uint64_t rva, uint64_t n);

/* How many bytes of the file can be read from an RVA to the end of its section. */
size_t pe_room_at(const struct pe_image *e, uint64_t rva);

/* A text that begins at an RVA and whose NUL lies inside the section; NULL: there is none. */
const char *pe_text_at(const struct pe_image *e, uint64_t rva);

/* "x64", "x86", "ARM64", ...; "machine 0x1234" in the arena if unknown. */
const char *pe_machine_name(struct arena *a, uint16_t machine);

/* UTF-16 (little endian) as UTF-8 in the arena; an unpaired surrogate becomes U+FFFD. */
char *pe_utf8(struct arena *a, const unsigned char *utf16, size_t n_units);

static inline uint16_t pe_u16(const unsigned char *p)
{
    return (uint16_t)(p[0] | (unsigned)p[1] << 8);
}

static inline uint32_t pe_u32(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t pe_u64(const unsigned char *p)
{
    return pe_u32(p) | (uint64_t)pe_u32(p + 4) << 32;
}

/* ------------------------------------------------------------------ imports */

struct pe_import {
    const char *dll;
    bool delayed;                  // loaded at the first call, by the delay-load helper
    bool unused;                   // its table of functions is empty: the loader does not load it
    uint32_t names_rva, table_rva; // IMAGE_THUNK_DATA; names_rva may be 0: the other holds them
};

struct pe_imports {
    const struct pe_import *items; // in the order of the file, delayed ones last
    size_t n;
    const char *defect; // a descriptor or a name that cannot be read; what came before it is kept
};

void pe_imports_read(struct arena *a, const struct pe_image *e, struct pe_imports *ret);

struct pe_symbol {
    const char *name; // NULL: by ordinal
    uint16_t ordinal; // without a name
};

struct pe_symbols {
    const struct pe_symbol *items;
    size_t n;
    const char *defect;
};

/* The functions that one import wants. */
void pe_import_symbols(struct arena *a, const struct pe_image *e, const struct pe_import *import,
                       struct pe_symbols *ret);

/* ------------------------------------------------------------------ exports */

enum pe_export_state {
    PE_EXPORT_ABSENT,
    PE_EXPORT_HERE,
    PE_EXPORT_FORWARDED, // `forwarder` is "NTDLL.RtlAllocateHeap" or "DLL.#12"
    PE_EXPORT_DAMAGED,   // the table cannot be read: it cannot be determined
};

struct pe_export {
    enum pe_export_state state;
    const char *forwarder;
};

/* How the loader finds it: by a binary search of the names, or by the ordinal. */
struct pe_export pe_export_find(const struct pe_image *e, const struct pe_symbol *symbol);

/* Calls `visit` for each exported name (at most 65536) until it returns false; returns whether the
 * table could be read. */
bool pe_exports_visit(const struct pe_image *e, bool (*visit)(const char *name, void *arg),
                      void *arg);

/* ------------------------------------------------------------------ load configuration */

/* What /DEPENDENTLOADFLAG has written: the LOAD_LIBRARY_SEARCH_* flags with which Windows 10 1607
 * and later loads the static imports of this module; 0: none were given. */
uint16_t pe_dependent_load_flags(const struct pe_image *e);

/* Whether a file for ARM64 holds one for x64 as well (CHPEMetadataPointer), as all of System32 does
 * in Windows 11 for ARM: https://learn.microsoft.com/windows/arm/arm64x-pe. What is read of it here
 * is the part for ARM64. */
bool pe_is_arm64x(const struct pe_image *e);

/* ------------------------------------------------------------------ resources */

struct pe_version {
    bool found;
    uint16_t file[4], product[4]; // 9.10.2.21 is {9, 10, 2, 21}
};

struct pe_version pe_version_read(const struct pe_image *e);

/* A text of the version resource's first language, such as "ProductVersion"; NULL: there is none.
 */
const char *pe_version_text(struct arena *a, const struct pe_image *e, const char *key);

/* The manifest (RT_MANIFEST, XML); empty: there is none. */
struct str pe_manifest(const struct pe_image *e);

/* The one of this number: 1 is a program's, 2 a DLL's for what it imports. */
struct str pe_manifest_numbered(const struct pe_image *e, uint32_t id);

#endif
