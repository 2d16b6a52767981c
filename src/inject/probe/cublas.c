/*
 * cuBLAS and cuBLASLt: matrix products in each number format, with the compute types that the
 * frameworks ask for, compared with a product computed here (inject/probe/numbers.h).
 *
 * Declared from cublas_api.h and cublasLt.h of CUDA 12.4, as documented in "cuBLAS" (cublasGemmEx,
 * cublasLtMatmul, cublasComputeType_t); the same since CUDA 11. Before, cublasGemmEx() took a
 * number format where it takes a compute type now, so that no result of it would mean anything.
 */
#include <string.h>

#include "inject/probe/cuda.h"
#include "inject/probe/numbers.h"

enum { // cublasStatus_t
    CUBLAS_STATUS_NOT_INITIALIZED = 1,
    CUBLAS_STATUS_ALLOC_FAILED = 3,
    CUBLAS_STATUS_ARCH_MISMATCH = 8,
    CUBLAS_STATUS_NOT_SUPPORTED = 15,
};
enum { OP_N = 0, OP_T = 1, GEMM_DEFAULT = -1 }; // cublasOperation_t, cublasGemmAlgo_t
enum { R_32F = 0, R_16F = 2, R_8I = 3, R_32I = 10, R_16BF = 14 };        // cudaDataType
enum { COMPUTE_32F = 68, COMPUTE_32I = 72, COMPUTE_32F_FAST_TF32 = 77 }; // cublasComputeType_t
enum { DESC_TRANSA = 3, DESC_TRANSB = 4 }; // cublasLtMatmulDescAttributes_t
enum { OLDEST_MAJOR = 11 };

typedef const char *name_function(int);

/* How a format is asked for, and from which compute capability on the card has units for it: CUDA
 * C++ Programming Guide, "Arithmetic Instructions" and "Features and Technical Specifications". */
static const struct format {
    const char *name;
    int operands, result, compute, scale;
    int capability, lt_capability; // 86 for 8.6; of cuBLASLt, whose int8 needs tensor cores
    const char *instead;
    bool transposed_only; // int8 runs on every card with op(A) = A^T and op(B) = B (cuBLASLt, IMMA)
} formats[] = {
    [NUMBER_FLOAT32] = {"float32", R_32F, R_32F, COMPUTE_32F, R_32F, 0, 0, "", false},
    [NUMBER_TF32] = {"tf32", R_32F, R_32F, COMPUTE_32F_FAST_TF32, R_32F, 80, 80, "float32", false},
    [NUMBER_FLOAT16] = {"float16", R_16F, R_16F, COMPUTE_32F, R_32F, 53, 53, "float32", false},
    [NUMBER_BFLOAT16] = {"bfloat16", R_16BF, R_16BF, COMPUTE_32F, R_32F, 80, 80,
                         "float16 or float32", false},
    [NUMBER_INT8] = {"int8", R_8I, R_32I, COMPUTE_32I, R_32I, 61, 72, "float16 or float32", true},
};

static const union scale {
    float f;
    int32_t i;
} one_float = {.f = 1}, one_integer = {.i = 1}, zero = {.i = 0};

struct cublas {
    struct cuda cuda;
    struct vendor vendor;
    void *dso, *handle;
    int capability; // from which on the card has units for the format
};

/* By the end of the stage's name: "cublas-float16". */
static enum number_type type_of(const struct job *j)
{
    const char *dash = strchr(j->stage, '-');
    for (size_t i = 0; dash && i < sizeof formats / sizeof *formats; i++) {
        if (strcmp(dash + 1, formats[i].name) == 0) {
            return (enum number_type)i;
        }
    }
    say_unknown("the helper has no number format for the stage %s", j->stage);
}

static void start_cublas(struct cublas *b, const struct job *j, const char *status_name)
{
    cuda_start(&b->cuda, j);
    b->dso = open_library(stage_library(j));
    name_function *name = symbol_optional(b->dso, status_name); // since 11.4
    b->vendor =
        (struct vendor){.status_name = name,
                        .no_memory = {CUBLAS_STATUS_ALLOC_FAILED, CUBLAS_STATUS_NOT_INITIALIZED},
                        .cuda = &b->cuda};
}

/* ------------------------------------------------------------------ the product */

/* One way to multiply: c = op(a) * op(b), with the addresses on the card. */
typedef int multiplier(struct cublas *b, const struct format *f, const struct product *p,
                       void *at_a, void *at_b, void *at_c);

/* The card has no units for the format and the library has no other way: not broken. */
static void say_not_for_this_card(const struct cublas *b, const struct format *f,
                                  const char *function, int code)
{
    int capability = b->cuda.capability;
    bool is_lacking = code == CUBLAS_STATUS_ARCH_MISMATCH || code == CUBLAS_STATUS_NOT_SUPPORTED;
    if (is_lacking && capability < b->capability) {
        say_failed(code, b->vendor.status_name ? b->vendor.status_name(code) : NULL,
                   "%s does not support %s on this GPU, which is not broken: its compute "
                   "capability is %d.%d, and %s needs %d.%d; use %s",
                   function, f->name, capability / 10, capability % 10, f->name, b->capability / 10,
                   b->capability % 10, f->instead);
    }
    vendor_check(&b->vendor, function, code);
}

/* Multiplies one arrangement and ends the stage if the numbers are wrong. */
static double try_product(struct cublas *b, const struct format *f, enum number_type type,
                          bool transpose_a, const char *function, multiplier *multiply)
{
    struct product p;
    struct mismatch m;
    char text[240];
    if (!product_make(type, transpose_a, false, &p)) {
        say_unknown("no memory for the matrices");
    }
    uint64_t at_a = cuda_put(&b->cuda, p.a, p.a_bytes);
    uint64_t at_b = cuda_put(&b->cuda, p.b, p.b_bytes);
    uint64_t at_c = cuda_put(&b->cuda, p.c, p.c_bytes);
    int code = multiply(b, f, &p, cuda_pointer(at_a), cuda_pointer(at_b), cuda_pointer(at_c));
    say_not_for_this_card(b, f, function, code);
    cuda_get(&b->cuda, p.c, at_c, p.c_bytes);
    if (!product_compare(&p, &m)) {
        mismatch_text(&m, text, sizeof text);
        say_failed(0, NULL, "%s in %s (%d x %d x %d, %s): %s", function, f->name, p.m, p.n, p.k,
                   transpose_a ? "A transposed" : "A as it is", text);
    }
    product_release(&p);
    return m.worst;
}

static _Noreturn void run_products(struct cublas *b, enum number_type type, const char *function,
                                   multiplier *multiply)
{
    const struct format *f = &formats[type];
    double worst = try_product(b, f, type, true, function, multiply);
    if (!f->transposed_only) {
        double other = try_product(b, f, type, false, function, multiply);
        worst = other > worst ? other : worst;
    }
    say_fact("error.of.tolerance", "%.3f", worst);
    if (b->cuda.capability < b->capability) {
        say_passed("%s multiplies in %s correctly, but without hardware units for it: the GPU's "
                   "compute capability is %d.%d, and the units come with %d.%d",
                   function, f->name, b->cuda.capability / 10, b->cuda.capability % 10,
                   b->capability / 10, b->capability % 10);
    }
    say_passed("%s multiplies in %s correctly", function, f->name);
}

/* ------------------------------------------------------------------ cuBLAS */

/* What cuBLAS says of itself, which needs no driver. It asks its cuBLASLt for that, so one that
 * does not go with it is not seen here but in what it computes, and by gumpend check in the files.
 */
void stage_cublas(const struct job *j)
{
    void *library = open_library(stage_library(j));
    int (*cublasGetProperty)(int, int *) = symbol(library, "cublasGetProperty");
    const struct vendor plain = {0};
    int parts[3] = {0}; // MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL
    for (int i = 0; i < 3; i++) {
        TRY(&plain, cublasGetProperty, i, &parts[i]);
    }
    say_fact("cublas.version", "%d.%d.%d", parts[0], parts[1], parts[2]);
    if (parts[0] < OLDEST_MAJOR) {
        say_unknown(
            "cuBLAS %d.%d.%d is older than CUDA 11, the first whose interface the probe supports",
            parts[0], parts[1], parts[2]);
    }
    say_passed("cuBLAS %d.%d.%d", parts[0], parts[1], parts[2]);
}

static int gemm(struct cublas *b, const struct format *f, const struct product *p, void *at_a,
                void *at_b, void *at_c)
{
    int (*cublasGemmEx)(void *handle, int transa, int transb, int m, int n, int k,
                        const void *alpha, const void *a, int a_type, int lda, const void *b,
                        int b_type, int ldb, const void *beta, void *c, int c_type, int ldc,
                        int compute, int algo) = symbol(b->dso, "cublasGemmEx");
    const union scale *one = f->scale == R_32I ? &one_integer : &one_float;
    return CALL(cublasGemmEx, b->handle, p->transpose_a ? OP_T : OP_N, p->transpose_b ? OP_T : OP_N,
                p->m, p->n, p->k, one, at_a, f->operands, p->lda, at_b, f->operands, p->ldb, &zero,
                at_c, f->result, p->ldc, f->compute, GEMM_DEFAULT);
}

static void create(struct cublas *b, const struct job *j)
{
    start_cublas(b, j, "cublasGetStatusName");
    int (*cublasCreate_v2)(void **) = symbol(b->dso, "cublasCreate_v2");
    TRY(&b->vendor, cublasCreate_v2, &b->handle);
}

void stage_cublas_start(const struct job *j)
{
    struct cublas b;
    create(&b, j);
    say_passed("cuBLAS starts on the GPU");
}

void stage_cublas_gemm(const struct job *j)
{
    struct cublas b;
    enum number_type type = type_of(j);
    create(&b, j);
    b.capability = formats[type].capability;
    run_products(&b, type, "cublasGemmEx", gemm);
}

/* ------------------------------------------------------------------ cuBLASLt */

static void *layout(const struct cublas *b, int format, int rows, int columns)
{
    int (*cublasLtMatrixLayoutCreate)(void **, int type, uint64_t rows, uint64_t columns,
                                      int64_t leading) =
        symbol(b->dso, "cublasLtMatrixLayoutCreate");
    void *created = NULL;
    TRY(&b->vendor, cublasLtMatrixLayoutCreate, &created, format, (uint64_t)rows, (uint64_t)columns,
        rows);
    return created;
}

static void *description(const struct cublas *b, const struct format *f, const struct product *p)
{
    int (*cublasLtMatmulDescCreate)(void **, int compute, int scale) =
        symbol(b->dso, "cublasLtMatmulDescCreate");
    int (*cublasLtMatmulDescSetAttribute)(void *, int attribute, const void *, size_t) =
        symbol(b->dso, "cublasLtMatmulDescSetAttribute");
    int32_t transa = p->transpose_a ? OP_T : OP_N, transb = p->transpose_b ? OP_T : OP_N;
    void *created = NULL;
    TRY(&b->vendor, cublasLtMatmulDescCreate, &created, f->compute, f->scale);
    TRY(&b->vendor, cublasLtMatmulDescSetAttribute, created, DESC_TRANSA, &transa, sizeof transa);
    TRY(&b->vendor, cublasLtMatmulDescSetAttribute, created, DESC_TRANSB, &transb, sizeof transb);
    return created;
}

static int matmul(struct cublas *b, const struct format *f, const struct product *p, void *at_a,
                  void *at_b, void *at_c)
{
    int (*cublasLtMatmul)(void *handle, void *description, const void *alpha, const void *a,
                          void *a_layout, const void *b, void *b_layout, const void *beta,
                          const void *c, void *c_layout, void *d, void *d_layout,
                          const void *algorithm, void *workspace, size_t workspace_bytes,
                          void *stream) = symbol(b->dso, "cublasLtMatmul");
    const union scale *one = f->scale == R_32I ? &one_integer : &one_float;
    void *a = layout(b, f->operands, p->lda, p->transpose_a ? p->m : p->k);
    void *other = layout(b, f->operands, p->ldb, p->transpose_b ? p->k : p->n);
    void *c = layout(b, f->result, p->ldc, p->n);
    void *how = description(b, f, p);
    /* Without an algorithm the library asks its own heuristic. */
    return CALL(cublasLtMatmul, b->handle, how, one, at_a, a, at_b, other, &zero, at_c, c, at_c, c,
                NULL, NULL, 0, NULL);
}

void stage_cublaslt_gemm(const struct job *j)
{
    struct cublas b;
    enum number_type type = type_of(j);
    start_cublas(&b, j, "cublasLtGetStatusName");
    b.capability = formats[type].lt_capability;
    int (*cublasLtCreate)(void **) = symbol(b.dso, "cublasLtCreate");
    TRY(&b.vendor, cublasLtCreate, &b.handle);
    run_products(&b, type, "cublasLtMatmul", matmul);
}
