/*
 * libcudnn.so.9, the shim: opens each sub-library at the first call that needs it, and where one is
 * missing prints and aborts as 9.1 does, or with `cudnnGetVersion value 92600` answers with the
 * status of newer ones. With CUDNN8 it is libcudnn.so.8, whose sub-libraries have other names.
 */
#include <dlfcn.h>

#include "numbers.h"
#include "table.h"

#ifdef CUDNN8
enum { VERSION = 8907, UNAVAILABLE = 1, BAD_PARAM = 3 };
#define OPS "libcudnn_ops_infer.so.8"
#define CNN "libcudnn_cnn_infer.so.8"
#else
enum { VERSION = 90100, UNAVAILABLE = 3009, BAD_PARAM = 2000 };
#define OPS "libcudnn_ops.so.9"
#define CNN "libcudnn_cnn.so.9"
#endif

size_t cudnnGetVersion(void)
{
    struct fake fake_now = fake_call("cudnnGetVersion");
    return (size_t)fake_number(&fake_now, VERSION);
}

static int need(const char *library, const char *function)
{
    if (dlopen(library, RTLD_NOW)) {
        return 0;
    }
    struct fake version = fake_call("cudnnGetVersion");
    fprintf(stderr, "Unable to load any of {%s}\nInvalid handle. Cannot load symbol %s\n", library,
            function);
    if (fake_number(&version, VERSION) < 90200) {
        abort();
    }
    return UNAVAILABLE;
}

#define NEED(library, function)                                                                    \
    FAKE(function);                                                                                \
    do {                                                                                           \
        int missing = need(library, #function);                                                    \
        if (missing) {                                                                             \
            return missing;                                                                        \
        }                                                                                          \
    } while (0)

#define VERSION_CHECK(function, library)                                                           \
    int function(void)                                                                             \
    {                                                                                              \
        NEED(library, function);                                                                   \
        return 0;                                                                                  \
    }

#ifdef CUDNN8
VERSION_CHECK(cudnnOpsInferVersionCheck, OPS)
VERSION_CHECK(cudnnCnnInferVersionCheck, CNN)
VERSION_CHECK(cudnnAdvInferVersionCheck, "libcudnn_adv_infer.so.8")
#else
VERSION_CHECK(cudnnGraphVersionCheck, "libcudnn_graph.so.9")
VERSION_CHECK(cudnnOpsVersionCheck, OPS)
VERSION_CHECK(cudnnCnnVersionCheck, CNN)
VERSION_CHECK(cudnnAdvVersionCheck, "libcudnn_adv.so.9")
#endif

const char *cudnnGetErrorString(int code)
{
    switch (code) {
    case 1:
    case 1001: return "CUDNN_STATUS_NOT_INITIALIZED";
    case 1002: return "CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH";
    case 3000: return "CUDNN_STATUS_NOT_SUPPORTED";
    case 3009: return "CUDNN_STATUS_NOT_SUPPORTED_SUBLIBRARY_UNAVAILABLE";
    case 5000: return "CUDNN_STATUS_EXECUTION_FAILED";
    default: return "CUDNN_UNKNOWN_STATUS";
    }
}

/* A descriptor of any kind. */
struct as {
    int type, layout, n, c, h, w, pad_w, stride_w, mode;
};

static int created(void **ret)
{
    *ret = calloc(1, sizeof(struct as));
    return 0;
}

int cudnnCreate(void **ret)
{
    NEED(OPS, cudnnCreate);
    return created(ret);
}

int cudnnCreateTensorDescriptor(void **ret)
{
    NEED(OPS, cudnnCreateTensorDescriptor);
    return created(ret);
}

int cudnnCreateFilterDescriptor(void **ret)
{
    NEED(OPS, cudnnCreateFilterDescriptor);
    return created(ret);
}

#ifndef WITHOUT_cudnnCreateConvolutionDescriptor
int cudnnCreateConvolutionDescriptor(void **ret)
{
    NEED(CNN, cudnnCreateConvolutionDescriptor);
    return created(ret);
}
#endif

int cudnnSetTensor4dDescriptor(void *at, int layout, int type, int n, int c, int h, int w)
{
    FAKE(cudnnSetTensor4dDescriptor);
    *(struct as *)at = (struct as){.type = type, .layout = layout, .n = n, .c = c, .h = h, .w = w};
    return 0;
}

int cudnnSetFilter4dDescriptor(void *at, int type, int layout, int n, int c, int h, int w)
{
    FAKE(cudnnSetFilter4dDescriptor);
    *(struct as *)at = (struct as){.type = type, .layout = layout, .n = n, .c = c, .h = h, .w = w};
    return 0;
}

int cudnnSetConvolution2dDescriptor(void *at, int pad_h, int pad_w, int stride_h, int stride_w,
                                    int dilation_h, int dilation_w, int mode, int type)
{
    FAKE(cudnnSetConvolution2dDescriptor);
    *(struct as *)at =
        (struct as){.type = type, .pad_w = pad_w, .stride_w = stride_w, .mode = mode};
    return pad_h == 0 && stride_h == 1 && dilation_h == 1 && dilation_w == 1 ? 0 : BAD_PARAM;
}

int cudnnSetConvolutionMathType(void *at, int math)
{
    FAKE(cudnnSetConvolutionMathType);
    return at && math >= 0 && math <= 3 ? 0 : BAD_PARAM;
}

int cudnnGetConvolutionForwardWorkspaceSize(void *handle, void *input, void *filter, void *how,
                                            void *output, int algorithm, size_t *bytes)
{
    FAKE(cudnnGetConvolutionForwardWorkspaceSize);
    *bytes = 4096;
    return handle && input && filter && how && output && algorithm >= 0 ? 0 : BAD_PARAM;
}

static void *as_floats(const void *data, int type, size_t count)
{
    float *all = calloc(count, sizeof *all);
    for (size_t i = 0; i < count; i++) {
        all[i] = (float)fake_load(data, type == 2 ? FAKE_F16 : FAKE_F32, i);
    }
    return all;
}

static void convolve(const struct as *x, const void *input, const struct as *w, const void *filter,
                     const struct as *how, const struct as *y, void *output, double off)
{
    float *in = as_floats(input, x->type, (size_t)(x->c * x->w));
    float *by = as_floats(filter, w->type, (size_t)(w->n * w->c * w->w));
    float *out = calloc((size_t)(y->c * y->w), sizeof *out);
    fake_convolve(in, by, out, x->c, x->w, w->n, w->w, how->pad_w, how->stride_w, y->w, off);
    for (int i = 0; i < y->c * y->w; i++) {
        fake_store(output, y->type == 2 ? FAKE_F16 : FAKE_F32, (size_t)i, out[i]);
    }
    free(in);
    free(by);
    free(out);
}

int cudnnConvolutionForward(void *handle, const void *alpha, void *input_as, const void *input,
                            void *filter_as, const void *filter, void *how, int algorithm,
                            void *workspace, size_t bytes, const void *beta, void *output_as,
                            void *output)
{
    NEED(CNN, cudnnConvolutionForward);
    const struct as *x = input_as, *w = filter_as, *c = how, *y = output_as;
    const float one = 1, nought = 0;
    if (!handle || memcmp(alpha, &one, 4) != 0 || memcmp(beta, &nought, 4) != 0 || algorithm > 1 ||
        !workspace || bytes != 4096 || x->n != 1 || x->h != 1 || w->h != 1 || y->h != 1 ||
        x->layout || w->layout || y->layout || c->mode != 1 || c->type != 0 || w->c != x->c ||
        y->c != w->n) {
        return BAD_PARAM;
    }
    convolve(x, input, w, filter, c, y, output, fake_now.wrong ? 9 : 0);
    return 0;
}
