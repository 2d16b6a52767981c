/*
 * Files that become shorter while a call reads them.
 *
 * The rooms map files. A page that is no longer in its file raises SIGBUS, which would end the
 * host. For the time of a call a handler of ours stands before the host's: it puts a page of zeros
 * where the file was cut off, and the call then fails, as what was found out may be wrong. Any
 * other SIGBUS goes to the host's handler. When the last call of the process ends, the host's
 * handler is put back.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "api/internal.h"

enum { CALLS_MAX = 256 };

/* Without thread-local variables: the first use of one may allocate memory, in a handler. */
static struct {
    _Atomic pid_t lock; // process whose thread holds it; 0: none
    pid_t process;      // whose calls these are: a child by fork() has none of its parent's
    unsigned calls;
    uintptr_t page_bytes;
    struct sigaction former;
    struct {
        _Atomic pid_t thread; // 0: free
        atomic_bool cut;
    } slots[CALLS_MAX];
} state;

static pid_t this_thread(void)
{
    return (pid_t)syscall(SYS_gettid);
}

static int thread_slot(pid_t thread)
{
    for (int i = 0; i < CALLS_MAX; i++) {
        if (atomic_load(&state.slots[i].thread) == thread) {
            return i;
        }
    }
    return -1;
}

/* What would have happened without our handler. */
static void pass_on(int number, siginfo_t *info, void *context)
{
    const struct sigaction *former = &state.former;
    if (former->sa_flags & SA_SIGINFO) {
        former->sa_sigaction(number, info, context);
    } else if (former->sa_handler == SIG_IGN && info->si_code <= 0) {
        return; // sent, and ignored
    } else if (former->sa_handler == SIG_DFL || former->sa_handler == SIG_IGN) {
        (void)sigaction(number, former, NULL); // was valid when it was taken
        if (info->si_code <= 0) {
            (void)raise(number); // sent; what a page raised, the repeated access raises again
        }
    } else {
        former->sa_handler(number);
    }
}

static void guard_on_fault(int number, siginfo_t *info, void *context)
{
    int saved = errno, slot = thread_slot(this_thread());
    uintptr_t page = (uintptr_t)info->si_addr / state.page_bytes * state.page_bytes;
    if (slot >= 0 && info->si_code == BUS_ADRERR &&
        mmap((void *)page, state.page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
             -1, // NOLINT
             0) != MAP_FAILED) {
        atomic_store(&state.slots[slot].cut, true);
    } else {
        pass_on(number, info, context);
    }
    errno = saved;
}

static bool is_ours(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) && action->sa_sigaction == guard_on_fault;
}

/* A program that has set a handler during the call keeps it. */
static void put_back(void)
{
    struct sigaction now;
    if (sigaction(SIGBUS, NULL, &now) == 0 && is_ours(&now)) {
        (void)sigaction(SIGBUS, &state.former, NULL); // was valid when it was taken
    }
}

static void forget_parents_calls(pid_t process)
{
    if (state.process != process) {
        if (state.calls) {
            put_back();
        }
        for (int i = 0; i < CALLS_MAX; i++) {
            atomic_store(&state.slots[i].thread, 0);
        }
        state.calls = 0;
        state.process = process;
    }
}

/* A lock that a thread of the parent held during fork() is free. */
static void lock(void)
{
    pid_t process = getpid(), holder = 0;
    while (!atomic_compare_exchange_weak(&state.lock, &holder, process)) {
        if (holder == process) {
            (void)sched_yield();
            holder = 0;
        }
    }
    forget_parents_calls(process);
}

static void unlock(void)
{
    atomic_store(&state.lock, 0);
}

static void stand_before(void)
{
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_ONSTACK};
    action.sa_sigaction = guard_on_fault;
    (void)sigemptyset(&action.sa_mask); // these cannot fail for a valid signal
    state.page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    (void)sigaction(SIGBUS, NULL, &state.former);
    (void)sigaction(SIGBUS, &action, NULL);
}

bool api_guard(struct gm_context *gm)
{
    sigset_t bus;
    lock();
    int slot = thread_slot(0);
    if (slot >= 0) {
        if (state.calls++ == 0) {
            stand_before();
        }
        atomic_store(&state.slots[slot].cut, false);
        atomic_store(&state.slots[slot].thread, this_thread());
    }
    unlock();
    if (slot >= 0) {
        (void)sigemptyset(&bus); // these cannot fail
        (void)sigaddset(&bus, SIGBUS);
        (void)pthread_sigmask(SIG_UNBLOCK, &bus, &gm->mask);
    }
    return slot >= 0;
}

bool api_is_cut(void)
{
    int slot = thread_slot(this_thread());
    return slot >= 0 && atomic_load(&state.slots[slot].cut);
}

void api_unguard(const struct gm_context *gm)
{
    int slot = thread_slot(this_thread());
    if (slot < 0) {
        return;
    }
    (void)pthread_sigmask(SIG_SETMASK, &gm->mask, NULL); // cannot fail
    lock();
    atomic_store(&state.slots[slot].thread, 0);
    if (--state.calls == 0) {
        put_back();
    }
    unlock();
}
