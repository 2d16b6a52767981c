/* What a stream leads to. */
#ifndef GPUMEND_BASE_TERMINAL_H
#define GPUMEND_BASE_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

/* What the terminal can do that a stream leads to; false if it leads to none. */
struct terminal {
    bool colours;     // understands the sequences that set them
    unsigned columns; // 0: not known
};

bool terminal_of(FILE *file, struct terminal *ret);

#endif
