/*
 * How an engine comes to an image that was looked at: by its name where the engine has it, else by
 * loading the archive, the layout or the folder first.
 *
 * An image says its name itself, and what it says is not believed: a name that is no reference
 * (distribution/reference, reference.go: letters, digits and ._-/:@, a letter or digit first) is
 * not used, and a name of gpumend's own stands for it.
 */
#ifndef GPUMEND_CONTAINER_SUBJECT_H
#define GPUMEND_CONTAINER_SUBJECT_H

#include "container/settings.h"

struct container_subject {
    const char *name;            // for the engine's command; "IMAGE" where no image was looked at
    struct container_item first; // makes the engine know it; value NULL: it does
    struct container_item undo;  // takes that back, or value NULL
};

void container_subject(const struct container_question *q, struct container_subject *ret);

#endif
