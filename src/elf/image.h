/*
 * One ELF image, read with bounds checks from a read-only mapping of its file, or from a copy of
 * its first bytes with the mapping made once more is asked for (struct elf_source).
 *
 *   file bytes  ->  elf_image_parse()  ->  plain struct  ->  judged by others (src/ldso)
 *
 * Nothing here decides whether a loader would accept the file: elf_image says what the header
 * claims and where a claim does not hold, in both classes and both byte orders. All pointers in
 * the struct point into these and are valid as long as they are.
 *
 * Layouts and constants: System V gABI chapters 4 and 5, the GNU extensions of the LSB
 * (symbol versions, GNU_HASH), <elf.h> of glibc 2.36. Section headers are used only where the
 * gABI gives no other way (counting symbols of an object without any hash table).
 */
#ifndef GPUMEND_ELF_IMAGE_H
#define GPUMEND_ELF_IMAGE_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

enum elf_state {
    ELF_STATE_OK,
    ELF_STATE_TOO_SHORT, // shorter than an ELF header of its class
    ELF_STATE_NOT_ELF,   // the first four bytes are not the ELF magic
    ELF_STATE_BAD,       // magic, but tables that cannot be read: `defect` says which
};

struct elf_segment {
    uint32_t type, flags;
    uint64_t offset, vaddr, filesz, memsz, align;
};

/* DT_NEEDED, DT_AUXILIARY and DT_FILTER entries in the order of the dynamic section. */
struct elf_need {
    int64_t tag;
    const char *name;
};

/*
 * A file whose bytes are fetched as they are needed. What the loader looks at stands in the first
 * few KiB of most libraries, and to read these takes half the time of mapping the file, touching a
 * page and unmapping it again.
 */
struct elf_source {
    /* Copies n bytes; false if not all could be read. Asked while the image is parsed. */
    bool (*read)(struct elf_source *s, uint64_t offset, void *to, size_t n);
    /* The first n bytes of the file, which stay there as long as the image is used; NULL if they
     * cannot be had. The whole file is asked for at most once, and any time later; less than that
     * at most once, and while the image is parsed. */
    const unsigned char *(*map)(struct elf_source *s, size_t n);
    unsigned char *head; // where the first bytes go: `room` bytes
    size_t room;
    const unsigned char *whole; // what map() gave of the whole file
    bool asked;                 // ... once it was asked
};

struct elf_names;

struct elf_image {
    const unsigned char *data; // the first `near` bytes of the file
    size_t near;
    size_t size;               // of the file
    struct elf_source *source; // of all that is not near; NULL: nothing is missing

    enum elf_state state;
    const char *defect; // one clause, for ELF_STATE_BAD and for dynamic_bad; else NULL
    unsigned char ident[EI_NIDENT];
    bool is64, big_endian;
    bool native; // 64 bits in this machine's byte order
    uint16_t type, machine, phentsize;
    uint32_t version;
    const struct elf_segment *segments;
    size_t n_segments;
    bool segments_cut; // the program header table reaches behind the end of the file

    const char *interp;      // PT_INTERP, or NULL
    bool has_dynamic;        // a PT_DYNAMIC segment exists
    bool dynamic_bad;        // ... but lies outside the file, or its strings do
    bool cut;                // a PT_LOAD segment reaches behind the end of the file
    bool stack_known;        // a PT_GNU_STACK segment exists
    bool stack_exec;         // executable stack wanted (PF_X, or no PT_GNU_STACK at all)
    uint32_t x86_isa_needed; // GNU_PROPERTY_X86_ISA_1_NEEDED bits, 0 if none
    bool notes_cut;          // ... or not known: elf_notes() could not read all notes

    const struct elf_need *needs;
    size_t n_needs;
    const char *soname, *rpath, *runpath; // NULL if absent; the last tag of a kind wins
    uint64_t flags, flags_1;              // DT_FLAGS, DT_FLAGS_1
    bool has_relr, bind_now, symbolic;

    /* PT_TLS: size 0 if there is none; `first` is the offset of its first byte from a multiple of
     * the alignment, which is at least 1. */
    struct {
        uint64_t size, align, first;
    } tls;

    /* Where the tables lie, as offsets into the file; 0 means absent. */
    uint64_t strtab, strtab_size, symtab, hash, gnu_hash, versym;
    struct elf_names *names; // with either hash table; else NULL
    const char *strings; // the string table if its last byte is a NUL, so that every string ends
    /* Tables as far as they are near, in entries to its end; the table itself may be shorter. */
    struct elf_table {
        const unsigned char *near;
        uint32_t n_near;
        uint32_t n; // to the end of the file
    } symbols, versyms;
    uint64_t verneed, n_verneed, verdef, n_verdef;
    uint64_t rel, rel_size, jmprel, jmprel_size;
    bool rel_is_rela, jmprel_is_rela;
    uint64_t n_rel_relative; // DT_RELACOUNT / DT_RELCOUNT: leading entries without a symbol

    /* DT_GNU_HASH with its header read and its first two tables found inside the file; usable only
     * if bloom is not NULL. A shift of 32 stands for any above. */
    struct {
        const unsigned char *bloom, *buckets;
        uint64_t chains_at; // offset of the chain words, which end with the file
        struct elf_table chains;
        uint32_t nbuckets, symoffset, bloom_mask, shift;
    } gnu;
};

/* Reads the tables above out of `size` bytes. Never fails: what cannot be read is said in
 * `state`, `defect`, `dynamic_bad`. The arena takes the arrays. */
void elf_image_parse(struct arena *a, const void *data, size_t size, struct elf_image *ret);

/* The same for a file of `size` bytes, more than none. Uses at most source->room bytes of
 * source->head: the first ret->near, if ret->data is there afterwards, else none. */
void elf_image_parse_source(struct arena *a, struct elf_source *source, size_t size,
                            struct elf_image *ret);

/* elf_bytes() for what is not near. */
const unsigned char *elf_far_bytes(const struct elf_image *e, uint64_t offset);

/* Whether the file has `size` bytes at `offset`. */
static inline bool elf_inside(const struct elf_image *e, uint64_t offset, uint64_t size)
{
    return offset <= e->size && size <= e->size - offset;
}

/* The one gate to the bytes: `size` bytes at `offset`, or NULL if they are not all inside. */
static inline const unsigned char *elf_bytes(const struct elf_image *e, uint64_t offset,
                                             uint64_t size)
{
    if (offset <= e->near && size <= e->near - offset) {
        return e->data + offset;
    }
    return elf_inside(e, offset, size) ? elf_far_bytes(e, offset) : NULL;
}

/* The whole file; empty if it cannot be had. */
static inline struct str elf_whole(const struct elf_image *e)
{
    const unsigned char *p = elf_bytes(e, 0, e->size);
    return (struct str){(const char *)p, p ? e->size : 0};
}

/* Numbers of a byte order. */
static inline uint16_t elf_u16_in(bool big_endian, const unsigned char *p)
{
    unsigned value = big_endian ? (unsigned)p[0] << 8 | p[1] : (unsigned)p[1] << 8 | p[0];
    return (uint16_t)value;
}

static inline uint32_t elf_u32_in(bool big_endian, const unsigned char *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return big_endian == (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__) ? v : __builtin_bswap32(v);
}

/* Numbers in the byte order of the file. */
static inline uint16_t elf_u16(const struct elf_image *e, const unsigned char *p)
{
    return elf_u16_in(e->big_endian, p);
}

static inline uint32_t elf_u32(const struct elf_image *e, const unsigned char *p)
{
    return elf_u32_in(e->big_endian, p);
}

static inline uint64_t elf_u64(const struct elf_image *e, const unsigned char *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return e->big_endian == (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__) ? v : __builtin_bswap64(v);
}

/* elf_string() where the table does not end with a NUL. */
const char *elf_string_checked(const struct elf_image *e, uint64_t offset_in_table);

/* A string of the dynamic string table whose NUL lies inside the table, else NULL. */
static inline const char *elf_string(const struct elf_image *e, uint64_t offset_in_table)
{
    return e->strings && offset_in_table < e->strtab_size ? e->strings + offset_in_table
                                                          : elf_string_checked(e, offset_in_table);
}

/* Translates an address to a file offset through PT_LOAD; false if no segment's file bytes hold
 * it. */
bool elf_offset_of(const struct elf_image *e, uint64_t vaddr, uint64_t *ret_offset);

/* ------------------------------------------------------------------ symbol versions */

struct elf_version_need { // one Vernaux
    const char *file;     // vn_file: the object the version is wanted from
    const char *name;
    uint32_t hash;
    uint16_t flags, index; // vna_other without the hidden bit
};

struct elf_version_def { // the first Verdaux of a Verdef
    const char *name;
    uint32_t hash;
    uint16_t flags, index;
};

struct elf_versions {
    const struct elf_version_need *needs;
    size_t n_needs;
    const struct elf_version_def *defs;
    size_t n_defs;
    bool damaged; // a record or name lay outside the file; what came before it is kept
    bool cut;     // there may be more than are read: 65536 of a kind
};

void elf_versions_read(struct arena *a, const struct elf_image *e, struct elf_versions *ret);

/* ------------------------------------------------------------------ symbols */

struct elf_symbol {
    const char *name;
    uint64_t value, size;
    uint16_t shndx;
    uint8_t type, bind, visibility; // STV_DEFAULT ...
    uint16_t versym;                // raw, with the hidden bit; 0xffff without a version table
};

/* Reads symbol `index`; false if it, or its name, lies outside the tables. */
bool elf_symbol_at(const struct elf_image *e, uint32_t index, struct elf_symbol *ret);

/* Number of dynamic symbols that can be undefined: those before the first hashed one with
 * DT_GNU_HASH (up to the last that a relocation names where none is hashed), all with DT_HASH. 0 if
 * it cannot be known. */
uint32_t elf_symbol_undef_count(const struct elf_image *e);

/* Whether relocations of static TLS may be found: linkers set DF_STATIC_TLS for an offset from the
 * thread pointer; a TLS descriptor is for a variable of its own or an undefined one. */
bool elf_may_use_tls(const struct elf_image *e);

struct elf_lookup_key {
    const char *name;
    uint32_t gnu_hash; // the other hash is computed where an object has only DT_HASH
};
struct elf_lookup_key elf_lookup_key(const char *name);

/* The hash of DT_HASH, which symbol versions carry as well (gABI, "Hash Table"). */
uint32_t elf_sysv_hash(const char *name);

/* Calls `visit` for each symbol in the object's hash table whose name is the key's, until it
 * returns true; returns whether one did. Chains are bounded by the table. */
bool elf_symbol_find(const struct elf_image *e, const struct elf_lookup_key *key,
                     bool (*visit)(const struct elf_symbol *sym, void *arg), void *arg);

/*
 * elf_symbol_find() for many names at a time: a lookup touches places that are in no cache (filter,
 * bucket, chain, symbol, its name), each known only from the one before. Taking each step for all
 * of the lookups lets their waits for memory overlap.
 *
 *   elf_symbols_wanted()  ->  elf_lookup_begin() for each  ->  elf_lookup_go() for all
 *                         ->  elf_lookup_finish() for each
 */
struct elf_lookup {
    struct elf_lookup_key key;
    uint32_t index;  // of the symbol in the object that wants it
    uint16_t versym; // ... as in struct elf_symbol
    uint32_t first;  // the first symbol with this hash in the object asked; 0: there is none
    const struct elf_image *image; // the object asked; NULL: none, nothing is found
    const unsigned char *bucket;   // where `first` is read; NULL: elf_symbol_find() is to be asked
    const unsigned char *symbol;   // ... and its bytes
    const char *name;              // ... and its name; NULL: it has none
};

/* Symbols that are still to be visited, from `at` to before `end`. Passed over are those with a
 * version index (without its hidden bit) below n_skip that `skip` says to. */
struct elf_wanted {
    uint32_t at, end;
    const bool *skip;
    uint32_t n_skip;
};

/* Fills in key, index and versym of the symbols that somebody has to define: undefined, neither
 * weak nor local, and with a name. Ends after `max` of them, and moves w->at there. */
size_t elf_symbols_wanted(const struct elf_image *e, struct elf_wanted *w, struct elf_lookup *ret,
                          size_t max);
/* Asks this object; false, and nothing set, if its filter tells that it does not define the name.
 */
bool elf_lookup_begin(struct elf_lookup *l, const struct elf_image *e);
void elf_lookup_go(struct elf_lookup *lookups, size_t n);
bool elf_lookup_finish(const struct elf_lookup *l,
                       bool (*visit)(const struct elf_symbol *sym, void *arg), void *arg);

struct elf_relocation {
    uint32_t symbol, type; // symbol 0: none
    bool lazy;             // in the lazy table (DT_JMPREL)
    uint64_t number;       // its place in the order in which the loader works
};

/* Calls `visit` for each relocation but the leading relative ones, or for those of three types only
 * (NULL: all; 0 fills up). Returns false if the tables are damaged. */
bool elf_relocations(const struct elf_image *e, const uint32_t types[3],
                     void (*visit)(const struct elf_relocation *r, void *arg), void *arg);

/* Where the section of this name lies in the file; false if there is none, or no section headers.
 * The loader ignores sections: only for finding data quickly, never for what it would do. */
bool elf_section(const struct elf_image *e, const char *name, uint64_t *ret_offset,
                 uint64_t *ret_size);

/* ------------------------------------------------------------------ notes */

struct elf_note {
    struct str owner; // without its NUL
    uint32_t type;
    struct str desc;
};

/* Calls `visit` for each note of the PT_NOTE segments; false if there are more than 4096, the
 * most that are read. */
bool elf_notes(const struct elf_image *e, void (*visit)(const struct elf_note *note, void *arg),
               void *arg);

/* The field's own name: "x86-64", "aarch64", "ARM", ...; "machine 1234" in the arena if unknown. */
const char *elf_machine_name(struct arena *a, uint16_t machine);

#endif
