/* A way while it is made, and what cannot be done. */
#include <stdarg.h>
#include <string.h>

#include "plan/internal.h"

bool plan_has(const plan_texts *list, const char *text)
{
    for (size_t i = 0; i < list->n; i++) {
        if (strcmp(list->items[i], text) == 0) {
            return true;
        }
    }
    return false;
}

void plan_cannot(struct plan_work *x, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *text = arena_vprintf(x->a, fmt, ap);
    va_end(ap);
    for (size_t i = 0; i < x->plan->cannot.n; i++) {
        if (strcmp(x->plan->cannot.items[i], text) == 0) {
            return;
        }
    }
    VEC_PUSH(x->a, &x->plan->cannot, text);
}

struct plan_way *plan_way_new(struct plan_work *x, enum plan_reach reach, const char *title)
{
    struct plan_way *way = arena_alloc(x->a, sizeof *way);
    way->reach = reach;
    way->title = title;
    return way;
}

void plan_way_add(struct plan_work *x, struct plan_way *way)
{
    VEC_PUSH(x->a, &x->plan->ways, *way);
}

bool plan_way_mends(const struct plan_way *way, const struct diag_finding *f)
{
    for (size_t i = 0; way && i < way->mends.n; i++) {
        if (way->mends.items[i] == f) {
            return true;
        }
    }
    return false;
}
