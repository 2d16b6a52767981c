/*
 * The file of events: opened at a high descriptor, checked before each line, written by one system
 * call.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "inject/record.h"
#include "inject/system.h"
#include "inject/trace/trace.h"

enum {
    HIGH_FD = 1000,
    LESS_HIGH_FD = 200,
};

long trace_raw(long n, long a, long b, long c, long d)
{
    return system_call(n, a, b, c, d, 0, 0);
}

int trace_raw_open(const char *path, int flags)
{
    return (int)trace_raw(SYS_openat, AT_FDCWD, (long)path, flags, 0);
}

long trace_raw_stat(const char *path, struct stat *ret, int flags)
{
    return trace_raw(SYS_newfstatat, AT_FDCWD, (long)path, (long)ret, flags);
}

int trace_raw_pid(void)
{
    return (int)trace_raw(SYS_getpid, 0, 0, 0, 0);
}

struct trace_process trace_me = {.fd = -1};

/* Opens the record, at a number that programs seldom come to. A negative errno if it is not to be
 * had. */
static int open_record(void)
{
    static const int numbers[] = {HIGH_FD, LESS_HIGH_FD};
    struct stat st;
    int fd = trace_raw_open(trace_me.file, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    long rc = fd < 0 ? fd : trace_raw(SYS_fstat, fd, (long)&st, 0, 0);
    if (rc < 0) {
        return (int)rc;
    }
    if (trace_me.ino && (st.st_dev != trace_me.dev || st.st_ino != trace_me.ino)) {
        (void)trace_raw(SYS_close, fd, 0, 0, 0);
        return -ENOENT; // another file under that name: in another root
    }
    trace_me.dev = st.st_dev, trace_me.ino = st.st_ino;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        int high = (int)trace_raw(SYS_fcntl, fd, F_DUPFD_CLOEXEC, numbers[i], 0);
        if (high >= 0) {
            (void)trace_raw(SYS_close, fd, 0, 0, 0);
            return high;
        }
    }
    return fd;
}

int trace_record(void)
{
    struct stat st;
    int fd = __atomic_load_n(&trace_me.fd, __ATOMIC_SEQ_CST);
    if (fd >= 0 && trace_raw(SYS_fstat, fd, (long)&st, 0, 0) == 0 && st.st_dev == trace_me.dev &&
        st.st_ino == trace_me.ino) {
        return fd;
    }
    int opened = open_record();
    if (opened >= 0 && !__atomic_compare_exchange_n(&trace_me.fd, &fd, opened, false,
                                                    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
        (void)trace_raw(SYS_close, opened, 0, 0, 0); // another thread was quicker
        return fd;
    }
    return opened;
}

void trace_begin_event(struct line *l, const char *event)
{
    struct timespec now = {0, 0};
    l->n = 0;
    l->cut = false;
    (void)trace_raw(SYS_clock_gettime, CLOCK_REALTIME, (long)&now, 0, 0);
    trace_put_plain(l, "{\"event\": \"");
    trace_put_plain(l, event);
    trace_put_plain(l, "\"");
    trace_put_count(l, "pid", trace_raw_pid());
    trace_put_count(l, "tid", trace_raw(SYS_gettid, 0, 0, 0, 0));
    trace_put_count(l, "time_us", (long)now.tv_sec * 1000000 + now.tv_nsec / 1000);
}

void trace_end_event(struct line *l)
{
    trace_put_plain(l, l->cut ? ", \"cut\": true}\n" : "}\n");
    (void)record_append(trace_me.losses, trace_record(), l->text, l->n); // a loss is counted there
}

void trace_look_for_fork(struct line *l)
{
    int pid = trace_raw_pid(), parent = __atomic_load_n(&trace_me.pid, __ATOMIC_RELAXED);
    if (pid != parent &&
        __atomic_compare_exchange_n(&trace_me.pid, &parent, pid, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED)) { // one of its threads
        trace_begin_event(l, "fork");
        trace_put_count(l, "ppid", parent);
        trace_end_event(l);
    }
}
