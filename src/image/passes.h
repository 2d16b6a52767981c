/* Inside this room: what is held of files in compressed layers. */
#ifndef GPUMEND_IMAGE_PASSES_H
#define GPUMEND_IMAGE_PASSES_H

#include "base/pages.h"
#include "image/layers.h"

/* The pages of a file of which parts are wanted; nothing is held yet. */
struct pages *layers_pages(struct image_layers *l, const struct image_layer_file *f);
void layers_drop_ranges(struct image_layer_file *f);

/* `more` of struct pages for what is kept of a file's GPU code. */
bool layers_kept_gpu_code(const void *arg, uint64_t offset, size_t n, unsigned char *to);

#endif
