/*
 * The library that `run --guard-teardown` and `run --restart` put into a program (docs/watch.md):
 *
 *   guard.c         what it takes the place of: exit, main, thread-local destructors, dlclose
 *   object.c  which object an address lies in, what it is, and symbols of other objects
 *   keeper.c  threads that run destructors for others
 *   end.c     how far the process has come, told to the supervisor
 *   system.c  system calls
 *
 * It uses no library: what it needs of libc it imports weakly, and looks up the rest in the objects
 * of the process. It is at work only in a program of glibc and by its variables, GPUMEND_GUARD=1
 * and GPUMEND_END=PATH. The symbols that it exports carry hidden versions of glibc: musl does not
 * see them. It keeps no descriptor, allocates by mmap, and prints nothing.
 */
#ifndef GPUMEND_INJECT_GUARD_GUARD_H
#define GPUMEND_INJECT_GUARD_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "inject/end_page.h"
#include "inject/system.h"
#include "inject/text.h"

/* ---------------------------------------------------------------- system.c */

int sys_pid(void);
int sys_tid(void);
int sys_open(const char *path, int flags);
long sys_read(int fd, void *to, size_t n);
long sys_pread(int fd, void *to, size_t n, uint64_t at);
void sys_close(int fd);
void *sys_map(size_t n);                // anonymous memory, or NULL
void *sys_map_shared(int fd, size_t n); // or NULL
void sys_wait(const uint32_t *word, uint32_t value, unsigned timeout_ms); // 0: without end
void sys_wake(const uint32_t *word, int n);
uint64_t sys_now_ns(int clock);
void sys_tell_self(int signal); // to this very thread

bool lock_try(uint32_t *lock);
void lock_take(uint32_t *lock);
void lock_give(uint32_t *lock);

void text_copy(char *to, const char *from, size_t size); // always ends with NUL

/* ---------------------------------------------------------------- object.c */

enum object_kind {
    OBJECT_OTHER,   // nothing of a GPU, or the program itself
    OBJECT_GPU,     // uses a GPU: needs a library of one, is one, or holds code for one
    OBJECT_RUNTIME, // the driver or the runtime: its thread state is its own matter
};

/* What the address lies in; name: the file's, in at most n bytes; "" for the program itself. */
enum object_kind object_at(const void *address, char *name, size_t n);

/* A function of the first object that has it, in the order of loading; of those behind this
 * library alone with `next`. */
void *object_symbol(const char *name, bool next);

/* The same in an object whose file's name begins so; NULL: it is not loaded. */
void *object_symbol_in(const char *begins, const char *name);

/* Whether the file's name is that of a GPU runtime or of a driver. */
bool object_name_is_runtime(const char *base);
bool object_runtime_loaded(void);

/* ---------------------------------------------------------------- keeper.c */

struct keeper_job {
    void (*function)(void *);
    void *object;
    void *context;  // current when the object was made, or NULL
    uint32_t state; // of the keeper
    struct keeper_job *next;
};

/* Has a thread ready that can take a job; false: there is none. */
bool keeper_prepare(void);

enum keeper_ran {
    KEEPER_RAN,   // it has ended
    KEEPER_NONE,  // not run: no keeper can be started
    KEEPER_STUCK, // not run: all have been busy with the same jobs for 5 s, and there can be no
                  // more
};

/* Runs the job on a keeper and waits for its end. */
enum keeper_ran keeper_run(struct keeper_job *job);

/* The first thread has left by pthread_exit: keepers end when they alone are left. */
void keeper_first_has_left(void);
bool keeper_is_self(void);

/* The driver's current context of this thread, or NULL. */
void *keeper_context(void);

/* ---------------------------------------------------------------- end.c */

void end_open(const char *path);
bool end_active(void);
void end_leaving(int status, bool status_known); // exit() or the end of main()
void end_handlers(void);

/* What the thread is doing, for the handler. */
struct end_thread {
    unsigned destructors, closing; // how deep
    const void *destructor;        // an address in whose destructor it is
    bool keeper;
};
extern __thread struct end_thread end_thread __attribute__((tls_model("initial-exec")));

#endif
