/* libcudart.so.12 whose calls succeed and do nothing. */
#include <stddef.h>

int cudaSetDevice(int device)
{
    return device < 0;
}

int cudaMemcpy2DToArray(void *to, size_t x, size_t y, const void *from, size_t pitch, size_t width,
                        size_t height, int kind)
{
    (void)to, (void)x, (void)y, (void)from, (void)pitch, (void)width, (void)height;
    return kind < 0;
}
