/* The built-in rule base: trees of kb/failures, one after the other, packed by src/log/packer.c. */
#ifndef GPUMEND_LOG_PACK_H
#define GPUMEND_LOG_PACK_H

#include <stddef.h>

extern const char log_packed[];
extern const size_t log_packed_size;

#endif
