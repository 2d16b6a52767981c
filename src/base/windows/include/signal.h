/* Signals as far as gpumend handles them: the end key, and an access that a page does not allow. */
#ifndef GPUMEND_BASE_WINDOWS_INCLUDE_SIGNAL_H
#define GPUMEND_BASE_WINDOWS_INCLUDE_SIGNAL_H

#include_next <signal.h>

#define SA_SIGINFO  4
#define SA_NODEFER  0x40000000
#define SEGV_ACCERR 2

typedef int sigset_t;

typedef struct {
    void *si_addr;
    int si_code;
} siginfo_t;

struct sigaction {
    int sa_flags;
    sigset_t sa_mask;
    union {
        void (*sa_handler)(int);
        void (*sa_sigaction)(int, siginfo_t *, void *); // SIGSEGV alone
    };
};

int sigaction(int signal_number, const struct sigaction *action, struct sigaction *ret_former);
int sigemptyset(sigset_t *set);
int kill(int pid, int signal_number); // finds no process

#endif
