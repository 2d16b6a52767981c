#include "inject/text.h"

size_t text_length(const char *text)
{
    size_t n = 0;
    while (text[n]) {
        n++;
    }
    return n;
}

bool text_equal(const char *a, const char *b)
{
    while (*a && *a == *b) {
        a++;
        b++;
    }
    return *a == *b;
}

bool text_begins(const char *text, const char *with)
{
    while (*with && *text == *with) {
        text++;
        with++;
    }
    return !*with;
}

const char *text_base(const char *path)
{
    const char *base = path;
    for (; *path; path++) {
        base = *path == '/' ? path + 1 : base;
    }
    return base;
}
