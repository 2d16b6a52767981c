/* The facts of needs that all expressions read in the same way. */
#include <string.h>

#include "base/str.h"
#include "needs/internal.h"

const char *needs_capability(struct arena *a, unsigned number)
{
    return arena_printf(a, "%u.%u", number / 10, number % 10);
}

bool needs_range_is_open(const struct needs_range *r)
{
    return r->to == NEEDS_CAPABILITY_MAX;
}

const char *needs_driver_for(const struct needs *n, const struct needs_range *r)
{
    const char *least = n->driver && !n->own_libcuda ? n->driver->linux_min : NULL;
    const char *ptx = r && !n->own_libcuda ? r->driver_min : NULL;
    return !ptx || (least && host_version_cmp(least, ptx) > 0) ? least : ptx;
}

unsigned long long needs_driver_number(const char *version)
{
    uint64_t part[3] = {0};
    size_t n = 0;
    for (struct str rest = str_of(version); rest.s && n < 3; n++) {
        (void)str_u64(str_cut(&rest, '.'), &part[n]); // rows of the knowledge base are numbers
    }
    return (unsigned long long)(part[0] * 1000000 + part[1] * 1000 + part[2]);
}

static bool same_text(const char *x, const char *y)
{
    return x == y || (x && y && strcmp(x, y) == 0);
}

needs_ranges needs_ranges_for(struct arena *a, const struct needs *n)
{
    needs_ranges list = {0};
    for (size_t i = 0; n->cuda_known && i < n->cuda.n; i++) {
        const struct needs_range *r = &n->cuda.items[i];
        struct needs_range *last = list.n ? &list.items[list.n - 1] : NULL;
        if (last && last->to + 1 == r->from &&
            same_text(needs_driver_for(n, last), needs_driver_for(n, r))) {
            last->to = r->to;
        } else {
            VEC_PUSH(a, &list, *r);
        }
    }
    if (!n->cuda_known) {
        VEC_PUSH(a, &list, (struct needs_range){.from = 0, .to = NEEDS_CAPABILITY_MAX});
    }
    return list;
}

const char *needs_no_expression(const struct needs *n)
{
    return (n->nvidia && n->cuda_known && !n->cuda.n) || (n->amd && n->gfx_known && !n->gfx.n)
               ? "the target has code for no GPU"
           : n->amd && !n->gfx_known ? "which of AMD's GPUs the target has code for is unknown"
                                     : NULL;
}
