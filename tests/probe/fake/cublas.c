/* libcublas.so.12, which needs libcublasLt.so.12. */
#include "blas.h"

size_t cublasLtGetVersion(void);

int cublasCreate_v2(void **handle)
{
    FAKE(cublasCreate_v2);
    (void)cublasLtGetVersion(); // the real one calls it, too
    *handle = handle;
    return 0;
}

int cublasGetVersion_v2(void *handle, int *version)
{
    FAKE(cublasGetVersion_v2);
    *version = (int)fake_number(&fake_now, 120405);
    return handle == NULL;
}

int cublasGetProperty(int which, int *value)
{
    static const int version[] = {12, 4, 5};
    FAKE(cublasGetProperty);
    *value = which == 0 ? (int)fake_number(&fake_now, version[0]) : version[which];
    return 0;
}

const char *cublasGetStatusName(int code)
{
    return fake_blas_name(code);
}

#ifndef WITHOUT_cublasGemmEx
int cublasGemmEx(void *handle, int transa, int transb, int m, int n, int k, const void *alpha,
                 const void *a, int a_type, int lda, const void *b, int b_type, int ldb,
                 const void *beta, void *c, int c_type, int ldc, int compute, int algo)
{
    FAKE(cublasGemmEx);
    const struct fake_format *f = a_type == b_type ? fake_format(a_type, c_type, compute) : NULL;
    if (!handle || !f || algo != -1) {
        return FAKE_NOT_SUPPORTED;
    }
    if (!fake_scales_are_plain(f, alpha, beta)) {
        return FAKE_INVALID_VALUE;
    }
    if (strcmp(fake_now.value, "transposed") == 0) { // as if an enum had another meaning
        transa = !transa, lda = transa ? k : m;
    }
    if (strcmp(fake_now.value, "nothing") != 0) {
        fake_gemm(transa, transb, m, n, k, a, f->in, lda, b, f->in, ldb, c, f->out, ldc,
                  fake_off(&fake_now, f));
    }
    return 0;
}
#endif
