/* What the helper has instead of a C library. */
#include <sys/syscall.h>
#include <sys/uio.h>

#include "watch/helper/gpucall.h"

/* By the kernel, which answers EFAULT where a load would end the program. Where it does not let a
 * process read even itself (an old seccomp filter), mincore() says whether the pages are there. */
bool gpucall_read(void *ret, uintptr_t from, size_t n)
{
    const struct iovec to = {ret, n}, at = {(void *)from, n}; // NOLINT: an address, by design
    unsigned char pages[8];
    uintptr_t first = from & ~(uintptr_t)4095;
    long pid = system_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
    long rc = system_call(SYS_process_vm_readv, pid, (long)&to, 1, (long)&at, 1, 0);
    if (rc >= 0 || rc == -14 /* EFAULT */) {
        return rc == (long)n;
    }
    if (from + n < from || from + n - first > sizeof pages * 4096 ||
        system_call(SYS_mincore, (long)first, (long)(from + n - first), (long)pages, 0, 0, 0)) {
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
