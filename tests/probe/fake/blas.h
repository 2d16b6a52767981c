/* What the fakes of cuBLAS and cuBLASLt share: which combinations there are, as the documentation
 * of cublasGemmEx has them, and the product. */
#ifndef FAKE_BLAS_H
#define FAKE_BLAS_H

#include "numbers.h"
#include "table.h"

enum { FAKE_NOT_SUPPORTED = 15, FAKE_INVALID_VALUE = 7 };

static const struct fake_format {
    int operands, result, compute, scale;
    enum fake_type in, out;
} fake_formats[] = {
    {0, 0, 68, 0, FAKE_F32, FAKE_F32},  {0, 0, 77, 0, FAKE_F32, FAKE_F32},
    {2, 2, 68, 0, FAKE_F16, FAKE_F16},  {14, 14, 68, 0, FAKE_BF16, FAKE_BF16},
    {3, 10, 72, 10, FAKE_I8, FAKE_I32},
};

/* The row of the three numbers; NULL if there is none. */
static inline const struct fake_format *fake_format(int operands, int result, int compute)
{
    for (size_t i = 0; i < sizeof fake_formats / sizeof *fake_formats; i++) {
        const struct fake_format *f = &fake_formats[i];
        if (f->operands == operands && f->result == result && f->compute == compute) {
            return f;
        }
    }
    return NULL;
}

/* What is added to one number: `format-2 wrong` spoils the products of float16 alone (the number is
 * the type's of cudaDataType_t). */
static inline double fake_off(const struct fake *f, const struct fake_format *format)
{
    static const char *const names[] = {"format-0", "format-1", "format-2", "format-3"};
    bool named = format->operands < 4 && fake_call(names[format->operands]).wrong;
    return f->wrong || named ? 9 : 0;
}

/* alpha = 1 and beta = 0 in the format of the scale. */
static inline int fake_scales_are_plain(const struct fake_format *f, const void *alpha,
                                        const void *beta)
{
    float one = 1, nought = 0;
    int32_t one_i = 1, nought_i = 0;
    return f->scale == 10 ? memcmp(alpha, &one_i, 4) == 0 && memcmp(beta, &nought_i, 4) == 0
                          : memcmp(alpha, &one, 4) == 0 && memcmp(beta, &nought, 4) == 0;
}

static inline const char *fake_blas_name(int code)
{
    switch (code) {
    case 1: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case 3: return "CUBLAS_STATUS_ALLOC_FAILED";
    case 8: return "CUBLAS_STATUS_ARCH_MISMATCH";
    case 13: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case 15: return "CUBLAS_STATUS_NOT_SUPPORTED";
    default: return "unknown";
    }
}

#endif
