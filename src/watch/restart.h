/*
 * Whether a program's end was a crash, and whether it is started again (`run --restart on-crash`).
 *
 * A signal that code raises (SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGTRAP, SIGSYS) is a crash;
 * others come from outside, SIGKILL of the kernel that is short of memory included, and are passed
 * on. How far the process had come says the page that the helper library writes
 * (inject/end_page.h): a crash is one in the middle of the work, one in the teardown of a part (a
 * thread's end, a library that is closed), or one after the end, when exit() had been called or
 * main() had returned. Where the library was not in the program (linked statically, another libc,
 * set-user-ID) it cannot be determined, and counts as a crash in the middle.
 *
 * New starts wait longer each time: the first delay, doubled up to RESTART_DELAY_MAX_MS; a program
 * that lived for RESTART_STEADY_MS begins anew. The count of starts is not set back.
 */
#ifndef GPUMEND_WATCH_RESTART_H
#define GPUMEND_WATCH_RESTART_H

#include "base/arena.h"
#include "watch/supervise.h"

enum { RESTART_DELAY_MS = 1000, RESTART_DELAY_MAX_MS = 60000, RESTART_STEADY_MS = 60000 };

enum ending_kind {
    ENDING_EXIT,     // by itself, with a status
    ENDING_OUTSIDE,  // by a signal that is no crash
    ENDING_CRASH,    // in the middle of the work
    ENDING_UNLOAD,   // in a thread-local destructor or in dlclose, the process going on
    ENDING_TEARDOWN, // after the end: destructors and exit handlers
    ENDING_UNKNOWN,  // a crash, and how far the program had come cannot be determined
};

struct ending {
    enum ending_kind kind;
    /* After the end (ENDING_TEARDOWN): the status that the program had ended with, -1: not known.
     */
    int status;
    /* Whether code of a GPU library was running: 1 yes, 0 no, -1 cannot be determined. */
    int gpu;
    bool gpu_loaded;    // a GPU runtime library was loaded when the program ended
    const char *object; // the innermost that is none of libc's, or whose destructor ran; or NULL
    const char *gpu_object; // of a GPU, on the way to it; or NULL
    const char *says;       // one sentence without its stop
    /* "owner/name#number: what it is about": a report on that very library at that moment, which
     * need not be of this crash; or NULL. */
    const char *upstream;
};

const char *ending_kind_name(enum ending_kind kind);

/* `page` may be NULL. What is returned lives in the arena; the page's texts are copied. */
void ending_judge(struct arena *a, const struct watch_end *end, const struct end_page *page,
                  struct ending *ret);

/* Whether an ending may be passed on as the program's own status: it had ended, with a status that
 * is known, and code of a GPU library was running, or nothing of what was running is known and a
 * GPU runtime was loaded. */
bool ending_is_forgivable(const struct ending *e);

struct restart {
    struct arena *a;
    struct end_page *page; // of the child; or NULL
    bool enabled;          // on a crash
    unsigned max;          // starts after the first; 0: no bound
    bool forgive;
    unsigned first_delay_ms;
    void (*says)(void *arg, const char *sentence); // what came of a crash
    void *says_arg;

    /* Filled by restart_again(). */
    unsigned count, delay_ms;
    struct ending last;
    bool forgiven; // last is passed on as its status
};

/* An `again` of struct watch_child; arg is a struct restart. */
bool restart_again(void *arg, const struct watch_end *end, unsigned *ret_delay_ms);

/* The page and the value of END_VARIABLE for the child, a path that holds while this process lives.
 * GM_ERR_LOOK: no memory can be shared. */
int restart_page(struct arena *a, struct end_page **ret, const char **ret_path,
                 struct gm_err *err) GM_CHECK;

#endif
