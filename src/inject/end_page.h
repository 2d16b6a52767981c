/*
 * The page of memory by which a supervised program says how far it had come when it ended: a memfd
 * of the supervisor, which helper/guard.c in the program maps by the path in GPUMEND_END. Plain
 * integers and texts; the supervisor believes no length in it.
 *
 * Freestanding: the helper includes it.
 */
#ifndef GPUMEND_INJECT_END_PAGE_H
#define GPUMEND_INJECT_END_PAGE_H

#include <stdint.h>

#define END_VARIABLE "GPUMEND_END"

enum { END_MAGIC = 0x676d6531, END_OBJECTS_MAX = 8, END_NAME_MAX = 256 };

/* How far the process has come. */
enum end_phase {
    END_RUNNING,
    END_LEAVING,  // exit() was called, or main() returned: the first thread's destructors run
    END_HANDLERS, // those are done: exit handlers and the destructors of static objects run
};

/* Where a thread was when the signal hit it; bits. */
enum end_where {
    END_IN_DESTRUCTOR = 1, // a thread-local destructor was running
    END_IN_DLCLOSE = 2,    // a library was being closed
    END_ON_KEEPER = 4,     // on the guard's own thread
};

struct end_page {
    uint32_t magic;
    int32_t pid;     // whose page it is; written by the child before it executes the program
    uint32_t loaded; // 1: the helper is in the program
    uint32_t phase;  // enum end_phase
    int32_t status;  // what the program ended with, in END_LEAVING and later
    uint32_t status_known;
    uint32_t gpu_loaded; // 1: a GPU runtime library was loaded when the program ended

    /* Filled by the handler of fatal signals, where the program has none of its own. */
    uint32_t handler; // 1: it was set
    uint32_t crashed; // 1: it ran; the following are valid then
    int32_t signal, code, tid;
    uint32_t where;        // bits of enum end_where
    uint32_t code_unknown; // 1: the program counter is in no file
    uint32_t walked;       // 1: objects are those of the frames, else of all words of the stack
    uint64_t pc, address;
    char destructor_of[END_NAME_MAX]; // whose destructor was running, or ""
    /* Files whose code was running, the innermost first, up to what called exit() or dlclose();
     * where it was not walked, whose code the stack refers to, and old values may be among them. */
    char objects[END_OBJECTS_MAX][END_NAME_MAX];
};

#endif
