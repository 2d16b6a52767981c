/* libcublasLt.so.12 */
#include "blas.h"

struct description {
    int compute, scale;
    int32_t transa, transb;
};

struct layout {
    int type;
    uint64_t rows, columns;
    int64_t leading;
};

int cublasLtCreate(void **handle)
{
    FAKE(cublasLtCreate);
    *handle = handle;
    return 0;
}

size_t cublasLtGetVersion(void)
{
    struct fake fake_now = fake_call("cublasLtGetVersion");
    return (size_t)fake_number(&fake_now, 120405);
}

const char *cublasLtGetStatusName(int code)
{
    return fake_blas_name(code);
}

int cublasLtMatmulDescCreate(void **ret, int compute, int scale)
{
    FAKE(cublasLtMatmulDescCreate);
    struct description *d = calloc(1, sizeof *d);
    *d = (struct description){.compute = compute, .scale = scale};
    *ret = d;
    return 0;
}

int cublasLtMatmulDescSetAttribute(void *at, int attribute, const void *value, size_t size)
{
    FAKE(cublasLtMatmulDescSetAttribute);
    struct description *d = at;
    if (size != 4 || (attribute != 3 && attribute != 4)) {
        return FAKE_INVALID_VALUE;
    }
    memcpy(attribute == 3 ? &d->transa : &d->transb, value, 4);
    return 0;
}

int cublasLtMatrixLayoutCreate(void **ret, int type, uint64_t rows, uint64_t columns,
                               int64_t leading)
{
    FAKE(cublasLtMatrixLayoutCreate);
    struct layout *l = calloc(1, sizeof *l);
    *l = (struct layout){type, rows, columns, leading};
    *ret = l;
    return 0;
}

#ifndef WITHOUT_cublasLtMatmul
int cublasLtMatmul(void *handle, void *how, const void *alpha, const void *a, void *a_as,
                   const void *b, void *b_as, const void *beta, const void *c, void *c_as, void *to,
                   void *to_as, const void *algorithm, void *workspace, size_t workspace_bytes,
                   void *stream)
{
    FAKE(cublasLtMatmul);
    const struct description *d = how;
    const struct layout *la = a_as, *lb = b_as, *lc = to_as;
    const struct fake_format *f = fake_format(la->type, lc->type, d->compute);
    int m = (int)(d->transa ? la->columns : la->rows),
        k = (int)(d->transa ? la->rows : la->columns);
    int n = (int)(d->transb ? lb->rows : lb->columns);
    if (!handle || !f || d->scale != f->scale || lb->type != la->type) {
        return FAKE_NOT_SUPPORTED;
    }
    if (!fake_scales_are_plain(f, alpha, beta) || c != to || c_as != to_as || algorithm ||
        workspace || workspace_bytes || stream || (int)lc->rows != m || (int)lc->columns != n ||
        k != (int)(d->transb ? lb->columns : lb->rows)) {
        return FAKE_INVALID_VALUE;
    }
    fake_gemm(d->transa, d->transb, m, n, k, a, f->in, (int)la->leading, b, f->in, (int)lb->leading,
              to, f->out, (int)lc->leading, fake_off(&fake_now, f));
    return 0;
}
#endif
