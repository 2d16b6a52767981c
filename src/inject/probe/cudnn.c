/*
 * cuDNN: which versions its libraries are, and a convolution as the first layers of Whisper make
 * it, compared with one computed here. libcudnn.so is a shim that opens the sub-libraries at the
 * first call that needs one: a missing or different one ends the process there, or in newer
 * versions that call.
 *
 * Declared from cudnn_ops.h, cudnn_cnn.h and cudnn_graph.h of cuDNN 9.1 ("cuDNN API"); what is used
 * is the same in cuDNN 8. CTranslate2 makes its convolutions with these calls and this algorithm
 * (src/ops/conv1d_gpu.cu).
 */
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "inject/probe/cuda.h"
#include "inject/probe/numbers.h"

enum { // cudnnStatus_t of cuDNN 8 and of cuDNN 9
    STATUS_NOT_INITIALIZED_8 = 1,
    STATUS_ALLOC_FAILED_8 = 2,
    STATUS_NOT_SUPPORTED_8 = 9,
    STATUS_NOT_INITIALIZED = 1001,
    STATUS_NOT_SUPPORTED = 3000,
    STATUS_NOT_SUPPORTED_END = 3999,
    STATUS_DEVICE_ALLOCATION_FAILED = 4004,
};
enum { DATA_FLOAT = 0, DATA_HALF = 2 }; // cudnnDataType_t
enum { TENSOR_NCHW = 0, CROSS_CORRELATION = 1 };
enum { DEFAULT_MATH = 0, TENSOR_OP_MATH = 1 }; // cudnnMathType_t
enum { HALF_CAPABILITY = 53 }; // CUDA C++ Programming Guide, "Arithmetic Instructions"
enum { IMPLICIT_GEMM = 0, IMPLICIT_PRECOMP_GEMM = 1 }; // cudnnConvolutionFwdAlgo_t

struct cudnn {
    struct cuda cuda;
    struct vendor vendor;
    void *dso, *handle;
    size_t version; // 90100 for 9.1.0, 8907 for 8.9.7
};

static void open_cudnn(struct cudnn *d, const struct job *j)
{
    d->dso = open_library(stage_library(j));
    const char *(*cudnnGetErrorString)(int) = symbol(d->dso, "cudnnGetErrorString");
    size_t (*cudnnGetVersion)(void) = symbol(d->dso, "cudnnGetVersion");
    d->vendor = (struct vendor){.status_name = cudnnGetErrorString,
                                .no_memory = {STATUS_ALLOC_FAILED_8, STATUS_NOT_INITIALIZED,
                                              STATUS_DEVICE_ALLOCATION_FAILED}};
    d->version = CALL(cudnnGetVersion);
    say_fact("cudnn.version", "%zu", d->version);
}

/* "9.1.0": since cuDNN 9 major * 10000 + minor * 100 + patch, before major * 1000. */
static const char *cudnn_version_text(size_t version, char *text, size_t size)
{
    size_t unit = version >= 90000 ? 10000 : 1000;
    (void)snprintf(text, size, "%zu.%zu.%zu", version / unit, version % unit / 100, version % 100);
    return text;
}

/* ------------------------------------------------------------------ versions */

/* Each sub-library compares itself with those it uses; the shim opens it for that. Not in every
 * version of cuDNN: what the shim does not have is not asked. */
static const struct sublibrary {
    const char *function, *name;
} sublibraries[] = {
    {"cudnnGraphVersionCheck", "libcudnn_graph"},
    {"cudnnOpsVersionCheck", "libcudnn_ops"},
    {"cudnnCnnVersionCheck", "libcudnn_cnn"},
    {"cudnnAdvVersionCheck", "libcudnn_adv"},
    {"cudnnOpsInferVersionCheck", "libcudnn_ops_infer"}, // these up to cuDNN 8
    {"cudnnOpsTrainVersionCheck", "libcudnn_ops_train"},
    {"cudnnCnnInferVersionCheck", "libcudnn_cnn_infer"},
    {"cudnnCnnTrainVersionCheck", "libcudnn_cnn_train"},
    {"cudnnAdvInferVersionCheck", "libcudnn_adv_infer"},
    {"cudnnAdvTrainVersionCheck", "libcudnn_adv_train"},
};

static int check_sublibraries(const struct cudnn *d)
{
    int asked = 0;
    for (size_t i = 0; i < sizeof sublibraries / sizeof *sublibraries; i++) {
        const struct sublibrary *s = &sublibraries[i];
        int (*check)(void) = symbol_optional(d->dso, s->function);
        if (!check) {
            continue;
        }
        say_call(s->function);
        int code = check();
        if (code != 0) {
            say_failed(code, d->vendor.status_name(code),
                       "%s: %s is missing, or its version differs from that of libcudnn",
                       s->function, s->name);
        }
        say_fact(s->name, "agrees");
        asked++;
    }
    return asked;
}

/* The engines have no version function; the graph library opens them by name when it needs one.
 * They lie beside it. */
static const char *const engines[] = {"libcudnn_engines_precompiled.so.9",
                                      "libcudnn_engines_runtime_compiled.so.9",
                                      "libcudnn_heuristic.so.9"};

static int check_engines(const struct cudnn *d)
{
    const char *path = library_path(d->dso);
    const char *slash = path ? strrchr(path, '/') : NULL;
    for (size_t i = 0; i < sizeof engines / sizeof *engines; i++) {
        char beside[4096];
        (void)snprintf(beside, sizeof beside, "%.*s/%s", slash ? (int)(slash - path) : 1,
                       slash ? path : ".", engines[i]);
        say_call("dlopen");
        if (!open_optional(engines[i]) && !open_optional(beside)) {
            say_failed(0, NULL,
                       "%s, which cuDNN opens at its first convolution, is neither on the search "
                       "path nor beside libcudnn",
                       engines[i]);
        }
    }
    return (int)(sizeof engines / sizeof *engines);
}

void stage_cudnn(const struct job *j)
{
    struct cudnn d = {0};
    char version[32];
    open_cudnn(&d, j);
    int asked = check_sublibraries(&d);
    if (d.version >= 90000) {
        asked += check_engines(&d);
    }
    if (asked == 0) {
        say_passed("cuDNN %s, one library (it has no sub-libraries)",
                   cudnn_version_text(d.version, version, sizeof version));
    }
    say_passed("cuDNN %s and %d sub-libraries that match it",
               cudnn_version_text(d.version, version, sizeof version), asked);
}

/* ------------------------------------------------------------------ the convolution */

struct descriptors {
    void *input, *filter, *output, *convolution;
};

static void *tensor(const struct cudnn *d, int type, int channels, int length)
{
    int (*cudnnCreateTensorDescriptor)(void **) = symbol(d->dso, "cudnnCreateTensorDescriptor");
    int (*cudnnSetTensor4dDescriptor)(void *, int layout, int type, int n, int c, int h, int w) =
        symbol(d->dso, "cudnnSetTensor4dDescriptor");
    void *created = NULL;
    TRY(&d->vendor, cudnnCreateTensorDescriptor, &created);
    TRY(&d->vendor, cudnnSetTensor4dDescriptor, created, TENSOR_NCHW, type, 1, channels, 1, length);
    return created;
}

static void *filter(const struct cudnn *d, int type, const struct convolution *c)
{
    int (*cudnnCreateFilterDescriptor)(void **) = symbol(d->dso, "cudnnCreateFilterDescriptor");
    int (*cudnnSetFilter4dDescriptor)(void *, int type, int layout, int k, int c, int h, int w) =
        symbol(d->dso, "cudnnSetFilter4dDescriptor");
    void *created = NULL;
    TRY(&d->vendor, cudnnCreateFilterDescriptor, &created);
    TRY(&d->vendor, cudnnSetFilter4dDescriptor, created, type, TENSOR_NCHW, c->filters, c->channels,
        1, c->width);
    return created;
}

static void *convolution(const struct cudnn *d, int type, const struct convolution *c)
{
    int (*cudnnCreateConvolutionDescriptor)(void **) =
        symbol(d->dso, "cudnnCreateConvolutionDescriptor");
    int (*cudnnSetConvolution2dDescriptor)(void *, int pad_h, int pad_w, int stride_h, int stride_w,
                                           int dilation_h, int dilation_w, int mode, int type) =
        symbol(d->dso, "cudnnSetConvolution2dDescriptor");
    int (*cudnnSetConvolutionMathType)(void *, int) = symbol(d->dso, "cudnnSetConvolutionMathType");
    void *created = NULL;
    TRY(&d->vendor, cudnnCreateConvolutionDescriptor, &created);
    TRY(&d->vendor, cudnnSetConvolution2dDescriptor, created, 0, c->padding, 1, c->stride, 1, 1,
        CROSS_CORRELATION, DATA_FLOAT); // the sums are in float32 for half, too
    TRY(&d->vendor, cudnnSetConvolutionMathType, created,
        type == DATA_HALF ? TENSOR_OP_MATH : DEFAULT_MATH);
    return created;
}

static bool is_unsupported(const struct cudnn *d, int code)
{
    return d->version >= 90000 ? code >= STATUS_NOT_SUPPORTED && code <= STATUS_NOT_SUPPORTED_END
                               : code == STATUS_NOT_SUPPORTED_8;
}

/* Gives the size of the workspace and the algorithm to take: the one that CTranslate2 takes, or on
 * a card that does not have it the plain one. */
static size_t workspace_bytes(const struct cudnn *d, const struct descriptors *x,
                              int *ret_algorithm)
{
    int (*cudnnGetConvolutionForwardWorkspaceSize)(
        void *, void *input, void *filter, void *convolution, void *output, int algorithm,
        size_t *) = symbol(d->dso, "cudnnGetConvolutionForwardWorkspaceSize");
    size_t bytes = 0;
    *ret_algorithm = IMPLICIT_PRECOMP_GEMM;
    int code = CALL(cudnnGetConvolutionForwardWorkspaceSize, d->handle, x->input, x->filter,
                    x->convolution, x->output, *ret_algorithm, &bytes);
    if (is_unsupported(d, code)) {
        *ret_algorithm = IMPLICIT_GEMM;
        code = CALL(cudnnGetConvolutionForwardWorkspaceSize, d->handle, x->input, x->filter,
                    x->convolution, x->output, *ret_algorithm, &bytes);
    }
    vendor_check(&d->vendor, "cudnnGetConvolutionForwardWorkspaceSize", code);
    return bytes;
}

static void forward(const struct cudnn *d, const struct descriptors *x, struct convolution *c)
{
    int (*cudnnConvolutionForward)(void *, const void *alpha, void *input_as, const void *input,
                                   void *filter_as, const void *filter, void *convolution,
                                   int algorithm, void *workspace, size_t workspace_bytes,
                                   const void *beta, void *output_as, void *output) =
        symbol(d->dso, "cudnnConvolutionForward");
    const float one = 1, zero = 0;
    int algorithm = 0;
    size_t bytes = workspace_bytes(d, x, &algorithm);
    void *workspace = bytes ? cuda_pointer(cuda_alloc(&d->cuda, bytes)) : NULL;
    uint64_t input = cuda_put(&d->cuda, c->input, c->input_bytes);
    uint64_t weights = cuda_put(&d->cuda, c->filter, c->filter_bytes);
    uint64_t output = cuda_put(&d->cuda, c->output, c->output_bytes);
    TRY(&d->vendor, cudnnConvolutionForward, d->handle, &one, x->input, cuda_pointer(input),
        x->filter, cuda_pointer(weights), x->convolution, algorithm, workspace, bytes, &zero,
        x->output, cuda_pointer(output));
    cuda_get(&d->cuda, c->output, output, c->output_bytes);
}

static double try_convolution(const struct cudnn *d, enum number_type type, const char *name)
{
    struct convolution c;
    struct mismatch m;
    char text[240];
    int data = type == NUMBER_FLOAT16 ? DATA_HALF : DATA_FLOAT;
    if (!convolution_make(type, &c)) {
        say_unknown("no memory for the numbers");
    }
    struct descriptors x = {
        .input = tensor(d, data, c.channels, c.length),
        .filter = filter(d, data, &c),
        .output = tensor(d, data, c.filters, c.out_length),
        .convolution = convolution(d, data, &c),
    };
    forward(d, &x, &c);
    if (!convolution_compare(&c, &m)) {
        mismatch_text(&m, text, sizeof text);
        say_failed(0, NULL, "cudnnConvolutionForward in %s: %s", name, text);
    }
    convolution_release(&c);
    return m.worst;
}

void stage_cudnn_convolution(const struct job *j)
{
    struct cudnn d = {0};
    char version[32];
    cuda_start(&d.cuda, j);
    open_cudnn(&d, j);
    d.vendor.cuda = &d.cuda;
    int (*cudnnCreate)(void **) = symbol(d.dso, "cudnnCreate");
    TRY(&d.vendor, cudnnCreate, &d.handle);
    say_fact("error.of.tolerance.float32", "%.3f", try_convolution(&d, NUMBER_FLOAT32, "float32"));
    if (d.cuda.capability < HALF_CAPABILITY) {
        say_passed("cuDNN %s convolves in float32 correctly; float16 needs compute capability 5.3, "
                   "and the GPU has %d.%d",
                   cudnn_version_text(d.version, version, sizeof version), d.cuda.capability / 10,
                   d.cuda.capability % 10);
    }
    say_fact("error.of.tolerance.float16", "%.3f", try_convolution(&d, NUMBER_FLOAT16, "float16"));
    say_passed("cuDNN %s convolves in float32 and float16 correctly",
               cudnn_version_text(d.version, version, sizeof version));
}
