/* What scripts/names-embed makes of kb/names. */
#ifndef GPUMEND_KB_NAMES_PACKED_H
#define GPUMEND_KB_NAMES_PACKED_H

#include <stddef.h>

struct kb_names_part {
    const unsigned char *data; // deflated
    size_t size, text_size;
};

enum { KB_NAMES_MODULES, KB_NAMES_INNER, KB_NAMES_PARTS };

struct kb_names_file {
    const char *package;
    const char *roots;    // how the names of its modules begin, with commas between them
    const char *releases; // that were read, with blanks between them, the oldest first
    struct kb_names_part parts[KB_NAMES_PARTS];
};

extern const struct kb_names_file kb_names_files[];
extern const size_t kb_n_names_files;

#endif
