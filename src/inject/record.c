#include "inject/record.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>

#include "inject/system.h"

struct loss_page *record_losses(const char *path)
{
    uint32_t magic = 0;
    long fd = path && *path == '/'
                  ? system_call(SYS_openat, AT_FDCWD, (long)path, O_RDWR | O_CLOEXEC, 0, 0, 0)
                  : -1;
    if (fd < 0) {
        return NULL;
    }
    bool ours = system_call(SYS_pread64, fd, (long)&magic, sizeof magic, 0, 0, 0) == sizeof magic &&
                magic == LOSS_MAGIC;
    long at = ours ? system_call(SYS_mmap, 0, sizeof(struct loss_page), PROT_READ | PROT_WRITE,
                                 MAP_SHARED, fd, 0)
                   : -1;
    (void)system_call(SYS_close, fd, 0, 0, 0, 0, 0);
    return at < 0 && at > -4096 ? NULL : (struct loss_page *)at; // NOLINT: the kernel's answer
}

/* The kernel sends SIGPIPE and SIGXFSZ to the thread that wrote; they end a program that has not
 * asked for them. */
static long write_quietly(long fd, const struct iovec *parts, long n_parts)
{
    const uint64_t signals = (uint64_t)1 << (SIGPIPE - 1) | (uint64_t)1 << (SIGXFSZ - 1);
    const struct timespec none = {0, 0};
    uint64_t before = 0;
    (void)system_call(SYS_rt_sigprocmask, SIG_BLOCK, (long)&signals, (long)&before, sizeof signals,
                      0, 0);
    long rc = system_call(SYS_writev, fd, (long)parts, n_parts, 0, 0, 0);
    if (rc == -EPIPE || rc == -EFBIG) {
        uint64_t raised = (uint64_t)1 << ((rc == -EPIPE ? SIGPIPE : SIGXFSZ) - 1);
        (void)system_call(SYS_rt_sigtimedwait, (long)&raised, 0, (long)&none, sizeof raised, 0, 0);
    }
    (void)system_call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, sizeof before, 0, 0);
    return rc;
}

static void count(struct loss_page *losses, int error)
{
    int32_t none = 0;
    if (losses) {
        (void)__atomic_fetch_add(&losses->lines, 1, __ATOMIC_RELAXED);
        (void)__atomic_compare_exchange_n(&losses->error, &none, error, false, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED);
    }
}

int record_append(struct loss_page *losses, long fd, const char *line, size_t n)
{
    static uint32_t torn_here;
    uint32_t *torn = losses ? &losses->torn : &torn_here;
    bool was_torn = __atomic_load_n(torn, __ATOMIC_RELAXED);
    const struct iovec parts[] = {{(void *)"\n", was_torn}, {(void *)line, n}}; // only read
    long rc = fd < 0 ? fd : write_quietly(fd, parts, 2);
    if (rc == (long)(n + was_torn)) {
        if (was_torn) {
            __atomic_store_n(torn, 0, __ATOMIC_RELAXED);
        }
        return 0;
    }
    if (rc > 0) {
        __atomic_store_n(torn, 1, __ATOMIC_RELAXED);
    }
    int error = rc < 0 ? (int)-rc : ENOSPC;
    count(losses, error);
    return error;
}
