/* What the helper has instead of a C library. */
#include <sys/syscall.h>
#include <sys/uio.h>

#include "watch/helper/gpucall.h"

#ifdef __x86_64__
long gpucall_system(long number, long a, long b, long c, long d, long e, long f)
{
    long rc;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(rc)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return rc;
}
#else
long gpucall_system(long number, long a, long b, long c, long d, long e, long f)
{
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc #0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    return x0;
}
#endif

/* The compiler may call these. */
void *memcpy(void *restrict to, const void *restrict from, size_t n);
void *memset(void *to, int value, size_t n);
int memcmp(const void *a, const void *b, size_t n);

void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
    unsigned char *t = to;
    const unsigned char *f = from;
    while (n--) {
        *t++ = *f++;
    }
    return to;
}

void *memset(void *to, int value, size_t n)
{
    unsigned char *t = to;
    while (n--) {
        *t++ = (unsigned char)value;
    }
    return to;
}

int memcmp(const void *a, const void *b, size_t n)
{
    const unsigned char *x = a, *y = b;
    for (; n; n--, x++, y++) {
        if (*x != *y) {
            return *x < *y ? -1 : 1;
        }
    }
    return 0;
}

/* By the kernel, which answers EFAULT where a load would end the program. Where it does not let a
 * process read even itself (an old seccomp filter), mincore() says whether the pages are there. */
bool gpucall_read(void *ret, uintptr_t from, size_t n)
{
    const struct iovec to = {ret, n}, at = {(void *)from, n}; // NOLINT: an address, by design
    unsigned char pages[8];
    uintptr_t first = from & ~(uintptr_t)4095;
    long pid = gpucall_system(SYS_getpid, 0, 0, 0, 0, 0, 0);
    long rc = gpucall_system(SYS_process_vm_readv, pid, (long)&to, 1, (long)&at, 1, 0);
    if (rc >= 0 || rc == -14 /* EFAULT */) {
        return rc == (long)n;
    }
    if (from + n < from || from + n - first > sizeof pages * 4096 ||
        gpucall_system(SYS_mincore, (long)first, (long)(from + n - first), (long)pages, 0, 0, 0)) {
        return false;
    }
    memcpy(ret, (const void *)from, n); // NOLINT
    return true;
}

uintptr_t gpucall_word(uintptr_t from, bool *ok)
{
    uintptr_t value = 0;
    *ok = *ok && gpucall_read(&value, from, sizeof value);
    return *ok ? value : 0;
}

bool gpucall_same(const char *a, const char *b)
{
    while (*a && *a == *b) {
        a++, b++;
    }
    return *a == *b;
}

bool gpucall_starts(const char *text, const char *start)
{
    while (*start && *text == *start) {
        text++, start++;
    }
    return !*start;
}

size_t gpucall_length(const char *text)
{
    size_t n = 0;
    while (text[n]) {
        n++;
    }
    return n;
}

const char *gpucall_base_name(const char *path)
{
    const char *last = path;
    for (; *path; path++) {
        last = *path == '/' ? path + 1 : last;
    }
    return last;
}
