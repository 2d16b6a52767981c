/*
 * Whether a repair of gpumend was begun in a place and has not ended: killed, or still at work.
 * Only that is read of its journal (docs/mend.md), as text, so that a check of what is half done
 * says so; src/mend reads all of it, and takes it back.
 */
#ifndef GPUMEND_MODEL_JOURNAL_H
#define GPUMEND_MODEL_JOURNAL_H

#include <stdint.h>

#include "base/root.h"

struct model_journal {
    const char *folder; // of the journal, absolute inside the root
    uint64_t id;
};

/* The latest journal in a folder of journals (absolute inside the root) that has not ended; false:
 * all have, or there is none. A journal that is too large to be read may be that one: then *ret_why
 * becomes a sentence that says so. */
bool model_journal_open(struct root *root, struct arena *a, const char *folder,
                        struct model_journal *ret, const char **ret_why);

#endif
