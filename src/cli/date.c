#include "cli/date.h"

#include <stdlib.h>
#include <time.h>

#include "base/str.h"

const char *cli_date(struct arena *a)
{
    const char *stated = getenv("SOURCE_DATE_EPOCH");
    uint64_t seconds;
    time_t now = stated && str_u64(str_of(stated), &seconds) ? (time_t)seconds : time(NULL);
    const struct tm *parts = gmtime(&now); // there is one thread
    char text[32];
    size_t n = parts ? strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", parts) : 0;
    return n ? arena_strndup(a, text, n) : NULL;
}
