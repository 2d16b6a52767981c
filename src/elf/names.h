/*
 * The symbols of a hash table by their names, for a table whose chains are long: walking one for
 * each of many lookups takes time by the square of its length.
 *
 * Only a DT_HASH table in which no symbol is in two chains gets an index, as linkers write them; of
 * others the chains are walked. The chains of DT_GNU_HASH are pieces of one array, which may
 * overlap.
 */
#ifndef GPUMEND_ELF_NAMES_H
#define GPUMEND_ELF_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

struct elf_image;

struct elf_names {
    struct arena *arena;
    uint64_t walked; // symbols, before there is an index
    bool tried;
    uint32_t mask;
    uint32_t *first, *last; // by hash of a name, of mask + 1; 0: none. NULL: there is no index
    uint32_t *next;         // by symbol: the next one with this hash, in the order of its chain
    /* DT_GNU_HASH: `symbol` in the above is the place in the array of chains, counted from 1. */
    uint32_t *end; // by place: that of the last of its chain
    uint32_t n;    // places; 0: not counted yet
};

/* A DT_HASH table: nbucket, nchain, buckets, chains, all inside the file. */
struct elf_names_table {
    uint32_t n_buckets, n_chains;
    const unsigned char *buckets, *chains;
};

/* Whether so many symbols were walked over that an index is worth it; makes it then. `name` gives a
 * symbol's name, or NULL. */
bool elf_names_ready(struct elf_names *names, const struct elf_image *e,
                     const struct elf_names_table *t,
                     const char *(*name)(const struct elf_image *e, uint32_t symbol));

/* The array of chains of a DT_GNU_HASH table, and the symbol of its first entry. */
struct elf_names_chains {
    const unsigned char *words;
    uint32_t n, symoffset;
    uint32_t (*hash)(const char *name);
};

/* elf_names_ready() for DT_GNU_HASH. `chains` gives the array as far as a bucket leads into it. */
bool elf_names_chains_ready(struct elf_names *names, const struct elf_image *e,
                            struct elf_names_chains (*chains)(const struct elf_image *e),
                            const char *(*name)(const struct elf_image *e, uint32_t symbol));

/* The first symbol whose name may be this one, names->next[] follow; 0: there is none. All that
 * have the name are among them, in the order of their chain. */
uint32_t elf_names_first(const struct elf_names *names, const char *name);

#endif
