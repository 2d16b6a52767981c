#include "base/clock.h"

#include "base/windows/api.h"

int64_t clock_ms(void)
{
    return (int64_t)GetTickCount64();
}
