/* What the fakes of the mathematical libraries compute with: elements of every type as doubles. The
 * conversions are written here a second time on purpose: a fault in the helper's would not be seen
 * if both used one. */
#ifndef FAKE_NUMBERS_H
#define FAKE_NUMBERS_H

#include <stdint.h>
#include <string.h>

enum fake_type { FAKE_F32, FAKE_F16, FAKE_BF16, FAKE_I8, FAKE_I32 };

static inline float fake_from_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline double fake_half(uint16_t h)
{
    int exponent = h >> 10 & 31, fraction = h & 1023;
    double value = exponent ? 1 + fraction / 1024.0 : fraction / 1024.0;
    for (int e = exponent ? exponent - 15 : -14; e != 0; e += e < 0 ? 1 : -1) {
        value = e < 0 ? value / 2 : value * 2;
    }
    return h & 0x8000 ? -value : value;
}

static inline double fake_load(const void *p, enum fake_type type, size_t i)
{
    switch (type) {
    case FAKE_F32: return ((const float *)p)[i];
    case FAKE_F16: return fake_half(((const uint16_t *)p)[i]);
    case FAKE_BF16: return fake_from_bits((uint32_t)((const uint16_t *)p)[i] << 16);
    case FAKE_I8: return ((const int8_t *)p)[i];
    case FAKE_I32: return ((const int32_t *)p)[i];
    }
    return 0;
}

/* The nearest half; found by halving an interval, which needs no thought about rounding. */
static inline uint16_t fake_to_half(double value)
{
    uint16_t low = 0, high = 0x7bff;
    double size = value < 0 ? -value : value;
    while (high - low > 1) {
        uint16_t middle = (uint16_t)((low + high) / 2);
        if (fake_half(middle) <= size) {
            low = middle;
        } else {
            high = middle;
        }
    }
    uint16_t best = size - fake_half(low) <= fake_half(high) - size ? low : high;
    return (uint16_t)(best | (value < 0 ? 0x8000 : 0));
}

static inline void fake_store(void *p, enum fake_type type, size_t i, double value)
{
    float f = (float)value;
    uint32_t bits;
    switch (type) {
    case FAKE_F32: ((float *)p)[i] = f; break;
    case FAKE_F16: ((uint16_t *)p)[i] = fake_to_half(value); break;
    case FAKE_BF16:
        memcpy(&bits, &f, sizeof bits);
        ((uint16_t *)p)[i] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
        break;
    case FAKE_I8: ((int8_t *)p)[i] = (int8_t)value; break;
    case FAKE_I32: ((int32_t *)p)[i] = (int32_t)value; break;
    }
}

/* C = op(A) * op(B), column-major; `off` is added to one element. */
static inline void fake_gemm(int transpose_a, int transpose_b, int m, int n, int k, const void *a,
                             enum fake_type ta, int lda, const void *b, enum fake_type tb, int ldb,
                             void *c, enum fake_type tc, int ldc, double off)
{
    for (int row = 0; row < m; row++) {
        for (int column = 0; column < n; column++) {
            double sum = row == m / 2 && column == n / 2 ? off : 0;
            for (int i = 0; i < k; i++) {
                size_t at_a = transpose_a ? (size_t)row * (size_t)lda + (size_t)i
                                          : (size_t)i * (size_t)lda + (size_t)row;
                size_t at_b = transpose_b ? (size_t)i * (size_t)ldb + (size_t)column
                                          : (size_t)column * (size_t)ldb + (size_t)i;
                sum += fake_load(a, ta, at_a) * fake_load(b, tb, at_b);
            }
            fake_store(c, tc, (size_t)column * (size_t)ldc + (size_t)row, sum);
        }
    }
}

/* A cross-correlation along the last dimension, NCHW with one image and height 1, float32. */
static inline void fake_convolve(const float *in, const float *by, float *out, int channels,
                                 int length, int filters, int width, int padding, int stride,
                                 int out_length, double off)
{
    for (int f = 0; f < filters; f++) {
        for (int x = 0; x < out_length; x++) {
            double sum = f == filters / 2 && x == out_length / 2 ? off : 0;
            for (int c = 0; c < channels; c++) {
                for (int i = 0; i < width; i++) {
                    int at = x * stride + i - padding;
                    if (at >= 0 && at < length) {
                        sum += (double)in[c * length + at] *
                               (double)by[(f * channels + c) * width + i];
                    }
                }
            }
            out[f * out_length + x] = (float)sum;
        }
    }
}

#endif
