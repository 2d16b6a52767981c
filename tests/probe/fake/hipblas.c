/*
 * libhipblas.so: hipblasGemmEx_v2 as in ROCm 6 and the old hipblasGemmEx beside it, or built with
 * -DROCM_7 the one hipblasGemmEx of ROCm 7, or with -DROCM_5 the old one alone.
 *
 * `types wrong` makes it read float16 as bfloat16 without a word, as a library does whose
 * enumerations the caller does not share.
 */
#include "amd.h"
#include "numbers.h"
#include "table.h"

enum {
    R_32F = 0,
    R_16F = 2,
    R_8I = 3,
    R_32I = 10,
    R_16BF = 14,
    COMPUTE_32F = 2,
    COMPUTE_32I = 9,
    OP_N = 111,
    OP_T = 112,
    GEMM_DEFAULT = 160,
    INVALID_VALUE = 3,
    INVALID_ENUM = 10
};

int hipMalloc(void **ret, size_t n); // so that the library needs libamdhip64, as the real one does

int hipblasCreate(void **ret);
int hipblasDestroy(void *handle);
typedef int gemm(void *handle, int op_a, int op_b, int m, int n, int k, const void *alpha,
                 const void *a, int type_a, int lda, const void *b, int type_b, int ldb,
                 const void *beta, void *c, int type_c, int ldc, int compute, int algorithm);
gemm hipblasGemmEx, hipblasGemmEx_v2;

int hipblasCreate(void **ret)
{
    FAKE(hipblasCreate);
    return hipMalloc(ret, 1);
}

int hipblasDestroy(void *handle)
{
    FAKE(hipblasDestroy);
    return handle ? 0 : 1;
}

static int type_of(int type, enum fake_type *ret)
{
    static const struct {
        int number;
        enum fake_type type;
    } rows[] = {{R_32F, FAKE_F32},
                {R_16F, FAKE_F16},
                {R_8I, FAKE_I8},
                {R_32I, FAKE_I32},
                {R_16BF, FAKE_BF16}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].number == type) {
            *ret = rows[i].type;
            return 1;
        }
    }
    return 0;
}

#ifndef ROCM_5
static int multiply(const struct fake *f, int op_a, int op_b, int m, int n, int k,
                    const void *alpha, const void *a, int type_a, int lda, const void *b,
                    int type_b, int ldb, const void *beta, void *c, int type_c, int ldc,
                    int compute)
{
    enum fake_type ta, tb, tc;
    if (!type_of(type_a, &ta) || !type_of(type_b, &tb) || !type_of(type_c, &tc)) {
        return INVALID_ENUM;
    }
    int whole = compute == COMPUTE_32I;
    float one = whole ? (float)*(const int32_t *)alpha : *(const float *)alpha;
    float zero = whole ? (float)*(const int32_t *)beta : *(const float *)beta;
    if (one != 1 || zero != 0 || (whole != (tc == FAKE_I32)) ||
        (compute != COMPUTE_32F && compute != COMPUTE_32I)) {
        return INVALID_VALUE;
    }
    struct fake mistaken = fake_call("types");
    if (mistaken.wrong && ta == FAKE_F16) {
        ta = tb = FAKE_BF16; // two bytes each: nothing stumbles over it
    }
    fake_gemm(op_a == OP_T, op_b == OP_T, m, n, k, a, ta, lda, b, tb, ldb, c, tc, ldc,
              f->wrong ? 64 : 0);
    return 0;
}

static int check(int op_a, int op_b, int algorithm)
{
    int ops = (op_a == OP_N || op_a == OP_T) && (op_b == OP_N || op_b == OP_T);
    return ops && algorithm == GEMM_DEFAULT ? 0 : INVALID_ENUM;
}

#ifdef ROCM_7
#define GEMM      hipblasGemmEx
#define FAKE_GEMM FAKE(hipblasGemmEx)
#else
#define GEMM      hipblasGemmEx_v2
#define FAKE_GEMM FAKE(hipblasGemmEx_v2)
#endif
int GEMM(void *handle, int op_a, int op_b, int m, int n, int k, const void *alpha, const void *a,
         int type_a, int lda, const void *b, int type_b, int ldb, const void *beta, void *c,
         int type_c, int ldc, int compute, int algorithm)
{
    FAKE_GEMM;
    if (!handle || check(op_a, op_b, algorithm)) {
        return INVALID_ENUM;
    }
    return multiply(&fake_now, op_a, op_b, m, n, k, alpha, a, type_a, lda, b, type_b, ldb, beta, c,
                    type_c, ldc, compute);
}
#endif

#ifndef ROCM_7
/* The interface of before ROCm 6: a caller of today must never end here. */
int hipblasGemmEx(void *handle, int op_a, int op_b, int m, int n, int k, const void *alpha,
                  const void *a, int type_a, int lda, const void *b, int type_b, int ldb,
                  const void *beta, void *c, int type_c, int ldc, int compute, int algorithm)
{
    (void)handle, (void)op_a, (void)op_b, (void)m, (void)n, (void)k, (void)alpha, (void)a;
    (void)type_a, (void)lda, (void)b, (void)type_b, (void)ldb, (void)beta, (void)c, (void)type_c;
    (void)ldc, (void)compute, (void)algorithm, (void)type_of;
    abort();
}
#endif
