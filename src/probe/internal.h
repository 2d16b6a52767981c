/* What the files of this room share. */
#ifndef GPUMEND_PROBE_INTERNAL_H
#define GPUMEND_PROBE_INTERNAL_H

#include <stddef.h>

/* The bytes of the helper's executable; none where it is not built (see src/inject/probe). */
extern const unsigned char probe_helper_image[];
extern const size_t probe_helper_image_size;

#endif
