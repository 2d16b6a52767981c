/* libMIOpen.so.1: convolutions along the last dimension in float32. */
#include "amd.h"
#include "numbers.h"
#include "table.h"

int hipMalloc(void **ret, size_t n); // so that the library needs libamdhip64, as the real one does

struct tensor {
    int type, n, c, h, w;
};
struct convolution {
    int padding, stride;
};
struct found {
    int algorithm;
    float time_ms;
    size_t memory_bytes;
};
enum { ALGORITHM = 1, BAD_PARAMETER = 3 };

int miopenGetVersion(size_t *major, size_t *minor, size_t *patch);
int miopenCreate(void **ret);
int miopenDestroy(void *handle);
int miopenCreateTensorDescriptor(void **ret);
int miopenSet4dTensorDescriptor(void *tensor, int type, int n, int c, int h, int w);
int miopenCreateConvolutionDescriptor(void **ret);
int miopenInitConvolutionDescriptor(void *convolution, int mode, int pad_h, int pad_w, int stride_h,
                                    int stride_w, int dilation_h, int dilation_w);
int miopenConvolutionForwardGetWorkSpaceSize(void *handle, void *filter, void *input,
                                             void *convolution, void *output, size_t *ret);
int miopenFindConvolutionForwardAlgorithm(void *handle, void *in_tensor, const void *in,
                                          void *by_tensor, const void *by, void *convolution,
                                          void *out_tensor, void *out, int n, int *ret_n,
                                          struct found *ret, void *work, size_t work_bytes,
                                          bool exhaustive);
int miopenConvolutionForward(void *handle, const void *alpha, void *in_tensor, const void *in,
                             void *by_tensor, const void *by, void *convolution, int algorithm,
                             const void *beta, void *out_tensor, void *out, void *work,
                             size_t work_bytes);
const char *miopenGetErrorString(int status);

int miopenGetVersion(size_t *major, size_t *minor, size_t *patch)
{
    FAKE(miopenGetVersion);
    *major = 3, *minor = 4, *patch = 0;
    return 0;
}

int miopenCreate(void **ret)
{
    FAKE(miopenCreate);
    return hipMalloc(ret, 1);
}

int miopenDestroy(void *handle)
{
    FAKE(miopenDestroy);
    return handle ? 0 : BAD_PARAMETER;
}

int miopenCreateTensorDescriptor(void **ret)
{
    FAKE(miopenCreateTensorDescriptor);
    *ret = calloc(1, sizeof(struct tensor));
    return 0;
}

int miopenSet4dTensorDescriptor(void *tensor, int type, int n, int c, int h, int w)
{
    FAKE(miopenSet4dTensorDescriptor);
    *(struct tensor *)tensor = (struct tensor){type, n, c, h, w};
    return type == 1 && h == 1 ? 0 : BAD_PARAMETER;
}

int miopenCreateConvolutionDescriptor(void **ret)
{
    FAKE(miopenCreateConvolutionDescriptor);
    *ret = calloc(1, sizeof(struct convolution));
    return 0;
}

int miopenInitConvolutionDescriptor(void *convolution, int mode, int pad_h, int pad_w, int stride_h,
                                    int stride_w, int dilation_h, int dilation_w)
{
    FAKE(miopenInitConvolutionDescriptor);
    *(struct convolution *)convolution = (struct convolution){pad_w, stride_w};
    return mode == 0 && pad_h == 0 && stride_h == 1 && dilation_h == 1 && dilation_w == 1
               ? 0
               : BAD_PARAMETER;
}

int miopenConvolutionForwardGetWorkSpaceSize(void *handle, void *filter, void *input,
                                             void *convolution, void *output, size_t *ret)
{
    (void)handle, (void)filter, (void)input, (void)convolution, (void)output;
    FAKE(miopenConvolutionForwardGetWorkSpaceSize);
    *ret = (size_t)fake_number(&fake_now, 4096);
    return 0;
}

int miopenFindConvolutionForwardAlgorithm(void *handle, void *in_tensor, const void *in,
                                          void *by_tensor, const void *by, void *convolution,
                                          void *out_tensor, void *out, int n, int *ret_n,
                                          struct found *ret, void *work, size_t work_bytes,
                                          bool exhaustive)
{
    (void)handle, (void)in_tensor, (void)in, (void)by_tensor, (void)by, (void)convolution;
    (void)out_tensor, (void)out, (void)exhaustive;
    FAKE(miopenFindConvolutionForwardAlgorithm);
    *ret_n = n < 1 ? 0 : (int)fake_number(&fake_now, 1);
    *ret = (struct found){ALGORITHM, 0.5f, work_bytes};
    return !work == !work_bytes ? 0 : BAD_PARAMETER;
}

int miopenConvolutionForward(void *handle, const void *alpha, void *in_tensor, const void *in,
                             void *by_tensor, const void *by, void *convolution, int algorithm,
                             const void *beta, void *out_tensor, void *out, void *work,
                             size_t work_bytes)
{
    (void)handle, (void)work, (void)work_bytes;
    FAKE(miopenConvolutionForward);
    const struct tensor *x = in_tensor, *w = by_tensor, *y = out_tensor;
    const struct convolution *c = convolution;
    if (algorithm != ALGORITHM || *(const float *)alpha != 1 || *(const float *)beta != 0 ||
        y->w != (x->w + 2 * c->padding - w->w) / c->stride + 1 || x->c != w->c || y->c != w->n) {
        return BAD_PARAMETER;
    }
    fake_convolve(in, by, out, x->c, x->w, w->n, w->w, c->padding, c->stride, y->w,
                  fake_now.wrong ? 64 : 0);
    return 0;
}

const char *miopenGetErrorString(int status)
{
    return status == 7 ? "miopenStatusUnknownError" : "miopenStatusInternalError";
}
