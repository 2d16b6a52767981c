/*
 * Which failures are told, and how: the first of a process in full, every other call that fails in
 * one line, the same again only counted. A failure inside another watched call (the runtime's call
 * of the driver) waits for that call's result: it is told as its reason, or not at all if the outer
 * call succeeded. Records belong to a process, so that a child of fork() tells its own.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "inject/gpucalls/gpucall.h"
#include "inject/gpucalls/tell.h"
#include "inject/record.h"

enum {
    RECORDS = 1024,
    WALKS = 100,
    SIGPIPE_NUMBER = 13,
    WAIT_SPINS = 1000000,
};

static struct record records[RECORDS];

static uint32_t n_records, n_lost; // n_lost: failures for which there was no record

static long first_pid; // the process that has told its first

static const char *path; // NULL: standard error

static struct loss_page *losses; // of the supervisor's, or NULL

static uint32_t n_unwritten; // texts that the file did not take

static struct stat standard_error; // as it was at the start

static bool has_standard_error;

/* ------------------------------------------------------------------ names */

static bool pattern_names(const char *pattern, const char *name)
{
    while (*pattern && *pattern != '*' && *pattern == *name) {
        pattern++, name++;
    }
    return *pattern == '*' || *pattern == *name;
}

static bool arguments_hold(const struct gpucall_call *c, const char *wanted)
{
    char buffer[CALL_TEXT];
    struct text t = {.at = buffer, .max = sizeof buffer};
    gpucall_put_arguments(&t, c, false);
    for (size_t at = 0; at < t.n; at++) {
        size_t n = 0;
        while (wanted[n] && at + n < t.n && buffer[at + n] == wanted[n]) {
            n++;
        }
        if (!wanted[n]) {
            return true;
        }
    }
    return false;
}

bool gpucall_by_design(const struct gpucall_call *c)
{
    for (uint32_t i = 0; i < gpucall_n_designs; i++) {
        const char *asks = gpucall_text + gpucall_designs[i].asks;
        if (gpucall_designs[i].code == c->result &&
            pattern_names(gpucall_text + gpucall_designs[i].name, c->name) &&
            (!*asks || arguments_hold(c, asks))) {
            return true;
        }
    }
    return false;
}

/* ------------------------------------------------------------------ output */

void gpucall_tell_start(const char *where, const char *page)
{
    path = text_equal(where, "-") ? NULL : where;
    losses = path ? record_losses(page) : NULL;
    has_standard_error = system_call(SYS_fstat, 2, (long)&standard_error, 0, 0, 0, 0) == 0;
}

/* Only where descriptor 2 is still what it was: a program may have closed it and opened a file. */
static void write_standard_error(const struct text *t)
{
    struct stat now;
    uint64_t pipe = (uint64_t)1 << (SIGPIPE_NUMBER - 1), old = 0;
    const struct timespec none = {0, 0};
    if (!has_standard_error || system_call(SYS_fstat, 2, (long)&now, 0, 0, 0, 0) ||
        now.st_dev != standard_error.st_dev || now.st_ino != standard_error.st_ino) {
        return;
    }
    (void)system_call(SYS_rt_sigprocmask, 0 /* SIG_BLOCK */, (long)&pipe, (long)&old, 8, 0, 0);
    if (system_call(SYS_write, 2, (long)t->at, (long)t->n, 0, 0, 0) == -32 /* EPIPE */) {
        (void)system_call(SYS_rt_sigtimedwait, (long)&pipe, 0, (long)&none, 8, 0, 0);
    }
    (void)system_call(SYS_rt_sigprocmask, 2 /* SIG_SETMASK */, (long)&old, 0, 8, 0, 0);
}

/* To the file; false: it could not be written, and it is counted. */
static bool text_append(const struct text *t)
{
    long fd =
        system_call(SYS_openat, AT_FDCWD, (long)path,
                    O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666, 0, 0);
    int error = record_append(losses, fd, t->at, t->n);
    if (fd >= 0) {
        (void)system_call(SYS_close, fd, 0, 0, 0, 0, 0);
    }
    return error == 0;
}

/* The program is not disturbed for what cannot be written: what is lost of the file is said on
 * standard error at the first time, and at the end. */
static void text_write_out(const struct text *t)
{
    static const char says[] =
        "gpumend: failing GPU calls are lost, and are counted: they cannot be "
        "written to ";
    char buffer[PLACE_PATH + sizeof says];
    struct text loss = {.at = buffer, .max = sizeof buffer};
    if (!path) {
        write_standard_error(t);
    } else if (!text_append(t) && !__atomic_fetch_add(&n_unwritten, 1, __ATOMIC_RELAXED)) {
        gpucall_text_put(&loss, says);
        gpucall_text_put_escaped(&loss, path);
        gpucall_text_put(&loss, "\n");
        write_standard_error(&loss);
    }
}

/* Room for a text, of the kernel: no memory of the program's. */
static bool text_begin(struct text *t, size_t max)
{
    long at = system_call(SYS_mmap, 0, (long)max, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *t = (struct text){.at = (char *)at, .max = max}; // NOLINT: the kernel's answer
    return at > 0;
}

static void text_end(const struct text *t)
{
    (void)system_call(SYS_munmap, (long)t->at, (long)t->max, 0, 0, 0, 0);
}

/* ------------------------------------------------------------------ one failure */

static void failure_tell(const struct failure *f)
{
    struct text t;
    if (!text_begin(&t, GPUCALL_TEXT)) {
        return;
    }
    if (path) {
        gpucall_put_json_failure(&t, f);
    } else {
        gpucall_put_failure(&t, f);
    }
    text_write_out(&t);
    text_end(&t);
}

/* ------------------------------------------------------------------ records */

/* The place in Python as a number: one place in a library serves many of these. */
static uint64_t frame_number(const struct gpucall_python_frame *frame)
{
    uint64_t number = (uint64_t)frame->line;
    for (const char *c = frame->line ? frame->file : ""; *c; c++) {
        number = (number ^ (unsigned char)*c) * 1099511628211u;
    }
    return number;
}

static uint64_t call_key(const struct gpucall_call *c, long pid,
                         const struct gpucall_python_frame *python)
{
    uint64_t key = 1469598103934665603u;
    const uint64_t parts[] = {(uintptr_t)c->name, (uint32_t)c->result, c->back, (uint64_t)pid,
                              frame_number(python)};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        key = (key ^ parts[i]) * 0x9e3779b97f4a7c15u;
        key ^= key >> 29;
    }
    return key | 1;
}

static void record_fill(struct record *r, const struct gpucall_call *c, long pid,
                        const struct gpucall_python_frame *python)
{
    struct text t = {.at = r->call, .max = sizeof r->call};
    r->name = c->name, r->api = c->api, r->result = c->result, r->pid = pid;
    r->order = __atomic_fetch_add(&n_records, 1, __ATOMIC_RELAXED);
    gpucall_text_put(&t, c->name);
    gpucall_text_put(&t, "(");
    gpucall_put_arguments(&t, c, false);
    gpucall_text_put(&t, ")");
    gpucall_place_find(c->back, &r->place);
    r->python = *python;
    __atomic_store_n(&r->ready, 1, __ATOMIC_RELEASE);
}

/* The record of a call that failed so from there, made where there is none; NULL: no room. */
static struct record *record_of(const struct gpucall_call *c, long pid)
{
    struct gpucall_python walk;
    struct gpucall_python_frame python;
    if (!gpucall_python_begin(&walk) || !gpucall_python_next(&walk, &python)) {
        python.line = 0;
    }
    uint64_t key = call_key(c, pid, &python);
    for (uint32_t i = 0, at = (uint32_t)(key >> 20) % RECORDS; i < RECORDS;
         i++, at = (at + 1) % RECORDS) {
        struct record *r = &records[at];
        uint64_t now = 0;
        if (__atomic_compare_exchange_n(&r->key, &now, key, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE)) {
            record_fill(r, c, pid, &python);
            return r;
        }
        if (now == key) {
            for (int n = 0; n < WAIT_SPINS && !__atomic_load_n(&r->ready, __ATOMIC_ACQUIRE); n++) {
            }
            return r;
        }
    }
    return NULL;
}

/* Whether this process has told no failure yet; true once. */
static bool is_first(long pid)
{
    long known = __atomic_load_n(&first_pid, __ATOMIC_ACQUIRE);
    return known != pid && __atomic_compare_exchange_n(&first_pid, &known, pid, false,
                                                       __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

/* Counts the failure; NULL: there is nothing more to do. */
static struct record *record_count(const struct gpucall_call *c, long pid)
{
    struct record *r = record_of(c, pid);
    if (!r) {
        (void)__atomic_fetch_add(&n_lost, 1, __ATOMIC_RELAXED);
        return NULL;
    }
    uint32_t before = __atomic_fetch_add(&r->n, 1, __ATOMIC_RELAXED);
    bool told = __atomic_load_n(&r->told, __ATOMIC_RELAXED);
    return before >= WALKS || (before && told) ? NULL : r;
}

static void tell_once(const struct gpucall_call *c, const struct gpucall_trace *trace,
                      struct record *r)
{
    if (__atomic_exchange_n(&r->told, 1, __ATOMIC_ACQ_REL)) {
        return;
    }
    struct record *inner = c->inner && c->inner <= RECORDS ? &records[c->inner - 1] : NULL;
    const struct failure f = {
        .call = c, .trace = trace, .record = r, .inner = inner, .first = is_first(r->pid)};
    if (inner) {
        __atomic_store_n(&inner->told, 1, __ATOMIC_RELAXED);
    }
    failure_tell(&f);
}

void gpucall_failed_at(const struct gpucall_call *c, const struct gpucall_trace *trace,
                       uint64_t *outer)
{
    struct record *r = record_count(c, system_call(SYS_getpid, 0, 0, 0, 0, 0, 0));
    if (r && outer) {
        *outer = (uint64_t)(r - records) + 1;
    } else if (r) {
        tell_once(c, trace, r);
    }
}

void gpucall_failed(const struct gpucall_call *c, struct unwind_registers *registers)
{
    struct gpucall_trace trace;
    struct record *r = record_count(c, system_call(SYS_getpid, 0, 0, 0, 0, 0, 0));
    if (!r) {
        return;
    }
    gpucall_walk(registers, &trace);
    if (trace.outer) {
        trace.outer->inner = (uint64_t)(r - records) + 1;
    } else {
        tell_once(c, &trace, r);
    }
}

void gpucall_succeeded(uint64_t inner)
{
    if (inner && inner <= RECORDS) {
        (void)__atomic_fetch_add(&records[inner - 1].n_harmless, 1, __ATOMIC_RELAXED);
    }
}

/* ------------------------------------------------------------------ the end */

static void put_total(struct text *t, const struct record *r)
{
    gpucall_text_put(t, "gpumend:   ");
    gpucall_text_put(t, r->name);
    gpucall_text_put(t, " = ");
    gpucall_put_error(t, r->api, r->result);
    gpucall_text_put(t, ", ");
    gpucall_text_put_number(t, r->n, 10);
    gpucall_text_put(t, r->n == 1 ? " time, at " : " times, at ");
    gpucall_put_place(t, &r->place);
    gpucall_put_python_of(t, r);
    if (r->n_harmless) {
        gpucall_text_put(t, ", inside calls that succeeded");
    }
    gpucall_text_put(t, "\n");
}

static void put_json_total(struct text *t, const struct record *r)
{
    gpucall_text_put(t, "{");
    gpucall_put_json_error(t, r->api, r->name, r->result);
    gpucall_text_put(t, ",\"times\":");
    gpucall_text_put_number(t, r->n, 10);
    gpucall_text_put(t, ",\"inside_success\":");
    gpucall_text_put_number(t, r->n_harmless, 10);
    gpucall_text_put(t, ",\"at\":");
    gpucall_put_json_place(t, &r->place);
    gpucall_text_put(t, ",\"python\":");
    if (r->python.line) {
        gpucall_put_json_python(t, &r->python);
    } else {
        gpucall_text_put(t, "null");
    }
    gpucall_text_put(t, "}");
}

/* Whether the record adds to what was told when it happened: what came again, and what had no
 * effect or came in a call that did not return. */
static bool is_news(const struct record *r)
{
    return r->n > 1 || (!r->told && !r->n_harmless);
}

/* The next record of the process in the order of their first failures, or NULL. */
static const struct record *next_record(long pid, const struct record *last)
{
    const struct record *found = NULL;
    for (uint32_t i = 0; i < RECORDS; i++) {
        const struct record *r = &records[i];
        if (r->ready && r->pid == pid && (!last || r->order > last->order) &&
            (!found || r->order < found->order)) {
            found = r;
        }
    }
    return found;
}

/* Failures without a record, and those of the records from `r` on. */
static uint64_t not_listed(long pid, const struct record *r)
{
    uint64_t n = n_lost;
    for (; r; r = next_record(pid, r)) {
        n += r->n;
    }
    return n;
}

static void put_json_totals(struct text *t, long pid, uint64_t total)
{
    const struct record *r = next_record(pid, NULL);
    gpucall_put_json_start(t, "gpu-calls", pid);
    gpucall_text_put(t, ",\"failed\":");
    gpucall_text_put_number(t, total, 10);
    gpucall_text_put(t, ",\"calls\":[");
    for (bool more = false; r && t->max - t->n > ROOM; r = next_record(pid, r), more = true) {
        gpucall_text_put(t, more ? "," : "");
        put_json_total(t, r);
    }
    gpucall_text_put(t, "],\"not_listed\":");
    gpucall_text_put_number(t, not_listed(pid, r), 10);
    gpucall_text_put(t, ",\"unwritten\":");
    gpucall_text_put_number(t, n_unwritten, 10);
    gpucall_text_put(t, ",\"text\":\"GPU calls that failed: ");
    gpucall_text_put_number(t, total, 10);
    gpucall_text_put(t, "\"}\n");
}

static void put_totals(struct text *t, long pid, uint64_t total)
{
    gpucall_text_put(t, "gpumend: GPU calls that failed in process ");
    gpucall_put_signed(t, pid);
    gpucall_text_put(t, ": ");
    gpucall_text_put_number(t, total, 10);
    gpucall_text_put(t, n_unwritten ? ":\n" : "; more than once, or without effect:\n");
    for (const struct record *r = next_record(pid, NULL); r; r = next_record(pid, r)) {
        if (is_news(r) || n_unwritten) {
            put_total(t, r);
        }
    }
    if (n_lost) {
        gpucall_text_put(t, "gpumend:   ");
        gpucall_text_put_number(t, n_lost, 10);
        gpucall_text_put(t, n_lost == 1 ? " more, of another kind\n" : " more, of other kinds\n");
    }
}

void gpucall_tell_end(void)
{
    struct text t;
    long pid = system_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
    uint64_t total = n_lost;
    bool news = path || n_lost;
    if (!n_records && !n_lost) {
        return;
    }
    for (const struct record *r = next_record(pid, NULL); r; r = next_record(pid, r)) {
        total += r->n;
        news = news || is_news(r);
    }
    if (total && news && text_begin(&t, (size_t)4 * GPUCALL_TEXT)) {
        if (path) {
            put_json_totals(&t, pid, total);
            text_write_out(&t);
        }
        t.n = 0;
        if (!path || n_unwritten) {
            put_totals(&t, pid, total);
            write_standard_error(&t);
        }
        text_end(&t);
    }
}
