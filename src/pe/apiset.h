/*
 * The API-set schema (System32/apisetschema.dll): which DLL implements the contracts that programs
 * import as api-ms-win-*.dll and ext-ms-*.dll. Such names are not files: the loader replaces them
 * before it looks at anything else.
 *
 * Layout: version 6 (Windows 10 and later), in the section .apiset; offsets count from its
 * beginning, texts are UTF-16 without a NUL:
 *
 *   namespace  0 u32 version    4 u32 size    8 u32 flags   12 u32 entries   16 u32 offset of them
 *             20 u32 offset of the hashes    24 u32 factor of the hash
 *   entry      0 u32 flags      4 u32 name, 8 u32 its bytes, 12 u32 its bytes up to the last '-'
 *             16 u32 offset of the values    20 u32 their number
 *   value      0 u32 flags      4 u32 name of an importer, 8 u32 its bytes
 *             12 u32 host,     16 u32 its bytes (0: the contract is not implemented here)
 *
 * Sources: Wine, include/winternl.h and dlls/ntdll/loader.c (API_SET_NAMESPACE, which its own
 * apisetschema.dll has in the layout of Windows 10); G. Chappell, "The API Set Schema". Microsoft
 * documents the names and not the file. Not read: versions 2 to 4 of Windows 7 and 8.
 */
#ifndef GPUMEND_PE_APISET_H
#define GPUMEND_PE_APISET_H

#include "base/err.h"
#include "pe/image.h"

struct pe_apiset {
    const unsigned char *data;
    size_t size;
    uint32_t version, n_entries, entries;
};

enum pe_apiset_state {
    PE_APISET_NONE,    // the schema has no such contract: an ordinary name
    PE_APISET_HOST,    // `host` implements it
    PE_APISET_NO_HOST, // a contract that this Windows does not implement: error 126
    PE_APISET_DAMAGED,
};

struct pe_apiset_answer {
    enum pe_apiset_state state;
    const char *host; // in the arena
};

/* Finds the schema in an image. GM_ERR_FORMAT: it has none, or a damaged one; GM_ERR_UNSUPPORTED:
 * another version. Points into the mapping. */
int pe_apiset_open(const struct pe_image *e, struct pe_apiset *ret, struct gm_err *err) GM_CHECK;

/* Whether the name is one of a contract: it begins with "api-" or "ext-". */
bool pe_apiset_is_name(const char *dll);

/* Who implements a contract for an importer (base name, or NULL: the default). The part from the
 * last '-' on is ignored, as the loader does. */
struct pe_apiset_answer pe_apiset_find(struct arena *a, const struct pe_apiset *s, const char *dll,
                                       const char *importer);

#endif
