/* No Windows. */
#include "hive/live.h"

bool hive_live(struct arena *a, const char *name, struct str *ret)
{
    (void)a, (void)name, (void)ret;
    return false;
}

const char *hive_live_profile(struct arena *a)
{
    (void)a;
    return NULL;
}
