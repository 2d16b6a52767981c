/* Little-endian numbers, as all formats of GPU code have them. */
#ifndef GPUMEND_GPU_BYTES_H
#define GPUMEND_GPU_BYTES_H

#include <stdint.h>

static inline uint16_t gpu_u16(const unsigned char *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t gpu_u32(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t gpu_u64(const unsigned char *p)
{
    return (uint64_t)gpu_u32(p) | (uint64_t)gpu_u32(p + 4) << 32;
}

#endif
