/* A system call, for libraries that use no other: errno is not touched, a negative result is it. */
#ifndef GPUMEND_INJECT_SYSTEM_H
#define GPUMEND_INJECT_SYSTEM_H

/* The pages that kernels have, each four times the one before: 4 KiB on x86-64; 4, 16 or 64 KiB on
 * aarch64 (Linux, Documentation/arch/arm64/memory.rst). */
enum { PAGE_SIZE_MIN = 4096, PAGE_SIZE_MAX = 65536 };

#if defined(__x86_64__)
static inline long system_call(long number, long a, long b, long c, long d, long e, long f)
{
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}
#elif defined(__aarch64__)
static inline long system_call(long number, long a, long b, long c, long d, long e, long f)
{
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    return x0;
}
#else
#error "no system calls for this machine"
#endif

#endif
