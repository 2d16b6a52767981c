/*
 * A matrix product of hipBLAS in each type, checked against the CPU.
 *
 * hipblasGemmEx has had two meanings under one name. Up to ROCm 5 its types are hipblasDatatype_t
 * (HIPBLAS_R_16F = 150) and the compute type one of the same. ROCm 6 adds hipblasGemmEx_v2, which
 * takes hipDataType and hipblasComputeType_t, and ROCm 7 takes the old function away and gives its
 * name to the new one. The numbers of the two enumerations overlap nowhere near where a user would
 * notice: a wrong one is refused by some versions and taken by others, which then compute something
 * else. So the v2 entry point is called where it is, the plain name only where the runtime is of
 * ROCm 7 or later, and in any case the numbers that come back decide.
 *
 * Sources: hipBLAS documentation, "Deprecations by version" (removed in hipBLAS 3.0) and the
 * reference of hipblasGemmEx; hipblas-common.h and hipblas.h of ROCm 6.2 and 7.0 for the values of
 * hipblasComputeType_t, hipblasOperation_t, hipblasGemmAlgo_t and hipblasStatus_t; HIP's
 * library_types.h for those of hipDataType.
 */
#include <stdio.h>
#include <string.h>

#include "inject/probe/amd.h"
#include "inject/probe/numbers.h"

enum { HIPBLAS_SUCCESS = 0, HIPBLAS_NOT_SUPPORTED = 7, HIPBLAS_ARCH_MISMATCH = 8 };
enum { HIPBLAS_OP_N = 111, HIPBLAS_OP_T = 112 };
enum { HIPBLAS_GEMM_DEFAULT = 160 };
enum { HIPBLAS_COMPUTE_32F = 2, HIPBLAS_COMPUTE_32I = 9 };
enum { HIP_R_32F = 0, HIP_R_16F = 2, HIP_R_8I = 3, HIP_R_32I = 10, HIP_R_16BF = 14 };

static const char *const status_names[] = {
    "HIPBLAS_STATUS_SUCCESS",        "HIPBLAS_STATUS_NOT_INITIALIZED",
    "HIPBLAS_STATUS_ALLOC_FAILED",   "HIPBLAS_STATUS_INVALID_VALUE",
    "HIPBLAS_STATUS_MAPPING_ERROR",  "HIPBLAS_STATUS_EXECUTION_FAILED",
    "HIPBLAS_STATUS_INTERNAL_ERROR", "HIPBLAS_STATUS_NOT_SUPPORTED",
    "HIPBLAS_STATUS_ARCH_MISMATCH",  "HIPBLAS_STATUS_HANDLE_IS_NULLPTR",
    "HIPBLAS_STATUS_INVALID_ENUM",   "HIPBLAS_STATUS_UNKNOWN",
};

static const char *status_name(int status)
{
    bool known = status >= 0 && (size_t)status < sizeof status_names / sizeof *status_names;
    return known ? status_names[status] : NULL;
}

/* How each type is asked for: operands, result, computed in. */
struct gemm_type {
    enum number_type type;
    const char *name;
    int operand, result, compute;
};

static const struct gemm_type types[] = {
    {NUMBER_FLOAT32, "float32", HIP_R_32F, HIP_R_32F, HIPBLAS_COMPUTE_32F},
    {NUMBER_FLOAT16, "float16", HIP_R_16F, HIP_R_16F, HIPBLAS_COMPUTE_32F},
    {NUMBER_BFLOAT16, "bfloat16", HIP_R_16BF, HIP_R_16BF, HIPBLAS_COMPUTE_32F},
    {NUMBER_INT8, "int8", HIP_R_8I, HIP_R_32I, HIPBLAS_COMPUTE_32I},
};

typedef int gemm_function(void *handle, int op_a, int op_b, int m, int n, int k, const void *alpha,
                          const void *a, int type_a, int lda, const void *b, int type_b, int ldb,
                          const void *beta, void *c, int type_c, int ldc, int compute,
                          int algorithm);

static struct hipblas {
    int (*hipblasCreate)(void **ret);
    int (*hipblasDestroy)(void *handle);
    gemm_function *gemm;
    const char *gemm_name;
} blas;

static void blas_check(const char *function, int status)
{
    if (status != HIPBLAS_SUCCESS) {
        say_failed(status, status_name(status), "%s failed", function);
    }
}

/* Needs HIP. */
static void blas_find(void *library)
{
    enum { ROCM_7 = 70000000 };
    int version = 0;
    *(void **)&blas.hipblasCreate = symbol(library, "hipblasCreate");
    *(void **)&blas.hipblasDestroy = symbol(library, "hipblasDestroy");
    blas.gemm_name = "hipblasGemmEx_v2";
    void *found = symbol_optional(library, blas.gemm_name);
    if (!found) {
        HIP(hipRuntimeGetVersion, &version);
        if (version < ROCM_7) {
            say_unknown("this hipBLAS has no hipblasGemmEx_v2, and the HIP runtime is %d.%d: the "
                        "entry point of before ROCm 6 takes other types and is not called",
                        version / 10000000, version / 100000 % 100);
        }
        blas.gemm_name = "hipblasGemmEx";
        found = symbol(library, blas.gemm_name);
    }
    *(void **)&blas.gemm = found;
}

static void multiply(void *handle, const struct gemm_type *t, const struct product *p)
{
    const float one = 1.0f, zero = 0.0f;
    const int32_t one_int = 1, zero_int = 0;
    bool whole = t->compute == HIPBLAS_COMPUTE_32I; // alpha and beta are of the type computed in
    void *a = hip_upload(p->a, p->a_bytes), *b = hip_upload(p->b, p->b_bytes);
    void *c = hip_upload(p->c, p->c_bytes);
    say_call(blas.gemm_name);
    int status = blas.gemm(handle, p->transpose_a ? HIPBLAS_OP_T : HIPBLAS_OP_N,
                           p->transpose_b ? HIPBLAS_OP_T : HIPBLAS_OP_N, p->m, p->n, p->k,
                           whole ? (const void *)&one_int : &one, a, t->operand, p->lda, b,
                           t->operand, p->ldb, whole ? (const void *)&zero_int : &zero, c,
                           t->result, p->ldc, t->compute, HIPBLAS_GEMM_DEFAULT);
    if (status == HIPBLAS_NOT_SUPPORTED || status == HIPBLAS_ARCH_MISMATCH) {
        say_failed(
            status, status_name(status),
            "%s does not support products in %s on this GPU, which is not broken: use another type",
            blas.gemm_name, t->name);
    }
    blas_check(blas.gemm_name, status);
    HIP(hipDeviceSynchronize);
    hip_download(p->c, c, p->c_bytes);
    HIP(hipFree, a);
    HIP(hipFree, b);
    HIP(hipFree, c);
}

/* The largest error as a part of what is allowed. */
static double check_product(void *handle, const struct gemm_type *t, bool transpose_a)
{
    struct product p;
    struct mismatch wrong;
    char text[256];
    if (!product_make(t->type, transpose_a, false, &p)) {
        say_unknown("the machine has no memory left for the operands");
    }
    multiply(handle, t, &p);
    if (!product_compare(&p, &wrong)) {
        mismatch_text(&wrong, text, sizeof text);
        say_failed(0, NULL,
                   "hipBLAS reports success for a product in %s, but the result is wrong: %s "
                   "(types %d and %d and compute type %d were requested from %s)",
                   t->name, text, t->operand, t->result, t->compute, blas.gemm_name);
    }
    product_release(&p);
    return wrong.worst;
}

static void stage_gemm(const struct job *j, enum number_type type)
{
    const struct gemm_type *t = types;
    void *handle = NULL, *library = amd_open(j);
    while (t->type != type) {
        t++;
    }
    hip_start(j, library);
    blas_find(library);
    say_fact("function", "%s", blas.gemm_name);
    say_call("hipblasCreate");
    blas_check("hipblasCreate", blas.hipblasCreate(&handle));
    // Plainly, and with one operand transposed, as row-major programs call BLAS.
    double plain = check_product(handle, t, false), transposed = check_product(handle, t, true);
    say_fact("error.of.tolerance", "%.3f", plain > transposed ? plain : transposed);
    say_call("hipblasDestroy");
    blas_check("hipblasDestroy", blas.hipblasDestroy(handle));
    say_passed("a hipBLAS product in %s is correct", t->name);
}

void stage_hipblas_float32(const struct job *j)
{
    stage_gemm(j, NUMBER_FLOAT32);
}

void stage_hipblas_float16(const struct job *j)
{
    stage_gemm(j, NUMBER_FLOAT16);
}

void stage_hipblas_bfloat16(const struct job *j)
{
    stage_gemm(j, NUMBER_BFLOAT16);
}

void stage_hipblas_int8(const struct job *j)
{
    stage_gemm(j, NUMBER_INT8);
}
