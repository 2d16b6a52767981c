/*
 * The symbols of a DT_HASH table by their names, for a table whose chains are long: walking one for
 * each of many lookups takes time by the square of its length.
 *
 * Only a table in which no symbol is in two chains gets an index, as linkers write them; of others
 * the chains are walked.
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

/* The first symbol whose name may be this one, names->next[] follow; 0: there is none. All that
 * have the name are among them, in the order of their chain. */
uint32_t elf_names_first(const struct elf_names *names, const char *name);

#endif
