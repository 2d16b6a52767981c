/*
 * A convolution of MIOpen, checked against the CPU. It is found as programs find it (the search
 * compiles kernels for the GPU on its first call and keeps them in the user's cache, as it does for
 * every program), then run.
 *
 * Sources: MIOpen documentation, "Porting guide" (the order of the calls) and the reference of the
 * modules handle, tensor and convolutions; miopen.h for the values of miopenStatus_t,
 * miopenDataType_t, miopenConvolutionMode_t and the layout of miopenConvAlgoPerf_t.
 */
#include <stdio.h>
#include <string.h>

#include "inject/probe/amd.h"
#include "inject/probe/numbers.h"

enum { MIOPEN_SUCCESS = 0, MIOPEN_FLOAT = 1, MIOPEN_CONVOLUTION = 0 };

struct miopen_found {
    int algorithm;
    float time_ms;
    size_t memory_bytes;
};

/* Every function returns a miopenStatus_t. */
#define MIOPEN_FUNCTIONS(X)                                                                        \
    X(miopenGetVersion, (size_t * major, size_t * minor, size_t * patch))                          \
    X(miopenCreate, (void **ret))                                                                  \
    X(miopenDestroy, (void *handle))                                                               \
    X(miopenCreateTensorDescriptor, (void **ret))                                                  \
    X(miopenSet4dTensorDescriptor, (void *tensor, int type, int n, int c, int h, int w))           \
    X(miopenCreateConvolutionDescriptor, (void **ret))                                             \
    X(miopenInitConvolutionDescriptor,                                                             \
      (void *convolution, int mode, int pad_h, int pad_w, int stride_h, int stride_w,              \
       int dilation_h, int dilation_w))                                                            \
    X(miopenConvolutionForwardGetWorkSpaceSize,                                                    \
      (void *handle, void *filter, void *input, void *convolution, void *output, size_t *ret))     \
    X(miopenFindConvolutionForwardAlgorithm,                                                       \
      (void *handle, void *input_tensor, const void *input, void *filter_tensor,                   \
       const void *filter, void *convolution, void *output_tensor, void *output, int n_asked,      \
       int *ret_n, struct miopen_found *ret, void *work, size_t work_bytes, bool exhaustive))      \
    X(miopenConvolutionForward,                                                                    \
      (void *handle, const void *alpha, void *input_tensor, const void *input,                     \
       void *filter_tensor, const void *filter, void *convolution, int algorithm,                  \
       const void *beta, void *output_tensor, void *output, void *work, size_t work_bytes))

static struct miopen {
#define MIOPEN_MEMBER(name, arguments) int(*name) arguments;
    MIOPEN_FUNCTIONS(MIOPEN_MEMBER)
#undef MIOPEN_MEMBER
    const char *(*miopenGetErrorString)(int status);
} miopen;

static void miopen_find(void *library)
{
#define MIOPEN_FIND(name, arguments) *(void **)&miopen.name = symbol(library, #name);
    MIOPEN_FUNCTIONS(MIOPEN_FIND)
#undef MIOPEN_FIND
    *(void **)&miopen.miopenGetErrorString = symbol_optional(library, "miopenGetErrorString");
}

static void miopen_check(const char *function, int status)
{
    if (status != MIOPEN_SUCCESS) {
        const char *name = miopen.miopenGetErrorString ? miopen.miopenGetErrorString(status) : NULL;
        say_failed(status, name, "%s failed", function);
    }
}

#define MIOPEN(name, ...) miopen_check(#name, (say_call(#name), miopen.name(__VA_ARGS__)))

static void say_version(void)
{
    size_t major = 0, minor = 0, patch = 0;
    MIOPEN(miopenGetVersion, &major, &minor, &patch);
    say_fact("miopen.version", "%zu.%zu.%zu", major, minor, patch);
}

static void *tensor(int n, int c, int w)
{
    void *made = NULL;
    MIOPEN(miopenCreateTensorDescriptor, &made);
    MIOPEN(miopenSet4dTensorDescriptor, made, MIOPEN_FLOAT, n, c, 1, w);
    return made;
}

static void convolve(void *handle, const struct convolution *c)
{
    const float one = 1.0f, zero = 0.0f;
    void *convolution = NULL, *work = NULL;
    size_t work_bytes = 0;
    int n = 0;
    struct miopen_found best = {0};
    void *in = tensor(1, c->channels, c->length), *by = tensor(c->filters, c->channels, c->width);
    void *out = tensor(1, c->filters, c->out_length);
    void *input = hip_upload(c->input, c->input_bytes);
    void *filter = hip_upload(c->filter, c->filter_bytes);
    void *output = hip_upload(c->output, c->output_bytes);
    MIOPEN(miopenCreateConvolutionDescriptor, &convolution);
    MIOPEN(miopenInitConvolutionDescriptor, convolution, MIOPEN_CONVOLUTION, 0, c->padding, 1,
           c->stride, 1, 1);
    MIOPEN(miopenConvolutionForwardGetWorkSpaceSize, handle, by, in, convolution, out, &work_bytes);
    work = work_bytes ? hip_upload(NULL, work_bytes) : NULL;
    MIOPEN(miopenFindConvolutionForwardAlgorithm, handle, in, input, by, filter, convolution, out,
           output, 1, &n, &best, work, work_bytes, false);
    if (n < 1) {
        say_failed(0, NULL, "MIOpen finds no algorithm for a convolution on this GPU");
    }
    say_fact("algorithm", "%d", best.algorithm);
    // The search has written an answer of its own: only what the last call writes counts.
    HIP(hipMemcpy, output, c->output, c->output_bytes, HIP_HOST_TO_DEVICE);
    MIOPEN(miopenConvolutionForward, handle, &one, in, input, by, filter, convolution,
           best.algorithm, &zero, out, output, work, work_bytes);
    HIP(hipDeviceSynchronize);
    hip_download(c->output, output, c->output_bytes);
}

void stage_miopen_convolution(const struct job *j)
{
    void *handle = NULL, *library = amd_open(j);
    struct convolution c;
    struct mismatch wrong;
    char text[256];
    hip_start(j, library);
    miopen_find(library);
    say_version();
    if (!convolution_make(NUMBER_FLOAT32, &c)) {
        say_unknown("the machine has no memory left for the operands");
    }
    MIOPEN(miopenCreate, &handle);
    convolve(handle, &c);
    if (!convolution_compare(&c, &wrong)) {
        mismatch_text(&wrong, text, sizeof text);
        say_failed(0, NULL, "MIOpen reports success for a convolution, but the result is wrong: %s",
                   text);
    }
    say_fact("error.of.tolerance", "%.3f", wrong.worst);
    MIOPEN(miopenDestroy, handle);
    convolution_release(&c);
    say_passed("a float32 convolution by MIOpen is correct");
}
