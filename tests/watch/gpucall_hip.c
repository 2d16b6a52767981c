/* Calls of HIP whose results nobody looks at: directly, and by an address out of data. */
#include <stddef.h>

int hipSetDevice(int device);
int hipMemcpy(void *to, const void *from, size_t n, int kind);
int hipInit(unsigned flags);
int hipDeviceGetAttribute(int *ret, int attribute, int device);

int (*const table[])(int) = {hipSetDevice};

__attribute__((noinline)) void chooses(void)
{
    (void)table[0](7);
    __asm__ volatile("");
}

int main(void)
{
    char a[4], b[4] = {0};
    int value;
    (void)hipInit(0);
    (void)hipDeviceGetAttribute(&value, 12345, 0); // fails by design
    chooses();
    for (int i = 0; i < 5; i++) {
        (void)hipMemcpy(a, b, 4, 1);
        (void)hipSetDevice(-1);
    }
    return 0;
}
