#include "base/clock.h"

#include <time.h>

int64_t clock_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t); // cannot fail for this clock
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}
