#include "inject/guard/guard.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

int sys_pid(void)
{
    return (int)system_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

int sys_tid(void)
{
    return (int)system_call(SYS_gettid, 0, 0, 0, 0, 0, 0);
}

int sys_open(const char *path, int flags)
{
    return (int)system_call(SYS_openat, AT_FDCWD, (long)path, flags | O_CLOEXEC, 0, 0, 0);
}

long sys_read(int fd, void *to, size_t n)
{
    return system_call(SYS_read, fd, (long)to, (long)n, 0, 0, 0);
}

long sys_pread(int fd, void *to, size_t n, uint64_t at)
{
    return system_call(SYS_pread64, fd, (long)to, (long)n, (long)at, 0, 0);
}

void sys_close(int fd)
{
    (void)system_call(SYS_close, fd, 0, 0, 0, 0, 0); // nothing of what we open can be lost
}

void *sys_map(size_t n)
{
    long at = system_call(SYS_mmap, 0, (long)n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                          -1, 0);
    return at < 0 && at > -4096 ? NULL : (void *)at;
}

void *sys_map_shared(int fd, size_t n)
{
    long at = system_call(SYS_mmap, 0, (long)n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return at < 0 && at > -4096 ? NULL : (void *)at;
}

void sys_wait(const uint32_t *word, uint32_t value, unsigned timeout_ms)
{
    struct timespec t = {.tv_sec = timeout_ms / 1000,
                         .tv_nsec = (long)(timeout_ms % 1000) * 1000000};
    /* Woken, interrupted, too late, or changed before: the caller looks again. */
    (void)system_call(SYS_futex, (long)word, FUTEX_WAIT_PRIVATE, value, timeout_ms ? (long)&t : 0,
                      0, 0);
}

void sys_wake(const uint32_t *word, int n)
{
    (void)system_call(SYS_futex, (long)word, FUTEX_WAKE_PRIVATE, n, 0, 0, 0); // cannot fail
}

uint64_t sys_now_ns(int clock)
{
    struct timespec t = {0};
    (void)system_call(SYS_clock_gettime, clock, (long)&t, 0, 0, 0, 0); // always there
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void sys_tell_self(int signal)
{
    (void)system_call(SYS_tgkill, sys_pid(), sys_tid(), signal, 0, 0, 0); // this thread is there
}

/* 0 free, 1 taken, 2 taken and waited for. */
bool lock_try(uint32_t *lock)
{
    uint32_t seen = 0;
    return __atomic_compare_exchange_n(lock, &seen, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

void lock_take(uint32_t *lock)
{
    if (lock_try(lock)) {
        return;
    }
    while (__atomic_exchange_n(lock, 2, __ATOMIC_ACQUIRE) != 0) {
        sys_wait(lock, 2, 0);
    }
}

void lock_give(uint32_t *lock)
{
    if (__atomic_exchange_n(lock, 0, __ATOMIC_RELEASE) == 2) {
        sys_wake(lock, 1);
    }
}

void text_copy(char *to, const char *from, size_t size)
{
    size_t n = 0;
    while (n + 1 < size && from[n]) {
        to[n] = from[n];
        n++;
    }
    to[n] = '\0';
}
