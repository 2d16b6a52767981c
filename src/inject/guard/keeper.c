/*
 * Keepers: threads of our own that live until the process ends, so that the runtime's state of
 * theirs is sound. A dying thread hands over a destructor and waits, its storage intact.
 *
 * One keeper does, as a rule. Where a job is not taken for a while (a destructor may itself wait
 * for a thread that has something to hand over) one more is started, up to KEEPERS_MAX. Where every
 * keeper is busy, no further one can be started, and none of them has ended a job for STUCK_MS,
 * they may all be waiting for the very threads that wait for them: these then run their own
 * destructors. Keepers take no signals but those of faults. A forked child has none and begins
 * anew.
 */
#include "inject/guard/guard.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>

enum { KEEPERS_MAX = 32, PATIENCE_MS = 50, ALONE_MS = 200, STUCK_MS = 5000, TASKS_BYTES = 4096 };
enum { JOB_WAITS, JOB_TAKEN, JOB_DONE };

static struct {
    uint32_t lock, work; // work: changes with each job
    int32_t pid;         // whose threads these are
    uint32_t n, first_has_left;
    /* With the lock: */
    uint32_t busy;     // keepers that run a job
    uint64_t moved_ns; // when one of them last took or ended one
    struct keeper_job *first, *last;
} keepers;

bool keeper_is_self(void)
{
    return end_thread.keeper;
}

/* ------------------------------------------------------------------ the driver's context */

/* Asked of the driver where it is loaded: no call of ours may begin its initialisation. */
void *keeper_context(void)
{
    int (*get)(void **) = (int (*)(void **))object_symbol_in("libcuda.so", "cuCtxGetCurrent");
    void *context = NULL;
    return get && get(&context) == 0 ? context : NULL;
}

static void set_context(void *context)
{
    int (*set)(void *) = (int (*)(void *))object_symbol_in("libcuda.so", "cuCtxSetCurrent");
    if (context && set) {
        (void)set(context); // one that is gone is refused, and the destructor meets that itself
    }
}

/* ------------------------------------------------------------------ the threads */

/* With the lock. */
static void count_busy(int by)
{
    keepers.busy += (uint32_t)by;
    keepers.moved_ns = sys_now_ns(CLOCK_MONOTONIC);
}

static struct keeper_job *take_job(void)
{
    lock_take(&keepers.lock);
    struct keeper_job *job = keepers.first;
    if (job) {
        keepers.first = job->next;
        __atomic_store_n(&job->state, JOB_TAKEN, __ATOMIC_RELEASE);
        count_busy(1);
    }
    lock_give(&keepers.lock);
    return job;
}

static void do_job(struct keeper_job *job)
{
    set_context(job->context);
    job->function(job->object);
    lock_take(&keepers.lock);
    count_busy(-1);
    lock_give(&keepers.lock);
    /* The job lies on the waiting thread's stack: it is gone once the state says so. */
    __atomic_store_n(&job->state, JOB_DONE, __ATOMIC_RELEASE);
    sys_wake(&job->state, 1);
}

/* Whether the process has no thread but keepers and the first one, which has left. */
static bool is_alone(void)
{
    char entries[TASKS_BYTES];
    unsigned tasks = 0;
    int fd = sys_open("/proc/self/task", O_RDONLY | O_DIRECTORY);
    long got = 1;
    while (fd >= 0 &&
           (got = system_call(SYS_getdents64, fd, (long)entries, sizeof entries, 0, 0, 0)) > 0) {
        /* ino (8), off (8), record length (2), type (1), name: getdents64(2) */
        for (long at = 0; at < got; at += *(uint16_t *)(void *)(entries + at + 16)) {
            tasks += entries[at + 19] != '.';
        }
    }
    if (fd >= 0) {
        sys_close(fd);
    }
    return fd >= 0 && got == 0 && tasks <= keepers.n + 1;
}

static void *keep_thread(void *argument)
{
    (void)argument;
    end_thread.keeper = true;
    while (true) {
        uint32_t seen = __atomic_load_n(&keepers.work, __ATOMIC_ACQUIRE);
        struct keeper_job *job = take_job();
        if (job) {
            do_job(job);
            continue;
        }
        bool left = __atomic_load_n(&keepers.first_has_left, __ATOMIC_ACQUIRE);
        if (left && is_alone()) {
            return NULL; // the last thread's end is the end of the process
        }
        sys_wait(&keepers.work, seen, left ? ALONE_MS : 0);
    }
}

/* Signals are for the program's threads; a fault has to end the process as it would without us. */
static void block_signals(uint64_t *before)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
    uint64_t set = ~(uint64_t)0;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        set &= ~((uint64_t)1 << (faults[i] - 1));
    }
    (void)system_call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&set, (long)before, sizeof set, 0, 0);
}

/* The program's pthread_create, so that a sanitizer in it knows of the thread. */
static bool start_keeper(void)
{
    typedef int create_function(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    create_function *create = (create_function *)object_symbol("pthread_create", false);
    pthread_t thread;
    uint64_t before;
    if (!create) {
        return false;
    }
    block_signals(&before);
    bool started = create(&thread, NULL, keep_thread, NULL) == 0;
    (void)system_call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, sizeof before, 0, 0);
    return started;
}

/* In a forked child nothing of the parent's threads is left, nor of what they had taken. */
static void begin_anew(void)
{
    int32_t pid = sys_pid(), seen = __atomic_load_n(&keepers.pid, __ATOMIC_ACQUIRE);
    if (seen == pid || !__atomic_compare_exchange_n(&keepers.pid, &seen, -1, false,
                                                    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        while (__atomic_load_n(&keepers.pid, __ATOMIC_ACQUIRE) == -1) {
            sys_wait((const uint32_t *)&keepers.pid, (uint32_t)-1, 1); // another thread does it
        }
        return;
    }
    keepers.lock = keepers.n = keepers.busy = keepers.first_has_left = 0;
    keepers.first = keepers.last = NULL;
    __atomic_store_n(&keepers.pid, pid, __ATOMIC_RELEASE);
}

/* One more, if there are not more than `n`; false: none can be started. */
static bool add_keeper(uint32_t n)
{
    uint32_t seen = n;
    if (n >= KEEPERS_MAX || !__atomic_compare_exchange_n(&keepers.n, &seen, n + 1, false,
                                                         __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
        return true; // another thread was first
    }
    if (start_keeper()) {
        return true;
    }
    (void)__atomic_fetch_sub(&keepers.n, 1, __ATOMIC_ACQ_REL);
    return false;
}

bool keeper_prepare(void)
{
    begin_anew();
    return __atomic_load_n(&keepers.n, __ATOMIC_ACQUIRE) > 0 || add_keeper(0);
}

void keeper_first_has_left(void)
{
    begin_anew();
    __atomic_store_n(&keepers.first_has_left, 1, __ATOMIC_RELEASE);
    (void)__atomic_fetch_add(&keepers.work, 1, __ATOMIC_ACQ_REL);
    sys_wake(&keepers.work, KEEPERS_MAX);
}

/* ------------------------------------------------------------------ the waiting thread */

static void hand_over(struct keeper_job *job)
{
    job->state = JOB_WAITS;
    job->next = NULL;
    lock_take(&keepers.lock);
    if (keepers.first) {
        keepers.last->next = job;
    } else {
        keepers.first = job;
    }
    keepers.last = job;
    lock_give(&keepers.lock);
    (void)__atomic_fetch_add(&keepers.work, 1, __ATOMIC_ACQ_REL);
    sys_wake(&keepers.work, 1);
}

/* Takes the job off the queue; false: it is taken, or a keeper has got on within STUCK_MS. */
static bool take_back(struct keeper_job *job)
{
    struct keeper_job *before = NULL;
    lock_take(&keepers.lock);
    bool stuck = keepers.busy >= __atomic_load_n(&keepers.n, __ATOMIC_ACQUIRE) &&
                 sys_now_ns(CLOCK_MONOTONIC) - keepers.moved_ns >= (uint64_t)STUCK_MS * 1000000;
    if (stuck && __atomic_load_n(&job->state, __ATOMIC_ACQUIRE) == JOB_WAITS) {
        for (struct keeper_job *j = keepers.first; j != job; j = j->next) {
            before = j;
        }
        *(before ? &before->next : &keepers.first) = job->next;
        keepers.last = keepers.last == job ? before : keepers.last;
    } else {
        stuck = false;
    }
    lock_give(&keepers.lock);
    return stuck;
}

/* Whether the dying thread has to run its job itself. */
static bool is_given_up(struct keeper_job *job, bool waited)
{
    uint32_t n = __atomic_load_n(&keepers.n, __ATOMIC_ACQUIRE);
    bool more = n < KEEPERS_MAX && (!waited || add_keeper(n));
    return !more && take_back(job);
}

enum keeper_ran keeper_run(struct keeper_job *job)
{
    if (!keeper_prepare()) {
        return KEEPER_NONE;
    }
    hand_over(job);
    bool waited = false;
    for (uint32_t state; (state = __atomic_load_n(&job->state, __ATOMIC_ACQUIRE)) != JOB_DONE;) {
        if (state == JOB_WAITS && is_given_up(job, waited)) {
            return KEEPER_STUCK;
        }
        sys_wait(&job->state, state, state == JOB_WAITS ? PATIENCE_MS : 0);
        waited = true;
    }
    return KEEPER_RAN;
}
