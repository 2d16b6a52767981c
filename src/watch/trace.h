/*
 * What the audit library of `run --trace` has recorded (src/inject/trace/trace.c, docs/watch.md),
 * put together again: lines to requests, dlopens and processes.
 *
 *   watch_trace_open() -> watch_trace_read() again and again -> watch_trace_end()
 *                      -> watch_compare() (watch/compare.h)
 *
 * The library says what is tried, and not what comes of it; that is inferred here:
 *   - A request is answered by the object that is opened next in its process. Where none is: a file
 *     that was there and is open already under another name is used again; one that is not was
 *     refused; else nothing was found.
 *   - A dlopen without a request of its own was answered with what is loaded under that name, once
 *     its thread does something else.
 *   - A dlopen fails if its own or a dependency's request does, or if its objects are closed
 *     again and dlerror has a text that names one of them.
 *
 * A dlopen is noted before its thread waits for the loader's lock, so threads are told apart by
 * their ids, and `at` says when the loader worked on it. What is under way when the record ends is
 * unknown, and so is everything that a lost line might have changed (watch_trace_lost(), full).
 */
#ifndef GPUMEND_WATCH_TRACE_H
#define GPUMEND_WATCH_TRACE_H

#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/err.h"
#include "ldso/process.h"
#include "inject/loss_page.h"

enum { WATCH_NOLOAD = 4 }; // RTLD_NOLOAD, in glibc and in musl (bits/dlfcn.h, dlfcn.h)

struct watch_candidate {
    const char *path;
    const char *via;    // "LD_LIBRARY_PATH", "rpath", "runpath", "cache", "default", "path"
    const char *result; // words of ldso_result_name(); NULL: not known
};

struct watch_request {
    const char *name, *caller; // caller NULL: not known
    enum ldso_request_kind kind;
    int64_t time_us; // since 1970
    VEC(struct watch_candidate) candidates;
    bool settled;              // false at the end: the record ends before the answer
    enum ldso_outcome outcome; // with `settled`
    const char *path;          // opened, used again or refused; or NULL
    long load;                 // of the process's loads, -1: of the start
};

/* One dlopen or dlmopen. */
struct watch_load {
    const char *name;          // NULL: the program itself
    const char *caller;        // who called; NULL: not seen, only the loader's view is known
    const char *loader_caller; // whom the loader took for the caller
    const char *interposed_by; // whose dlopen was called instead of the loader's, or NULL
    unsigned flags;            // RTLD_* of Linux; 0: not known
    long space;                // namespace asked for (dlmopen), 0: the program's
    int tid;
    int64_t time_us;
    uint64_t at;  // when the loader worked on it, in the order of the record
    bool unknown; // the record ends before it returned, or its name did not fit in a line
    bool failed;
    bool reused;              // nothing was searched
    const char *path;         // what the request ended at, or NULL
    const char *says;         // dlerror's text for it, or NULL
    VEC(const char *) opened; // objects of the program's namespace, with those closed again
    VEC(const char *) closed;
    size_t first_request, n_requests;
    size_t n_edits; // how many of the process's edits came before it
};

/* A change of a variable that the loader has read before: in vain for this process. */
struct watch_edit {
    const char *name, *value; // value NULL: taken away
    bool cut;                 // the value was too long for the record
    const char *caller;
    int64_t time_us;
};

struct watch_close {
    const char *path; // NULL: not known
    uint64_t at;
};

/* What one thread is doing; indexes of the process's requests and loads, -1: nothing. */
struct watch_thread {
    int tid;
    long request, load;
    long last; // its last load
};

/* A file that was opened, as it was then. */
struct watch_file {
    const char *path;
    dev_t dev;
    ino_t ino; // 0: not known
};

struct watch_process {
    int pid, ppid;
    const struct watch_process *fork_of; // NULL: it was started by an exec
    uint64_t fork_at;                    // what that one did before is in this one
    size_t fork_edits;
    const char *exe, *cwd;
    VEC(const char *) env; // what the loader reads, "K=V"
    bool env_cut;          // not all of it: it was too long for the record
    int64_t time_us;
    bool started;  // the program's own code was reached
    bool ended;    // by exit()
    bool replaced; // by an exec
    VEC(struct watch_request) requests;
    VEC(struct watch_load) loads;
    VEC(const char *) opened;     // at the start, in the program's namespace
    VEC(struct watch_file) files; // all that was opened
    VEC(struct watch_edit) edits;
    VEC(struct watch_close) closes;   // in the order of the record
    const char *start_says;           // why it did not start, as far as the trace shows; or NULL
    VEC(struct watch_thread) threads; // by their ids
};

enum watch_event_kind {
    WATCH_START,
    WATCH_REQUEST,
    WATCH_REUSED,
    WATCH_DLERROR,
    WATCH_EDIT,
    WATCH_OTHER
};

/* Something to show, once it is complete. */
struct watch_event {
    enum watch_event_kind kind;
    const struct watch_process *process; // NULL with WATCH_OTHER
    const struct watch_request *request; // with WATCH_REQUEST
    const struct watch_load *load;       // with WATCH_REUSED
    const struct watch_edit *edit;       // with WATCH_EDIT
    const char *text; // with WATCH_DLERROR, and WATCH_OTHER: a line of another helper
};

struct watch_trace {
    struct arena *a;
    int fd;
    off_t at;   // read so far
    char *rest; // a line that is not complete yet
    size_t n_rest;
    VEC(struct watch_process *) processes;
    uint64_t n_lines, n_bad;        // bad: not understood, or cut where that matters
    const struct loss_page *losses; // of what the program could not write; or NULL
    bool full;                      // too much: later lines are neither kept nor shown
    void (*show)(void *arg, const struct watch_event *event); // or NULL
    void *show_arg;
};

/* Lines that were not written, or not so that they could be understood. */
uint64_t watch_trace_lost(const struct watch_trace *t);

/* Opens the record, from its present end on. GM_ERR_LOOK: it cannot be read. */
int watch_trace_open(struct watch_trace *t, struct arena *a, const char *path,
                     struct gm_err *err) GM_CHECK;

/* Reads what has come since. What cannot be read or understood is left out. */
void watch_trace_read(struct watch_trace *t);

/* Reads the rest, settles what is open, and closes the record. */
void watch_trace_end(struct watch_trace *t);

#endif
