/* The helper libraries as bytes of the executable (src/inject); size 0 where there is none for
 * this machine. */
#ifndef GPUMEND_WATCH_IMAGES_H
#define GPUMEND_WATCH_IMAGES_H

#include <stddef.h>

extern const unsigned char watch_gpucall_image[];
extern const size_t watch_gpucall_image_size;
extern const unsigned char watch_trace_image[];
extern const size_t watch_trace_image_size;
extern const unsigned char watch_guard_image[];
extern const size_t watch_guard_image_size;

#endif
