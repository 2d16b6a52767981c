/* A million calls that succeed: nanoseconds a call, of 1 argument and of 8 (two on the stack). */
#include <stddef.h>
#include <stdio.h>
#include <time.h>

enum { CALLS = 1000000 };

int cudaSetDevice(int device);
int cudaMemcpy2DToArray(void *to, size_t x, size_t y, const void *from, size_t pitch, size_t width,
                        size_t height, int kind);

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(void)
{
    int failed = 0;
    for (int i = 0; i < CALLS; i++) { // binds, and warms
        failed += cudaSetDevice(i) + cudaMemcpy2DToArray(0, 0, 0, 0, 0, 0, 0, i);
    }
    double began = now_ns();
    for (int i = 0; i < CALLS; i++) {
        failed += cudaSetDevice(i);
    }
    double middle = now_ns();
    for (int i = 0; i < CALLS; i++) {
        failed += cudaMemcpy2DToArray(0, 1, 2, 0, 3, 4, 5, i);
    }
    double end = now_ns();
    printf("%.3f %.3f\n", (middle - began) / CALLS, (end - middle) / CALLS);
    return failed != 0;
}
