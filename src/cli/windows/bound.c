#include "cli/bound.h"

#include <stdbool.h>

#include "base/windows/api.h"

enum { POLL_MS = 100 };

static struct {
    void (*on_time)(void);
    uint64_t units; // of 100 ns
    volatile LONG lifted;
} bound;

static uint64_t units_of(FILETIME t)
{
    return (uint64_t)t.dwHighDateTime << 32 | t.dwLowDateTime;
}

/* A thread of its own: no signal tells how much processor time was used. */
static DWORD WINAPI watch_time(void *arg)
{
    FILETIME start, end, system, user;
    (void)arg;
    while (!bound.lifted) {
        if (GetProcessTimes(GetCurrentProcess(), &start, &end, &system, &user) &&
            units_of(system) + units_of(user) > bound.units) {
            bound.on_time();
        }
        Sleep(POLL_MS);
    }
    return 0;
}

void bound_time(uint64_t seconds, void (*on_time)(void))
{
    bound.on_time = on_time;
    bound.units = seconds * 10000000;
    HANDLE thread = CreateThread(NULL, 0, watch_time, NULL, 0, NULL);
    if (thread) {
        (void)CloseHandle(thread); // it runs on
    }
}

/* A job could end the process, but without a word: the arenas' limit must do. */
void bound_memory(uint64_t bytes)
{
    (void)bytes;
}

void bound_lift(void)
{
    bound.lifted = 1;
}
