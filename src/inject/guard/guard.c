/*
 * What the library takes the place of, and what it does there.
 *
 * A thread-local destructor that is registered (__cxa_thread_atexit_impl of glibc, or libstdc++'s
 * __cxa_thread_atexit, which calls it) is registered as run_record() with a record that names it:
 * order, and the count that keeps its library loaded, stay glibc's own. With GPUMEND_GUARD=1 a
 * destructor of a library that uses a GPU
 *
 *   - at the end of a thread is run by a keeper, while the thread waits;
 *   - once the process is ending is left out: the kernel takes the GPU's memory back, and the
 *     runtime may be gone.
 */
#include "inject/guard/guard.h"
#include "inject/record.h"

#include <fcntl.h>
#include <sys/auxv.h>
#include <time.h>

enum { RECORDS_BYTES = 65536, LINE_BYTES = 4096, STAMP_BYTES = 24 };

typedef void destructor(void *);
typedef int atexit_function(destructor *, void *, void *);
typedef int main_function(int, char **, char **);
typedef int start_function(main_function *, int, char **, void (*)(void), void (*)(void),
                           void (*)(void), void *);

/* What a library of the system has to be to be one of glibc, and the start's environment. */
extern const char *gnu_get_libc_version(void) __attribute__((weak));
extern unsigned long getauxval(unsigned long) __attribute__((weak));
extern char **__environ __attribute__((weak));

/* Our names for what is exported under others' names: X(GUARD_NAME, NAME, VERSION). The @ makes the
 * version a hidden one. The compiler must not think them unused. */
#define TAKES_PLACE(ours, name, version) __asm__(".symver " #ours ", " #name "@" version)
#define ENTRY                            __attribute__((visibility("default"), used))

#if defined(__x86_64__)
#define GLIBC_FIRST  "GLIBC_2.2.5"
#define GLIBC_ATEXIT "GLIBC_2.18"
#else
#define GLIBC_FIRST  "GLIBC_2.17"
#define GLIBC_ATEXIT "GLIBC_2.18"
#endif

static struct {
    uint32_t looked; // 0 not yet, 1 being done, 2 done
    bool guards;
    const char *tells_to; // a file to which lines are appended, or NULL
    struct loss_page *losses;
    uint32_t leaving; // the process is ending
    int32_t pid;
} state;

static struct {
    atexit_function *atexit_impl; // NULL: glibc before 2.18
    start_function *start;
    void (*exit)(int);
    void (*pthread_exit)(void *);
    int (*dlclose)(void *);
} next;

/* ------------------------------------------------------------------ whether to do anything */

static const char *guard_variable(const char *name)
{
    size_t n = text_length(name);
    for (char **e = &__environ ? __environ : NULL; e && *e; e++) {
        if (text_begins(*e, name) && (*e)[n] == '=') {
            return *e + n + 1;
        }
    }
    return NULL;
}

static void find_next(void)
{
    next.atexit_impl = (atexit_function *)object_symbol("__cxa_thread_atexit_impl", true);
    next.start = (start_function *)object_symbol("__libc_start_main", true);
    next.exit = (void (*)(int))object_symbol("exit", true);
    next.pthread_exit = (void (*)(void *))object_symbol("pthread_exit", true);
    next.dlclose = (int (*)(void *))object_symbol("dlclose", true);
}

static void look_at_environment(void)
{
    uint32_t seen = 0;
    if (!__atomic_compare_exchange_n(&state.looked, &seen, 1, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE)) {
        return; // before threads are there, or by this very thread
    }
    find_next();
    const char *guards = guard_variable("GPUMEND_GUARD"), *page = guard_variable("GPUMEND_END");
    state.pid = sys_pid();
    if (gnu_get_libc_version && getauxval && !getauxval(AT_SECURE)) {
        state.guards = guards && text_equal(guards, "1");
        state.tells_to = guard_variable("GPUMEND_TRACE_FILE");
        state.losses = state.tells_to ? record_losses(guard_variable(LOSS_VARIABLE)) : NULL;
        if (page && *page == '/') {
            end_open(page);
        }
    }
    __atomic_store_n(&state.looked, 2, __ATOMIC_RELEASE);
}

/* ------------------------------------------------------------------ telling */

struct line {
    char text[LINE_BYTES];
    size_t n;
};

static void line_add(struct line *l, const char *text)
{
    for (; *text && l->n < LINE_BYTES - 2; text++) {
        l->text[l->n++] = *text;
    }
}

static void line_add_number(struct line *l, uint64_t value)
{
    char digits[STAMP_BYTES];
    unsigned n = STAMP_BYTES - 1;
    digits[n] = '\0';
    do {
        digits[--n] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    line_add(l, digits + n);
}

/* A path as JSON; what is no printable ASCII is escaped as a byte of Latin-1. */
static void add_text(struct line *l, const char *text)
{
    static const char hex[] = "0123456789abcdef";
    line_add(l, "\"");
    for (; *text && l->n < LINE_BYTES - 64; text++) {
        unsigned char c = (unsigned char)*text;
        if (c < 0x20 || c >= 0x7f || c == '"' || c == '\\') {
            char escape[] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15], '\0'};
            line_add(l, escape);
        } else {
            char one[] = {(char)c, '\0'};
            line_add(l, one);
        }
    }
    line_add(l, "\"");
}

enum did { MOVED, LEFT_OUT, IN_PLACE, GIVEN_BACK };

static const struct {
    const char *word, *says;
} deeds[] = {
    [MOVED] = {"moved", "was run by a keeper"},
    [LEFT_OUT] = {"left-out", "was left out: the process ends"},
    [IN_PLACE] = {"in-place", "was run in place: no keeper can be started"},
    [GIVEN_BACK] = {"in-place", "was run in place: no keeper was free for 5 s"},
};

/* For people: with --trace the supervisor shows it. */
static void put_sentence(struct line *l, enum did did, const char *object, uint64_t ns)
{
    line_add(l, "[");
    line_add_number(l, (uint64_t)sys_pid());
    line_add(l, "] a thread-local destructor of ");
    line_add(l, *object ? text_base(object) : "an unknown library");
    line_add(l, " ");
    line_add(l, deeds[did].says);
    if (did == MOVED) {
        line_add(l, ", in ");
        line_add_number(l, ns / 1000);
        line_add(l, " us");
    }
    l->text[l->n] = '\0';
}

/* One line of the trace (docs/json.md), in one write. */
static void tell(enum did did, const char *object, uint64_t ns)
{
    struct line l = {.n = 0}, text = {.n = 0};
    if (!state.tells_to) {
        return;
    }
    put_sentence(&text, did, object, ns);
    line_add(&l, "{\"event\":\"teardown\",\"pid\":");
    line_add_number(&l, (uint64_t)sys_pid());
    line_add(&l, ",\"tid\":");
    line_add_number(&l, (uint64_t)sys_tid());
    line_add(&l, ",\"time_us\":");
    line_add_number(&l, sys_now_ns(CLOCK_REALTIME) / 1000);
    line_add(&l, ",\"did\":\"");
    line_add(&l, deeds[did].word);
    line_add(&l, "\",\"object\":");
    add_text(&l, object);
    line_add(&l, ",\"ns\":");
    line_add_number(&l, ns);
    line_add(&l, ",\"text\":");
    add_text(&l, text.text);
    line_add(&l, "}\n");
    int fd = sys_open(state.tells_to, O_WRONLY | O_APPEND | O_NOCTTY | O_NONBLOCK);
    (void)record_append(state.losses, fd, l.text, l.n); // a loss is counted there
    if (fd >= 0) {
        sys_close(fd);
    }
}

/* ------------------------------------------------------------------ the process ends */

static bool is_first_thread(void)
{
    return sys_tid() == sys_pid();
}

static void leave(int status, bool known)
{
    __atomic_store_n(&state.leaving, 1, __ATOMIC_RELEASE);
    end_leaving(status, known);
}

static bool first_left_alone; // by pthread_exit: the process goes on

/* The first thread's destructors run at the end of the process, or after its pthread_exit. */
static bool is_leaving(void)
{
    if (is_first_thread() && !first_left_alone) {
        leave(0, false); // exit() called inside libc
    }
    return __atomic_load_n(&state.leaving, __ATOMIC_ACQUIRE);
}

/* Registered first on the first thread, so run last there: exit handlers come next. */
static void first_is_done(void *unused)
{
    (void)unused;
    if (!first_left_alone) {
        leave(0, false);
        end_handlers();
    }
}

ENTRY _Noreturn void guard_exit(int status);
TAKES_PLACE(guard_exit, exit, GLIBC_FIRST);
_Noreturn void guard_exit(int status)
{
    look_at_environment();
    leave(status, true);
    next.exit(status);
    __builtin_unreachable();
}

static main_function *program_main;

static int guarded_main(int argc, char **argv, char **envp)
{
    int status = program_main(argc, argv, envp);
    leave(status, true);
    return status;
}

ENTRY int guard_start(main_function *program, int argc, char **argv, void (*init)(void),
                      void (*fini)(void), void (*rtld_fini)(void), void *stack);
TAKES_PLACE(guard_start, __libc_start_main, GLIBC_FIRST);
int guard_start(main_function *program, int argc, char **argv, void (*init)(void),
                void (*fini)(void), void (*rtld_fini)(void), void *stack)
{
    look_at_environment();
    program_main = program;
    return next.start(state.guards || end_active() ? guarded_main : program, argc, argv, init, fini,
                      rtld_fini, stack);
}

ENTRY _Noreturn void guard_pthread_exit(void *value);
TAKES_PLACE(guard_pthread_exit, pthread_exit, GLIBC_FIRST);
_Noreturn void guard_pthread_exit(void *value)
{
    look_at_environment();
    if (is_first_thread()) {
        first_left_alone = true;
        if (state.guards) {
            keeper_first_has_left();
        }
    }
    if (!next.pthread_exit) { // glibc before 2.34: in libpthread, which may be loaded later
        next.pthread_exit = (void (*)(void *))object_symbol("pthread_exit", true);
    }
    next.pthread_exit(value);
    __builtin_unreachable();
}

/* ------------------------------------------------------------------ thread-local destructors */

struct record {
    destructor *function;
    void *object;
    const void *handle; // of the library that registered it
    void *context;
    bool gpu;
    struct record *next; // free records
};

static struct {
    uint32_t lock;
    struct record *free;
} records;

/* A forked child may have got the lock taken, by a thread that it has not, and a list that this
 * thread was changing. */
static void begin_child(void)
{
    int32_t pid = sys_pid(), seen = __atomic_load_n(&state.pid, __ATOMIC_ACQUIRE);
    if (seen != pid && __atomic_compare_exchange_n(&state.pid, &seen, pid, false, __ATOMIC_ACQ_REL,
                                                   __ATOMIC_ACQUIRE)) {
        records.free = NULL;
        __atomic_store_n(&records.lock, 0, __ATOMIC_RELEASE);
    }
}

static struct record *record_take(void)
{
    begin_child();
    lock_take(&records.lock);
    if (!records.free) {
        struct record *more = sys_map(RECORDS_BYTES);
        for (size_t i = 0; more && i < RECORDS_BYTES / sizeof *more; i++) {
            more[i].next = records.free;
            records.free = &more[i];
        }
    }
    struct record *r = records.free;
    records.free = r ? r->next : NULL;
    lock_give(&records.lock);
    return r;
}

static void give_record(struct record *r)
{
    begin_child();
    lock_take(&records.lock);
    r->next = records.free;
    records.free = r;
    lock_give(&records.lock);
}

static void run_here(const struct record *r)
{
    const void *outer = end_thread.destructor;
    end_thread.destructor = r->handle;
    end_thread.destructors++;
    r->function(r->object);
    end_thread.destructors--;
    end_thread.destructor = outer;
}

static void run_there(void *record)
{
    run_here(record);
}

static void run_guarded(struct record *r)
{
    char name[END_NAME_MAX];
    (void)object_at(r->handle, name, sizeof name); // for the name
    if (is_leaving() || keeper_is_self()) {
        tell(LEFT_OUT, name, 0);
        return;
    }
    struct keeper_job job = {.function = run_there, .object = r, .context = r->context};
    uint64_t began = state.tells_to ? sys_now_ns(CLOCK_MONOTONIC) : 0;
    end_thread.destructors++;
    end_thread.destructor = r->handle;
    enum keeper_ran ran = keeper_run(&job);
    end_thread.destructors--;
    if (ran == KEEPER_RAN) {
        tell(MOVED, name, state.tells_to ? sys_now_ns(CLOCK_MONOTONIC) - began : 0);
    } else if (is_leaving()) { // while it waited
        tell(LEFT_OUT, name, 0);
    } else {
        tell(ran == KEEPER_NONE ? IN_PLACE : GIVEN_BACK, name, 0);
        run_here(r);
    }
}

static void run_record(void *record)
{
    struct record *r = record;
    if (r->gpu) {
        run_guarded(r);
    } else {
        (void)is_leaving(); // the first thread's first destructor tells that the process ends
        run_here(r);
    }
    give_record(r);
}

/* The record that stands for the destructor; NULL: it is registered as it is. */
static struct record *record_make(destructor *function, void *object, void *handle)
{
    char name[END_NAME_MAX];
    bool gpu = state.guards && object_at(handle, name, sizeof name) == OBJECT_GPU;
    if (!gpu && !end_active()) {
        return NULL;
    }
    if (gpu && !is_first_thread() && !keeper_is_self()) {
        (void)keeper_prepare(); // now rather than at the thread's end; else it is tried there again
    }
    struct record *r = record_take();
    if (r) {
        *r = (struct record){.function = function,
                             .object = object,
                             .handle = handle,
                             .gpu = gpu,
                             .context = gpu ? keeper_context() : NULL};
    }
    return r;
}

static int add_destructor(atexit_function *to, destructor *function, void *object, void *handle)
{
    struct record *r = function == run_record || function == first_is_done
                           ? NULL
                           : record_make(function, object, handle);
    if (!to) {
        return -1; // an older glibc: nobody else would have been called either
    }
    return r ? to(run_record, r, handle) : to(function, object, handle);
}

ENTRY int guard_thread_atexit_impl(destructor *function, void *object, void *handle);
TAKES_PLACE(guard_thread_atexit_impl, __cxa_thread_atexit_impl, GLIBC_ATEXIT);
int guard_thread_atexit_impl(destructor *function, void *object, void *handle)
{
    look_at_environment();
    return add_destructor(next.atexit_impl, function, object, handle);
}

/* A libstdc++ that was built for a glibc without the function above keeps a list of its own.
 * glibc's is taken where it has one, else libstdc++'s, which may be loaded and unloaded later than
 * we are. */
ENTRY int guard_thread_atexit(destructor *function, void *object, void *handle);
TAKES_PLACE(guard_thread_atexit, __cxa_thread_atexit, "CXXABI_1.3.7");
int guard_thread_atexit(destructor *function, void *object, void *handle)
{
    look_at_environment();
    atexit_function *to = next.atexit_impl;
    to = to ? to : (atexit_function *)object_symbol("__cxa_thread_atexit", true);
    return add_destructor(to, function, object, handle);
}

/* ------------------------------------------------------------------ unloading */

ENTRY int guard_dlclose(void *handle);
TAKES_PLACE(guard_dlclose, dlclose, GLIBC_FIRST);
int guard_dlclose(void *handle)
{
    look_at_environment();
    if (!next.dlclose) { // glibc before 2.34: in libdl, which may be loaded later
        next.dlclose = (int (*)(void *))object_symbol("dlclose", true);
    }
    end_thread.closing++;
    int rc = next.dlclose ? next.dlclose(handle) : -1;
    end_thread.closing--;
    return rc;
}

#if defined(__x86_64__) || defined(__aarch64__)
/* The same under the version that glibc 2.34 gave them. */
ENTRY int guard_start_34(main_function *, int, char **, void (*)(void), void (*)(void),
                         void (*)(void), void *) __attribute__((alias("guard_start")));
TAKES_PLACE(guard_start_34, __libc_start_main, "GLIBC_2.34");
ENTRY int guard_dlclose_34(void *) __attribute__((alias("guard_dlclose")));
TAKES_PLACE(guard_dlclose_34, dlclose, "GLIBC_2.34");
#endif

/* ------------------------------------------------------------------ the start */

__attribute__((constructor)) static void begin_guard(void)
{
    look_at_environment();
    if ((state.guards || end_active()) && next.atexit_impl) {
        /* Without it an end is seen by calls of exit() and by main's return alone. */
        (void)next.atexit_impl(first_is_done, NULL, &state);
    }
}
