/*
 * Which signatures find nothing new any more in lines of one process: all that they yield is kept
 * often enough.
 */
#ifndef GPUMEND_LOG_SPENT_H
#define GPUMEND_LOG_SPENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

enum { SPENT_PROCESSES = 8 }; // that are told apart; in others nothing is spent

struct spent {
    size_t n_owners;
    struct spent_process {
        uint64_t process;
        uint64_t *owners; // a bit for each
    } items[SPENT_PROCESSES];
    size_t n;
    unsigned forgotten; // times
};

/* Nothing is spent yet. */
void spent_init(struct spent *to, struct arena *a, size_t n_owners);

void spent_add(struct spent *s, uint64_t process, size_t owner);

/* What is kept was taken back: nothing is spent again. */
void spent_forget(struct spent *s);

bool spent_has(const struct spent *s, uint64_t process, size_t owner);

#endif
