/*
 * Names of Python packages by release: which releases have a module, a name of a module, a member
 * of a class or an argument of a function. Read from the sources of wheels by scripts/kb-names;
 * only what some of the releases have and others have not is kept (docs/kb.md, "names").
 *
 * A message says that a name is missing; here is which releases that were read have it.
 */
#ifndef GPUMEND_KB_NAMES_H
#define GPUMEND_KB_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/str.h"

/* The texts that were inflated so far. Starts zeroed but for the arena, which must outlive it. */
struct kb_names {
    struct arena *arena;
    struct str *texts; // two a package; NULL until the first is needed
};

struct kb_name {
    const char *package;   // as pip knows it
    const char **releases; // that were read, the oldest first
    bool *has;             // of each, whether it has the name
    size_t n;
    bool unsure; // releases without it may have it in a way that is not read
};

/* How many packages there are. */
size_t kb_names_count(void);

/* A package as pip knows it. */
const char *kb_names_package(size_t package);

/* Whether a module is one of the package by its name: "transformers.utils" is of transformers. */
bool kb_names_is_module_of(size_t package, struct str module);

/* A module itself ("torchvision.transforms.v2"), or a name in it: a function, a class, a value.
 * Each false: no such name came or went between the releases that were read. */
bool kb_names_module(struct kb_names *names, size_t package, const char *module,
                     struct kb_name *ret);
bool kb_names_in_module(struct kb_names *names, size_t package, const char *module,
                        const char *name, struct kb_name *ret);

/* A name in a class ("DynamicCache"), or an argument of a function ("pipeline()"), of the call of a
 * class ("Trainer()") or of a method of one ("Trainer.train()"). */
bool kb_names_inside(struct kb_names *names, size_t package, const char *of, const char *name,
                     struct kb_name *ret);

#endif
