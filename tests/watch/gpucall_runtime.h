/* What the programs call of a runtime, fake or not. */
#ifndef GPUCALL_RUNTIME_H
#define GPUCALL_RUNTIME_H

#include <stddef.h>

int cudaMalloc(void **ret, size_t n);
int cudaMemcpy(void *to, const void *from, size_t n, int kind);
int cudaStreamQuery(void *stream);

#endif
