/* The folders that one request is looked for in, and in which order: process.h, steps 1 and 2. */
#ifndef GPUMEND_WINLDR_SEARCH_H
#define GPUMEND_WINLDR_SEARCH_H

#include "winldr/process.h"

struct winldr_place {
    const char *folder; // as it was given; NULL: not known
    enum winldr_via via;
    bool is_quoted; // in PATH: whether Windows drops the quotes is not known
};

struct winldr_list {
    VEC(struct winldr_place) places;
};

/* False: the flags contradict each other, or the name (87). */
bool winldr_search_list(struct winldr_process *p, const char *name, unsigned flags,
                        struct winldr_list *ret);

/* The list for flags alone, as /DEPENDENTLOADFLAG gives them to the imports of `importer`. */
void winldr_search_flags(struct winldr_process *p, const char *importer, unsigned flags,
                         struct winldr_list *ret);

#endif
