#include "cli/bound.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/time.h>

static struct {
    void (*on_time)(void);
    struct rlimit data_before;
    bool data_set;
} bound;

static void on_signal(int signal_number)
{
    (void)signal_number;
    bound.on_time();
}

void bound_time(uint64_t seconds, void (*on_time)(void))
{
    struct itimerval timer = {.it_value.tv_sec = (time_t)seconds};
    bound.on_time = on_time;
    (void)signal(SIGPROF, on_signal);           // these cannot fail
    (void)setitimer(ITIMER_PROF, &timer, NULL); // for valid arguments
}

void bound_memory(uint64_t bytes)
{
    if (getrlimit(RLIMIT_DATA, &bound.data_before) == 0) {
        bound.data_set = true;
        if (bound.data_before.rlim_cur > bytes) {
            struct rlimit memory = bound.data_before;
            memory.rlim_cur = bytes;
            (void)setrlimit(RLIMIT_DATA, &memory); // the arenas have the limit as well
        }
    }
}

void bound_lift(void)
{
    struct itimerval none = {.it_value.tv_sec = 0};
    (void)setitimer(ITIMER_PROF, &none, NULL); // this cannot fail for valid arguments
    (void)signal(SIGPROF, SIG_DFL);
    if (bound.data_set) {
        (void)setrlimit(RLIMIT_DATA, &bound.data_before); // a child would inherit it
    }
}
