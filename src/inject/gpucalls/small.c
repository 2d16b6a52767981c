/* What the helper has instead of a C library. */
#include "inject/gpucalls/gpucall.h"

bool gpucall_same(const char *a, const char *b)
{
    while (*a && *a == *b) {
        a++, b++;
    }
    return *a == *b;
}

bool gpucall_starts(const char *text, const char *start)
{
    while (*start && *text == *start) {
        text++, start++;
    }
    return !*start;
}

size_t gpucall_length(const char *text)
{
    size_t n = 0;
    while (text[n]) {
        n++;
    }
    return n;
}

const char *gpucall_base_name(const char *path)
{
    const char *last = path;
    for (; *path; path++) {
        last = *path == '/' ? path + 1 : last;
    }
    return last;
}
