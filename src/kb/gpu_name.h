/*
 * GPUs by the names that people give them: "RTX3060", "Tesla T4", "Radeon RX 6800 XT".
 *
 * Names are compared as sets of runs of letters and runs of digits, brands may be left out. Cards
 * whose name has exactly the words asked for come before those that have more; without a digit
 * among the words ("TITAN V") only the exact ones count. A name such as "Radeon RX 470/480/570"
 * stands for each of its cards.
 */
#ifndef GPUMEND_KB_GPU_NAME_H
#define GPUMEND_KB_GPU_NAME_H

#include "kb/kb.h"

struct kb_gpu_list {
    VEC(const struct kb_gpu *) items;
};

/* Appends the cards that a text names; of the second all whose names have its words. */
void kb_gpus_named(struct arena *a, const struct kb_gpus *gpus, const char *text,
                   struct kb_gpu_list *ret);
void kb_gpus_containing(struct arena *a, const struct kb_gpus *gpus, const char *text,
                        struct kb_gpu_list *ret);

/* Whether there are some, all of one capability or gfx target. */
bool kb_gpus_alike(const struct kb_gpu_list *list);

/* "8.6", "gfx1030" */
const char *kb_gpu_value(const struct kb_gpu *g);

/* Which of the words occur in the name of a GPU at all; brands do. */
void kb_gpus_words(const struct kb_gpus *gpus, const char *const *words, size_t n, bool *ret);

#endif
